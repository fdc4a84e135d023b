"""Reads segments: files of the format FBS 001.000, whose frames are RFB in Tight, and what was done beside them."""

import json
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from deskyard_sdk.errors import DesktopError

HEAD = b"FBS 001.000\n"
GREETING = struct.Struct(">12sIHH16xI")
NUMBER = struct.Struct(">I")
RECTANGLE = struct.Struct(">HHHHi")
TIGHT = 7
FILL, JPEG, LONGEST_BASIC = 8, 9, 7
SMALLEST_PACKED = 12
HAS_FILTER, PALETTE = 4, 1
# The bits of each byte, the highest first.
BITS = [bytes(byte >> bit & 1 for bit in range(7, -1, -1)) for byte in range(256)]


@dataclass(frozen=True)
class Part:
    """A rectangle that changed: of one colour, as JPEG, or as its pixels (red, green, blue)."""

    x: int
    y: int
    width: int
    height: int
    kind: Literal["fill", "jpeg", "pixels"]
    data: bytes


@dataclass(frozen=True)
class Frame:
    """A frame: the parts that changed at a time, in seconds since the segment began."""

    at: float
    parts: tuple[Part, ...]


@dataclass(frozen=True)
class Segment:
    """A segment; `begin` in seconds since 1970, the actions as the desktop wrote them."""

    id: str
    begin: float
    size: tuple[int, int]
    frames: tuple[Frame, ...]
    actions: tuple[dict[str, Any], ...]

    @property
    def end(self) -> float:
        """When the last frame came."""
        return self.begin + (self.frames[-1].at if self.frames else 0.0)


def load(folder: str | Path) -> list[Segment]:
    """The segments of a folder, the oldest first; raises `DesktopError` where there are none."""
    paths = sorted(
        (path for path in Path(folder).glob("*.fbs") if path.stem.isdigit()), key=lambda path: int(path.stem)
    )
    if not paths:
        remedy = "give the folder of desktop.recordings.download"
        raise DesktopError("folder", str(folder), "holds no recording (*.fbs)", remedy)
    return [_segment(path) for path in paths]


def _segment(path: Path) -> Segment:
    lines = path.with_suffix(".jsonl")
    actions = lines.read_bytes().split(b"\n")[:-1] if lines.exists() else []
    about = path.with_suffix(".json")
    begin = float(json.loads(about.read_text())["begin"]) if about.exists() else int(path.stem) / 1000
    try:
        size, frames = read(path.read_bytes())
        return Segment(path.stem, begin, size, tuple(frames), tuple(json.loads(line) for line in actions))
    except (struct.error, IndexError, ValueError, zlib.error) as error:
        raise DesktopError("recording", str(path), f"cannot be read: {error}", "fetch it again") from error


def read(content: bytes) -> tuple[tuple[int, int], Iterator[Frame]]:
    """The size of the screen, and the frames; what is not whole at the end is left out."""
    if content[: len(HEAD)] != HEAD:
        raise ValueError("it does not begin with FBS 001.000")
    blocks = _blocks(content)
    first, _ = next(blocks, (b"", 0))
    version, security, width, height, _ = GREETING.unpack_from(first)
    if version != b"RFB 003.003\n" or security != 1:
        raise ValueError("it is no RFB 3.3 without a password")
    return (width, height), (Frame(at / 1000, tuple(_parts(data))) for data, at in blocks)


def _blocks(content: bytes) -> Iterator[tuple[bytes, int]]:
    place = len(HEAD)
    while place + NUMBER.size <= len(content):
        (length,) = NUMBER.unpack_from(content, place)
        after = place + NUMBER.size + length + -length % 4
        if not length or after + NUMBER.size > len(content):
            return
        yield content[place + NUMBER.size : place + NUMBER.size + length], NUMBER.unpack_from(content, after)[0]
        place = after + NUMBER.size


def _parts(message: bytes) -> Iterator[Part]:
    kind, count = struct.unpack_from(">BxH", message)
    if kind:
        raise ValueError(f"message {kind} is no update")
    place = 4
    for _ in range(count):
        x, y, width, height, encoding = RECTANGLE.unpack_from(message, place)
        if encoding != TIGHT:
            raise ValueError(f"encoding {encoding} is not Tight")
        shape, data, place = _tight(message, place + RECTANGLE.size, width, height)
        yield Part(x, y, width, height, shape, data)


def _tight(message: bytes, place: int, width: int, height: int) -> tuple[Literal["fill", "jpeg", "pixels"], bytes, int]:
    """Read a rectangle of Tight: shape, data, and where the next begins. The recorder's streams each begin anew."""
    kind = message[place] >> 4
    place += 1
    if kind == FILL:
        return "fill", message[place : place + 3], place + 3
    if kind == JPEG:
        length, place = _length(message, place)
        return "jpeg", message[place : place + length], place + length
    if kind > LONGEST_BASIC:
        raise ValueError(f"Tight's compression {kind} is not known here")
    if not kind & HAS_FILTER:
        pixels, place = _basic(message, place, width * height * 3)
        return "pixels", pixels, place
    if message[place] != PALETTE:
        raise ValueError(f"Tight's filter {message[place]} is not known here")
    count = message[place + 1] + 1
    colours = message[place + 2 : place + 2 + 3 * count]
    row = (width + 7) // 8 if count == 2 else width
    indexes, place = _basic(message, place + 2 + 3 * count, row * height)
    return "pixels", _painted(indexes, colours, width, height), place


def _basic(message: bytes, place: int, size: int) -> tuple[bytes, int]:
    """Read so many bytes, packed unless they are few, and where the next begin."""
    if size < SMALLEST_PACKED:
        return message[place : place + size], place + size
    length, place = _length(message, place)
    data = zlib.decompressobj().decompress(message[place : place + length], size)
    if len(data) != size:
        raise ValueError("a rectangle is not whole")
    return data, place + length


def _painted(indexes: bytes, colours: bytes, width: int, height: int) -> bytes:
    """The pixels of indexes into a palette: a bit each where it has two colours, in rows of whole bytes."""
    if len(colours) == 6:
        row = len(indexes) // height
        indexes = b"".join(
            b"".join(BITS[byte] for byte in indexes[at : at + row])[:width] for at in range(0, len(indexes), row)
        )
    pixels = bytearray(3 * width * height)
    for channel in range(3):
        pixels[channel::3] = indexes.translate(colours[channel::3].ljust(256, b"\0"))
    return bytes(pixels)


def _length(message: bytes, place: int) -> tuple[int, int]:
    """A length in one to three bytes of seven bits, the last one of eight."""
    length = 0
    for step in range(3):
        byte = message[place + step]
        length |= (byte & 127 if step < 2 else byte) << 7 * step
        if step == 2 or byte < 128:
            return length, place + step + 1
    raise ValueError("a length does not end")
