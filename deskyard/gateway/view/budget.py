"""A bound on what a client of a desktop may send in what time; who sends more is cut off, whatever it is.

Steps bound the filter's work, bytes what passes through its memory. The limits are far above what a person does: noVNC
sends fewer than 500 messages a second, and a paste of the longest text is one mebibyte.
"""

import time
from collections.abc import Callable

from deskyard.gateway.view.websocket import ProtocolError

STEPS_PER_SECOND, STEPS_AT_ONCE = 2000, 4000  # a step is a read, a frame or a message
BYTES_PER_SECOND, BYTES_AT_ONCE = 512 * 1024, 4 * 1024 * 1024


class Flood(ProtocolError):
    """A client sends more than anybody needs."""

    close_code = 1008


class Budget:
    """The bound of one client; raises `Flood` as soon as it is used up."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._steps, self._bytes = float(STEPS_AT_ONCE), float(BYTES_AT_ONCE)
        self._filled = clock()

    def read(self, size: int) -> None:
        """Count bytes that were read, before anything is made of them."""
        now = self._clock()
        passed, self._filled = now - self._filled, now
        self._steps = min(self._steps + passed * STEPS_PER_SECOND, STEPS_AT_ONCE)
        self._bytes = min(self._bytes + passed * BYTES_PER_SECOND, BYTES_AT_ONCE) - size
        if self._bytes < 0:
            raise Flood(f"flood: more than {BYTES_PER_SECOND // 1024} KiB a second")
        self.step()

    def step(self) -> None:
        """Count a read, a frame or a message."""
        self._steps -= 1
        if self._steps < 0:
            raise Flood(f"flood: more than {STEPS_PER_SECOND} reads, frames and messages a second")
