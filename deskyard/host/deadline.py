"""Bounded waiting: a moment after which nothing is waited for any more, and what is done when it comes."""

import threading
import time
from collections.abc import Callable
from typing import Self


class Deadline:
    """So many seconds from now."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    @property
    def is_over(self) -> bool:
        """Whether the time is over."""
        return time.monotonic() > self._end

    @property
    def left(self) -> float:
        """Seconds that are left; never less than none."""
        return max(0.0, self._end - time.monotonic())

    def wait_for(self, holds: Callable[[], bool], pause: float, sleep: Callable[[float], None] = time.sleep) -> bool:
        """Wait until it holds, asked at least once and then every `pause` seconds; false if the time is over first."""
        while not holds():
            if self.is_over:
                return False
            sleep(pause)
        return True


class Alarm(threading.Timer):
    """Something that is done after so many seconds, unless the block is left or it is cancelled before."""

    def __init__(self, seconds: float, act: Callable[[], object]) -> None:
        super().__init__(seconds, act)
        # Whoever is stopped while this begins leaves it behind, and Python would wait for it at the end.
        self.daemon = True

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.cancel()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.cancel()
