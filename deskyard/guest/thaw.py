"""Runs as root on a desktop: thaws its file systems after a while, whatever became of who froze them.

Sent over standard input and run by `python3`, so it knows only the standard library of Python 3.10 and later. It is
told after how many seconds to thaw and for how long to go on: who freezes may be slow. It goes on in the background,
answers its process id, and from then on reads no file and writes none.
"""

import contextlib
import fcntl
import os
import re
import sys
import time
from pathlib import Path

FITHAW = 0xC0045878
MOUNTS = Path("/proc/self/mounts")
PAUSE_SECONDS = 0.5


def mount_points() -> list[str]:
    """Where the file systems are that lie on a disk."""
    rows = [line.split() for line in MOUNTS.read_text().splitlines()]
    return [_unescaped(row[1]) for row in rows if row[0].startswith("/dev/")]


def _unescaped(path: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), path)


def thaw(folders: list[int]) -> int:
    """Thaw all of them; how many were frozen."""
    thawed = 0
    for folder in folders:
        with contextlib.suppress(OSError):
            fcntl.ioctl(folder, FITHAW, 0)
            thawed += 1
    return thawed


def watch(folders: list[int], after: float, during: float) -> None:
    """Wait, then thaw again and again."""
    time.sleep(after)
    end = time.monotonic() + during
    while time.monotonic() < end:
        thaw(folders)
        time.sleep(PAUSE_SECONDS)


def main() -> None:
    """Go into the background, and say as what."""
    after, during = float(sys.argv[1]), float(sys.argv[2])
    folders = [os.open(path, os.O_RDONLY | os.O_DIRECTORY) for path in mount_points() if Path(path).is_dir()]
    child = os.fork()
    if child:
        print(child)
        return
    os.setsid()
    quiet = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(quiet, stream)
    watch(folders, after, during)
    os._exit(0)


if __name__ == "__main__":
    main()
