"""Says what is full, and what to do about it."""

import errno
import os
from pathlib import Path

from deskyard.errors import GatewayError

FULL = (errno.ENOSPC, errno.EDQUOT)


class Unwritable(GatewayError):
    """A record could not be written; this is over as soon as there is room."""


def is_full(folder: Path) -> bool:
    """Whether nothing more can be written there."""
    room = os.statvfs(folder)
    return room.f_bavail == 0 or (room.f_files > 0 and room.f_favail == 0)


def full(folder: Path) -> Unwritable:
    """The error of something that could not be written for want of room."""
    room = os.statvfs(folder)
    reason = (
        f"the gateway's disk is full: {room.f_bavail * room.f_frsize // 1024} KiB and {room.f_favail} files are free"
    )
    remedy = "in the gateway, make room (`du -xh / | sort -h | tail`); it goes on by itself then"
    return Unwritable("disk", str(folder), reason, remedy)
