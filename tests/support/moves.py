"""Moves of machines that a test tells."""

import time
from collections import deque
from collections.abc import Callable

from deskyard.plan.power import Moved
from deskyard.wire.stages import Stage


class Moves:
    """What was told, in order; `meanwhile` is called where a listener waits and there is nothing."""

    def __init__(self) -> None:
        self.coming: deque[Moved] = deque()
        self.waits: list[float] = []
        self.meanwhile: Callable[[float], None] = lambda _: None

    def __enter__(self) -> "Moves":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def wake(self) -> None:
        """Nobody waits here."""

    def tell(self, domain: str, stage: Stage, detail: str = "") -> None:
        """A machine comes to a stage."""
        self.coming.append(Moved(domain, stage, time.time(), detail))

    def next(self, seconds: float) -> Moved | None:
        """The next that was told."""
        if not self.coming and seconds > 0:
            self.waits.append(seconds)
            self.meanwhile(seconds)
        return self.coming.popleft() if self.coming else None
