"""The lock of whatever changes what a gateway has in force."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager

from deskyard.gateway.machine.layout import Layout


@contextmanager
def alone(layout: Layout) -> Iterator[None]:
    """Keep others out who change what is in force."""
    layout.etc.mkdir(parents=True, exist_ok=True)
    with (layout.etc / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
