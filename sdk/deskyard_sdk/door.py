"""The way to a desktop: through its gateway with a link that opens once, or straight from inside the desktop."""

import asyncio
import contextlib
import json
import socket
import ssl
import time
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidHandshake, InvalidStatus

from deskyard_sdk.errors import DesktopError, refusal, unreachable
from deskyard_sdk.keeping import Kept
from deskyard_sdk.lines import lines
from deskyard_sdk.waking import Waking

SILENT = HTTPStatus.SERVICE_UNAVAILABLE
# A session is renewed when so much of its time is left.
LEFT = 0.5
AGAIN_SECONDS = 5.0
# What a gateway answers of a session that is over. All else passes: its service begins anew, or its disk is full.
OVER = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND)
# A WebSocket may first have to start what it leads to.
OPEN_SECONDS = 75.0
LOOPBACK = "127.0.0.1"
# Who waits for an answer sends nothing, and would never hear that the other end is gone: this says so in 90 seconds,
# and ends no answer that takes long. Not each system has all of these names.
ALIVE = {"TCP_KEEPIDLE": 30, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 6}
KEEPALIVE = [
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    *((socket.IPPROTO_TCP, getattr(socket, name), number) for name, number in ALIVE.items() if hasattr(socket, name)),
]
# What the gateway itself answers comes at once.
GATEWAY_SECONDS = 30.0


class Door:
    """An open way to one desktop; it stays open as long as the session may be renewed."""

    def __init__(
        self,
        client: httpx.AsyncClient,
        base: str,
        facts: Mapping[str, Any],
        tls: ssl.SSLContext | None,
        kept: Kept | None = None,
        wake_within: float = 0,
    ) -> None:
        # Inside the desktop there is no gateway, and what asks there does not sleep.
        self._wake_within = wake_within if facts else 0
        self.base = base
        self.facts = dict(facts)
        self._client = client
        self._tls = tls
        self._kept = kept
        self._token = str(facts.get("token") or "")
        self._refused = False
        self._renewing = asyncio.create_task(self._renew()) if facts else None

    @property
    def is_over(self) -> bool:
        """Whether its session was refused another term, or has had its time: only a new link opens another."""
        return self._refused or (bool(self.facts) and time.time() >= float(self.facts["expires"]))

    async def close(self) -> None:
        """Close it; the session ends with its time, or by access.revoke."""
        if self._renewing:
            self._renewing.cancel()
            await asyncio.gather(self._renewing, return_exceptions=True)
        await self._client.aclose()

    async def json(self, method: str, path: str, **what: Any) -> dict[str, Any]:
        """Ask, and read the answer; raises `DesktopError` for a refusal."""
        content = await self.bytes(method, path, **what)
        return dict(json.loads(content)) if content else {}

    async def bytes(self, method: str, path: str, **what: Any) -> bytes:
        """Ask, and take the answer as it is."""
        async with self.stream(method, path, **what) as response:
            return await response.aread()

    @contextlib.asynccontextmanager
    async def stream(self, method: str, path: str, **what: Any) -> AsyncIterator[httpx.Response]:
        """Ask for an answer that is read as it comes."""
        async with self.passing(method, path, **what) as response:
            if response.status_code >= 400:
                raise refusal(response.status_code, await response.aread())
            yield response

    @contextlib.asynccontextmanager
    async def passing(self, method: str, path: str, **what: Any) -> AsyncIterator[httpx.Response]:
        """The same for who passes answers on: a refusal is an answer, too.

        A function as `content` gives what comes in pieces, anew for each time that it is sent.
        """
        given, content, waking = what.pop("headers", {}), what.pop("content", None), self._waking()
        try:
            while True:
                sent = {**what, "headers": {**self._bearer(), **given}}
                sent |= {} if content is None else {"content": content() if callable(content) else content}
                async with self._client.stream(method, self.base + path, **sent) as response:
                    # What else is answered is read by who asked.
                    body = await response.aread() if response.status_code == SILENT else b""
                    if not await waking.asks_again(response.status_code, body):
                        yield response
                        return
        except httpx.TransportError as error:
            raise unreachable(self.base + path, error) from error

    async def events(self, path: str, params: Mapping[str, Any]) -> AsyncGenerator[dict[str, Any], None]:
        """The server-sent events of a path; the name of each is its `event`, where its data has none."""
        kind = ""
        # A stream may be silent for as long as its signs of life are apart.
        async with self.stream("GET", path, params=params, timeout=httpx.Timeout(30, read=60)) as response:
            async for line in lines(response):
                if line.startswith("event: "):
                    kind = line.removeprefix("event: ")
                elif line.startswith("data: "):
                    yield {"event": kind, **json.loads(line.removeprefix("data: "))}

    def address(self, path: str) -> tuple[str, dict[str, str]]:
        """Where a WebSocket to the desktop is opened, and the headers that open it."""
        return self.base.replace("http", "ws", 1) + path, self._bearer()

    async def socket(self, path: str) -> ClientConnection:
        """A WebSocket to the desktop."""
        waking = self._waking()
        while True:
            url, headers = self.address(path)
            where: dict[str, Any] = {"host": LOOPBACK} if _is_here(urlsplit(url).hostname or "") else {}
            try:
                # As its requests, which httpx sends straight where it is given a transport.
                return await connect(
                    url,
                    additional_headers=headers,
                    ssl=self._tls,
                    max_size=None,
                    open_timeout=OPEN_SECONDS,
                    proxy=None,
                    **where,
                )
            except InvalidStatus as error:
                status, body = error.response.status_code, bytes(error.response.body or b"")
                if not await waking.asks_again(status, body):
                    raise refusal(status, body) from error
            except (OSError, EOFError, InvalidHandshake) as error:
                raise unreachable(url, error) from error

    def _waking(self) -> Waking:
        return Waking(self._wish, self._wake_within)

    async def _wish(self) -> httpx.Response:
        address = self.base.removesuffix("/computer") + "/drive"
        return await _posted(self._client, address, headers=self._bearer(), json={"action": "wake"})

    def _bearer(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self._token}"} if self._token else {}

    async def _renew(self) -> None:
        """Renew the session well before each end of it; what refuses that is heard of by the next request."""
        address = self.base.removesuffix("/computer") + "/renew"
        while True:
            ends = float(self.facts.get("renew_before") or self.facts["expires"])
            await asyncio.sleep(max(AGAIN_SECONDS, (ends - time.time()) * LEFT))
            try:
                renewed = await _renewed(self._client, address, self._token)
            except DesktopError:
                continue
            if renewed is None:
                self._refused = True
                return
            self.facts |= renewed
            self._token = str(self.facts.get("token") or "")
            if self._kept:
                # A full disk ends no session that is open.
                with contextlib.suppress(DesktopError):
                    self._kept.write(self.facts)


class Transport(httpx.AsyncHTTPTransport):
    """Goes to this machine for names below localhost, as browsers do; the certificate has to be the name's.

    A connection whose other end is gone ends.
    """

    def __init__(self, verify: ssl.SSLContext, uds: str | None = None) -> None:
        super().__init__(verify=verify, uds=uds, socket_options=None if uds else KEEPALIVE)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send it; its Host is the name all the same."""
        name = request.url.host
        if _is_here(name):
            request.extensions = {**request.extensions, "sni_hostname": name}
            request.url = request.url.copy_with(host=LOOPBACK)
        return await super().handle_async_request(request)


def _is_here(name: str) -> bool:
    # RFC 6761; not every resolver of a system knows it.
    return name.endswith(".localhost")


async def open_door(url: str, ca: str | None, session: str | Path | None = None, wake_within: float = 0) -> Door:
    """Open the way that a link `https://HOST:PORT/#TICKET` leads; a URL without a ticket is the service's own.

    A session that is kept in the file `session`, opened with the same link and not yet over, is gone on with. A desktop
    that sleeps is woken by what is asked, and waited for so many seconds at most; with 0 nothing is waited for.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise DesktopError("url", parts.netloc, "is no link to a desktop", "give the link of access.grant whole")
    origin = f"{parts.scheme}://{parts.netloc}"
    try:
        tls = ssl.create_default_context(cafile=ca) if parts.scheme == "https" else None
    except (OSError, ssl.SSLError) as error:
        remedy = "give the file that the gateway's certificate can be checked with"
        raise DesktopError("ca", str(ca), f"cannot be read ({error})", remedy) from error
    # The gateway gives sessions to its own pages, and to programs that say that they speak for it.
    own = {"Origin": origin}
    # Without TLS nothing is proved: to read all authorities of the machine would take longer than to connect.
    transport = Transport(verify=tls or ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))
    client = httpx.AsyncClient(headers=own, transport=transport, timeout=httpx.Timeout(30, read=None))
    try:
        if not parts.fragment:
            return Door(client, origin + parts.path.rstrip("/"), {}, tls)
        kept = Kept(session, url) if session else None
        facts = await _resumed(client, origin, kept.read()) if kept else {}
        if kept and not facts:
            # A session that cannot be kept must not cost the link.
            kept.write({})
        facts = facts or await _redeemed(client, origin, parts.fragment)
        if kept:
            kept.write(facts)
        return Door(client, f"{origin}{facts['path'].rstrip('/')}/computer", facts, tls, kept, wake_within)
    except BaseException:
        await client.aclose()
        raise


async def _redeemed(client: httpx.AsyncClient, origin: str, ticket: str) -> dict[str, Any]:
    response = await _posted(client, f"{origin}/redeem", json={"ticket": ticket})
    if response.status_code >= 400:
        raise refusal(response.status_code, response.content)
    facts: dict[str, Any] = response.json()
    if "computer" not in facts["routes"]:
        remedy = "ask for one with access.grant --mode agent"
        raise DesktopError("link", facts["desktop"], "opens no session of a program", remedy)
    return facts


async def _resumed(client: httpx.AsyncClient, origin: str, facts: dict[str, Any]) -> dict[str, Any]:
    """The session of these facts, renewed; nothing if there is none, or it is over."""
    if not facts:
        return {}
    renewed = await _renewed(client, f"{origin}{facts['path']}renew", facts["token"])
    return {} if renewed is None else {**facts, **renewed}


async def _renewed(client: httpx.AsyncClient, address: str, token: str) -> dict[str, Any] | None:
    """The news of a session; None of one that is over. Raises `DesktopError` where it may be good all the same."""
    response = await _posted(client, address, headers={"Authorization": f"Bearer {token}"})
    if response.status_code in OVER:
        return None
    if response.status_code >= HTTPStatus.BAD_REQUEST:
        raise refusal(response.status_code, response.content)
    try:
        return dict(response.json())
    except (ValueError, TypeError) as error:
        # Something between has answered in the gateway's place.
        raise unreachable(address, error) from error


async def _posted(client: httpx.AsyncClient, url: str, **what: Any) -> httpx.Response:
    try:
        return await client.post(url, timeout=GATEWAY_SECONDS, **what)
    except httpx.TransportError as error:
        raise unreachable(url, error) from error
