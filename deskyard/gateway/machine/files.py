"""Files that are whole or not there at all."""

import os
import shutil
from pathlib import Path


def write(path: Path, text: str, mode: int = 0o644, group: str | None = None) -> None:
    """Replace `path` in one step: a reader sees the old text or the new one; survives a power cut."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f".{path.name}.new")
    fresh.unlink(missing_ok=True)
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())
    if group is not None:
        shutil.chown(fresh, group=group)
    fresh.chmod(mode)
    fresh.replace(path)


def read(path: Path) -> str | None:
    """The text of a file, or nothing if it is absent."""
    try:
        return path.read_text()
    except FileNotFoundError:
        return None
