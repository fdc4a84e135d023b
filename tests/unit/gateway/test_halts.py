"""A stopped agent stays stopped until somebody may let it go on: written down first, and over restarts."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from deskyard.gateway.halting.halts import Halts
from deskyard.gateway.session.refusal import Refusal
from deskyard.gateway.session.store import Session, Store
from deskyard.wire.computer import HALT_PORT
from tests.support.clock import Clock
from tests.unit.gateway.support import parsed
from tests.unit.gateway.test_store import session

ADDRESS = parsed().desktop("d1").address


class Door:
    """The stops of a gateway, whose audit may be unwritable."""

    def __init__(self, folder: Path) -> None:
        self.store = Store(folder / "sessions.db")
        self.clock = Clock()
        self.notes: list[tuple[str, object, object]] = []
        self.full = False
        self.changes = 0
        self.halts = self.again()

    def again(self) -> Halts:
        """A service that was just started."""
        halts = Halts(parsed(), self.store, self._note, self.clock)
        halts.changed = self._tell
        return halts

    def _note(self, event: str, **facts: object) -> None:
        if self.full:
            raise OSError(28, "No space left on device")
        self.notes.append((event, facts["actor"], facts.get("session")))

    def _tell(self) -> None:
        self.changes += 1


def person(letter: str = "a", **changes: Any) -> Session:
    return session(id=letter * 24, **{"mode": "drive", "actor": "ann", **changes})


@pytest.fixture
def door(tmp_path: Path) -> Door:
    return Door(tmp_path)


def test_stop_is_there_for_a_service_that_was_started_again(door: Door) -> None:
    door.halts.stop("d1", "ann", person())
    for halts in (door.halts, door.again()):
        assert halts.stopped() == {"d1"}
        assert halts.places() == {"d1": (ADDRESS, HALT_PORT, True)}
    door.halts.let_go("d1", "bob", person("b", actor="bob"))
    for halts in (door.halts, door.again()):
        assert halts.stopped() == set()
        assert halts.places() == {"d1": (ADDRESS, HALT_PORT, False)}
    assert door.notes == [("halt", "ann", "a" * 24), ("resume", "bob", "b" * 24)]


def test_agent_that_goes_on_is_spoken_of_until_its_desktop_says_so(door: Door) -> None:
    door.halts.stop("d1", "ann", person())
    door.halts.found("d1", True)
    assert door.halts.facts("d1", shut=True) == {
        **{"stopped": True, "by": "ann", "since": int(door.clock.now), "by_host": False},
        **{"shut": True, "still": True},
    }
    door.halts.let_go("d1", "ann", person())
    for still in (True, None, "no"):
        door.halts.found("d1", still)
        assert door.again().places(), still
    door.halts.found("d1", False)
    assert (door.halts.places(), door.again().places()) == ({}, {})
    assert door.halts.facts("d1", shut=False) == {"stopped": False}


def test_desktop_that_says_that_its_agent_runs_does_not_end_a_stop(door: Door) -> None:
    door.halts.stop("d1", "ann", person())
    door.halts.found("d1", False)
    assert (door.halts.stopped(), door.halts.listing()[0]["still"]) == ({"d1"}, False)
    door.halts.found("other", True)
    assert door.halts.stopped() == {"d1"}


def test_what_the_host_has_stopped_no_page_lets_go(door: Door) -> None:
    door.halts.stop("d1", "root")
    with pytest.raises(Refusal, match="by its host, for root") as refused:
        door.halts.let_go("d1", "ann", person())
    assert (refused.value.status, refused.value.field) == (409, "agent")
    door.halts.stop("d1", "ann", person())
    assert door.halts.listing()[0]["by"] == "root", "a person's stop does not weaken the host's"
    door.halts.let_go("d1", "root")
    assert door.halts.stopped() == set()


def test_host_stops_for_itself_what_a_page_had_stopped(door: Door) -> None:
    door.halts.stop("d1", "ann", person())
    door.halts.stop("d1", "root")
    assert (door.halts.listing()[0]["by_host"], door.again().listing()[0]["by"]) == (True, "root")


@pytest.mark.parametrize("act", [Halts.stop, Halts.let_go])
@pytest.mark.parametrize("mode", ["view", "agent"])
def test_who_may_not_drive_stops_nothing_and_lets_nothing_go(door: Door, act: Callable[..., None], mode: str) -> None:
    if act is Halts.let_go:
        door.halts.stop("d1", "ann", person())
    before = (door.halts.stopped(), list(door.notes))
    with pytest.raises(Refusal, match="may only look on") as refused:
        act(door.halts, "d1", "eve", person("e", mode=mode))
    assert refused.value.status == 403
    assert (door.halts.stopped(), door.notes) == before


def test_stop_that_cannot_be_written_down_holds_all_the_same_and_is_an_error(door: Door) -> None:
    door.full = True
    with pytest.raises(OSError, match="No space"):
        door.halts.stop("d1", "ann", person())
    assert (door.halts.stopped(), door.changes) == ({"d1"}, 1)
    assert door.again().stopped() == set()


def test_agent_does_not_go_on_while_that_cannot_be_written_down(door: Door) -> None:
    door.halts.stop("d1", "ann", person())
    door.full = True
    with pytest.raises(OSError, match="No space"):
        door.halts.let_go("d1", "ann", person())
    assert (door.halts.stopped(), door.again().stopped()) == ({"d1"}, {"d1"})


def test_desktop_that_is_declared_no_more_leaves_no_stop_to_another_of_its_name(door: Door) -> None:
    door.halts.stop("d1", "ann", person())
    door.halts.keep({"d1"})
    assert door.halts.stopped() == {"d1"}
    door.halts.keep({"research-2"})
    assert (door.halts.stopped(), door.again().stopped()) == (set(), set())


def test_unknown_desktop_is_refused_with_what_to_do(door: Door) -> None:
    with pytest.raises(Refusal, match="no agent that this gateway could stop") as refused:
        door.halts.stop("nobody", "root")
    assert "desktop.stop" in str(refused.value.remedy)
    assert door.halts.facts("nobody", shut=False) is None
