"""The values of the Python SDK held against a desktop's service: fields of answers, words that are known, actions."""

import asyncio
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import Any, get_args, get_type_hints

import pytest
from deskyard_sdk import (
    AsyncDesktop,
    AsyncProcess,
    Desktop,
    Process,
    accessibility,
    actions,
    desktop,
    devtools,
    forms,
    recordings,
    streams,
)
from deskyard_sdk.sync import Loop

from deskyard.computer.display import clipboard_routes, events, pictures, tiling, windows
from deskyard.computer.display.acting.actions import KINDS, read
from deskyard.computer.display.acting.hands import BUTTONS
from deskyard.computer.fields import Fields
from deskyard.computer.launch.part import AWAITED
from tests.support.answers_described import DOCUMENT
from tests.unit.sdk.asked import NotingDoor, operations, sample

SCHEMAS: dict[str, Any] = DOCUMENT["components"]["schemas"]
# Each answer's form: what holds it, its other names there, and what is left out.
FORMS: Mapping[str, tuple[type, dict[str, str], set[str]]] = {
    # A refusal is raised; a batch that was done has no need to say so.
    "Acted": (forms.Acted, {"wait": "waited"}, {"ok", "driver", "id", "error", "value", "reason", "remedy"}),
    "Browser": (devtools.Browser, {"browser": "product"}, {"path"}),
    "Driver": (forms.Drive, {}, {"event"}),
    "Driving": (forms.Drive, {}, {"event", "pointer"}),
    "Entry": (forms.Entry, {}, set()),
    "Kept": (forms.Kept, {}, set()),
    "Launched": (forms.Launched, {}, {"ok"}),
    "MarkedEntry": (forms.Entry, {}, set()),
    "Nodes": (accessibility.Nodes, {}, set()),
    "Page": (devtools.Page, {}, set()),
    # Its space has its id, and its region and size have its scale.
    "Pictured": (forms.Picture, {}, {"id", "changed", "scale"}),
    "Process": (forms.ProcessInfo, {}, set()),
    "Ran": (forms.Result, {}, set()),
    "Recording": (recordings.Recorded, {"open": "is_open"}, {"seconds"}),
    "Recordings": (recordings.Recording, {}, {"recordings", "event"}),
    "Stream": (streams.Stream, {}, set()),
    "Unchanged": (forms.Picture, {}, {"changed"}),
}
# These keep all that is answered, with names of their own for some of it.
WHOLE: Mapping[str, Callable[[dict[str, Any]], Any]] = {
    "Happened": forms.Event.of,
    "ListedWindow": forms.Window.of,
    "Node": accessibility.Node.of,
    "Window": forms.Window.of,
}
# Of these a method returns the one field that matters, or nothing.
PLAIN = {
    "Applications", "ClipboardText", "Done", "DoneAfter", "Ended", "Entries", "Pixel", "Placed", "Private", "Processes",
    "Streams", "StartedProcess", "StartedWatch", "Taken", "Tiled", "Used", "Watch", "Watches", "Windows",
}  # fmt: skip
# An application keeps all, too; results of actions are as they were answered; refusals are raised.
AS_ANSWERED = {"Application", "Result", "Refusal", "GatewayRefusal"}
# A form may say nothing where an answer does not.
LESS = {"Recordings": {"reason"}, "Unchanged": {"data", "format", "space", "size", "region"}}


def test_each_answer_has_a_form_here() -> None:
    assert set(SCHEMAS) == {*FORMS, *WHOLE, *PLAIN, *AS_ANSWERED}


@pytest.mark.parametrize("name", FORMS)
def test_form_has_each_field_of_its_answer_and_no_other(name: str) -> None:
    form, renamed, left = FORMS[name]
    described = set(SCHEMAS[name]["properties"]) - {"untrusted"}
    assert left <= described and set(renamed) <= described
    expected = {renamed.get(field, field) for field in described - left} | LESS.get(name, set())
    assert {field.name for field in fields(form)} == expected


@pytest.mark.parametrize("name", WHOLE)
def test_form_keeps_all_of_its_answer(name: str) -> None:
    answer = sample({"$ref": f"#/components/schemas/{name}"}) | {"new": "field"}
    kept = WHOLE[name](answer)
    itself = {"children", "event", "seq"}
    assert {**kept.data, **{field: answer[field] for field in itself & set(answer)}} == answer


def test_an_application_a_list_and_a_process_say_what_was_answered_beside_them() -> None:
    async def use() -> None:
        door = NotingDoor()
        sdk = AsyncDesktop(door)
        assert (await sdk.applications())[0].data == sample({"$ref": "#/components/schemas/Application"})
        assert (await sdk.files.list()).truncated is True
        assert ((await sdk.processes.start("x")).event, (await sdk.processes.get("1")).event) == (1, None)
        await door.close()

    asyncio.run(use())


# Where the document names the words of a field, and what the service and the SDK take there.
WORDS: Sequence[tuple[str, str, Sequence[str], Any]] = [
    ("tileWindows", "arrangement", tiling.ARRANGEMENTS, (desktop.AsyncWindows.tile, "arrangement")),
    ("doWithWindow", "action", windows.ACTIONS, (desktop.AsyncWindows.do, "action")),
    ("launch", "wait", AWAITED, (AsyncDesktop.launch, "wait")),
    ("launch", "wait", AWAITED, (AsyncDesktop.open, "wait")),
    ("launch", "wait", AWAITED, (AsyncDesktop.launch_command, "wait")),
    ("setDrive", "driver", ("person", "agent"), (AsyncDesktop.hand_over, "driver")),
    # Any text is taken here: a newer desktop knows more of them, or a method stands for each.
    ("wait", "event", events.KINDS, None),
    ("screen", "format", pictures.FORMATS, None),
    ("getClipboard", "format", tuple(clipboard_routes.TARGETS), None),
    ("run", "encoding", ("text", "base64"), None),
]


def known_words() -> dict[tuple[str, str], Sequence[str]]:
    """The words that the document names, by operation and field."""
    found: dict[tuple[str, str], Sequence[str]] = {}
    for operation in operations(DOCUMENT).values():
        described = {each["name"]: each["schema"] for each in operation.get("parameters", ())}
        for content in operation.get("requestBody", {}).get("content", {}).values():
            described |= content["schema"].get("properties", {})
        found |= {(operation["operationId"], name): each["enum"] for name, each in described.items() if "enum" in each}
    return found


def test_words_of_the_document_are_those_that_the_service_and_the_sdk_take() -> None:
    assert known_words() == {(operation, field): list(words) for operation, field, words, _ in WORDS}
    for _, _, words, taken in WORDS:
        if taken is not None:
            method, argument = taken
            assert set(get_args(get_type_hints(method)[argument])) == set(words)


PLACE = {"x": 1, "y": 2, "space": "shot:1"}
HELD = {"modifiers": ["ctrl"]}
MADE: Sequence[tuple[Any, dict[str, Any]]] = [
    (actions.move(1, 2, space="shot:1"), {"type": "move", **PLACE}),
    (
        actions.click(1, 2, "right", 2, "shot:1", ["ctrl"]),
        {"type": "click", **PLACE, "button": "right", "count": 2, **HELD},
    ),
    (actions.click(), {"type": "click", "button": "left", "count": 1}),
    (actions.down(1, 2, "middle", "shot:1"), {"type": "down", **PLACE, "button": "middle"}),
    (actions.up(), {"type": "up", "button": "left"}),
    (actions.key_down("shift"), {"type": "down", "key": "shift"}),
    (actions.key_up("shift"), {"type": "up", "key": "shift"}),
    (
        actions.drag((1, 2), (3, 4), button="back", space="shot:1", modifiers=["ctrl"]),
        {"type": "drag", "path": [{"x": 1, "y": 2}, {"x": 3, "y": 4}], "button": "back", "space": "shot:1", **HELD},
    ),
    (actions.scroll(1, 2, 3, -4, "shot:1", ["ctrl"]), {"type": "scroll", **PLACE, "dx": 3, "dy": -4, **HELD}),
    (actions.scroll(dy=1), {"type": "scroll", "dx": 0, "dy": 1}),
    (actions.key("ctrl+s", 2), {"type": "key", "keys": "ctrl+s", "count": 2}),
    (actions.hold("shift", 1.5), {"type": "hold", "keys": "shift", "ms": 1500}),
    (actions.type_text("x", read_back=True), {"type": "type", "text": "x", "read_back": True}),
    (actions.paste("x", "ctrl+shift+v"), {"type": "paste", "text": "x", "keys": "ctrl+shift+v"}),
    (actions.wait("screen.settled", quiet_ms=300), {"type": "wait", "event": "screen.settled", "quiet_ms": 300}),
    (actions.pause(0.5), {"type": "wait", "ms": 500}),
]


def test_each_action_of_the_service_can_be_made_and_is_read_as_it_was_meant() -> None:
    made = [action for action, _ in MADE]
    assert made == [expected for _, expected in MADE]
    assert {action["type"] for action in made} == {*KINDS, "wait"}
    makers = {name for name, _ in inspect.getmembers(actions, inspect.isfunction) if not name.startswith("_")}
    assert len(makers) == 14 and set(get_args(actions.Button)) == set(BUTTONS)
    waits: list[Any] = []

    def read_wait(inner: Fields) -> None:
        waits.append([inner.take(name) for name in ("event", "quiet_ms")])

    assert [action.kind for action in read(Fields({"actions": made}), read_wait)] == [action["type"] for action in made]
    assert waits == [["screen.settled", 300]]


def test_half_a_place_is_left_for_the_service_to_refuse() -> None:
    assert actions.click(x=1) == {"type": "click", "x": 1, "space": "screen", "button": "left", "count": 1}


# These open a WebSocket, or are of use there alone.
FOR_ASYNCIO = {"streams": {"open"}, "devtools": {"open"}, "process": {"attach", "info_end"}}


@pytest.mark.parametrize("part", ["", *FOR_ASYNCIO, "accessibility", "files", "processes", "recordings", "windows"])
def test_both_forms_of_a_desktop_have_the_same_calls_but_for_websockets(part: str) -> None:
    sdk = AsyncDesktop(NotingDoor.__new__(NotingDoor))
    twin = Desktop(Loop.__new__(Loop), sdk)
    if part == "process":
        both: Any = (AsyncProcess, Process)
    else:
        both = (getattr(sdk, part, sdk), getattr(twin, part, twin))
    # A process is compared as a class, which does not show what each has of its own.
    here, there = ({name for name in dir(form) if not name.startswith("_")} - {"info", "event"} for form in both)
    assert (here - there, there - here) == (FOR_ASYNCIO.get(part, set()), set())
