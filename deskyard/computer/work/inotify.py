"""The kernel's inotify: what happens in directories, as it happens."""

import ctypes
import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

MODIFY = 0x2
ATTRIB = 0x4
CLOSE_WRITE = 0x8
MOVED_FROM = 0x40
MOVED_TO = 0x80
CREATE = 0x100
DELETE = 0x200
DELETE_SELF = 0x400
MOVE_SELF = 0x800
UNMOUNT = 0x2000
OVERFLOW = 0x4000
IGNORED = 0x8000
ONLYDIR = 0x01000000
ISDIR = 0x40000000

ALL = MODIFY | ATTRIB | CLOSE_WRITE | MOVED_FROM | MOVED_TO | CREATE | DELETE | DELETE_SELF | MOVE_SELF
HEADER = struct.Struct("iIII")
MOST_READ = 1 << 16

_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True)
class Happening:
    """An event of the kernel: which watch, what happened (bits), the cookie of a move's two halves, the name."""

    watch: int
    mask: int
    cookie: int
    name: str


def open_queue() -> int:
    """A new queue of happenings, as a descriptor that never blocks."""
    return _checked(_libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))


def add(queue: int, directory: Path) -> int:
    """Watch a directory; the number tells its happenings from others'."""
    return _checked(_libc.inotify_add_watch(queue, os.fsencode(directory), ALL | ONLYDIR))


def read(queue: int) -> Iterator[Happening]:
    """Read the happenings that wait in a queue."""
    while True:
        try:
            data = os.read(queue, MOST_READ)
        except BlockingIOError:
            return
        position = 0
        while position < len(data):
            watch, mask, cookie, length = HEADER.unpack_from(data, position)
            position += HEADER.size
            name = data[position : position + length].rstrip(b"\0")
            position += length
            yield Happening(watch, mask, cookie, os.fsdecode(name))


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return int(result)
