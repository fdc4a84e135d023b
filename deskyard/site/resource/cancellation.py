"""Ends what waits when a run is interrupted."""

import threading


class Stop(Exception):
    """The run was interrupted."""


class Cancellation:
    """Tells waiting kinds that the run was interrupted."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def cancel(self) -> None:
        """Interrupt what waits."""
        self._event.set()

    def pause(self, seconds: float) -> None:
        """Wait a while; raises `Stop` when the run is interrupted."""
        if self._event.wait(seconds):
            raise Stop("interrupted; the same command goes on from here")


CANCELLATION = Cancellation()
