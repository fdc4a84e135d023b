"""Ends a connection when its time is over: who sends a byte now and then lets nobody's wait for an answer run out."""

import contextlib
import socket
from types import TracebackType
from typing import Self

from deskyard.host.deadline import Alarm


class Cut:
    """So many seconds for all that a block does on its connection; more is a `TimeoutError`."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._alarm = Alarm(seconds, self._end)
        self._link: socket.socket | None = None
        self._is_over = False

    def of(self, link: socket.socket) -> None:
        """Name the connection, before anything is wrapped around it."""
        self._link = link.dup()
        if self._is_over:
            self._end()

    def check(self) -> None:
        """Raise a `TimeoutError` if the time is over: what was read until then looks as if it ended by itself."""
        if self._is_over:
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
