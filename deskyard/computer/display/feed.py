"""The events as a stream: WebSocket, or server-sent events that a browser takes up again where it was."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

from starlette.requests import HTTPConnection, Request
from starlette.responses import Response
from starlette.websockets import WebSocket, WebSocketDisconnect

from deskyard.computer.caller import caller
from deskyard.computer.display.events import KINDS, NEEDED, Log
from deskyard.computer.fields import query, wrong
from deskyard.computer.problem import Problem, deny
from deskyard.computer.streams import ALIVE, ALIVE_SECONDS, event, last_id, or_silence, sent
from deskyard.wire.computer import SEE

MOST_FEEDS = 64
WENT_WRONG = 1011


class Feed:
    """Hands the log's events to whoever listens."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._open = 0

    def _asked(self, connection: HTTPConnection) -> tuple[int, frozenset[str]]:
        """From which event on, and which kinds."""
        who = caller(connection)
        who.require(SEE)
        fields = query(connection)
        after = fields.integer("after", 0, 1 << 53, last_id(connection, self._log.last))
        kinds = frozenset(filter(None, fields.text("events", "").split(",")))
        fields.done()
        if unknown := kinds - set(KINDS):
            raise wrong("events", sorted(unknown)[0], "is no kind of event", f"give some of: {', '.join(KINDS)}")
        for kind in sorted(kinds & NEEDED.keys()):
            who.require(NEEDED[kind])
        if self._open >= MOST_FEEDS:
            raise wrong("events", self._open, "streams are open already", "close one of them")
        # Who asks for all hears of all that they may know.
        return after, kinds or frozenset(kind for kind in KINDS if NEEDED.get(kind, SEE) in who.scopes)

    async def _events(self, after: int, kinds: frozenset[str]) -> AsyncIterator[dict[str, Any]]:
        self._open += 1
        try:
            async for event in self._log.stream(after):
                if event["event"] in kinds or event["event"] == "events.lost":
                    yield event
        finally:
            self._open -= 1

    async def sse(self, request: Request) -> Response:
        """GET /v1/events."""
        return sent(self._lines(*self._asked(request)))

    async def _lines(self, after: int, kinds: frozenset[str]) -> AsyncIterator[bytes]:
        yield b": listening\n\n"
        async with (
            contextlib.aclosing(self._events(after, kinds)) as events,  # type: ignore[type-var]
            contextlib.aclosing(or_silence(events.__anext__, ALIVE_SECONDS)) as pieces,
        ):
            async for happened in pieces:
                yield ALIVE if happened is None else event(None, happened, happened["seq"])

    async def websocket(self, socket: WebSocket) -> None:
        """WS /v1/events: one event a message."""
        try:
            after, kinds = self._asked(socket)
        except Problem as problem:
            await deny(socket, problem)
            return
        await socket.accept()
        sending = asyncio.ensure_future(self._send(socket, after, kinds))
        leaving = asyncio.ensure_future(_left(socket))
        try:
            await asyncio.wait({sending, leaving}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            sending.cancel()
            leaving.cancel()
            await asyncio.wait({sending, leaving})
        if not sending.cancelled():
            # A listener that hears nothing more must know: it comes again for what it missed.
            with contextlib.suppress(WebSocketDisconnect, RuntimeError):
                await socket.close(WENT_WRONG)
            sending.result()

    async def _send(self, socket: WebSocket, after: int, kinds: frozenset[str]) -> None:
        with contextlib.suppress(WebSocketDisconnect, RuntimeError):
            async with contextlib.aclosing(self._events(after, kinds)) as events:  # type: ignore[type-var]
                async for happened in events:
                    await socket.send_json(happened)


async def _left(socket: WebSocket) -> None:
    """Return when the listener leaves; nothing else is expected of it."""
    while (await socket.receive())["type"] != "websocket.disconnect":
        pass
