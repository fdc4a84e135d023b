"""When a window takes keys: it is there, its documents are loaded, and something in it has the keyboard.

A browser loses what is typed before that, although its window, its title and a quiet screen are there.
"""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from deskyard.computer.accessibility.bus import Bus, Late, Reference, Refused, reference
from deskyard.computer.accessibility.search import ROOT, Search, Sought, Window
from deskyard.computer.answers.screen import ListedWindow, Node
from deskyard.computer.display.events import READY, Log, Wait, matches
from deskyard.computer.display.spaces import Rectangle

LOOK_AGAIN_SECONDS = 0.5  # not all programs tell when their focus moves
ASK_SECONDS = 5.0
# Where nothing says that it has the keyboard, it is taken to be ready after so long without a change of its picture:
# in a program that is not on the bus, and in one that is.
QUIET_UNKNOWN, QUIET_KNOWN = 1.0, 5.0
STEADY_SECONDS = 0.25
BROWSERS = ("Chromium", "Gecko")
BLANK = ("", "about:blank")


class Readiness:
    """Tells of windows that take keys, to whom waits for it."""

    def __init__(self, bus: Bus, log: Log, windows: Callable[[], Awaitable[list[ListedWindow]]]) -> None:
        self._bus = bus
        self._log = log
        self._windows = windows

    async def wait(self, wait: Wait) -> dict[str, Any]:
        """The event of the newest window that suits, as soon as it takes keys; without a match, of that in front."""
        began = time.monotonic()
        before: State | None = None
        since = began
        news = asyncio.Event()
        with self._bus.listening(lambda message: news.set()):
            while True:
                news.clear()
                suiting = [entry for entry in await self._windows() if _suits(entry, wait)]
                state = await self._state(suiting[-1], began) if suiting else None
                if state != before:
                    before, since = state, time.monotonic()
                left = since + STEADY_SECONDS - time.monotonic()
                if state and left <= 0:
                    return self._log.tell(READY, {**suiting[-1], "accessible": state.accessible})
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(news.wait(), left if state else LOOK_AGAIN_SECONDS)

    async def _state(self, window: ListedWindow, began: float) -> "State | None":
        """The state of a window that seems to take keys; None while it does not seem so."""
        place = Window(window["pid"], window["title"])
        try:
            if not await self._is_known(place):
                return State(window["id"]) if self._quiet(window, began) >= QUIET_UNKNOWN else None
            documents = await self._find(Sought(window=place, role="document web"))
            focused = await self._find(Sought(window=place, states=("focused",)))
            loaded = all([await self._is_loaded(document, window) for document in documents])
            whole = bool(documents) or not await self._has_documents(place)
        except (Refused, Late):
            return None
        if not loaded:
            return None
        if (whole and (focused or not window["focused"])) or self._quiet(window, began) >= QUIET_KNOWN:
            names = [(node["id"], node["name"]) for node in documents]
            return State(window["id"], True, tuple(names), tuple(node["id"] for node in focused))
        return None

    def _quiet(self, window: ListedWindow, began: float) -> float:
        """The seconds since a window was last drawn, or looked for."""
        return time.monotonic() - max(began, self._log.drawn(Rectangle(*window["geometry"])))

    async def _find(self, sought: Sought) -> list[Node]:
        return (await Search(self._bus, ASK_SECONDS, 20).find(sought, False)).nodes

    async def _is_known(self, place: Window) -> bool:
        """Whether the window's program is on the bus."""
        if not self._bus.connected.is_set():
            return False
        return bool(await Search(self._bus, ASK_SECONDS, 1).roots(Sought(window=place)))

    async def _has_documents(self, place: Window) -> bool:
        """Whether a window's program is a browser, whose document is on the bus a while after its window."""
        roots = await Search(self._bus, ASK_SECONDS, 1).roots(Sought(window=place))
        if not roots:
            # It went, or has another title, since it was looked for: whatever it is, it is not whole yet.
            return True
        application = Reference(roots[0].owner, ROOT.path)
        return await self._bus.property(application, "Application", "ToolkitName", ASK_SECONDS) in BROWSERS

    async def _is_loaded(self, document: Node, window: ListedWindow) -> bool:
        if "busy" in document["states"]:
            return False
        at = reference(document["id"], "node")
        (facts,) = await self._bus.call(at, "Document", "GetAttributes", ASK_SECONDS)
        url = facts.get("URI") or facts.get("DocURL") or ""
        # A new window has an empty page before its own; who wants the empty one has it in the title.
        return url not in BLANK or "about:blank" in window["title"]


@dataclass(frozen=True)
class State:
    """The state of a window that seems to take keys; it does take them if this stays the same for a moment."""

    window: int
    accessible: bool = False
    documents: tuple[tuple[str, str], ...] = ()
    focused: tuple[str, ...] = ()


def _suits(window: ListedWindow, wait: Wait) -> bool:
    if not wait.match:
        return bool(window["focused"])
    return all(matches(window.get(name), value) for name, value in wait.match.items())
