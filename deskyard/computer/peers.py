"""Who may connect: programs of the desktop, and the gateway, which is its way out. Nobody else is answered."""

import socket
import struct
from pathlib import Path
from typing import Any

from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Receive, Scope, Send

from deskyard.computer.caller import LOOPBACK
from deskyard.wire.computer import SCOPES_HEADER

TABLE = Path("/proc/net/route")
SOCKETS = Path("/proc/net/tcp")
ESTABLISHED = "01"


class Peers:
    """An application that others than the gateway and the desktop itself find empty."""

    def __init__(self, app: ASGIApp, table: Path = TABLE) -> None:
        self._app = app
        self._table = table

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on what comes from a peer that may ask."""
        if scope["type"] == "lifespan" or self._is_known(scope.get("client")):
            await self._app(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
        else:
            await send({"type": "http.response.start", "status": 403, "headers": [(b"content-length", b"0")]})
            await send({"type": "http.response.body", "body": b""})

    def _is_known(self, client: Any) -> bool:
        # Asked each time: a desktop that starts from saved memory gets its address after the service has begun.
        return client is not None and (client[0] in LOOPBACK or client[0] in gateways(self._table.read_text()))


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
