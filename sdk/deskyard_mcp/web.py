"""The server over HTTP, on loopback alone and for who has its token."""

import hmac
import socket
import sys

import uvicorn
from deskyard_sdk import DesktopError
from mcp.server.mcpserver import MCPServer
from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

LOOPBACK = "127.0.0.1"
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


async def serve(server: MCPServer[None], port: int, token: str) -> None:
    """Serve until ended; the address is said on standard error, for a port of 0 the one that was free."""
    with _listening(port) as listening:
        # Its Host and Origin are checked, too: a page of a browser gets no answer.
        application = Guard(server.streamable_http_app(streamable_http_path=PATH, host=LOOPBACK), token)
        config = uvicorn.Config(application, log_level="warning", access_log=False, timeout_graceful_shutdown=2)
        address = f"http://{LOOPBACK}:{listening.getsockname()[1]}{PATH}"
        print(f"deskyard-mcp: serving {address}", file=sys.stderr, flush=True)
        await uvicorn.Server(config).serve(sockets=[listening])


def _listening(port: int) -> socket.socket:
    try:
        return socket.create_server((LOOPBACK, port))
    except (OSError, OverflowError) as error:
        remedy = "give a port that nothing listens on, or 0"
        raise DesktopError("--http", str(port), f"cannot be listened on ({error})", remedy) from error
