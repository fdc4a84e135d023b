"""Notices that the machine's clock was set back, by a clock that nobody sets."""

import time
from collections.abc import Callable

# Below this a clock is being disciplined, not set.
TOLERATED_SECONDS = 2.0


class Clock:
    """A clock that people set (`now`) beside one that only goes on (`ticks`), both in seconds."""

    def __init__(self, now: Callable[[], float], ticks: Callable[[], float] = time.monotonic) -> None:
        self._now, self._ticks = now, ticks
        self._last = now(), ticks()

    def follow(self, bring_forward: Callable[[float], bool]) -> None:
        """Take the clock as it is now; where it was set back, after its user brought all ends forward by the seconds.

        A user that returns False, or raises, could not: it is asked again the next time.
        """
        now, ticks = self._last
        back = (self._ticks() - ticks) - (self._now() - now)
        if back <= TOLERATED_SECONDS or bring_forward(back):
            self._last = self._now(), self._ticks()
