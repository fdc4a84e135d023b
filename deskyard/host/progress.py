"""Says what long work is doing, on standard error, so that standard output stays for results."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

_LABEL: ContextVar[str] = ContextVar("label", default="")


@dataclass
class Timings:
    """How long each named step took, in seconds, in order."""

    steps: dict[str, float] = field(default_factory=dict)


def say(text: str) -> None:
    """Print one line of progress."""
    # One write a line, so that the lines of work that goes on at once do not mix.
    sys.stderr.write(f"{_LABEL.get()}{text}\n")
    sys.stderr.flush()


@contextmanager
def labelled(name: str) -> Iterator[None]:
    """Put `name` before each line of progress of this thread."""
    token = _LABEL.set(f"[{name}] ")
    try:
        yield
    finally:
        _LABEL.reset(token)


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
