"""Ends a connection when its time is over: who sends a byte now and then lets nobody's wait for an answer run out."""

import contextlib
import socket
from collections.abc import Iterable
from types import TracebackType
from typing import Self

from deskyard.host.deadline import Alarm, Deadline


class Cut:
    """So many seconds for all that a block does on its connection; more is a `TimeoutError`."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._alarm = Alarm(seconds, self._end)
        self._deadline = Deadline(seconds)
        self._link: socket.socket | None = None
        self._is_over = False

    def connect(self, places: Iterable[tuple[str, int]], seconds: float) -> socket.socket:
        """Connect to the first of these addresses and ports that answers; nothing is wrapped around it yet.

        Each is waited for as long as `seconds`, all for what is left of the time; so is each answer later. Raises the
        `OSError` of the last one if none answers.
        """
        silent: OSError = OSError("no address was found")
        for place in places:
            self.check()
            try:
                link = socket.create_connection(place, min(seconds, self._deadline.left))
            except OSError as error:
                silent = error
                continue
            link.settimeout(seconds)
            self._link = link.dup()
            if self._is_over:
                self._end()
            return link
        raise silent

    def check(self) -> None:
        """Raise a `TimeoutError` if the time is over: what was read until then looks as if it ended by itself."""
        if self._is_over or not self._deadline.left:
            raise TimeoutError(f"took longer than {self._seconds:g} seconds")

    def _end(self) -> None:
        self._is_over = True
        if self._link is not None:
            # It may have ended by itself.
            with contextlib.suppress(OSError):
                self._link.shutdown(socket.SHUT_RDWR)

    def __enter__(self) -> Self:
        self._alarm.__enter__()
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, error: BaseException | None, _at: TracebackType | None
    ) -> None:
        self._alarm.cancel()
        if self._link is not None:
            self._link.close()
        if isinstance(error, Exception):
            self.check()
