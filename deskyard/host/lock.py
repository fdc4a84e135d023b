"""Keeps other runs out for a moment: two workspaces may come up at once."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager

from deskyard.errors import HostError
from deskyard.host.places import places


@contextmanager
def alone(what: str, *, at_once: bool = False) -> Iterator[None]:
    """Hold the machine-wide lock called `what`; ends with the process, however that ends.

    Another run is waited for; with `at_once` it is a `HostError`.
    """
    folder = places().state / "locks"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    with (folder / what).open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | (fcntl.LOCK_NB if at_once else 0))
        except BlockingIOError as error:
            raise HostError("lock", what, "another task holds it", "wait for it to end, then run it again") from error
        yield
