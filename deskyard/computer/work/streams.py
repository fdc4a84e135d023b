"""Sends what happens as it happens: server-sent events, and messages that stay alive."""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from typing import Any, TypeVar

from starlette.responses import StreamingResponse

ALIVE_SECONDS = 15.0

T = TypeVar("T")


async def or_silence(
    next_one: Callable[[], Awaitable[T]], seconds: float, until: float | None = None
) -> AsyncGenerator[T | None, None]:
    """What is awaited, time and again; None whenever nothing came for so long.

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


async def _awaited(next_one: Callable[[], Awaitable[T]]) -> T:
    return await next_one()


def event(kind: str, data: dict[str, Any], number: int | None = None) -> bytes:
    """A server-sent event."""
    line = "" if number is None else f"id: {number}\n"
    return f"{line}event: {kind}\ndata: {json.dumps(data)}\n\n".encode()


ALIVE = b": alive\n\n"


def sent(events: AsyncIterator[bytes]) -> StreamingResponse:
    """The answer that sends these events as they come."""
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(events, media_type="text/event-stream", headers=headers)
