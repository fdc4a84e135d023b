"""What one client may send is bounded: more at once than a person makes, more for long than a page makes."""

import pytest

from deskyard.gateway.view import budget
from deskyard.gateway.view.budget import Budget, Flood
from tests.support.clock import Clock


def test_what_comes_at_once_is_bounded_in_steps_and_in_bytes() -> None:
    steps, size = Budget(Clock()), Budget(Clock())
    for _ in range(budget.STEPS_AT_ONCE):
        steps.step()
    with pytest.raises(Flood, match="reads, frames and messages"):
        steps.step()
    size.read(budget.BYTES_AT_ONCE)
    with pytest.raises(Flood, match="KiB"):
        size.read(1)


def test_many_small_reads_are_a_flood_as_well() -> None:
    mine = Budget(Clock())
    with pytest.raises(Flood):
        for _ in range(budget.STEPS_AT_ONCE + 1):
            mine.read(1)


def test_one_who_keeps_to_the_rate_goes_on_for_ever_and_one_just_above_does_not() -> None:
    clock = Clock()
    steady, fast = Budget(clock), Budget(clock)
    for _ in range(100):
        clock.now += 1.0
        steady.read(budget.BYTES_PER_SECOND)
        for _ in range(budget.STEPS_PER_SECOND - 1):
            steady.step()
    with pytest.raises(Flood):
        for _ in range(100):
            clock.now += 1.0
            fast.read(0)
            for _ in range(int(budget.STEPS_PER_SECOND * 1.1)):
                fast.step()


def test_long_silence_saves_up_no_more_than_comes_at_once() -> None:
    clock = Clock()
    mine = Budget(clock)
    clock.now += 3600
    mine.read(0)
    with pytest.raises(Flood):
        for _ in range(budget.STEPS_AT_ONCE):
            mine.step()
