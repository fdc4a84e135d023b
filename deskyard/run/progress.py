"""Says what long work is doing, on standard error, so that standard output stays for results."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass
class Timings:
    """How long each named step took, in seconds, in order."""

    steps: dict[str, float] = field(default_factory=dict)


def say(text: str) -> None:
    """Print one line of progress."""
    print(text, file=sys.stderr, flush=True)


@contextmanager
def step(text: str, timings: Timings | None = None) -> Iterator[None]:
    """Announce a step, and its time when it is done."""
    say(f"==> {text}")
    started = time.monotonic()
    yield
    seconds = time.monotonic() - started
    if timings is not None:
        timings.steps[text] = seconds
    say(f"    {text}: {seconds:.1f} s")
