"""A VNC client that says through the door just what a test wants it to say."""

import struct
import time

from deskyard.gateway.view.websocket import BINARY, frame
from tests.gateway.support import Gateway, Opened
from tests.gateway.talkers import HEIGHT, WIDTH, exactly

KEY, POINTER, CUT_TEXT, XVP, RESIZE, QEMU = 4, 5, 6, 250, 251, 255
ASK = struct.pack(">BBHHHH", 3, 0, 0, 0, WIDTH, HEIGHT)
LOOKING = {
    0: struct.pack(">BxxxBBBBHHHBBBxxx", 0, 32, 24, 0, 1, 255, 255, 255, 16, 8, 0),
    2: struct.pack(">BxH3i", 2, 3, 0, -316, -308),
    150: struct.pack(">BBHHHH", 150, 1, 0, 0, WIDTH, HEIGHT),
    248: struct.pack(">BxxxIB", 248, 1, 3) + b"abc",
}
ACTING = {
    KEY: struct.pack(">BBxxI", KEY, 1, ord("k")),
    POINTER: struct.pack(">BBHH", POINTER, 1, 10, 10),
    CUT_TEXT: struct.pack(">Bxxxi", CUT_TEXT, 5) + b"paste",
    XVP: bytes([XVP, 0, 1, 2]),
    RESIZE: struct.pack(">BxHHBxIHHHHI", RESIZE, 640, 480, 1, 0, 0, 0, 640, 480, 0),
    QEMU: struct.pack(">BBHII", QEMU, 0, 1, ord("q"), 16),
}
EXTENDED_CUT_TEXT = struct.pack(">Bxxxi", CUT_TEXT, -8) + b"\x10\0\0\1zlib"


def opens_nothing(gateway: Gateway, cookie: str) -> bool:
    """Whether a session opens nothing any more.

    A connection that is on its way in while its session is ended is cut without an answer, which is no refusal yet.
    """
    try:
        return VncClient(gateway, cookie).status == 401
    except ConnectionError:
        return False


class VncClient:
    """One VNC connection; shakes hands on the way in."""

    def __init__(self, gateway: Gateway, cookie: str, desktop: str = "d1", shared: int = 1, place: str = "vnc") -> None:
        self.opened: Opened = gateway.upgrade(f"/d/{desktop}/{place}", cookie)
        self.status = self.opened.status
        self._pending = self.opened.rest
        self._said = b""
        if self.status != 101:
            return
        self.opened.line.settimeout(20)
        assert self._take(12) == b"RFB 003.008\n"
        self.say(b"RFB 003.008\n")
        assert self._take(2) == b"\x01\x01"
        self.say(b"\x01")
        assert self._take(4) == b"\0\0\0\0"
        self.say(bytes([shared]))
        name = struct.unpack(">20xI", self._take(24))[0]
        self._take(name)

    def say(self, data: bytes) -> None:
        """Send it as one binary frame."""
        self.raw(frame(BINARY, data))

    def raw(self, data: bytes) -> None:
        """Send these bytes."""
        self.opened.line.sendall(data)

    def echo(self) -> None:
        """Wait until the desktop has seen everything that was sent: it answers a ping."""
        word = f"{time.monotonic()}".encode()
        self.raw(frame(9, word))
        seen = b""
        while word not in seen:
            seen = seen[-64:] + self.opened.line.recv(65536)

    def picture(self) -> None:
        """Ask for the picture and wait until all of it is there."""
        self.say(ASK)
        self._take(16 + 4 * WIDTH * HEIGHT)

    def closes(self) -> bool:
        """Whether the connection ends."""
        try:
            while self.opened.line.recv(65536):
                pass
        except TimeoutError:
            return False
        except OSError:
            return True
        return True

    def _take(self, size: int) -> bytes:
        """Bytes of RFB out of the server's frames."""
        while len(self._said) < size:
            head = self._exactly(2)
            length = head[1]
            if length == 126:
                length = struct.unpack(">H", self._exactly(2))[0]
            elif length == 127:
                length = struct.unpack(">Q", self._exactly(8))[0]
            self._said += self._exactly(length)
        taken, self._said = self._said[:size], self._said[size:]
        return taken

    def _exactly(self, size: int) -> bytes:
        taken, self._pending = self._pending[:size], self._pending[size:]
        return taken + exactly(self.opened.line, size - len(taken))
