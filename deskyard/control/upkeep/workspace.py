"""A workspace as a single look reads it: its gateway is asked once for what several parts are made of."""

from typing import Any

from deskyard.errors import DeskyardError


class Workspace:
    """A workspace's name, and what its gateway said since the look began."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._refused: list[Any] | DeskyardError | None = None

    def refused(self) -> list[Any]:
        """The lines of what the gateway refused, oldest first; without an answer, the same error to all who ask."""
        from deskyard.access import egress

        if self._refused is None:
            try:
                self._refused = list(egress.denied(self.name, follow=False))
            except DeskyardError as error:
                self._refused = error
        if isinstance(self._refused, DeskyardError):
            raise self._refused
        return self._refused
