"""The events as a stream: WebSocket, or server-sent events that a browser takes up again where it was."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator

from starlette.requests import HTTPConnection, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.websockets import WebSocket, WebSocketDisconnect

from deskyard.computer.caller import caller
from deskyard.computer.display.events import KINDS, Log
from deskyard.computer.display.fields import wrong
from deskyard.computer.problem import Problem, described
from deskyard.wire.computer import SEE

ALIVE_SECONDS = 20
MOST_FEEDS = 64


class Feed:
    """Hands the log's events to whoever listens."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._open = 0

    def _asked(self, connection: HTTPConnection) -> tuple[int, frozenset[str]]:
        """From which event on, and which kinds."""
        caller(connection).require(SEE)
        query = dict(connection.query_params)
        after = query.pop("after", connection.headers.get("last-event-id", str(self._log.last)))
        kinds = frozenset(filter(None, query.pop("events", "").split(",")))
        for name, value in query.items():
            raise wrong(name, value, "is not known here", "leave it out; known are: after, events")
        if not (after.isascii() and after.isdigit() and len(after) < 16):
            raise wrong("after", after, "is no number of an event", "give the seq of the last event that was seen")
        if unknown := kinds - set(KINDS):
            raise wrong("events", sorted(unknown)[0], "is no kind of event", f"give some of: {', '.join(KINDS)}")
        if self._open >= MOST_FEEDS:
            raise wrong("events", self._open, "streams are open already", "close one of them")
        return int(after), kinds

    async def _events(self, after: int, kinds: frozenset[str]) -> AsyncIterator[tuple[int, str]]:
        self._open += 1
        try:
            async for event in self._log.stream(after):
                if not kinds or event["event"] in kinds or event["event"] == "events.lost":
                    yield event["seq"], json.dumps(event)
        finally:
            self._open -= 1

    async def sse(self, request: Request) -> Response:
        """GET /v1/events."""
        after, kinds = self._asked(request)

        async def lines() -> AsyncIterator[str]:
            yield ": listening\n\n"
            async with contextlib.aclosing(self._events(after, kinds)) as events:  # type: ignore[type-var]
                following = asyncio.ensure_future(anext(events))
                try:
                    while True:
                        done, _ = await asyncio.wait([following], timeout=ALIVE_SECONDS)
                        if not done:
                            yield ": alive\n\n"
                            continue
                        seq, data = following.result()
                        yield f"id: {seq}\ndata: {data}\n\n"
                        following = asyncio.ensure_future(anext(events))
                finally:
                    following.cancel()
                    await asyncio.wait([following])

        return StreamingResponse(lines(), media_type="text/event-stream", headers={"cache-control": "no-store"})

    async def websocket(self, socket: WebSocket) -> None:
        """WS /v1/events: one event a message."""
        try:
            after, kinds = self._asked(socket)
        except Problem as problem:
            await socket.send_denial_response(JSONResponse(described(problem), int(problem.status)))
            return
        await socket.accept()
        sending = asyncio.ensure_future(self._send(socket, after, kinds))
        try:
            # Nothing is expected of the listener but its leaving.
            while (await socket.receive())["type"] != "websocket.disconnect":
                pass
        finally:
            sending.cancel()
            await asyncio.wait([sending])

    async def _send(self, socket: WebSocket, after: int, kinds: frozenset[str]) -> None:
        with contextlib.suppress(WebSocketDisconnect, RuntimeError):
            async with contextlib.aclosing(self._events(after, kinds)) as events:  # type: ignore[type-var]
                async for _, data in events:
                    await socket.send_text(data)
