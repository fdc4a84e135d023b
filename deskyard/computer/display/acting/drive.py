"""One driver: while a person uses keyboard or mouse, the agent's input is refused, and what it holds is let go.

Each session of the gateway holds its own, which goes with it.
"""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, TypeVar

import xcffib.xtest

from deskyard.computer.display.x_server import XConnection
from deskyard.computer.problem import Problem

KEY_PRESS, KEY_RELEASE, BUTTON_PRESS, BUTTON_RELEASE, MOTION = 2, 3, 4, 5, 6
MOST_ENDED = 1000

T = TypeVar("T")
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
        self._news = threading.Condition()  # for who waits in a batch; whoever holds it does not ask for the lock
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
            if problem := self.objection():
                raise problem
            self._acted[self._session] = time.monotonic()
            yield

    def check(self) -> None:
        """Raise `Problem` while a person drives (409) or has stopped the agent (423)."""
        with self._lock:
            if problem := self.refusal():
                raise problem

    def refusal(self) -> Problem | None:
        """Why no input is taken now: a person has stopped the agent, or drives; None if it is."""
        if self.stopped:
            return _stopped()
        if self.taken.is_set():
            reason = "a person is using the keyboard or the mouse"
            remedy = 'wait for the event person.left (POST /v1/wait {"event": "person.left"}), then look again'
            return Problem(HTTPStatus.CONFLICT, "driver", "person", reason, remedy)
        return None

    def objection(self) -> Problem | None:
        """Why nothing more is done for the session whose batch is being done, not even waited; None if it may go on."""
        if self.stopped:
            return _stopped()
        if self._session in self._ended:
            reason = "is over: nothing more is done for it"
            return Problem(HTTPStatus.UNAUTHORIZED, "session", None, reason, "ask for a new link")
        return None

    def wait(self, until: Callable[[], T], seconds: float | None = None) -> T:
        """Wait for a true answer, asked for again at each `look_again`; the last answer when the time is over."""
        with self._news:
            return self._news.wait_for(until, seconds)

    def look_again(self) -> None:
        """Have whoever waits ask again whether that is over."""
        with self._news:
            self._news.notify_all()

    def stop(self, let_go: Lifting) -> None:
        """A person stops the agent: what it holds is let go, and it is refused until `go_on`, for however long."""
        with self._lock:
            self.stopped = True
        self.look_again()  # a person may drive already
        self.person_acts(let_go, "stop")

    def go_on(self) -> None:
        """The agent may act again as soon as nobody drives."""
        with self._lock:
            self.stopped = False

    def person_acts(self, let_go: Lifting, why: str, settle: Callable[[], None] = lambda: None) -> None:
        """A person pressed something, or takes over: from here on nothing of the agent's gets through.

        `settle` is done after something was let go, before it is told.
        """
        with self._lock:
            self._person_acted = time.monotonic()
            if self.taken.is_set():
                return
            self.taken.set()
            dropped = self._drop(lambda hold: True, let_go)
        self.look_again()
        if dropped:
            settle()
        self._tell("person.took", {"by": why})

    def person_leaves(self, why: str) -> None:
        """The person hands over; nothing happens if nobody drove."""
        with self._lock:
            if not self.taken.is_set():
                return
            self.taken.clear()
        self._tell("person.left", {"by": why})

    def tick(self, let_go: Lifting, goes_on: Callable[[], bool] = lambda: False) -> float:
        """Do what is due, and say in how many seconds to come again.

        `goes_on` says whether a person who pressed nothing for a while goes on with what they have down.
        """
        now = time.monotonic()
        with self._lock:
            self._drop(lambda hold: now - self._acted[hold.session] >= self.hold_seconds, let_go)
            self._acted = {hold.session: self._acted[hold.session] for hold in self.held}
            due = [acted + self.hold_seconds for acted in self._acted.values()]
            # Who has stopped the agent has not left by doing nothing.
            drives = self.taken.is_set() and not self.stopped
            quiet = drives and now - self._person_acted >= self.quiet_seconds
        if quiet and goes_on():
            self._person_acted, quiet = now, False
        if quiet:
            self.person_leaves("quiet")
        elif drives:
            due.append(self._person_acted + self.quiet_seconds)
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
            dropped = self._drop(
                lambda hold: hold.session in self._ended or (bool(hold.session) and hold.since < lost), let_go
            )
        self.look_again()
        return dropped

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


def _stopped() -> Problem:
    reason = "a person has stopped the agent of this desktop: nothing is done here"
    remedy = "wait until a person lets it go on; no event of the desktop tells of it"
    return Problem(HTTPStatus.LOCKED, "stopped", None, reason, remedy)


def lift(c: XConnection, releases: list[Release]) -> None:
    """Let these keys and buttons go."""
    for kind, detail in releases:
        fake(c, kind, detail)


def fake(c: XConnection, kind: int, detail: int, root: int = 0, at: tuple[int, int] = (0, 0)) -> None:
    """One event of XTEST, sent at once."""
    c.extension(xcffib.xtest).FakeInput(kind, detail, 0, root, *at, 0)
    c.x.flush()
