"""How many pixels a second all streams of a desktop together may take and pack."""

import threading
import time
from collections.abc import Callable


class Budget:
    """A rate of pixels; used by any thread."""

    def __init__(self, pixels_per_second: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate = pixels_per_second
        self._clock = clock
        self._lock = threading.Lock()
        self._free = 0.0

    def spend(self, pixels: int) -> None:
        """Note what was taken or packed."""
        with self._lock:
            self._free = max(self._free, self._clock()) + pixels / self._rate

    def wait(self) -> float:
        """How many seconds the next frame has to wait; 0 for not at all."""
        with self._lock:
            return max(0.0, self._free - self._clock())
