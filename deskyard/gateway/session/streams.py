"""Viewers of desktops, and which of them drives. One session drives a desktop; all others look on.

The driver changes when he hands over, when another who may drive takes over, when he has left, when he has done
nothing for a while and somebody waits, and when his session ends. Who comes first to a free desktop drives.

Privacy is the driver's: on by his word, and over when he says so or drives no more.
"""

import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Protocol

from deskyard.gateway.machine.layout import Layout
from deskyard.gateway.session.refusal import Refusal
from deskyard.gateway.session.store import Session, Store


@dataclass
class Stream:
    """A VNC connection: to the screen, or (`shows`) to a stream of a part of it, which is looked at and no more."""

    session: Session
    address: str
    since: float
    acted: float = 0.0  # when it last typed or pointed; 0 for never
    shows: bool = False


class Note(Protocol):
    """Writes one decision down."""

    def __call__(self, event: str, session: Session, **facts: object) -> object: ...


class FilterLine(Protocol):
    """The line to the filter of VNC connections."""

    def is_open(self) -> bool:
        """Whether a filter is there."""

    def close(self, session: str) -> None:
        """Let the connections of a session end."""

    def drivers_changed(self) -> None:
        """Let the filter know who drives."""

    def awaited_changed(self) -> None:
        """Let the filter know which desktops people wait for."""

    def halts_changed(self) -> None:
        """Let the filter know which agents are stopped."""

    def ended_changed(self) -> None:
        """Let the filter know which sessions of programs are over."""


class NoLine:
    """Nobody filters: there is nothing to close and nobody to tell."""

    def is_open(self) -> bool:
        """False."""
        return False

    def close(self, session: str) -> None:
        """Nothing."""

    def drivers_changed(self) -> None:
        """Nothing."""

    def awaited_changed(self) -> None:
        """Nothing."""

    def halts_changed(self) -> None:
        """Nothing."""

    def ended_changed(self) -> None:
        """Nothing."""


@dataclass
class Streams:
    """All VNC connections, and the drivers; `line` hears when a driver changes, `wake` is called for a connection."""

    store: Store
    layout: Layout
    note: Note
    clock: Callable[[], float] = time.time
    line: FilterLine = field(default_factory=NoLine)
    wake: Callable[[], None] = lambda: None
    open: dict[Hashable, Stream] = field(default_factory=dict)
    _gone: dict[str, float] = field(default_factory=dict)  # desktop -> since when its driver is away
    _over: set[str] = field(default_factory=set)  # sessions that ended, with connections

    def __post_init__(self) -> None:
        self._drivers = self.store.drivers()
        self.private = self.store.private()  # desktops whose drivers want that no program sees them

    @property
    def drivers(self) -> dict[str, str]:
        """Desktop -> id of the session that drives it."""
        return {desktop: session for desktop, (session, _) in self._drivers.items()}

    def begin(self, key: Hashable, session: Session, address: str, *, shows: bool = False) -> None:
        """Take in a connection of a session that is good; raises `GatewayError` if there are too many."""
        mine = self.of(session.id)
        if len(mine) >= self.layout.streams_per_session:
            raise Refusal(HTTPStatus.TOO_MANY_REQUESTS, "streams", "are open in this session", "close one", len(mine))
        everybody = [stream for stream in self.open.values() if stream.session.desktop == session.desktop]
        if len(everybody) >= self.layout.streams_per_desktop:
            raise Refusal(
                HTTPStatus.TOO_MANY_REQUESTS,
                "streams",
                "are open to this desktop",
                "wait until one closes",
                len(everybody),
            )
        self.again(key, session, address, self.clock(), 0.0, shows=shows)

    def again(
        self, key: Hashable, session: Session, address: str, since: float, acted: float, *, shows: bool = False
    ) -> None:
        """Take in a connection that is open already: the filter outlived this service."""
        if session.mode == "drive" and session.desktop not in self._drivers and not shows:
            self._set(session.desktop, session, "first")
        self.open[key] = Stream(session, address, since, acted, shows)
        self.wake()

    def end(self, key: Hashable) -> None:
        """A connection is over."""
        self.open.pop(key, None)
        self.wake()

    def acted(self, key: Hashable, at: float) -> None:
        """Note that its client typed or pointed."""
        if key in self.open:
            self.open[key].acted = at

    def of(self, id: str) -> list[Stream]:
        """The connections of a session."""
        return [stream for stream in self.open.values() if stream.session.id == id]

    def _screens(self, id: str) -> list[Stream]:
        """The connections of a session that show the whole screen, by which it may drive."""
        return [stream for stream in self.of(id) if not stream.shows]

    def drives(self, session: Session) -> bool:
        """Whether this session drives its desktop."""
        return self.drivers.get(session.desktop) == session.id

    def take(self, session: Session) -> None:
        """Make this session the driver; raises `GatewayError` if it may not be."""
        if session.mode != "drive":
            raise Refusal(
                HTTPStatus.FORBIDDEN, "mode", "may only look on", "ask for a link with --mode drive", session.mode
            )
        if not self._screens(session.id):
            raise Refusal(
                HTTPStatus.CONFLICT, "streams", "this session does not look at the desktop", "open the desktop first"
            )
        if not self.drives(session):
            self._set(session.desktop, session, "taken")

    def hand_over(self, session: Session) -> None:
        """Give the drive to who waits longest, or to nobody; raises `GatewayError` if it is not this session's."""
        if not self.drives(session):
            raise Refusal(HTTPStatus.CONFLICT, "driver", "another session drives this desktop", "take over first")
        self._pass_on(session.desktop, "handed over", free=True)

    def set_private(self, session: Session, private: bool) -> None:
        """Have no program see the desktop, or end that; raises `GatewayError` if this session does not drive it."""
        if not self.drives(session):
            reason = "this session does not drive the desktop, and who drives says who sees it"
            raise Refusal(HTTPStatus.CONFLICT, "driver", reason, "take over first")
        if private == (session.desktop in self.private):
            return
        with self.store.whole():
            self.store.set_private(session.desktop, private)
            self.note("privacy", session, result="on" if private else "off", reason="asked for")
        (self.private.add if private else self.private.discard)(session.desktop)
        self.line.drivers_changed()

    def sweep(self, alive: set[str]) -> None:
        """Move on the drive of those who left, ended, or do nothing while somebody waits."""
        now = self.clock()
        # Their connections are told to end, and may be here a moment longer.
        self._over = {stream.session.id for stream in self.open.values()} - alive
        for desktop, (id, since) in list(self._drivers.items()):
            mine = self._screens(id)
            if mine:
                self._gone.pop(desktop, None)
            if id not in alive:
                self._pass_on(desktop, "session ended", free=True)
            elif not mine:
                if now - self._gone.setdefault(desktop, now) >= self.layout.driver_away_seconds:
                    self._pass_on(desktop, "left", free=True)
            # Who reads something private does nothing for long; another may take over, and then knows what that ends.
            elif desktop in self.private:
                continue
            elif now - max(since, *(stream.acted for stream in mine)) >= self.layout.driver_idle_seconds:
                self._pass_on(desktop, "idle", free=False)

    def due(self) -> float | None:
        """When the next sweep moves a drive on, if nothing happens before."""
        moments = []
        for desktop, (id, since) in self._drivers.items():
            mine = self._screens(id)
            if not mine:
                moments.append(self._gone.get(desktop, self.clock()) + self.layout.driver_away_seconds)
            elif desktop not in self.private and self._waiting(desktop):
                moments.append(max(since, *(stream.acted for stream in mine)) + self.layout.driver_idle_seconds)
        return min(moments, default=None)

    def _waiting(self, desktop: str) -> list[Stream]:
        """The connections of others who may drive."""
        current = self.drivers.get(desktop)
        return [
            stream
            for stream in self.open.values()
            if stream.session.desktop == desktop
            and not stream.shows
            and stream.session.mode == "drive"
            and stream.session.id != current
            and stream.session.id not in self._over
        ]

    def _pass_on(self, desktop: str, reason: str, *, free: bool) -> None:
        if waiting := self._waiting(desktop):
            self._set(desktop, min(waiting, key=lambda stream: stream.since).session, reason)
        elif free:
            self._set(desktop, None, reason)

    def _set(self, desktop: str, session: Session | None, reason: str) -> None:
        before = self.drivers.get(desktop)
        now = self.clock()
        left = self.store.get(before) if before else None
        about = session or left
        with self.store.whole():
            # With the driver goes what the driver wanted.
            self.store.set_driver(desktop, session.id if session else None, now)
            if desktop in self.private and left is not None:
                self.note("privacy", left, result="off", reason=reason)
            if about is not None:
                self.note("driver", about, result="drives" if session else "nobody", before=before, reason=reason)
        self._drivers.pop(desktop, None)
        self._gone.pop(desktop, None)
        if session is not None:
            self._drivers[desktop] = (session.id, now)
        if desktop in self.private:
            self.private.discard(desktop)
            self.wake()
        self.line.drivers_changed()
