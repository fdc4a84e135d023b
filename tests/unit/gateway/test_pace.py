"""An address that tries too often waits; the others do not."""

from deskyard.gateway.session import pace


def test_address_that_is_too_fast_is_held_back_until_a_minute_is_over() -> None:
    now = [0.0]
    counted = pace.Pace(3, lambda: now[0])
    assert [counted.too_fast("a") for _ in range(5)] == [False] * 3 + [True] * 2
    assert not counted.too_fast("b")
    now[0] = 59
    assert counted.too_fast("a")
    now[0] = 59 + pace.PERIOD_SECONDS
    assert not counted.too_fast("a")


def test_number_of_addresses_is_bounded() -> None:
    counted = pace.Pace(3)
    for number in range(pace.ADDRESSES + 10):
        counted.too_fast(str(number))
    assert len(counted._attempts) == pace.ADDRESSES
