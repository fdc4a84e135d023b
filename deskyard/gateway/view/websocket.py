"""A client's half of the WebSocket protocol: frames in any split come out whole, and go on as frames of our own."""

import os
from collections.abc import Callable
from dataclasses import dataclass

CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10
CONTROL = (CLOSE, PING, PONG)
CONTROL_LIMIT = 125
FRAME_LIMIT = 1024 * 1024


class ProtocolError(Exception):
    """The other side does what the protocol, or this gateway, does not allow."""

    close_code = 1002


@dataclass(frozen=True)
class Frame:
    """The content of a frame, unmasked."""

    opcode: int
    payload: bytes


class FrameReader:
    """Takes a client's bytes as they come; keeps at most one unfinished frame, and no frame over `FRAME_LIMIT`.

    `count` is called for each frame before it is unpacked, and may raise.
    """

    def __init__(self, count: Callable[[], None] = lambda: None) -> None:
        self._count = count
        self._buffer = bytearray()
        self._fragmented = False
        self._closed = False

    def feed(self, data: bytes) -> list[Frame]:
        """The frames that are whole now; raises `ProtocolError`. What comes after a close frame is nothing."""
        self._buffer += data
        frames: list[Frame] = []
        while not self._closed and (frame := self._next()) is not None:
            frames.append(frame)
            self._closed = frame.opcode == CLOSE
        if self._closed:
            self._buffer.clear()
        return frames

    def _next(self) -> Frame | None:
        buffer = self._buffer
        if len(buffer) < 2:
            return None
        final, opcode = bool(buffer[0] & 0x80), buffer[0] & 0x0F
        self._check(buffer[0], buffer[1], final, opcode)
        size, start = buffer[1] & 0x7F, 2
        if size > CONTROL_LIMIT:
            start = 4 if size == 126 else 10
            if len(buffer) < start:
                return None
            size = int.from_bytes(buffer[2:start], "big")
        if size > FRAME_LIMIT:
            raise ProtocolError("frame too long")
        end = start + 4 + size
        if len(buffer) < end:
            return None
        self._count()
        payload = mask(bytes(buffer[start + 4 : end]), bytes(buffer[start : start + 4]))
        del buffer[:end]
        if opcode not in CONTROL:
            self._fragmented = not final
        return Frame(opcode, payload)

    def _check(self, first: int, second: int, final: bool, opcode: int) -> None:
        if first & 0x70:
            raise ProtocolError("frame with an extension that was not agreed on")
        if not second & 0x80:
            raise ProtocolError("frame without a mask")
        if opcode in CONTROL:
            if not final or second & 0x7F > CONTROL_LIMIT:
                raise ProtocolError("control frame in parts or too long")
        elif opcode not in (CONTINUATION, BINARY):
            raise ProtocolError(f"frame of kind {opcode}")
        elif (opcode == CONTINUATION) != self._fragmented:
            raise ProtocolError("fragments out of order")


def mask(data: bytes, key: bytes) -> bytes:
    """Apply a mask of four bytes; twice is nothing."""
    size = len(data)
    stream = (key * (size // 4 + 1))[:size]
    return (int.from_bytes(data, "big") ^ int.from_bytes(stream, "big")).to_bytes(size, "big")


def frame(opcode: int, payload: bytes) -> bytes:
    """Build a whole, masked frame."""
    size, key = len(payload), os.urandom(4)
    if size <= CONTROL_LIMIT:
        length = bytes([0x80 | size])
    elif size < 1 << 16:
        length = b"\xfe" + size.to_bytes(2, "big")
    else:
        length = b"\xff" + size.to_bytes(8, "big")
    return bytes([0x80 | opcode]) + length + key + mask(payload, key)
