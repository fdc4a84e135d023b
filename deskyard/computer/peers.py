"""Who may connect: programs of the desktop, and the gateway, which is its way out. Nobody else is answered.

Pages of a browser in the desktop come from its loopback as programs do, and are nobody.
"""

import re
import socket
import struct
from http import HTTPStatus
from pathlib import Path
from typing import Any

from starlette.datastructures import Headers
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Receive, Scope, Send

from deskyard.computer.answers.answered import Answered
from deskyard.computer.caller import LOOPBACK
from deskyard.computer.problem import Problem, described
from deskyard.wire.computer import SCOPES_HEADER

TABLE = Path("/proc/net/route")
SOCKETS = Path("/proc/net/tcp")
ESTABLISHED = "01"
# What programs call this machine. A page may call it by a name of its own, whose address it changes as it likes.
OWN_NAMES = re.compile(r"(127\.0\.0\.1|localhost|\[::1\])(:[0-9]+)?")
PAGE = Problem(
    HTTPStatus.FORBIDDEN,
    "caller",
    None,
    "is a page of a browser, or names another host than 127.0.0.1",
    "ask from a program, at http://127.0.0.1 and without the headers Origin and Sec-Fetch-Site",
)


class Peers:
    """An application that others than the gateway and the desktop itself find empty."""

    def __init__(self, app: ASGIApp, table: Path = TABLE) -> None:
        self._app = app
        self._table = table

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on what comes from a peer that may ask."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope.get("client") and scope["client"][0] in LOOPBACK and is_page(Headers(scope=scope)):
            await Answered(described(PAGE), PAGE.status)(scope, receive, send)
        elif self._is_known(scope.get("client")):
            await self._app(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
        else:
            await send({"type": "http.response.start", "status": 403, "headers": [(b"content-length", b"0")]})
            await send({"type": "http.response.body", "body": b""})

    def _is_known(self, client: Any) -> bool:
        # Asked each time: a desktop that starts from saved memory gets its address after the service has begun.
        return client is not None and (client[0] in LOOPBACK or client[0] in gateways(self._table.read_text()))


def is_page(headers: Headers) -> bool:
    """Whether a request of the desktop itself comes from a page of its browser, as far as its headers say.

    Browsers name a page's origin wherever it may do harm or read. A program may name the service's own, as the SDK
    does: the service has no pages.
    """
    host = headers.get("host", "").lower()
    own = f"http://{host}"
    return not OWN_NAMES.fullmatch(host) or "sec-fetch-site" in headers or headers.get("origin", own) != own


def is_roots(connection: HTTPConnection, table: Path = SOCKETS) -> bool:
    """Whether a request comes from a program of this desktop that runs as root, by the kernel's table of sockets."""
    client = connection.client
    if client is None or client.host != LOOPBACK[0] or SCOPES_HEADER in connection.headers:
        return False
    rows = (line.split() for line in table.read_text().splitlines()[1:])
    # The socket of the other end: its own address is what we see as the client's.
    theirs = f"{struct.unpack('=I', socket.inet_aton(client.host))[0]:08X}:{client.port:04X}"
    return any(row[1] == theirs and row[3] == ESTABLISHED and row[7] == "0" for row in rows)


def gateways(table: str) -> set[str]:
    """The addresses of the default routes in the kernel's table of IPv4 routes."""
    rows = (line.split() for line in table.splitlines()[1:])
    return {
        socket.inet_ntoa(struct.pack("<I", int(row[2], 16)))
        for row in rows
        if len(row) > 7 and row[1] == "00000000" and row[7] == "00000000"
    }
