"""Does a desktop's route answer? A real WebSocket handshake or request, never just an open port."""

import base64
import hashlib
import os
import socket
import time
from dataclasses import dataclass

from deskyard.wire.routes import DESKTOP, ROUTES, Route

GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


@dataclass(frozen=True)
class Answered:
    """Whether a route answered as it should, and what it said or why not."""

    ready: bool
    detail: str
    milliseconds: int


def route(name: str, address: str, port: int, timeout: float = 5) -> Answered:
    """Ask one route: it must accept its sub-protocol, the desktop greet with RFB, a service for programs be well."""
    started = time.monotonic()
    try:
        with socket.create_connection((address, port), timeout) as line:
            detail = _asked(ROUTES[name], _Line(line, timeout), f"{address}:{port}")
        ready = True
    except (OSError, ValueError) as error:
        ready, detail = False, str(error) or type(error).__name__
    return Answered(ready, detail, int((time.monotonic() - started) * 1000))


class _Line:
    """A connection to what may be hostile: one that says a byte now and then holds up nobody for long."""

    def __init__(self, line: socket.socket, timeout: float) -> None:
        self._line, self._timeout, self._end = line, timeout, time.monotonic() + 2 * timeout
        self.sendall = line.sendall

    def recv(self, count: int) -> bytes:
        """Receive up to so many bytes, within the time that is left."""
        left = self._end - time.monotonic()
        if left <= 0:
            raise TimeoutError("takes too long")
        self._line.settimeout(min(self._timeout, left))
        return self._line.recv(count)


def _asked(route: Route, line: _Line, host: str) -> str:
    if route.for_programs:
        line.sendall(f"GET {route.path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
        status, _, _ = _answer(line)
        if status.split(" ")[1:2] != ["200"]:
            raise ValueError(f"is not well: {status[:80]}")
        return "answers"
    rest = _upgrade(line, host, route.path, route.protocol)
    return _greeting(line, rest) if route is DESKTOP else f"accepts {route.protocol}"


def _answer(line: _Line) -> tuple[str, dict[str, str], bytes]:
    """Status line and headers of an answer, and what came behind them."""
    answer = b""
    while b"\r\n\r\n" not in answer:
        part = line.recv(4096)
        if not part or len(answer) > 16384:
            raise ValueError("ended the connection within the answer")
        answer += part
    head, _, rest = answer.partition(b"\r\n\r\n")
    status, *lines = head.decode("latin-1").split("\r\n")
    pairs = (header.partition(":") for header in lines)
    return status, {name.strip().lower(): value.strip() for name, _, value in pairs}, rest


def _upgrade(line: _Line, host: str, path: str, protocol: str) -> bytes:
    key = base64.b64encode(os.urandom(16)).decode()
    line.sendall(
        f"GET {path} HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\nSec-WebSocket-Protocol: {protocol}\r\n\r\n".encode()
    )
    status, headers, rest = _answer(line)
    if status.split(" ")[1:2] != ["101"]:
        raise ValueError(f"refuses the upgrade: {status[:80]}")
    expected = base64.b64encode(hashlib.sha1((key + GUID).encode()).digest()).decode()
    if headers.get("sec-websocket-accept") != expected:
        raise ValueError("answers the upgrade with a wrong key")
    return rest


def _greeting(line: _Line, data: bytes) -> str:
    """The first frame must be the twelve bytes of RFB's version."""
    while len(data) < 14:
        part = line.recv(4096)
        if not part:
            raise ValueError("ended the connection before RFB's greeting")
        data += part
    greeting = data[2:14]
    if data[0] & 0x0F != 2 or not greeting.startswith(b"RFB ") or not greeting.endswith(b"\n"):
        raise ValueError("does not greet with RFB")
    return greeting.decode("ascii", "replace").strip()
