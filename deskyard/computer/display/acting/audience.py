"""Who waits for the answer to a batch: when the last of them has left, nothing more of it is done."""

import asyncio
import threading
from collections.abc import Callable


class Audience:
    """The requests that the outcome of a batch answers; they come and go in the event loop, any thread may ask."""

    def __init__(self, left: Callable[[], None], away_seconds: float) -> None:
        self._left = left
        self._away_seconds = away_seconds
        self._present = 0
        self._leaving: asyncio.TimerHandle | None = None
        self._gone = threading.Event()

    def is_gone(self) -> bool:
        """Whether all have left; nobody has the batch go on after that."""
        return self._gone.is_set()

    def come(self) -> None:
        """A request waits for the outcome."""
        self._present += 1
        if self._leaving:
            self._leaving.cancel()
            self._leaving = None

    def leave(self) -> None:
        """The client of a request left before its answer."""
        self._present -= 1
        if not self._present:
            self._leaving = asyncio.get_running_loop().call_later(self._away_seconds, self._end)

    def _end(self) -> None:
        self._gone.set()
        self._left()
