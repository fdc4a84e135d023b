"""Viewers of VNC that ask for pictures as often as a person's would, and decode none of them."""

import contextlib
import socket
import struct
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection

from deskyard.host.deadline import Deadline

ASK_SECONDS = 0.04
HEAR_SECONDS = 30.0
VERSION, NO_SECURITY = b"RFB 003.008\n", b"\x01"
# Tight with JPEG of quality 6 and the lowest compression, as noVNC asks for it.
TIGHT, QUALITY, COMPRESSION = 7, -26, -254
UPDATE, BELL, CUT_TEXT = 0, 2, 3
FILL, JPEG, HAS_FILTER, PALETTE, LEAST_PACKED = 8, 9, 4, 1, 12
PIXELS = struct.pack(">BxxxBBBBHHHBBBxxx", 0, 32, 24, 0, 1, 255, 255, 255, 16, 8, 0)
ENCODINGS = struct.pack(">BxH3i", 2, 3, TIGHT, QUALITY, COMPRESSION)


class Line(Protocol):
    """A connection: RFB over a socket, or in the messages of a WebSocket."""

    def send(self, data: bytes) -> None:
        """Send bytes."""

    def receive(self, seconds: float) -> bytes:
        """The next bytes; raises `TimeoutError` if none come, `EOFError` at the end."""

    def close(self) -> None:
        """Leave."""


class SocketLine:
    """RFB over a socket."""

    def __init__(self, line: socket.socket) -> None:
        self._line = line

    def send(self, data: bytes) -> None:
        """Send bytes."""
        self._line.sendall(data)

    def receive(self, seconds: float) -> bytes:
        """The next bytes; raises `TimeoutError` if none come, `EOFError` at the end."""
        self._line.settimeout(seconds)
        data = self._line.recv(1 << 18)
        if not data:
            raise EOFError
        return data

    def close(self) -> None:
        """Leave."""
        self._line.close()


class WebSocketLine:
    """RFB in the messages of a WebSocket."""

    def __init__(self, line: ClientConnection) -> None:
        self._line = line

    def send(self, data: bytes) -> None:
        """Send bytes."""
        self._line.send(data)

    def receive(self, seconds: float) -> bytes:
        """The next bytes; raises `TimeoutError` if none come, `EOFError` at the end."""
        try:
            data = self._line.recv(timeout=seconds)
        except ConnectionClosed as error:
            raise EOFError from error
        return data.encode() if isinstance(data, str) else data

    def close(self) -> None:
        """Leave."""
        self._line.close()


@dataclass(frozen=True)
class Looked:
    """A second of looking: updates that came and their bytes, of all viewers; processor seconds of the server."""

    updates: float
    bytes: float
    processor: float


class Reader:
    """The bytes of a line, taken as many at a time as a message has; counts all that came."""

    def __init__(self, line: Line) -> None:
        self.line = line
        self.received = 0
        self._held = bytearray()

    def take(self, size: int) -> bytes:
        """The next bytes; raises `TimeoutError` if they do not come, `EOFError` at the end."""
        while len(self._held) < size:
            data = self.line.receive(HEAR_SECONDS)
            self.received += len(data)
            self._held += data
        taken = bytes(self._held[:size])
        del self._held[:size]
        return taken

    def greet(self) -> tuple[int, int]:
        """Shake hands as a viewer among others, without a password; the width and height that are shown."""
        self.take(len(VERSION))
        self.line.send(VERSION)
        self.take(self.take(1)[0])
        self.line.send(NO_SECURITY)
        self.take(4)
        self.line.send(b"\x01")
        width, height, name = struct.unpack(">HH16xI", self.take(24))
        self.take(name)
        return width, height


class Viewer:
    """One viewer with its own thread; counts the updates that came, and their bytes."""

    def __init__(self, line: Line) -> None:
        self._line = line
        self._reader = Reader(line)
        self._take = self._reader.take
        self._is_over = threading.Event()
        self.updates = 0
        self._width, self._height = self._reader.greet()
        self._line.send(PIXELS + ENCODINGS)
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    @property
    def received(self) -> int:
        """The bytes that came."""
        return self._reader.received

    def close(self) -> None:
        """Stop looking."""
        self._is_over.set()
        self._line.close()
        self._thread.join(HEAR_SECONDS)

    def _look(self) -> None:
        with contextlib.suppress(EOFError, OSError):
            while not self._is_over.is_set():
                due = time.monotonic() + ASK_SECONDS
                # All of it the first time; then what has changed, when the last change was taken.
                self._line.send(struct.pack(">BBHHHH", 3, self.updates > 0, 0, 0, self._width, self._height))
                self._hear()
                self._is_over.wait(max(0.0, due - time.monotonic()))

    def _hear(self) -> None:
        """Take messages up to the next update."""
        while (kind := self._take(1)[0]) != UPDATE:
            if kind == CUT_TEXT:
                self._take(struct.unpack(">3xI", self._take(7))[0])
            elif kind != BELL:
                raise EOFError(f"message {kind} is not expected")
        for _ in range(struct.unpack(">xH", self._take(3))[0]):
            _, _, width, height, encoding = struct.unpack(">HHHHi", self._take(12))
            if encoding == TIGHT:
                self._tight(width, height)
            else:
                self._take(4 * width * height)
        self.updates += 1

    def _tight(self, width: int, height: int) -> None:
        """Take a rectangle as the protocol's description of Tight cuts it, at three bytes a pixel."""
        control = self._take(1)[0] >> 4
        if control == FILL:
            self._take(3)
        elif control == JPEG:
            self._take(self._compact())
        else:
            size = self._filtered(width, height) if control & HAS_FILTER else 3 * width * height
            self._take(size if size < LEAST_PACKED else self._compact())

    def _filtered(self, width: int, height: int) -> int:
        if self._take(1)[0] != PALETTE:
            return 3 * width * height
        colours = self._take(1)[0] + 1
        self._take(3 * colours)
        return (width + 7) // 8 * height if colours == 2 else width * height

    def _compact(self) -> int:
        size = 0
        for shift in (0, 7, 14):
            byte = self._take(1)[0]
            size |= (byte & (0x7F if shift < 14 else 0xFF)) << shift
            if byte < 0x80:
                break
        return size


def looked(open_line: Callable[[], Line], count: int, seconds: float, spent: Callable[[], float]) -> Looked:
    """A second of so many viewers; `spent` answers the processor seconds that the server has had."""
    viewers = [Viewer(open_line()) for _ in range(count)]
    try:
        # The first pictures are whole, and not what is measured.
        Deadline(HEAR_SECONDS).wait_for(lambda: all(viewer.updates for viewer in viewers), ASK_SECONDS)
        before, started = _sums(viewers, spent), time.monotonic()
        time.sleep(seconds)
        after, took = _sums(viewers, spent), time.monotonic() - started
        return Looked(*((end - begin) / took for begin, end in zip(before, after, strict=True)))
    finally:
        for viewer in viewers:
            viewer.close()


def _sums(viewers: Sequence[Viewer], spent: Callable[[], float]) -> tuple[float, float, float]:
    return sum(viewer.updates for viewer in viewers), sum(viewer.received for viewer in viewers), spent()
