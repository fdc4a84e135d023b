"""Sends what happens as it happens: server-sent events, and messages that stay alive."""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, TypeVar

from starlette.requests import HTTPConnection
from starlette.responses import StreamingResponse

ALIVE_SECONDS = 15.0

T = TypeVar("T")


async def or_silence(
    next_one: Callable[[], Awaitable[T]], seconds: float, until: float | None = None
) -> AsyncGenerator[T | None, None]:
    """Yield the results of a call that is awaited again and again; None whenever nothing came for so long.

    Raises `TimeoutError` at the loop's time `until`, whatever comes.
    """
    clock = asyncio.get_running_loop().time
    waiting: asyncio.Task[T] | None = None
    try:
        while True:
            left = seconds if until is None else until - clock()
            if left <= 0:
                raise TimeoutError
            waiting = waiting or asyncio.create_task(_awaited(next_one))
            done, _ = await asyncio.wait([waiting], timeout=min(seconds, left))
            if done:
                result, waiting = waiting.result(), None
                yield result
            elif left > seconds or until is None:
                yield None
    finally:
        if waiting:
            waiting.cancel()
            # What it reads from may be closed only when it has let go.
            await asyncio.wait([waiting])


async def _awaited(next_one: Callable[[], Awaitable[T]]) -> T:
    return await next_one()


def event(kind: str | None, data: Mapping[str, Any], number: int | None = None) -> bytes:
    """A server-sent event; without a kind it is a `message`."""
    lines = ("" if number is None else f"id: {number}\n") + ("" if kind is None else f"event: {kind}\n")
    return f"{lines}data: {json.dumps(data)}\n\n".encode()


def last_id(connection: HTTPConnection, default: int) -> int:
    """The number of the last event that a client of such a stream has seen, as its header says."""
    said = connection.headers.get("last-event-id", "")
    return int(said) if said.isascii() and said.isdigit() and len(said) < 16 else default


ALIVE = b": alive\n\n"


def sent(events: AsyncIterator[bytes]) -> StreamingResponse:
    """The answer that sends these events as they come."""
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(events, media_type="text/event-stream", headers=headers)
