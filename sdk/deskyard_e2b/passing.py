"""The data plane: requests of a sandbox's clients to its desktop and back, as they come and without keeping any."""

import asyncio
import base64
import binascii
import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

import httpx
from deskyard_sdk import DesktopError
from deskyard_sdk.door import Door
from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import Message, Receive, Scope, Send

from deskyard_e2b import answers, environment
from deskyard_e2b.doors import SIGN_SECONDS, Ways
from deskyard_e2b.keeping import Keeping, Kept
from deskyard_e2b.keyring import Caller, Keyring
from deskyard_e2b.naming import desktop_id, machine_of
from deskyard_e2b.power import Power
from deskyard_e2b.stream import Streams

SANDBOX, PORT, TOKEN = "e2b-sandbox-id", "e2b-sandbox-port", "x-access-token"
ENVD_PORT = "49983"
START, STREAM_INPUT = "/process.Process/Start", "/process.Process/StreamInput"
CALL = "application/connect+json"
# A session that was ended, and a request that did not reach a gateway in its time: it passed neither on.
SESSION, LATE = "session", "lateness"
# A body that is read before it is passed on: the one message of a call, or a small one.
MOST_MESSAGE, SMALL = 16 << 20, 64 << 10
# What a client says to its desktop; keys and tokens are for nobody there. The gateway lets no packed answer through.
ASKED = (
    "content-type",
    "content-length",
    "content-encoding",
    "accept",
    "user-agent",
    "range",
)
ASKED_BEGINNINGS = ("connect-", "if-", "x-metadata-")
ANSWERED = ("content-type", "content-length", "content-range", "accept-ranges", "etag", "last-modified", "retry-after")
# As Connect names them, for calls; E2B's clients read the message.
CODES = {
    400: "invalid_argument", 401: "unauthenticated", 403: "permission_denied", 404: "not_found",
    413: "resource_exhausted", 429: "resource_exhausted", 501: "unimplemented",
}  # fmt: skip


@dataclass
class Asked:
    """A request as it comes: its body, a piece at a time, and when its client leaves."""

    receive: Receive
    pieces: asyncio.Queue[bytes | None] = field(default_factory=lambda: asyncio.Queue(1))

    async def listen(self) -> None:
        """Take what comes until the client is gone."""
        more = True
        while True:
            message = await self.receive()
            if message["type"] == "http.disconnect":
                return
            if more and message.get("body"):
                await self.pieces.put(message["body"])
            if more and not message.get("more_body", False):
                more = False
                await self.pieces.put(None)

    async def body(self) -> AsyncIterator[bytes]:
        """The body."""
        while (piece := await self.pieces.get()) is not None:
            yield piece

    async def whole(self) -> bytes:
        """The body at once, if it is of a size that a call has."""
        parts, size = [], 0
        async for piece in self.body():
            parts.append(piece)
            size += len(piece)
            if size > MOST_MESSAGE:
                raise DesktopError("body", str(size), "is too large", "start it with less, and send the rest", 413)
        return b"".join(parts)


@dataclass
class DataPlane:
    """Answers what stands behind `E2b-Sandbox-Id`."""

    keeping: Keeping
    keyring: Keyring
    ways: Ways
    power: Power = field(default_factory=Power)
    streams: Streams = field(default_factory=Streams)
    _environments: dict[tuple[str, bytes], dict[str, str]] = field(default_factory=dict)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request; without an answer's end, its connection is closed."""
        headers = Headers(scope=scope)
        has_begun = False

        async def sending(message: Message) -> None:
            nonlocal has_begun
            has_begun = True
            await send(message)

        try:
            kept, caller = self._admitted(headers)
            asked = Asked(receive)
            passing = asyncio.create_task(self._passed(kept, caller, scope, headers, asked, sending))
            leaving = asyncio.create_task(asked.listen())
            with self.ways.passing(kept.id, passing):
                try:
                    await asyncio.wait({passing, leaving}, return_when=asyncio.FIRST_COMPLETED)
                    if leaving.done() and not passing.done():
                        return
                    if passing.cancelled():
                        raise _gone(kept.id)
                    await passing
                finally:
                    for task in (passing, leaving):
                        task.cancel()
                    await asyncio.gather(passing, leaving, return_exceptions=True)
        except DesktopError as error:
            if not has_begun:
                await _refusal(error, scope["path"])(scope, receive, send)

    def _admitted(self, headers: Headers) -> tuple[Kept, Caller]:
        """The sandbox that a request is for, and by whose key; raises `DesktopError`."""
        id = headers.get(SANDBOX, "")
        kept = self.keeping.find(id)
        if kept is None or kept.killed:
            raise _gone(id)
        owner = self.keeping.owner_of(id, headers.get(TOKEN, ""))
        if owner is None:
            raise DesktopError("X-Access-Token", "", "is missing, or not of this sandbox", "connect to it again", 401)
        if (port := headers.get(PORT, ENVD_PORT)) != ENVD_PORT:
            reason = "is not reached from outside: a gateway lets no port of a desktop through"
            raise DesktopError("port", port, reason, "ask for it by a command on the desktop", 501)
        caller = self.keyring.known(owner)
        if caller is None:
            reason = "has not heard its key since it was started: keys are kept in memory alone"
            raise DesktopError("deskyard_e2b", id, reason, "call Sandbox.connect() once, or any call with the key", 503)
        return kept, caller

    async def _passed(
        self, kept: Kept, caller: Caller, scope: Scope, headers: Headers, asked: Asked, send: Send
    ) -> None:
        desktop = desktop_id(kept.id) or ""
        passed, path = _asked(headers), _path(scope, headers)
        try:
            content = await _content(scope["path"], headers, asked)
            is_start = scope["path"] == START
            if is_start and isinstance(content, bytes):
                content = self.streams.heard(kept, caller.owner, content)
            for is_last in (not isinstance(content, bytes | None), True):
                async with self.ways.door(kept.id, desktop, caller) as door:
                    if is_start and kept.environment and isinstance(content, bytes):
                        content = environment.added(content, await self._variables(kept, door))
                    if isinstance(content, bytes):
                        passed["content-length"] = str(len(content))
                    async with door.passing(scope["method"], path, headers=passed, content=content) as answer:
                        error = await _by_gateway(answer)
                        if error is None:
                            await _answer(answer, send)
                            return
                    if error.field == SESSION:
                        await self.ways.drop(kept.id, caller, door)
                # Nothing of it passed the gateway; but what came in pieces is not here to be sent again.
                if is_last or error.field not in (SESSION, LATE):
                    raise error
        except DesktopError as error:
            if error.status == 401:
                self.keyring.forget(caller.owner)
            raise await self._explained(error, kept, caller, desktop) from error

    async def _variables(self, kept: Kept, door: Door) -> dict[str, str]:
        about = (kept.id, kept.nonce)
        if about in self._environments:
            return self._environments[about]
        variables = await environment.read(door)
        # Of a sandbox that is gone, which this one may be by now, nothing is kept: its variables are often secrets.
        there = {(other.id, other.nonce) for other in self.keeping.all().values() if not other.killed}
        known = {**self._environments, about: variables}
        self._environments = {other: each for other, each in known.items() if other in there}
        return variables

    async def _explained(self, error: DesktopError, kept: Kept, caller: Caller, desktop: str) -> DesktopError:
        """Why a desktop was not reached, in the words that E2B's clients tell apart."""
        # 409: Mission Control gives no link to one that is paused.
        if error.status not in (0, 409, 502, 503, 504) or error.field in (SESSION, LATE):
            return error
        try:
            found = self.power.seen(await caller.mission.desktop(desktop))
        except DesktopError as unknown:
            return _gone(kept.id) if unknown.status == 404 else error
        if answers.state(found) == answers.PAUSED or found.get("machine") != machine_of(kept.id):
            return _gone(kept.id)
        reason = f"runs, but its port is not open ({error.reason})"
        return DesktopError("sandbox", kept.id, reason, "look at the desktop in Mission Control", 502)


async def _content(path: str, headers: Headers, asked: Asked) -> bytes | AsyncIterator[bytes] | None:
    """The body to pass on: a message or a small body whole, so that it can be sent again, any other as it comes."""
    length = headers.get("content-length", "")
    is_message = path != STREAM_INPUT and headers.get("content-type", "").startswith(CALL)
    if is_message or (length.isdecimal() and int(length) <= SMALL):
        return await asked.whole()
    return asked.body() if length or "transfer-encoding" in headers else None


async def _answer(answer: httpx.Response, send: Send) -> None:
    """Pass an answer on as it comes; raises `DesktopError` where it does not come to its end."""
    headers = [(name.encode(), answer.headers[name].encode()) for name in ANSWERED if name in answer.headers]
    await send({"type": "http.response.start", "status": answer.status_code, "headers": headers})
    # What a desktop itself refuses was read, to tell it from what its gateway says.
    async for chunk in answer.aiter_bytes() if answer.is_stream_consumed else answer.aiter_raw():
        await send({"type": "http.response.body", "body": chunk, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


async def _by_gateway(answer: httpx.Response) -> DesktopError | None:
    """The error that a gateway answers for a desktop; None for what the desktop itself says."""
    if answer.status_code not in (401, 403, 404, 408, 429, 502, 503, 504):
        return None
    content = await answer.aread()
    try:
        body = json.loads(content)
    except ValueError:
        body = {}
    if not isinstance(body, dict) or "code" in body:
        return None
    if answer.status_code == 401:
        reason = "was ended at the gateway"
        return DesktopError(SESSION, "", reason, "ask again: another one is opened, if the key may", 503)
    if answer.status_code == 408:
        return DesktopError(LATE, "", "the gateway did not get the request in its time", "ask again", 503)
    reason = str(body.get("message") or body.get("reason") or f"the gateway answers {answer.status_code}")
    return DesktopError(str(body.get("error") or "gateway"), "", reason, "wait a moment", answer.status_code)


def _asked(headers: Headers) -> dict[str, str]:
    passed = {name: headers[name] for name in headers if name in ASKED or name.startswith(ASKED_BEGINNINGS)}
    return {**passed, "accept-encoding": "identity", "keepalive-ping-interval": str(SIGN_SECONDS)}


def _path(scope: Scope, headers: Headers) -> str:
    """The path on the desktop; the account that a client names in a header stands in the query, as the door's own
    proof takes the header's place.
    """
    query = scope["query_string"].decode("latin-1")
    scheme, _, content = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "basic":
        with contextlib.suppress(binascii.Error, UnicodeDecodeError):
            account = urlencode({"username": base64.b64decode(content).decode().partition(":")[0]})
            query = f"{query}&{account}" if query else account
    path = scope["raw_path"].decode("latin-1").partition("?")[0]
    return f"{path}?{query}" if query else path


def _gone(id: str) -> DesktopError:
    """The words by which E2B's clients know that a sandbox runs no more."""
    return DesktopError("sandbox", id, "was not found", "it was killed or stopped: Sandbox.connect() starts it", 502)


def _refusal(error: DesktopError, path: str) -> JSONResponse:
    """An error as envd says it: a word for a call, a number for a file."""
    status = error.status or 502
    value = f" '{error.value}'" if error.value else ""
    body: dict[str, Any] = {"message": f"The {error.field}{value} {error.reason}: {error.remedy}"}
    is_call = path.count("/") == 2 and "." in path
    return JSONResponse({"code": CODES.get(status, "unavailable") if is_call else status, **body}, status)
