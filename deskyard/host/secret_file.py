"""Files that only their owner may read."""

import os
import stat
from pathlib import Path

from deskyard.errors import ConfigError

_MOST_BYTES = 4096


def write_secret(path: Path, content: bytes) -> None:
    """Write a file that only its owner can read, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.unlink(missing_ok=True)
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    draft.rename(path)


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
