"""A client's WebSocket on the loopback address: whole messages of text, both ways.

Sent together with each program that imports it, so it knows only the standard library of Python 3.10 and later.
"""

import base64
import os
import socket
import threading
from typing import BinaryIO

CONTINUATION, TEXT, CLOSE, PING, PONG = 0, 1, 8, 9, 10
MAX_MESSAGE = 1 << 25
MAX_HEAD = 1 << 14
SMALL, MEDIUM = 126, 127


class NoWebSocket(Exception):
    """The other side speaks no WebSocket here."""


class WebSocket:
    """A connection that has just been made, from its first word on."""

    def __init__(self, link: socket.socket, host: str) -> None:
        self._link, self._write = link, threading.Lock()
        self._reader: BinaryIO = link.makefile("rb")
        nonce = base64.b64encode(os.urandom(16)).decode()
        upgrade = ("Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13")
        words = ("GET / HTTP/1.1", f"Host: {host}", f"Sec-WebSocket-Key: {nonce}", *upgrade, "", "")
        link.sendall("\r\n".join(words).encode())
        status = self._reader.readline(MAX_HEAD).decode("latin-1").split(" ", 2)
        while self._reader.readline(MAX_HEAD).strip():
            pass
        if status[1:2] != ["101"]:
            raise NoWebSocket(f"answered {' '.join(status[1:]).strip() or 'nothing'}")

    def send(self, text: str) -> None:
        """Send a message; several threads may."""
        self._frame(TEXT, text.encode())

    def receive(self) -> str | None:
        """The next message; none when the other side has ended."""
        message = b""
        while (head := self._reader.read(2)) and len(head) == 2:
            final, kind, size = head[0] & 0x80, head[0] & 0x0F, head[1] & 0x7F
            if size >= SMALL:
                size = int.from_bytes(self._reader.read(2 if size == SMALL else 8), "big")
            if size + len(message) > MAX_MESSAGE:
                raise ValueError("a message that is too long")
            payload = self._reader.read(size)
            if kind == CLOSE or len(payload) < size:
                return None
            if kind == PING:
                self._frame(PONG, payload)
            elif kind in (TEXT, CONTINUATION):
                message += payload
                if final:
                    return message.decode("utf-8", "replace")
        return None

    def _frame(self, kind: int, payload: bytes) -> None:
        size, mask = len(payload), os.urandom(4)
        if size < SMALL:
            length = bytes([0x80 | size])
        elif size < 1 << 16:
            length = bytes([0x80 | SMALL]) + size.to_bytes(2, "big")
        else:
            length = bytes([0x80 | MEDIUM]) + size.to_bytes(8, "big")
        stream = (mask * (size // 4 + 1))[:size]
        masked = (int.from_bytes(payload, "big") ^ int.from_bytes(stream, "big")).to_bytes(size, "big")
        with self._write:
            self._link.sendall(bytes([0x80 | kind]) + length + mask + masked)
