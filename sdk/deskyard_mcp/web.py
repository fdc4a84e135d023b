"""The server over HTTP, on loopback alone and for who has its token."""

import hmac
import socket
import sys

import uvicorn
from deskyard_sdk import DesktopError
from mcp.server.streamable_http_manager import StreamableHTTPASGIApp
from mcp.server.transport_security import TransportSecuritySettings
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from deskyard_mcp.resuming import Sessions
from deskyard_mcp.server import DesktopServer

LOOPBACK = "127.0.0.1"
NAMES = (LOOPBACK, "localhost", "[::1]")
PATH = "/mcp"


class Guard:
    """Lets requests with the bearer token through; other programs of this machine reach the port as well."""

    def __init__(self, application: ASGIApp, token: str) -> None:
        self._application = application
        self._expected = f"Bearer {token}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] == "http":
            given = Headers(scope=scope).get("authorization", "").encode()
            if not hmac.compare_digest(given, self._expected):
                body = {"error": "authorization", "value": "", "reason": "is missing or wrong"}
                body["remedy"] = "send Authorization: Bearer with the token that the server was started with"
                refusal = JSONResponse(body, 401, headers={"WWW-Authenticate": "Bearer"})
                await refusal(scope, receive, send)
                return
        await self._application(scope, receive, send)


def application(server: DesktopServer, token: str) -> ASGIApp:
    """The server for who has the token and for no page of a browser; a stream that broke can be gone on with."""
    names = [f"{name}:*" for name in NAMES]
    security = TransportSecuritySettings(
        enable_dns_rebinding_protection=True, allowed_hosts=names, allowed_origins=[f"http://{name}" for name in names]
    )
    sessions = Sessions(server.protocol, security_settings=security)
    routes = [Route(PATH, StreamableHTTPASGIApp(sessions))]
    return Guard(Starlette(routes=routes, lifespan=lambda _: sessions.run()), token)


async def serve(server: DesktopServer, port: int, token: str) -> None:
    """Serve until ended; the address is said on standard error, for a port of 0 the one that was free."""
    with _listening(port) as listening:
        config = uvicorn.Config(
            application(server, token), log_level="warning", access_log=False, timeout_graceful_shutdown=2
        )
        address = f"http://{LOOPBACK}:{listening.getsockname()[1]}{PATH}"
        print(f"deskyard-mcp: serving {address}", file=sys.stderr, flush=True)
        await uvicorn.Server(config).serve(sockets=[listening])


def _listening(port: int) -> socket.socket:
    try:
        return socket.create_server((LOOPBACK, port))
    except (OSError, OverflowError) as error:
        remedy = "give a port that nothing listens on, or 0"
        raise DesktopError("--http", str(port), f"cannot be listened on ({error})", remedy) from error
