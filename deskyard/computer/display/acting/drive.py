"""One driver: while a person uses keyboard or mouse, the agent's input is refused, and what it holds is let go."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any

import xcffib.xtest

from deskyard.computer.display.x_server import XConnection
from deskyard.computer.problem import Problem

KEY_PRESS, KEY_RELEASE, BUTTON_PRESS, BUTTON_RELEASE, MOTION = 2, 3, 4, 5, 6


class Drive:
    """Who drives, and what the agent holds down; asked before each event of the agent's, under one lock."""

    def __init__(
        self, quiet_seconds: float, hold_seconds: float, tell: Callable[[str, dict[str, Any]], object]
    ) -> None:
        self.quiet_seconds = quiet_seconds
        self.hold_seconds = hold_seconds
        self._tell = tell
        self._lock = threading.RLock()
        self.taken = threading.Event()  # set while a person drives
        self.stopped = False  # a person has stopped the agent: it is refused until they let it go on
        self._person_acted = 0.0
        self._agent_acted = 0.0
        self.held: list[tuple[int, int]] = []  # (kind of release, keycode or button), in the order of pressing

    @property
    def driver(self) -> str:
        """`person` or `agent`."""
        return "person" if self.taken.is_set() else "agent"

    @contextmanager
    def agent(self) -> Iterator[None]:
        """One event of the agent's input; raises `Problem` while a person drives (409) or has stopped it (423)."""
        with self._lock:
            if self.stopped:
                reason = "a person has stopped the agent of this desktop: nothing is done here"
                remedy = "wait until a person lets it go on; no event of the desktop tells of it"
                raise Problem(HTTPStatus.LOCKED, "stopped", None, reason, remedy)
            if self.taken.is_set():
                reason = "a person is using the keyboard or the mouse"
                remedy = 'wait for the event person.left (POST /v1/wait {"event": "person.left"}), then look again'
                raise Problem(HTTPStatus.CONFLICT, "driver", "person", reason, remedy)
            self._agent_acted = time.monotonic()
            yield

    def check(self) -> None:
        """Raise `Problem` while a person drives (409) or has stopped the agent (423)."""
        with self.agent():
            pass

    def stop(self, let_go: Callable[[list[tuple[int, int]]], None]) -> None:
        """A person stops the agent: what it holds is let go, and it is refused until `go_on`, for however long."""
        with self._lock:
            self.stopped = True
        self.person_acts(let_go, "stop")

    def go_on(self) -> None:
        """The agent may act again as soon as nobody drives."""
        with self._lock:
            self.stopped = False

    def person_acts(self, let_go: Callable[[list[tuple[int, int]]], None], why: str) -> None:
        """A person pressed something, or takes over: from here on nothing of the agent's gets through."""
        with self._lock:
            self._person_acted = time.monotonic()
            if self.taken.is_set():
                return
            self.taken.set()
            held, self.held = self.held[::-1], []
            if held:
                let_go(held)
        self._tell("person.took", {"by": why})

    def person_leaves(self, why: str) -> None:
        """The person hands over; nothing happens if nobody drove."""
        with self._lock:
            if not self.taken.is_set():
                return
            self.taken.clear()
        self._tell("person.left", {"by": why})

    def tick(self, let_go: Callable[[list[tuple[int, int]]], None]) -> float:
        """Do what is due, and say in how many seconds to come again."""
        now = time.monotonic()
        with self._lock:
            stale = self.held and now - self._agent_acted >= self.hold_seconds
            if stale:
                held, self.held = self.held[::-1], []
                let_go(held)
            due = [self._agent_acted + self.hold_seconds] if self.held else []
            # Who has stopped the agent has not left by doing nothing.
            drives = self.taken.is_set() and not self.stopped
            left = drives and now - self._person_acted >= self.quiet_seconds
            if drives and not left:
                due.append(self._person_acted + self.quiet_seconds)
        if left:
            self.person_leaves("quiet")
        return max(min(due, default=now + 60) - now, 0.001)

    def press(self, c: XConnection, kind: int, detail: int) -> None:
        """Press a key or button for the agent, and remember that it is down."""
        with self.agent():
            self.held.append((kind + 1, detail))
            fake(c, kind, detail)

    def release(self, c: XConnection, kind: int, detail: int) -> None:
        """Let a key or button of the agent's go; nothing happens if it is not down any more."""
        with self._lock:
            if (kind, detail) in self.held:
                self.held.remove((kind, detail))
                fake(c, kind, detail)

    def release_all(self, c: XConnection) -> int:
        """Let go of all that the agent holds; returns how much that was."""
        with self._lock:
            held, self.held = self.held[::-1], []
            for kind, detail in held:
                fake(c, kind, detail)
            return len(held)


def fake(c: XConnection, kind: int, detail: int, root: int = 0, at: tuple[int, int] = (0, 0)) -> None:
    """One event of XTEST, sent at once."""
    c.extension(xcffib.xtest).FakeInput(kind, detail, 0, root, *at, 0)
    c.x.flush()
