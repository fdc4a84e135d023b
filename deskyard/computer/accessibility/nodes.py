"""Nodes of the programs' trees: role, name, states and place, and what can be done with each."""

import asyncio
import math
from dataclasses import dataclass, field
from typing import cast

from deskyard.computer.accessibility.bus import Bus, Reference, Refused
from deskyard.computer.answers import screen as answers
from deskyard.computer.answers.screen import Details
from deskyard.computer.display.spaces import Rectangle

# By their numbers in the protocol, which programs send.
ROLE_NAMES = """
invalid, accelerator label, alert, animation, arrow, calendar, canvas, check box, check menu item, color chooser,
column header, combo box, date editor, desktop icon, desktop frame, dial, dialog, directory pane, drawing area, file
chooser, filler, focus traversable, font chooser, frame, glass pane, html container, icon, image, internal frame,
label, layered pane, list, list item, menu, menu bar, menu item, option pane, page tab, page tab list, panel, password
text, popup menu, progress bar, button, radio button, radio menu item, root pane, row header, scroll bar, scroll pane,
separator, slider, spin button, split pane, status bar, table, table cell, table column header, table row header,
tearoff menu item, terminal, text, toggle button, tool bar, tool tip, tree, tree table, unknown, viewport, window,
extended, header, footer, paragraph, ruler, application, autocomplete, edit bar, embedded, entry, chart, caption,
document frame, heading, page, section, redundant object, form, link, input method window, table row, tree item,
document spreadsheet, document presentation, document text, document web, document email, comment, list box, grouping,
image map, notification, info bar, level bar, title bar, block quote, audio, video, definition, article, landmark,
log, marquee, math, rating, timer, static, math fraction, math root, subscript, superscript, description list,
description term, description value, footnote, content deletion, content insertion, mark, suggestion, button menu,
switch
"""
STATE_NAMES = """
invalid, active, armed, busy, checked, collapsed, defunct, editable, enabled, expandable, expanded, focusable,
focused, has tooltip, horizontal, iconified, modal, multi line, multiselectable, opaque, pressed, resizable,
selectable, selected, sensitive, showing, single line, stale, transient, vertical, visible, manages descendants,
indeterminate, required, truncated, animated, invalid entry, supports autocompletion, selectable text, default,
visited, checkable, has popup, read only
"""
ROLES = tuple(" ".join(name.split()) for name in ROLE_NAMES.split(","))
STATES = tuple(" ".join(name.split()) for name in STATE_NAMES.split(","))
OLD_NAMES = {"push button": "button", "push button menu": "button menu"}
SCREEN = 0
MOST_TEXT = 10_000
MOST_ACTIONS = 20
NOWHERE = -(1 << 30)


@dataclass
class Node:
    """A widget, a window or a part of a document, as it was when it was asked."""

    at: Reference
    role: str
    name: str
    description: str
    states: frozenset[str]
    children: int
    place: Rectangle | None
    details: Details = field(default_factory=Details)

    def described(self) -> answers.Node:
        """The node as it stands in answers."""
        found: answers.Node = {
            "id": self.at.id,
            "role": self.role,
            "name": self.name,
            "description": self.description,
            "states": [state for state in STATES if state in self.states],
            "rectangle": self.place.as_list() if self.place else None,
        }
        return {**found, **self.details}


async def read(bus: Bus, at: Reference, seconds: float, details: bool = False) -> Node:
    """Ask for a node; raises `Refused` for one that is gone, `Late` where its program does not answer."""
    found, (role,), (bits,), place = await asyncio.gather(
        bus.properties(at, "Accessible", seconds),
        bus.call(at, "Accessible", "GetRole", seconds),
        bus.call(at, "Accessible", "GetState", seconds),
        _place(bus, at, seconds),
    )
    node = Node(
        at,
        ROLES[role] if role < len(ROLES) else "unknown",
        str(found.get("Name", "")).strip(),
        str(found.get("Description", "")),
        names_of(bits),
        int(found.get("ChildCount", 0)),
        place,
    )
    if details:
        node.details = await _details(bus, node, seconds)
    return node


async def children(bus: Bus, at: Reference, seconds: float) -> list[Reference]:
    """The children of a node, in their order."""
    (found,) = await bus.call(at, "Accessible", "GetChildren", seconds)
    return references(found)


def references(found: list[tuple[str, str]]) -> list[Reference]:
    """References as they stand in messages; those to nothing are left out."""
    return [Reference(owner, path) for owner, path in found if owner and not path.endswith("/null")]


def names_of(bits: list[int]) -> frozenset[str]:
    """The states that are set in two numbers of 32 bits."""
    number = sum(part << 32 * index for index, part in enumerate(bits))
    return frozenset(name for index, name in enumerate(STATES) if number >> index & 1)


def bits_of(numbers: list[int], words: int) -> list[int]:
    """Numbers as bits of so many words of 32 bits, signed as the protocol has them."""
    total = sum(1 << number for number in numbers)
    parts = [total >> 32 * index & 0xFFFFFFFF for index in range(words)]
    return [part - (1 << 32) if part >> 31 else part for part in parts]


async def _place(bus: Bus, at: Reference, seconds: float) -> Rectangle | None:
    try:
        (place,) = await bus.call(at, "Component", "GetExtents", seconds, "u", (SCREEN,))
    except Refused:
        # An application as a whole is nowhere.
        return None
    found = Rectangle(*place)
    # What is not shown has no size, or stands at the end of all numbers.
    return found if found.width > 0 and found.height > 0 and found.x > NOWHERE else None


async def _details(bus: Bus, node: Node, seconds: float) -> Details:
    kinds = await interfaces(bus, node.at, seconds)
    details: Details = {"actions": await actions(bus, node.at, seconds) if "Action" in kinds else []}
    if "EditableText" in kinds or ("Text" in kinds and "editable" in node.states):
        details["text"] = await text(bus, node.at, seconds)
    if "Value" in kinds:
        found = await bus.properties(node.at, "Value", seconds)
        names = {"value": "CurrentValue", "minimum": "MinimumValue", "maximum": "MaximumValue"}
        values = {name: found[theirs] for name, theirs in names.items() if math.isfinite(found.get(theirs, math.nan))}
        details |= cast(Details, values)
    return details


async def interfaces(bus: Bus, at: Reference, seconds: float) -> set[str]:
    """The accessibility interfaces that a node has, such as `Action` or `Text`."""
    (found,) = await bus.call(at, "Accessible", "GetInterfaces", seconds)
    return {name.rpartition(".")[2] for name in found}


async def actions(bus: Bus, at: Reference, seconds: float) -> list[str]:
    """The names of what can be invoked on a node."""
    (found,) = await bus.call(at, "Action", "GetActions", seconds)
    names = []
    for index, (name, _, _) in enumerate(found[:MOST_ACTIONS]):
        if not name:
            # Chromium names none in the list, and each when it is asked for it.
            (name,) = await bus.call(at, "Action", "GetName", seconds, "i", (index,))
        names.append(str(name))
    return names


async def text(bus: Bus, at: Reference, seconds: float) -> str:
    """The text in a node, the first of it where that is much."""
    (found,) = await bus.call(at, "Text", "GetText", seconds, "ii", (0, -1))
    return str(found)[:MOST_TEXT]
