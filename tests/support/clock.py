"""A clock that a test turns."""

from dataclasses import dataclass


@dataclass
class Clock:
    """The time in seconds, which goes on when the test says so."""

    now: float = 1_000_000.0

    def __call__(self) -> float:
        return self.now
