"""The program as a whole: both planes at one address, on loopback unless it has a certificate."""

import asyncio
import contextlib
import ipaddress
import logging
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

import uvicorn
from deskyard_sdk import DesktopError
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from deskyard_e2b.control import ControlPlane
from deskyard_e2b.doors import Ways
from deskyard_e2b.ending import DESTROY, STOP, Ending
from deskyard_e2b.keeping import Keeping
from deskyard_e2b.keyring import Keyring, Opens
from deskyard_e2b.naming import NOWHERE, Choice, port_and_sandbox
from deskyard_e2b.passing import ENVD_PORT, PORT, SANDBOX, DataPlane
from deskyard_e2b.sandboxes import Sandboxes
from deskyard_e2b.stream import PAGE, StreamPage

GRACE_SECONDS = 2
# A client that left, or a sandbox that was killed, leaves an answer without its end: that is meant.
MEANT = "ASGI callable returned without completing response."


@dataclass(frozen=True)
class Program:
    """The parts, put together; `run` is what goes on beside requests."""

    keeping: Keeping
    keyring: Keyring
    ways: Ways
    ending: Ending
    application: ASGIApp


def compose(
    keeping: Keeping,
    opens: Opens,
    default: Choice | None = None,
    action: str = STOP,
    ways: Ways | None = None,
    domain: str = NOWHERE,
) -> Program:
    """Put the parts together; `opens` gives Mission Control by a key."""
    ways = ways or Ways()
    keyring = Keyring(opens)
    sandboxes = Sandboxes(keeping, ways, default or Choice(), action == DESTROY, domain)
    ending = Ending(sandboxes, keyring, action)
    sandboxes.changed = keyring.heard = ending.look

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        running = asyncio.create_task(ending.run())
        try:
            yield
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            await ways.close()
            await keyring.close()

    control = Starlette(routes=ControlPlane(sandboxes, keyring).routes(), lifespan=lifespan)
    data = DataPlane(keeping, keyring, ways, sandboxes.power, sandboxes.streams)
    page = StreamPage(keeping, keyring, sandboxes.streams)
    return Program(keeping, keyring, ways, ending, Planes(control, data, page, domain))


@dataclass(frozen=True)
class Planes:
    """Takes a request to its plane: only those of a sandbox name it, in a header or by their host, and its stream's."""

    control: ASGIApp
    data: ASGIApp
    stream: StreamPage
    domain: str = NOWHERE

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] == "http":
            headers = Headers(scope=scope)
            # Older clients say it by the host alone, and the header goes first where both are there.
            if SANDBOX not in headers and (said := port_and_sandbox(headers.get("host", ""), self.domain)):
                if scope["path"] == PAGE and said[0] != ENVD_PORT:
                    await self.stream(scope, receive, send, said[1])
                    return
                named = zip((PORT.encode(), SANDBOX.encode()), (each.encode() for each in said), strict=True)
                scope = {**scope, "headers": [*scope["headers"], *named]}
        is_data = scope["type"] == "http" and any(name == SANDBOX.encode() for name, _ in scope["headers"])
        await (self.data if is_data else self.control)(scope, receive, send)


@dataclass(frozen=True)
class Listening:
    """Where the program listens: `certificate` has the chain and `key` its private key."""

    host: str = "127.0.0.1"
    port: int = 0
    certificate: str | None = None
    key: str | None = None

    def open(self) -> socket.socket:
        """The socket; raises `DesktopError` for an address that others reach without a certificate."""
        if not self.certificate and not _is_loopback(self.host):
            remedy = "give --certificate and --certificate-key, or listen on 127.0.0.1"
            raise DesktopError("--host", self.host, "is reached by others, who would read the keys", remedy)
        try:
            family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
            return socket.create_server((self.host, self.port), family=family)
        except (OSError, OverflowError) as error:
            remedy = "give an address of this machine, and a port that nothing listens on, or 0"
            raise DesktopError(
                "--port", f"{self.host}:{self.port}", f"cannot be listened on ({error})", remedy
            ) from error

    def require_certificate(self) -> None:
        """Raise `DesktopError` where the certificate cannot be used."""
        if not self.certificate:
            return
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(self.certificate, self.key)
        except (OSError, ssl.SSLError) as error:
            remedy = "give the chain and its private key as PEM files"
            raise DesktopError("--certificate", self.certificate, f"cannot be used ({error})", remedy) from error

    def url(self, listening: socket.socket) -> str:
        """The address for clients."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.certificate else 'http'}://{host}:{listening.getsockname()[1]}"


def server(program: Program, where: Listening, ready: Callable[[], None]) -> "Ready":
    """The server of a program; `ready` is called as soon as requests are answered."""
    logging.getLogger("uvicorn.error").addFilter(_is_no_cut)
    config = uvicorn.Config(
        program.application,
        log_level="warning",
        access_log=False,
        timeout_graceful_shutdown=GRACE_SECONDS,
        ssl_certfile=where.certificate,
        ssl_keyfile=where.key,
    )
    return Ready(config, ready, program.ways)


class Ready(uvicorn.Server):
    """A server that says when it serves, and cuts what passes to desktops when it ends."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None], ways: Ways) -> None:
        super().__init__(config)
        self._ready, self._ways = ready, ways

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to serve."""
        await super().startup(sockets)
        self._ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End: streams, which would go on for hours, first."""
        await self._ways.close()
        await super().shutdown(sockets)


def _is_no_cut(record: logging.LogRecord) -> bool:
    return record.getMessage() != MEANT


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
