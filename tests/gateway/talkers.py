"""Just enough of RFB and of ttyd's protocol to show a browser one colour and to echo what it types."""

import json
import socket
import struct
from collections.abc import Callable
from dataclasses import dataclass, field

WIDTH, HEIGHT = 320, 200
COLOUR = (0x20, 0x90, 0x20)  # the same with red and blue swapped, as clients choose their own order


def send(line: socket.socket, data: bytes) -> None:
    """Send one binary WebSocket message."""
    size = len(data)
    head = bytes([size]) if size < 126 else b"\x7e" + struct.pack(">H", size) if size < 65536 else None
    line.sendall(b"\x82" + (head or b"\x7f" + struct.pack(">Q", size)) + data)


def receive(line: socket.socket) -> bytes:
    """Read one WebSocket message of a client."""
    return receive_frame(line)[1]


def receive_frame(line: socket.socket) -> tuple[int, bytes]:
    """Read one WebSocket frame of a client."""
    first, second = exactly(line, 2)
    size = second & 0x7F
    if size == 126:
        size = struct.unpack(">H", exactly(line, 2))[0]
    elif size == 127:
        size = struct.unpack(">Q", exactly(line, 8))[0]
    mask = exactly(line, 4)
    data = bytes(byte ^ mask[n % 4] for n, byte in enumerate(exactly(line, size)))
    if first & 0x0F == 8:
        raise ConnectionError("closed by the browser")
    return first & 0x0F, data


def exactly(line: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = line.recv(size - len(data))
        if not part:
            raise ConnectionError("closed")
        data += part
    return data


@dataclass
class Talker:
    """Plays desktop and terminal, and remembers what the browser sent."""

    terminal_port: Callable[[], int]
    keys: list[int] = field(default_factory=list)
    pointers: int = 0
    typed: str = ""
    size: dict[str, int] = field(default_factory=dict)
    kinds: list[int] = field(default_factory=list)  # of messages, in the order they came, update requests left out
    encodings: list[int] = field(default_factory=list)
    shared: list[int] = field(default_factory=list)
    hostile: bytes = b""  # said instead of a picture
    name: bytes = b"<b>played</b>"
    _buffers: dict[int, bytes] = field(default_factory=dict)

    def __call__(self, line: socket.socket) -> None:
        if line.getsockname()[1] == self.terminal_port():
            self._terminal(line)
        else:
            self._desktop(line)

    def _terminal(self, line: socket.socket) -> None:
        self.size = json.loads(receive(line))
        send(line, b"0hello from the terminal\r\n$ ")
        while True:
            message = receive(line)
            if message[:1] == b"0":
                self.typed += message[1:].decode()
                send(line, message)

    def _desktop(self, line: socket.socket) -> None:
        self._buffers[line.fileno()] = b""
        send(line, b"RFB 003.008\n")
        self._take(line, 12)
        send(line, b"\x01\x01")  # one kind of security: none
        self._take(line, 1)
        send(line, b"\0\0\0\0")
        self.shared.append(self._take(line, 1)[0])
        form = struct.pack(">BBBBHHHBBBxxx", 32, 24, 0, 1, 255, 255, 255, 16, 8, 0)
        send(line, struct.pack(">HH", WIDTH, HEIGHT) + form + struct.pack(">I", len(self.name)) + self.name)
        painted = False
        while True:
            kind = self._take(line, 1)[0]
            if kind == 3:
                self._take(line, 9)
                if not painted:
                    send(line, self.hostile or self._picture())
                    painted = True
            else:
                self._other(line, kind)

    def _other(self, line: socket.socket, kind: int) -> None:
        """Take in any other message, with lengths written down here a second time, from the protocol's description."""
        self.kinds.append(kind)
        if kind == 0:
            self._take(line, 19)
        elif kind == 2:
            count = struct.unpack(">xH", self._take(line, 3))[0]
            self.encodings = list(struct.unpack(f">{count}i", self._take(line, 4 * count)))
        elif kind == 4:
            self.keys.append(struct.unpack(">BxxI", self._take(line, 7))[1])
        elif kind == 5:
            self._take(line, 5)
            self.pointers += 1
        elif kind == 6:
            self._take(line, abs(struct.unpack(">xxxi", self._take(line, 7))[0]))
        elif kind == 150:
            self._take(line, 9)
        elif kind == 248:
            self._take(line, self._take(line, 8)[7])
        elif kind == 250:
            self._take(line, 3)
        elif kind == 251:
            self._take(line, 16 * self._take(line, 7)[5])
        elif kind == 255:
            self._take(line, 11)
        else:
            raise ConnectionError(f"unexpected message {kind}")

    def _take(self, line: socket.socket, size: int) -> bytes:
        buffer = self._buffers[line.fileno()]
        while len(buffer) < size:
            buffer += self._receive(line)
        self._buffers[line.fileno()] = buffer[size:]
        return buffer[:size]

    def _receive(self, line: socket.socket) -> bytes:
        """A message; a ping is answered on the way."""
        while True:
            opcode, data = receive_frame(line)
            if opcode != 9:
                return data
            line.sendall(bytes([0x8A, len(data)]) + data)

    @staticmethod
    def _picture() -> bytes:
        pixels = bytes([*COLOUR, 0]) * (WIDTH * HEIGHT)
        return struct.pack(">BxHHHHHi", 0, 1, 0, 0, WIDTH, HEIGHT, 0) + pixels
