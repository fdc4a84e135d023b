"""The format of rfbproxy, `FBS 001.000`: what a server of RFB says, in blocks with the time of each.

A block is its length, its bytes, as many zeros as make them a multiple of four, and milliseconds since the beginning.
The bytes of all blocks are one conversation of RFB 3.3 without a password, as the viewer hears it.
"""

import os
import struct
from dataclasses import dataclass

from deskyard.computer.streaming import rfb

HEAD = b"FBS 001.000\n"
NUMBER = struct.Struct(">I")
MOST_MS = (1 << 32) - 1
VERSION, NO_PASSWORD = b"RFB 003.003\n", NUMBER.pack(1)
NAME = "Deskyard"


@dataclass(frozen=True)
class Whole:
    """A file as far as it is whole: its bytes, its blocks, the last one's milliseconds, and the screen's size."""

    bytes: int
    blocks: int
    last_ms: int
    size: tuple[int, int]


def block(data: bytes, at_ms: int) -> bytes:
    """One block."""
    return NUMBER.pack(len(data)) + data + bytes(-len(data) % 4) + NUMBER.pack(min(max(at_ms, 0), MOST_MS))


def beginning(width: int, height: int) -> bytes:
    """The head of a file, and the block in which the server greets its viewer."""
    return HEAD + block(VERSION + NO_PASSWORD + rfb.greeting(width, height, NAME), 0)


def whole(descriptor: int) -> Whole | None:
    """Look how far a file is whole, from block to block; None where not even the greeting is."""
    greeting = len(VERSION) + len(NO_PASSWORD)
    if os.pread(descriptor, len(HEAD), 0) != HEAD:
        return None
    place, blocks, last, size = len(HEAD), 0, 0, (0, 0)
    end = os.fstat(descriptor).st_size
    while place + NUMBER.size <= end:
        (length,) = NUMBER.unpack(os.pread(descriptor, NUMBER.size, place))
        after = place + NUMBER.size + length + -length % 4
        if not length or after + NUMBER.size > end:
            break  # a machine that lost its power may leave zeros
        if not blocks:
            size = struct.unpack(">HH", os.pread(descriptor, 4, place + NUMBER.size + greeting))
        (last,) = NUMBER.unpack(os.pread(descriptor, NUMBER.size, after))
        place, blocks = after + NUMBER.size, blocks + 1
    return Whole(place, blocks, last, size) if blocks else None
