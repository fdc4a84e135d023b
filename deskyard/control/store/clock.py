"""Notices that the database's clock jumped: set by hand or by its host's, or a host that slept."""

import time
from collections.abc import Callable

from deskyard.control.store.connection import Link

# Below this a clock is being disciplined, not set.
TOLERATED_SECONDS = 2.0


class Clock:
    """The database's clock beside this process's own, which nobody sets; `monotonic` is the latter, in seconds."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._last: tuple[float, float, float] | None = None

    def jump(self, link: Link) -> float:
        """The seconds that it jumped ahead, or back (below zero), since it was asked last; zero if it did not.

        At least so many: what an answer took by way of a busy machine is no jump.
        """
        before = self._monotonic()
        row = link.execute("select extract(epoch from clock_timestamp())::float8 as now").fetchone()
        after = self._monotonic()
        assert row is not None
        now = float(row["now"])
        last, self._last = self._last, (before, now, after)
        if last is None:
            return 0.0
        first_before, first, first_after = last
        passed = now - first
        ahead, back = passed - (after - first_before), passed - (before - first_after)
        if ahead > TOLERATED_SECONDS:
            return ahead
        return back if back < -TOLERATED_SECONDS else 0.0
