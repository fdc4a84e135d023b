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

    def set_back(self) -> float:
        """The seconds by which it was set back since this was settled last; 0 if it was not."""
        now, ticks = self._last
        back = (self._ticks() - ticks) - (self._now() - now)
        return back if back > TOLERATED_SECONDS else 0.0

    def settle(self) -> None:
        """Take the clock as it is now."""
        self._last = self._now(), self._ticks()
