"""Desktops played by a small WebSocket server."""

import base64
import contextlib
import hashlib
import re
import socket
import threading
from collections.abc import Callable, Sequence

from deskyard.wire.computer import SCOPES_HEADER, SESSIONS_PATH
from tests.gateway.talkers import receive

GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


def echo(line: socket.socket) -> None:
    """Say the own address, then send back what comes in frames."""
    address, port = line.getsockname()
    line.sendall(f"{address}:{port}|".encode())
    while True:
        line.sendall(receive(line) + b"|")


class FakeDesktops:
    """Answers upgrades like a desktop, then talks: if not told otherwise, says its address and echoes."""

    def __init__(
        self, addresses: Sequence[tuple[str, int]], talk: Callable[[socket.socket], None] | None = None
    ) -> None:
        self.talk = talk or echo
        self.requests: list[str] = []
        self.endings: list[str] = []  # the gateway's own word of sessions that are over, which it says at any time
        self.answer: bytes | None = None  # instead of an upgrade
        self.holds = False  # whether the connection stays open after that answer
        self._lines: list[socket.socket] = []
        self._listeners = [socket.create_server(address) for address in addresses]
        for listener in self._listeners:
            threading.Thread(target=self._accept, args=(listener,), daemon=True).start()

    def close(self) -> None:
        for listener in self._listeners:
            # Closing alone would leave the thread that waits in it one more connection.
            with contextlib.suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            listener.close()

    def hang_up(self) -> None:
        """End all connections, as a desktop that restarts."""
        for line in self._lines:
            with contextlib.suppress(OSError):
                line.shutdown(socket.SHUT_RDWR)

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                line, _ = listener.accept()
            except OSError:
                return
            self._lines.append(line)
            threading.Thread(target=self._serve, args=(line,), daemon=True).start()

    def _serve(self, line: socket.socket) -> None:
        with line:
            try:
                head = b""
                while b"\r\n\r\n" not in head:
                    part = line.recv(4096)
                    if not part:
                        return  # somebody only looked whether it answers
                    head += part
                ends = head.startswith(f"PUT {SESSIONS_PATH} ".encode()) and SCOPES_HEADER.encode() not in head.lower()
                (self.endings if ends else self.requests).append(head.decode())
                # A connection that is closed with something unread takes the answer back.
                left = re.search(rb"\r\ncontent-length: (\d+)\r\n", head.lower())
                while left and len(head.partition(b"\r\n\r\n")[2]) < int(left[1]):
                    head += line.recv(4096)
                answer, holds = self.answer, self.holds
                if answer is not None:
                    line.sendall(answer)
                    if holds:
                        line.recv(1)
                    return
                fields = dict(line.split(": ", 1) for line in head.decode().split("\r\n")[1:] if ": " in line)
                lower = {name.lower(): value for name, value in fields.items()}
                if "upgrade" not in lower:
                    # What a program asks for: here it is told what of it came.
                    line.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nSet-Cookie: planted=1\r\n")
                    line.sendall(f"Content-Length: {len(head)}\r\nConnection: close\r\n\r\n".encode() + head)
                    return
                key, wanted = lower["sec-websocket-key"], lower.get("sec-websocket-protocol")
                protocol = f"Sec-WebSocket-Protocol: {wanted}\r\n" if wanted else ""
                accept = base64.b64encode(hashlib.sha1((key + GUID).encode()).digest()).decode()
                line.sendall(
                    (
                        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                        f"Sec-WebSocket-Accept: {accept}\r\n{protocol}Set-Cookie: planted=1\r\n"
                        "X-Planted: 1\r\n\r\n"
                    ).encode()
                )
                self.talk(line)
            except OSError:
                return
