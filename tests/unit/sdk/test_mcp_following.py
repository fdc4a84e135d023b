"""How often subscribers of the MCP server hear of what changes again and again."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Collection
from typing import Any, cast

import pytest
from deskyard_mcp import following
from deskyard_mcp.following import Line
from deskyard_mcp.subscribing import Session
from mcp.server.subscriptions import InMemorySubscriptionBus, ResourceUpdated

EVENTS, WINDOWS = "deskyard://events", "deskyard://windows"
MANY = 50


class Burst:
    """A source that changes once, and many times when it is let."""

    over = False

    def __init__(self) -> None:
        self.go, self.drained = asyncio.Event(), asyncio.Event()

    async def begin(self) -> None:
        """Nothing is to be learnt."""

    async def changes(self) -> AsyncGenerator[Collection[str], None]:
        yield (EVENTS,)
        await self.go.wait()
        for _ in range(MANY):
            yield (EVENTS,)
        self.drained.set()
        await asyncio.Event().wait()


class Hasty(Line):
    """A line that says each change at once."""

    async def _read(self) -> None:
        async for uris in self._source.changes():
            for uri in uris:
                await self._publish(uri)


async def published(kind: type[Line], monkeypatch: pytest.MonkeyPatch) -> int:
    """How often a burst is published that comes before subscribers may hear of more."""
    pauses: asyncio.Queue[None] = asyncio.Queue()
    resting, heard, source = asyncio.Event(), list[str](), Burst()

    async def pause() -> None:
        resting.set()
        await pauses.get()

    async def publish(uri: str) -> None:
        heard.append(uri)

    monkeypatch.setattr(following, "pause", pause)
    line = kind(cast(Any, None), source, publish, lambda: None)
    await line.begin()
    if kind is Line:
        await resting.wait()
        resting.clear()
    source.go.set()
    await source.drained.wait()
    pauses.put_nowait(None)
    if kind is Line:
        await resting.wait()
    await line.close()
    return len(heard)


def test_a_burst_is_heard_of_once(monkeypatch: pytest.MonkeyPatch) -> None:
    assert asyncio.run(asyncio.wait_for(published(Line, monkeypatch), 60)) == 2


def test_a_line_in_haste_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert asyncio.run(asyncio.wait_for(published(Hasty, monkeypatch), 60)) == 1 + MANY


class Slow:
    """A connection whose client reads nothing until it is let."""

    def __init__(self) -> None:
        self.reads, self.begun, self.done, self.sent = asyncio.Event(), asyncio.Event(), asyncio.Event(), list[Any]()

    async def notify(self, method: str, params: Any) -> None:
        self.begun.set()
        await self.reads.wait()
        self.sent.append(params["uri"])
        if params["uri"] == WINDOWS:
            self.done.set()


class Unfollowed:
    """Resources that nothing changes."""

    def of(self, uris: Collection[str]) -> Any:
        return contextlib.nullcontext()


def test_a_client_that_reads_nothing_has_each_resource_before_it_once() -> None:
    async def use() -> None:
        connection, bus = Slow(), InMemorySubscriptionBus()
        session = Session(cast(Any, connection), cast(Any, Unfollowed()), bus)
        for uri in (EVENTS, WINDOWS):
            await session.add(uri)
        await bus.publish(ResourceUpdated(EVENTS))
        await connection.begun.wait()
        # Nobody waits for it.
        for _ in range(MANY):
            await bus.publish(ResourceUpdated(EVENTS))
        await bus.publish(ResourceUpdated(WINDOWS))
        connection.reads.set()
        await connection.done.wait()
        await session.close()
        assert connection.sent == [EVENTS, EVENTS, WINDOWS]

    asyncio.run(asyncio.wait_for(use(), 60))
