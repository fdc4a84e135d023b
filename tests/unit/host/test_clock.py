"""A guest's clock is set and read back."""

from types import SimpleNamespace

import pytest

from deskyard.errors import SiteError
from deskyard.host.vm import clock


class Guest:
    """A guest whose clock takes what it is given after `deaf` times that it did not, and shows it `ahead`."""

    def __init__(self, now: float, deaf: int = 0, ahead: float = 0.0) -> None:
        self.shown, self.deaf, self.ahead = now, deaf, ahead
        self.given: list[float] = []

    def read(self) -> float:
        """What its clock shows."""
        return self.shown

    def write(self, seconds: float) -> None:
        """Give it the time."""
        self.given.append(seconds)
        if len(self.given) > self.deaf:
            self.shown = seconds + self.ahead


@pytest.fixture(autouse=True)
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time of this machine; each look at it takes a second where there is more than one moment."""
    moments = [1_000_000.0]
    looked = SimpleNamespace(time=lambda: moments.pop(0) if len(moments) > 1 else moments[0])
    monkeypatch.setattr(clock, "time", looked)
    return moments


def test_the_clock_is_set_to_the_time_of_this_machine() -> None:
    guest = Guest(now=5.0)
    clock.set_clock("dev1", guest.read, guest.write)
    assert (guest.shown, guest.given) == (1_000_000.0, [1_000_000.0])


@pytest.mark.parametrize("ahead", [-2.0, 2.0])
def test_two_seconds_away_are_near_enough(ahead: float) -> None:
    guest = Guest(now=5.0, ahead=ahead)
    clock.set_clock("dev1", guest.read, guest.write)
    assert len(guest.given) == 1


def test_a_clock_that_took_nothing_is_set_again() -> None:
    guest = Guest(now=5.0, deaf=2)
    clock.set_clock("dev1", guest.read, guest.write)
    assert (guest.shown, len(guest.given)) == (1_000_000.0, 3)


@pytest.mark.parametrize("ahead", [-2.1, 2.1])
def test_a_clock_that_stays_away_is_an_error_after_three_times(ahead: float) -> None:
    guest = Guest(now=5.0, ahead=ahead)
    with pytest.raises(SiteError, match=r"dev1.*2\.1 s away"):
        clock.set_clock("dev1", guest.read, guest.write)
    assert len(guest.given) == 3


def test_an_answer_that_comes_late_is_held_against_all_the_time_that_it_took(now: list[float]) -> None:
    # Given at 0, asked at 10, answered at 20: the clock may have been read at any moment between.
    now[:] = [0.0, 10.0, 20.0]
    guest = Guest(now=5.0, ahead=15.0)
    clock.set_clock("dev1", guest.read, guest.write)
    assert guest.given == [0.0]


def test_what_was_old_when_it_was_set_is_set_anew(now: list[float]) -> None:
    # The first time it took the guest ten seconds to take it.
    now[:] = [0.0, 10.0, 10.0, 20.0]
    guest = Guest(now=5.0)
    clock.set_clock("dev1", guest.read, guest.write)
    assert guest.given == [0.0, 20.0]
