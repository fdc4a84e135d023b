"""One drives, the others watch; who leaves, sleeps or ends makes room."""

from pathlib import Path

import pytest

from deskyard.errors import GatewayError
from deskyard.gateway.machine.layout import Layout
from deskyard.gateway.session.store import Session, Store, ticket_hash
from deskyard.gateway.session.streams import Streams
from tests.unit.gateway.test_store import NOW, session

LAYOUT = Layout()


class Desk:
    """Streams with a clock that a test moves, and sessions named by one letter."""

    def __init__(self, folder: Path) -> None:
        self.now = NOW
        self.store = Store(folder / "sessions.db")
        self.notes: list[str] = []
        self.notices = 0
        self.streams = self.restarted()

    def restarted(self) -> Streams:
        self.streams = Streams(self.store, LAYOUT, self._note, lambda: self.now, self)
        return self.streams

    def join(self, letter: str, mode: str = "drive", streams: int = 1, *, shows: bool = False) -> Session:
        grant = session(id=letter * 24, mode=mode)
        if self.store.get(grant.id) is None:
            self.store.add(grant, ticket_hash(letter))
        for _ in range(streams):
            self.streams.begin((letter, len(self.streams.open)), grant, "192.0.2.1", shows=shows)
        return grant

    def leave(self, letter: str) -> None:
        for key in [key for key in self.streams.open if isinstance(key, tuple) and key[0] == letter]:
            self.streams.end(key)

    def after(self, seconds: float, *alive: str) -> str | None:
        """Who drives then; all sessions but those not named are alive."""
        self.now += seconds
        ids = {stored.id for stored in self.store.all()} if not alive else {letter * 24 for letter in alive}
        self.streams.sweep(ids)
        return self.streams.drivers.get("d1", "")[:1] or None

    def _note(self, event: str, session: Session, **facts: object) -> None:
        self.notes.append(f"{session.id[0]} {facts['result']} {facts['reason']}")

    def is_open(self) -> bool:
        return True

    def close(self, session: str) -> None:
        raise AssertionError(session)

    def awaited_changed(self) -> None:
        raise AssertionError("no stream is waited for")

    def halts_changed(self) -> None:
        raise AssertionError("nobody stops an agent here")

    def ended_changed(self) -> None:
        raise AssertionError("no program comes here")

    def drivers_changed(self) -> None:
        self.notices += 1


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def test_first_who_may_drive_drives(desk: Desk) -> None:
    desk.join("v", mode="view")
    assert desk.after(0) is None
    desk.join("a")
    desk.join("b")
    assert desk.after(0) == "a"
    assert desk.notes == ["a drives first"]
    assert desk.notices == 1


def test_drive_outlives_the_service_and_a_short_absence(desk: Desk) -> None:
    desk.join("a")
    desk.restarted()
    desk.join("b")
    assert desk.after(LAYOUT.driver_away_seconds - 1) == "a"
    desk.join("a")
    assert desk.after(60) == "a"


def test_who_left_makes_room_for_who_waits_longest(desk: Desk) -> None:
    for letter in "abc":
        desk.now += 1
        desk.join(letter)
    desk.join("v", mode="view")
    desk.leave("a")
    assert desk.after(0) == "a"
    assert desk.after(LAYOUT.driver_away_seconds) == "b"
    desk.leave("b")
    desk.leave("c")
    desk.after(0)
    assert desk.after(LAYOUT.driver_away_seconds) is None  # a viewer never drives
    assert desk.notes[1:] == ["b drives left", "b nobody left"]


def test_idle_driver_makes_room_only_if_somebody_waits(desk: Desk) -> None:
    desk.join("a")
    assert desk.after(LAYOUT.driver_idle_seconds + 1) == "a"
    key = next(iter(desk.streams.open))
    desk.streams.acted(key, desk.now)
    desk.join("b")
    assert desk.after(LAYOUT.driver_idle_seconds - 1) == "a"
    assert desk.after(1) == "b"


def test_ended_session_drives_no_more(desk: Desk) -> None:
    desk.join("a")
    desk.join("b")
    assert desk.after(0, "b") == "b"


def test_who_looks_at_a_part_alone_neither_drives_nor_keeps_the_drive(desk: Desk) -> None:
    part = desk.join("a", shows=True)
    assert desk.after(0) is None
    with pytest.raises(GatewayError, match="does not look"):
        desk.streams.take(part)
    desk.join("b")
    assert desk.after(0) == "b"
    # Of the driver only a window is left open: away, for all that concerns the drive.
    desk.leave("b")
    desk.join("b", shows=True)
    desk.after(0)
    assert desk.streams.due() == desk.now + LAYOUT.driver_away_seconds
    assert desk.after(LAYOUT.driver_away_seconds) is None
    desk.join("a")
    assert desk.after(0) == "a"


def test_taking_and_handing_over(desk: Desk) -> None:
    a, b, v = desk.join("a"), desk.join("b"), desk.join("v", mode="view")
    desk.streams.take(b)
    desk.streams.take(b)
    assert desk.after(0) == "b"
    with pytest.raises(GatewayError):
        desk.streams.take(v)
    with pytest.raises(GatewayError):
        desk.streams.hand_over(a)
    desk.streams.hand_over(b)
    assert desk.after(0) == "a"
    desk.leave("b")
    desk.streams.hand_over(a)
    assert desk.after(0) is None
    assert desk.notes == ["a drives first", "b drives taken", "a drives handed over", "a nobody handed over"]


def test_streams_are_counted_by_session_and_by_desktop(desk: Desk) -> None:
    desk.join("a", streams=LAYOUT.streams_per_session)
    with pytest.raises(GatewayError, match="in this session"):
        desk.join("a")
    letters = iter("bcdefghijklmnop")
    while len(desk.streams.open) < LAYOUT.streams_per_desktop:
        desk.join(next(letters), mode="view", streams=LAYOUT.streams_per_session)
    with pytest.raises(GatewayError, match="to this desktop"):
        desk.join("z", mode="view")


def test_connection_whose_line_cannot_be_written_is_not_counted_and_drives_nothing(desk: Desk) -> None:
    def full(event: str, session: Session, **facts: object) -> None:
        raise GatewayError("disk", None, "is full", "make room")

    grant = session(mode="drive")
    desk.store.add(grant, ticket_hash("t"))
    desk.streams.note = full
    for attempt in range(LAYOUT.streams_per_session + 1):
        with pytest.raises(GatewayError, match="full"):
            desk.streams.begin(attempt, grant, "192.0.2.1")
    assert (desk.streams.drivers, desk.store.drivers()) == ({}, {})
    desk.streams.note = desk._note
    desk.streams.begin("key", grant, "192.0.2.1")
    assert desk.streams.drives(grant)


def test_driver_alone_hides_the_desktop_and_it_is_noted(desk: Desk) -> None:
    a, b = desk.join("a"), desk.join("b")
    with pytest.raises(GatewayError, match="does not drive"):
        desk.streams.set_private(b, True)
    desk.streams.set_private(a, True)
    desk.streams.set_private(a, True)
    assert (desk.streams.private, desk.store.private()) == ({"d1"}, {"d1"})
    with pytest.raises(GatewayError, match="does not drive"):
        desk.streams.set_private(b, False)
    assert desk.restarted().private == {"d1"}, "it outlives the service"
    desk.streams.set_private(a, False)
    assert (desk.streams.private, desk.store.private()) == (set(), set())
    assert desk.notes == ["a drives first", "a on asked for", "a off asked for"]
    assert desk.notices == 3


def test_privacy_ends_with_the_drive_and_never_by_doing_nothing(desk: Desk) -> None:
    a, b = desk.join("a"), desk.join("b")
    desk.streams.set_private(a, True)
    assert desk.after(10 * LAYOUT.driver_idle_seconds) == "a", "who reads does nothing"
    assert desk.streams.due() is None
    desk.leave("a")
    desk.after(0)
    assert desk.after(LAYOUT.driver_away_seconds - 1) == "a"
    assert desk.streams.private == {"d1"}, "a page that is loaded again"
    assert desk.after(1) == "b"
    assert (desk.streams.private, desk.store.private()) == (set(), set())
    desk.streams.set_private(b, True)
    assert desk.after(0, "a") is None
    assert (desk.streams.private, desk.store.private()) == (set(), set())
    assert desk.notes[1:] == [
        "a on asked for",
        "a off left",
        "b drives left",
        "b on asked for",
        "b off session ended",
        "b nobody session ended",
    ]


def test_privacy_that_cannot_be_written_down_neither_begins_nor_ends(desk: Desk) -> None:
    def full(event: str, session: Session, **facts: object) -> None:
        raise GatewayError("disk", None, "is full", "make room")

    a = desk.join("a")
    for before in (False, True):
        desk.streams.note = full
        with pytest.raises(GatewayError, match="full"):
            desk.streams.set_private(a, not before)
        assert (desk.streams.private, desk.store.private()) == (({"d1"}, {"d1"}) if before else (set(), set()))
        desk.streams.note = desk._note
        desk.streams.set_private(a, True)
