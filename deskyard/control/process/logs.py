"""Bounds the logs of all processes, which share a disk with the database."""

import os
from pathlib import Path

MOST_BYTES = 20 << 20
BEFORE = ".1"


def bound(folder: Path) -> None:
    """Begin each log anew that has grown beyond its bound; its end stays beside it.

    Whoever writes goes on at the end of the file, wherever that is: each was opened to be added to.
    """
    for path in folder.glob("*.log"):
        if path.stat().st_size > MOST_BYTES:
            kept = path.with_name(path.name + BEFORE)
            try:
                with path.open("rb") as log, kept.open("wb") as before:
                    log.seek(-MOST_BYTES, os.SEEK_END)
                    before.write(log.read(MOST_BYTES))
            except OSError:
                # The disk is full, of this perhaps: the database needs what it takes.
                kept.unlink(missing_ok=True)
            os.truncate(path, 0)
