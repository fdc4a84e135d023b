"""Keeps other runs out for a moment: two workspaces may come up at once."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from deskyard.errors import HostError
from deskyard.host.places import places
from deskyard.host.progress import say
from deskyard.host.secret_file import make_folder, opened


@contextmanager
def alone(what: str, *, shared: bool = False, at_once: bool = False, waiting: str = "") -> Iterator[None]:
    """Hold the machine-wide lock called `what`; ends with the process, however that ends.

    Several may hold it at once if all of them say `shared`. Another run is waited for, which `waiting` says; with
    `at_once` it is a `HostError`.
    """
    folder = places().state / "locks"
    make_folder(folder)
    kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    with os.fdopen(_opened(folder / what)) as file:
        try:
            fcntl.flock(file, kind | fcntl.LOCK_NB)
        except BlockingIOError as error:
            if at_once:
                remedy = "wait for it to end, then run it again"
                raise HostError("lock", what, "another task holds it", remedy) from error
            if waiting:
                say(f"    {waiting}")
            fcntl.flock(file, kind)
        yield


def _opened(path: Path) -> int:
    try:
        return opened(path, os.O_RDWR, 0o644)
    except PermissionError:
        # Another account made it, as an older release did by sudo. Only NFS wants a file to be written for its lock.
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
