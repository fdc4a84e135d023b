"""Keeps other runs out for a moment: two workspaces may come up at once."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager

from deskyard.host.places import places


@contextmanager
def alone(what: str) -> Iterator[None]:
    """Hold the machine-wide lock called `what`; ends with the process, however that ends."""
    folder = places().state / "locks"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    with (folder / what).open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
