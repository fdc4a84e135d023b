"""A guest's clock is set and read back, however long the guest takes for it."""

import subprocess
from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest

from deskyard.errors import SiteError
from deskyard.host.vm import clock

A_DAY = 86_400.0


@dataclass
class Guest:
    """A guest that is so many seconds behind, does not hear so many shifts, and takes its time for all it is asked."""

    behind: float
    deaf: int = 0
    short: float = 0.0  # of each shift that it hears
    takes: float = 0.0  # for a shift, and for either half of an answer
    now: float = 1_000_000.0
    shifts: list[float] = field(default_factory=list)

    def read(self) -> float:
        """What its clock shows halfway through the question."""
        self.now += self.takes
        seen = self.now - self.behind
        self.now += self.takes
        return seen

    def shift(self, seconds: float) -> None:
        """Add to its clock at the end of the request."""
        self.now += self.takes
        self.shifts.append(seconds)
        if len(self.shifts) > self.deaf:
            self.behind -= seconds - self.short


def set_clock(guest: Guest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "time", SimpleNamespace(time=lambda: guest.now))
    clock.set_clock("dev1", guest.read, guest.shift)


@pytest.mark.parametrize("behind", [A_DAY, -A_DAY])
@pytest.mark.parametrize("takes", [0.0, 20.0])
def test_the_clock_is_set_to_the_time_of_this_machine(
    monkeypatch: pytest.MonkeyPatch, behind: float, takes: float
) -> None:
    guest = Guest(behind, takes=takes)
    set_clock(guest, monkeypatch)
    assert guest.behind == 0
    assert guest.shifts == [behind]


@pytest.mark.parametrize(("behind", "takes", "shifts"), [(0.4, 0.0, 0), (-0.4, 0.0, 0), (0.6, 0.0, 1), (0.0, 5.0, 1)])
def test_a_clock_that_is_seen_to_be_right_is_left_alone(
    monkeypatch: pytest.MonkeyPatch, behind: float, takes: float, shifts: int
) -> None:
    # Of an answer that took long nothing is seen.
    guest = Guest(behind, takes=takes)
    set_clock(guest, monkeypatch)
    assert len(guest.shifts) == shifts


@pytest.mark.parametrize("short", [-2.0, 2.0])
def test_two_seconds_away_are_near_enough(monkeypatch: pytest.MonkeyPatch, short: float) -> None:
    guest = Guest(A_DAY, short=short)
    set_clock(guest, monkeypatch)
    assert len(guest.shifts) == 1


def test_a_clock_that_took_nothing_is_set_again(monkeypatch: pytest.MonkeyPatch) -> None:
    guest = Guest(A_DAY, deaf=2)
    set_clock(guest, monkeypatch)
    assert (guest.behind, len(guest.shifts)) == (0, 3)


@pytest.mark.parametrize("short", [-2.1, 2.1])
def test_a_clock_that_stays_away_is_an_error_after_three_times(monkeypatch: pytest.MonkeyPatch, short: float) -> None:
    guest = Guest(A_DAY, short=short)
    with pytest.raises(SiteError, match=r"dev1.*2\.1 s away"):
        set_clock(guest, monkeypatch)
    assert len(guest.shifts) == 3


def test_an_answer_that_comes_late_is_held_against_all_the_time_that_it_took(monkeypatch: pytest.MonkeyPatch) -> None:
    # The clock may have been read at any moment of the twenty seconds.
    guest = Guest(A_DAY, short=12.0, takes=10.0)
    set_clock(guest, monkeypatch)
    assert len(guest.shifts) == 1


@pytest.mark.parametrize("seconds", [0.25, -0.25, A_DAY + 0.5, -A_DAY - 0.5, 0.0])
def test_the_date_of_debian_understands_a_shift(seconds: float) -> None:
    def seen(*words: str) -> float:
        argv = ["date", "--utc", *words, "+%s.%N"]
        return float(subprocess.run(argv, capture_output=True, text=True, check=True, timeout=60).stdout)

    least, most = seen() + seconds, seen("--date", clock.shifted(seconds))
    assert least - 0.001 <= most <= seen() + seconds + 0.001
