"""The server's side of RFB 3.8, as far as somebody who only looks needs it: no input of a viewer is ever passed on."""

import struct
from collections.abc import Generator
from dataclasses import dataclass

from deskyard.computer.streaming.encodings import (
    DESKTOP_SIZE,
    HIGHEST_QUALITY,
    LOWEST_QUALITY,
    RAW,
    TIGHT,
    ZRLE,
    Form,
)  # fmt: skip

VERSION = b"RFB 003.008\n"
# 32 bits a pixel, 24 of them used, little-endian, red 16, green 8, blue 0 bits up.
PIXELS = struct.pack(">BBBBHHHBBBxxx", 32, 24, 0, 1, 255, 255, 255, 16, 8, 0)
MOST_ENCODINGS = 256
MOST_TEXT = 1 << 20
SET_PIXELS, SET_ENCODINGS, ASK, KEY, POINTER, TEXT = 0, 2, 3, 4, 5, 6
INPUT = {KEY: 8, POINTER: 6}  # lengths


class Unclear(Exception):
    """The viewer says what is not understood here; the text is the reason of the close."""


@dataclass
class Asked:
    """The viewer's wishes: how it takes pictures, and whether it waits for one."""

    encodings: tuple[int, ...] = ()
    order: str = "BGRX"
    depth: int = 24
    waits: bool = False  # it asked for an update that it has not got
    anew: bool = False  # it wants all of it

    @property
    def form(self) -> Form:
        """The first of its encodings that is spoken here."""
        known = [RAW, *((TIGHT, ZRLE) if self.depth == 24 else ())]
        encoding = next((encoding for encoding in self.encodings if encoding in known), RAW)
        levels = [number for number in self.encodings if LOWEST_QUALITY <= number <= HIGHEST_QUALITY]
        level = levels[0] - LOWEST_QUALITY if levels and encoding == TIGHT else None
        # Tight has an order of its own.
        return Form(encoding, "BGRX" if encoding == TIGHT else self.order, level)

    @property
    def resizes(self) -> bool:
        """Whether it follows a frame that gets another size."""
        return DESKTOP_SIZE in self.encodings


class Hearing:
    """Takes what the viewer sends, in whatever pieces it comes."""

    def __init__(self) -> None:
        self.asked = Asked()
        self.passed: list[str] = []  # what was reached and is not yet answered: version, security, init
        self._data = bytearray()
        self._steps = self._listen()
        self._need = next(self._steps)

    def take(self, data: bytes) -> None:
        """Hear some more; raises `Unclear` for what is no RFB, or cannot be had here."""
        self._data += data
        while len(self._data) >= self._need:
            piece = bytes(self._data[: self._need])
            del self._data[: self._need]
            self._need = self._steps.send(piece)

    def _listen(self) -> Generator[int, bytes, None]:
        version = yield len(VERSION)
        if version != VERSION:
            raise Unclear("only RFB 3.8 is spoken here")
        self.passed.append("version")
        if (yield 1) != b"\x01":
            raise Unclear("the gateway's token is the only key: security type 1")
        self.passed.append("security")
        yield 1
        self.passed.append("init")
        while True:
            kind = (yield 1)[0]
            if kind == SET_PIXELS:
                self._pixels((yield 19)[3:])
            elif kind == SET_ENCODINGS:
                (count,) = struct.unpack(">xH", (yield 3))
                if count > MOST_ENCODINGS:
                    raise Unclear(f"more than {MOST_ENCODINGS} encodings")
                data = yield 4 * count
                self.asked.encodings = struct.unpack(f">{count}i", data)
            elif kind == ASK:
                self.asked.anew = self.asked.anew or not (yield 9)[0]
                self.asked.waits = True
            elif kind in INPUT:
                yield INPUT[kind] - 1  # nothing is passed on
            elif kind == TEXT:
                (length,) = struct.unpack(">3xi", (yield 7))
                if abs(length) > MOST_TEXT:
                    raise Unclear("a text that long is not taken")
                yield abs(length)
            else:
                raise Unclear(f"message {kind} is not known here")

    def _pixels(self, data: bytes) -> None:
        bits, depth, big, colours, *most, red, green, blue = struct.unpack(">BBBBHHHBBBxxx", data)
        shifts = {red: "R", green: "G", blue: "B"}
        if bits != 32 or not colours or most != [255] * 3 or any(shift % 8 or shift > 24 for shift in shifts):
            raise Unclear("a stream has 32 bits a pixel, 8 for each colour")
        order = "".join(shifts.get(shift, "X") for shift in (0, 8, 16, 24))
        order = order[::-1] if big else order
        if order not in ("RGBX", "BGRX", "XRGB", "XBGR"):
            raise Unclear("colours in that order are not sent")
        self.asked.order, self.asked.depth = order, depth


def greeting(width: int, height: int, name: str) -> bytes:
    """The message that greets a viewer (ServerInit): size, pixel format and name."""
    text = name.encode()
    return struct.pack(">HH", width, height) + PIXELS + struct.pack(">I", len(text)) + text


def resized(width: int, height: int) -> bytes:
    """An update that says nothing but the new size."""
    return updates(1) + struct.pack(">HHHHi", 0, 0, width, height, DESKTOP_SIZE)


def updates(count: int) -> bytes:
    """The head of an update of so many rectangles."""
    return struct.pack(">BxH", 0, count)
