"""Files of root's on a desktop: written whole or not at all, through no link, by one run at a time.

Sent together with each program that imports it, so it knows only the standard library of Python 3.10 and later.
"""

import contextlib
import errno
import fcntl
import os
import stat
import time
from collections.abc import Iterator
from pathlib import Path

BUSY_SECONDS = 60.0
PAUSE_SECONDS = 0.2
MAX_BYTES = 1 << 20
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW


@contextlib.contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Keep other runs out of `folder`; one that takes long is not waited for."""
    folder.mkdir(mode=0o755, parents=True, exist_ok=True)
    handle, end = os.open(folder, FOLDER), time.monotonic() + BUSY_SECONDS
    try:
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > end:
                    raise OSError(errno.EBUSY, "another run, or a script of one, is still at work") from None
            time.sleep(PAUSE_SECONDS)
        yield
    finally:
        os.close(handle)


def put(path: Path, text: str | None, mode: int, gid: int | None = None) -> str:
    """Bring a file in step in one rename, or remove it without `text`: changed, unchanged or removed."""
    if text is None and not os.path.lexists(path):
        return "unchanged"
    path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    folder = os.open(path.parent, FOLDER)
    try:
        if text is None:
            os.unlink(path.name, dir_fd=folder)
            os.fsync(folder)
            return "removed"
        content, found = text.encode(), read(path)
        if found is not None and found == (content, mode, os.geteuid(), found[3] if gid is None else gid):
            return "unchanged"
        draft = f".{path.name}.new"
        remove(folder, draft)
        try:
            write(folder, draft, content, mode, gid)
            os.rename(draft, path.name, src_dir_fd=folder, dst_dir_fd=folder)
        finally:
            remove(folder, draft)
        os.fsync(folder)
    finally:
        os.close(folder)
    return "changed"


def read(path: Path) -> tuple[bytes, int, int, int] | None:
    """Content, mode, owner and group of a plain file; None if it is no such file."""
    try:
        # O_NONBLOCK: opening a FIFO must not block.
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    with os.fdopen(handle, "rb") as file:
        facts = os.fstat(handle)
        if not stat.S_ISREG(facts.st_mode):
            return None
        return file.read(MAX_BYTES), stat.S_IMODE(facts.st_mode), facts.st_uid, facts.st_gid


def write(folder: int, name: str, content: bytes, mode: int, gid: int | None = None) -> None:
    """Write a new file in an open folder, to the disk."""
    handle = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600, dir_fd=folder)
    with os.fdopen(handle, "wb") as file:
        file.write(content)
        if gid is not None:
            os.fchown(handle, os.geteuid(), gid)
        os.fchmod(handle, mode)
        file.flush()
        os.fsync(handle)


def remove(folder: int, name: str) -> None:
    """Remove a file of an open folder, if it is there."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(name, dir_fd=folder)
