"""The state of a desktop, of what its host tells and what looks find: newest first, and neither against the other."""

from typing import Any

import pytest

from deskyard.errors import GatewayError
from deskyard.gateway.awaiting.stages import HOLD_SECONDS, Stages
from deskyard.wire.stages import OF_HOST, Stage
from tests.support.clock import Clock

ALL, SOME, NONE = ({"desktop": desktop, "terminal": terminal} for desktop, terminal in ((1, 1), (0, 1), (0, 0)))
RESTING = tuple(stage for stage in OF_HOST if stage is not Stage.BOOTING)


class Door:
    """The stages of one desktop, by a clock that a test moves."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.stages = Stages(self.clock)
        self.start = self.clock.now

    def hear(self, stage: str, after: float = 0.0) -> bool:
        """The host's word that it is so since some seconds after the start."""
        return self.stages.hear("d1", stage, self.start + after)

    def look(self, found: dict[str, int], after: float = 0.0) -> bool:
        """What a look finds so many seconds after the start."""
        self.clock.now = self.start + after
        return self.stages.looked("d1", {name: bool(answers) for name, answers in found.items()})

    def at(self) -> tuple[str | None, float | None]:
        """State, and for how long after the start it is so."""
        found = self.stages.of("d1", ["desktop", "terminal"])
        return found["state"], None if found["since"] is None else found["since"] - int(self.start)

    def routes(self) -> dict[str, Any]:
        """State of each route."""
        return {name: route["state"] for name, route in self.stages.of("d1", ["desktop", "terminal"])["routes"].items()}


@pytest.fixture
def door() -> Door:
    return Door()


def test_nobody_knows_where_it_is_before_anything_was_told_or_seen(door: Door) -> None:
    assert (door.at(), door.stages.of("d1", ["desktop"])["routes"]) == ((None, None), None)
    door.look(NONE)
    assert (door.at(), door.routes()) == ((None, None), {"desktop": None, "terminal": None})


def test_desktop_boots_with_its_machine_and_is_ready_with_its_last_route(door: Door) -> None:
    door.hear("booting")
    door.look(NONE, 10)
    assert (door.at(), door.routes()) == (("booting", 0), {"desktop": "booting", "terminal": "booting"})
    door.look(SOME, 20)
    assert (door.at(), door.routes()) == (("booting", 0), {"desktop": "booting", "terminal": "ready"})
    door.look(ALL, 30)
    assert (door.at(), door.routes()) == (("ready", 30), {"desktop": "ready", "terminal": "ready"})
    # It was so since.
    assert not door.look(ALL, 40)
    assert door.at() == ("ready", 30)
    assert door.stages.of("d1", ["terminal"])["routes"] == {
        "terminal": {"state": "ready", "since": int(door.start) + 20}
    }


def test_desktop_that_falls_silent_after_it_was_ready_boots_no_more(door: Door) -> None:
    door.hear("booting")
    door.look(ALL, 1)
    door.look(NONE, 2)
    assert door.at() == (None, None)
    assert door.hear("booting", 2)


def test_look_that_began_before_a_restart_does_not_end_it(door: Door) -> None:
    door.look(ALL)
    door.hear("booting", 1)
    door.look(ALL, 1)
    door.look(NONE, 2)
    assert door.at() == ("booting", 0)
    door.look(ALL, 30)
    door.look(NONE, 40)
    assert door.at() == (None, None)


def test_routes_alone_say_that_it_boots_and_is_ready(door: Door) -> None:
    door.look(SOME, 5)
    assert door.at() == ("booting", 5)
    door.look(ALL, 6)
    assert door.at() == ("ready", 6)


@pytest.mark.parametrize("stage", RESTING)
def test_word_of_the_host_counts_while_routes_still_answer(door: Door, stage: str) -> None:
    door.look(ALL)
    assert door.hear(stage)
    door.look(ALL, 2)
    assert (door.at(), door.routes()) == ((stage, 0), {"desktop": "ready", "terminal": "ready"})
    door.look(NONE, 4)
    assert (door.at(), door.routes()) == ((stage, 0), {"desktop": stage, "terminal": stage})


@pytest.mark.parametrize("stage", RESTING)
def test_word_of_the_host_is_over_once_routes_answer_again_or_all_the_time(door: Door, stage: str) -> None:
    door.hear(stage)
    door.look(NONE, 1)
    door.look(SOME, 2)
    assert door.at() == ("booting", 2)
    door.hear("booting", 2)
    door.hear(stage, 3)
    door.look(ALL, 2 + HOLD_SECONDS)
    assert door.at()[0] == stage
    door.look(ALL, 3 + HOLD_SECONDS)
    assert door.at()[0] == "ready"


def test_same_word_again_is_no_news_and_moves_no_time(door: Door) -> None:
    assert [door.hear("stopped", -60), door.hear("stopped", -60), door.hear("stopped", -1)] == [True, False, False]
    assert door.at() == ("stopped", -60)
    # A machine that restarts boots anew.
    assert [door.hear("booting", -50), door.hear("booting", -50), door.hear("booting", -20)] == [True, False, True]
    assert door.at() == ("booting", -20)


def test_clock_of_the_host_that_is_ahead_is_no_future_here(door: Door) -> None:
    door.hear("stopped", 3600)
    assert door.at() == ("stopped", 0)


def test_what_was_seen_is_forgotten_when_nobody_waits_and_what_was_told_is_not(door: Door) -> None:
    door.hear("booting")
    door.look(SOME, 1)
    door.stages.look_away({"d2"})
    assert (door.at(), door.stages.answers("d1")) == (("booting", 0), False)
    door.look(ALL, 9)
    door.stages.look_away({"d1"})
    assert (door.at(), door.stages.answers("d1")) == (("ready", 9), True)


@pytest.mark.parametrize(
    ("stage", "since"),
    [
        ("ready", 1.0),
        ("asleep", 1.0),
        (["stopped"], 1.0),
        (None, 1.0),
        ("stopped", 0),
        ("stopped", -1.0),
        ("stopped", float("nan")),
        ("stopped", float("inf")),
        ("stopped", True),
        ("stopped", "noon"),
    ],
)
def test_what_no_host_says_is_refused(door: Door, stage: Any, since: Any) -> None:
    with pytest.raises(GatewayError):
        door.stages.hear("d1", stage, since)
    assert door.at() == (None, None)


def test_host_says_every_state_but_that_routes_answer() -> None:
    assert {*OF_HOST, Stage.READY} == set(Stage)
