"""An independent witness of streams: libvncclient of Debian decodes them, by a bridge from its socket to ours."""

import contextlib
import ctypes
import socket
import threading
import time
from collections.abc import Callable, Iterator

from PIL import Image
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

PATIENCE = 60.0
LIBRARY = "libvncclient.so.1"


class AppData(ctypes.Structure):
    """The head of rfb/rfbclient.h's settings, unchanged since 0.9.8."""

    _fields_ = (
        ("shared", ctypes.c_int8), ("view_only", ctypes.c_int8), ("encodings", ctypes.c_char_p),
        ("bgr233", ctypes.c_int8), ("colours", ctypes.c_int), ("own_map", ctypes.c_int8),
        ("true_colour", ctypes.c_int8), ("depth", ctypes.c_int), ("compression", ctypes.c_int),
        ("quality", ctypes.c_int), ("jpeg", ctypes.c_int8), ("remote_cursor", ctypes.c_int8),
    )  # fmt: skip


class Client(ctypes.Structure):
    """The head of its client."""

    _fields_ = (
        ("pixels", ctypes.POINTER(ctypes.c_uint8)), ("width", ctypes.c_int), ("height", ctypes.c_int),
        ("endian", ctypes.c_int), ("settings", AppData),
    )  # fmt: skip


class Witness:
    """A viewer of one stream, in the pixels and encoding that it asks for."""

    def __init__(self, port: int, encodings: str, quality: int | None) -> None:
        self._library = ctypes.CDLL(LIBRARY)
        self._library.rfbGetClient.restype = ctypes.POINTER(Client)
        self._client = self._library.rfbGetClient(8, 3, 4)
        settings = self._client.contents.settings
        settings.jpeg = quality is not None
        settings.quality = quality or 0
        settings.compression = 1
        words = [b"witness", b"-encodings", encodings.encode(), f"127.0.0.1:{port}".encode()]
        arguments = (ctypes.c_char_p * len(words))(*words)
        count = ctypes.c_int(len(words))
        assert self._library.rfbInitClient(self._client, ctypes.byref(count), arguments), "libvncclient did not get in"

    def hear(self) -> bool:
        """Take the next message; false when the connection is over."""
        waited = self._library.WaitForMessage(self._client, int(PATIENCE * 1e6))
        assert waited != 0, "nothing came"
        return waited > 0 and bool(self._library.HandleRFBServerMessage(self._client))

    def picture(self) -> Image.Image:
        """What it shows."""
        client = self._client.contents
        size = client.width, client.height
        data = ctypes.string_at(client.pixels, size[0] * size[1] * 4)
        return Image.frombytes("RGB", size, data, "raw", "RGBX")

    def until(self, suits: Callable[[Image.Image], bool], what: str) -> Image.Image:
        """Take messages until the picture suits."""
        end = time.monotonic() + PATIENCE
        while not suits(shown := self.picture()):
            assert time.monotonic() < end, f"never shown: {what}"
            assert self.hear(), f"the stream ended before: {what}"
        return shown

    def close(self) -> None:
        """Leave."""
        self._library.rfbClientCleanup(self._client)


@contextlib.contextmanager
def witness(url: str, encodings: str = "raw", quality: int | None = None) -> Iterator[Witness]:
    """A witness at the stream of this address."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        bridge = threading.Thread(target=_bridge, args=(url, listening))
        bridge.start()
        found = Witness(listening.getsockname()[1], encodings, quality)
        try:
            yield found
        finally:
            found.close()
            bridge.join(20)
            assert not bridge.is_alive()


def _bridge(url: str, listening: socket.socket) -> None:
    listening.settimeout(PATIENCE)
    line, _ = listening.accept()
    with line, connect(url, subprotocols=["binary"], max_size=None, compression=None) as stream:  # type: ignore[list-item]
        assert stream.subprotocol == "binary"

        def said() -> None:
            with contextlib.suppress(OSError, ConnectionClosed):
                while data := line.recv(65536):
                    stream.send(data)
            stream.close()

        hearing = threading.Thread(target=said)
        hearing.start()
        with contextlib.suppress(OSError, ConnectionClosed):
            for message in stream:
                assert isinstance(message, bytes)
                line.sendall(message)
        with contextlib.suppress(OSError):
            line.shutdown(socket.SHUT_RDWR)
        hearing.join(20)
