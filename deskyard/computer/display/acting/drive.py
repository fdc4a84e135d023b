"""One driver: while a person uses keyboard or mouse, the agent's input is refused, and what it holds is let go.

Each session of the gateway holds its own, which goes with it.
"""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import xcffib.xtest

from deskyard.computer.display.x_server import XConnection
from deskyard.computer.problem import Problem

KEY_PRESS, KEY_RELEASE, BUTTON_PRESS, BUTTON_RELEASE, MOTION = 2, 3, 4, 5, 6
MOST_ENDED = 1000

Release = tuple[int, int]  # the kind of the event that lets go, and the keycode or button
Lifting = Callable[[list[Release]], None]


@dataclass(frozen=True)
class Hold:
    """A key or button that a session has down; programs of the desktop itself are the session ""."""

    release: Release
    session: str
    since: float


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
        self._session = ""  # whose batch is being done
        self._ended: dict[str, None] = {}  # sessions that are over, the newest last
        self._acted: dict[str, float] = {}  # when each session that holds something last acted
        self.held: list[Hold] = []  # in the order of pressing

    @property
    def driver(self) -> str:
        """`person` or `agent`."""
        return "person" if self.taken.is_set() else "agent"

    def begin(self, session: str) -> None:
        """Act for this session from here on; raises `Problem` where it may not."""
        with self._lock:
            self._session = session
        with self.agent():
            pass

    @contextmanager
    def agent(self) -> Iterator[None]:
        """One event of the input of the session whose batch is being done; raises `Problem` where it may not act."""
        with self._lock:
            self.check()
            if self._session in self._ended:
                reason = "is over: nothing more is done for it"
                raise Problem(HTTPStatus.UNAUTHORIZED, "session", None, reason, "ask for a new link")
            self._acted[self._session] = time.monotonic()
            yield

    def check(self) -> None:
        """Raise `Problem` while a person drives (409) or has stopped the agent (423)."""
        with self._lock:
            if self.stopped:
                reason = "a person has stopped the agent of this desktop: nothing is done here"
                remedy = "wait until a person lets it go on; no event of the desktop tells of it"
                raise Problem(HTTPStatus.LOCKED, "stopped", None, reason, remedy)
            if self.taken.is_set():
                reason = "a person is using the keyboard or the mouse"
                remedy = 'wait for the event person.left (POST /v1/wait {"event": "person.left"}), then look again'
                raise Problem(HTTPStatus.CONFLICT, "driver", "person", reason, remedy)

    def stop(self, let_go: Lifting) -> None:
        """A person stops the agent: what it holds is let go, and it is refused until `go_on`, for however long."""
        with self._lock:
            self.stopped = True
        self.person_acts(let_go, "stop")

    def go_on(self) -> None:
        """The agent may act again as soon as nobody drives."""
        with self._lock:
            self.stopped = False

    def person_acts(self, let_go: Lifting, why: str) -> None:
        """A person pressed something, or takes over: from here on nothing of the agent's gets through."""
        with self._lock:
            self._person_acted = time.monotonic()
            if self.taken.is_set():
                return
            self.taken.set()
            self._drop(lambda hold: True, let_go)
        self._tell("person.took", {"by": why})

    def person_leaves(self, why: str) -> None:
        """The person hands over; nothing happens if nobody drove."""
        with self._lock:
            if not self.taken.is_set():
                return
            self.taken.clear()
        self._tell("person.left", {"by": why})

    def tick(self, let_go: Lifting) -> float:
        """Do what is due, and say in how many seconds to come again."""
        now = time.monotonic()
        with self._lock:
            self._drop(lambda hold: now - self._acted[hold.session] >= self.hold_seconds, let_go)
            self._acted = {hold.session: self._acted[hold.session] for hold in self.held}
            due = [acted + self.hold_seconds for acted in self._acted.values()]
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
            self.held.append(Hold((kind + 1, detail), self._session, time.monotonic()))
            fake(c, kind, detail)

    def release(self, c: XConnection, kind: int, detail: int) -> None:
        """Let a key or button of the agent's go; nothing happens if it is not down any more.

        What this and another session hold stays down for the other; what another alone holds is let go, since nobody
        could type beside it.
        """
        with self._lock:
            down = [hold for hold in self.held if hold.release == (kind, detail)]
            if down:
                hold = next((hold for hold in down if hold.session == self._session), down[0])
                self.held.remove(hold)
                if all(other.session == hold.session for other in down):
                    fake(c, kind, detail)

    def release_own(self, c: XConnection) -> None:
        """Let go of all that the session holds whose batch is being done."""
        self._drop(lambda hold: hold.session == self._session, lambda releases: lift(c, releases))

    def release_all(self, c: XConnection) -> None:
        """Let go of all that agents hold."""
        self._drop(lambda hold: True, lambda releases: lift(c, releases))

    def end(self, sessions: Sequence[str], seconds: float, let_go: Lifting) -> int:
        """Let go of what these sessions hold, the last of which ended first, and do nothing more for them.

        What was pressed more than so many seconds ago came through a gateway that is gone. Returns how many came up.
        """
        with self._lock:
            self._ended |= dict.fromkeys(reversed(sessions))
            for session in list(self._ended)[:-MOST_ENDED]:
                del self._ended[session]
            lost = time.monotonic() - seconds
            return self._drop(
                lambda hold: hold.session in self._ended or (bool(hold.session) and hold.since < lost), let_go
            )

    def _drop(self, chosen: Callable[[Hold], bool], let_go: Lifting) -> int:
        """Forget these holds, and let go what no other session holds, the last pressed first; how much that was."""
        with self._lock:
            dropped = [hold for hold in self.held if chosen(hold)]
            if not dropped:
                return 0
            self.held = [hold for hold in self.held if not chosen(hold)]
            still = {hold.release for hold in self.held}
            releases = [hold.release for hold in reversed(dropped) if hold.release not in still]
            let_go(releases)
            return len(releases)


def lift(c: XConnection, releases: list[Release]) -> None:
    """Let these keys and buttons go."""
    for kind, detail in releases:
        fake(c, kind, detail)


def fake(c: XConnection, kind: int, detail: int, root: int = 0, at: tuple[int, int] = (0, 0)) -> None:
    """One event of XTEST, sent at once."""
    c.extension(xcffib.xtest).FakeInput(kind, detail, 0, root, *at, 0)
    c.x.flush()
