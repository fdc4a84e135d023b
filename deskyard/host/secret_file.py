"""Files that only their owner may read; what root makes in a user's state is that user's."""

import os
import stat
from pathlib import Path

from deskyard.errors import ConfigError
from deskyard.host.places import places

_MOST_BYTES = 4096


def write_secret(path: Path, content: bytes) -> None:
    """Write a file that only its owner can read, whole or not at all."""
    make_folder(path.parent)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.unlink(missing_ok=True)
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "wb") as file:
        _own_as_its_folder(handle, path)
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    draft.rename(path)


def make_folder(path: Path) -> None:
    """Make a folder that only its owner enters, with those above it; fine if it is there."""
    for made in reversed([folder for folder in (path, *path.parents) if not folder.exists()]):
        made.mkdir(exist_ok=True, mode=0o700 if made == path else 0o777)
        handle = os.open(made, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            _own_as_its_folder(handle, made)
        finally:
            os.close(handle)


def opened(path: Path, flags: int, mode: int = 0o600) -> int:
    """A descriptor of a file that is made if it is not there; no link is followed."""
    flags |= os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        handle = os.open(path, flags | os.O_CREAT | os.O_EXCL, mode)
    except FileExistsError:
        return os.open(path, flags)
    _own_as_its_folder(handle, path)
    return handle


def leave_mark(path: Path) -> None:
    """Have an empty file be there that is as old as this call, in a folder of its owner alone."""
    make_folder(path.parent)
    handle = opened(path, os.O_WRONLY | os.O_TRUNC)
    try:
        os.utime(handle)
    finally:
        os.close(handle)


def _own_as_its_folder(handle: int, path: Path) -> None:
    """Give what was made just now in a user's state to whose its folder is: root makes some there, as for a backup.

    It is open, so that nothing can be put in its place meanwhile. Elsewhere each file has the owner that it is given.
    """
    if os.geteuid() == 0 and path.is_relative_to(places().state):
        folder = path.parent.stat()
        os.fchown(handle, folder.st_uid, folder.st_gid)


def read_secret(path: Path, field: str) -> str:
    """The text of a file that only its owner can read; `field` names in errors where the file is named."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise ConfigError(field, str(path), str(error.strerror), "create it, or correct the path") from error
    with os.fdopen(descriptor, "rb") as file:
        # Asked of the open file, so that nothing can be put in its place in between.
        state = os.fstat(file.fileno())
        if not stat.S_ISREG(state.st_mode):
            raise ConfigError(field, str(path), "is no plain file", "write the secret into a file")
        if state.st_mode & 0o077:
            reason = f"others can read it (mode {stat.S_IMODE(state.st_mode):o})"
            raise ConfigError(field, str(path), reason, f"run chmod 600 {path}")
        return file.read(_MOST_BYTES).decode("ascii", "replace")
