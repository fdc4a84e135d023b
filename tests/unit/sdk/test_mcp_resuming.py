"""Streams of the MCP server over HTTP whose connection broke: who goes on with them, from where, and for how long."""

import asyncio
import contextlib
import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
from deskyard_mcp import resuming
from deskyard_mcp.server import DesktopServer
from deskyard_mcp.web import application
from deskyard_sdk import AsyncDesktop
from mcp.server.streamable_http import EventMessage
from mcp_types import JSONRPCNotification

from deskyard.computer.work.part import Work
from tests.support.listening import listening
from tests.support.mcp_client import PATIENCE
from tests.unit.computer.serving import home_of, served
from tests.unit.sdk.desk import Desk

TOKEN = "t" * 24
REVISION = "2025-11-25"


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    with home_of(tmp_path) as home, served([Desk(Work(home))]) as url:
        yield url


class Session:
    """A client's session, request by request."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self.client = client
        self.headers = {"Accept": "application/json, text/event-stream", "Authorization": f"Bearer {TOKEN}"}

    async def open(self, revision: str = REVISION) -> "Session":
        """Begin, as a client of this revision."""
        who = {"name": "test", "version": "1"}
        params = {"protocolVersion": revision, "capabilities": {}, "clientInfo": who}
        answer = await self.post({"id": 0, "method": "initialize", "params": params})
        self.headers |= {"Mcp-Session-Id": answer.headers["mcp-session-id"], "MCP-Protocol-Version": revision}
        await self.post({"method": "notifications/initialized"})
        return self

    async def post(self, message: dict[str, Any]) -> httpx.Response:
        """Send a message, and read all that is answered."""
        return await self.client.post("/mcp", json={"jsonrpc": "2.0", **message}, headers=self.headers)

    @contextlib.asynccontextmanager
    async def calling(self, tool: str, **arguments: Any) -> AsyncIterator[AsyncIterator[dict[str, str]]]:
        """Call a tool, as request 1: the events of its stream."""
        call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}
        async with self.client.stream("POST", "/mcp", json=call, headers=self.headers) as response:
            assert response.status_code == 200
            yield events(response)

    @contextlib.asynccontextmanager
    async def after(self, event: str) -> AsyncIterator[AsyncIterator[dict[str, str]]]:
        """Go on after an event."""
        headers = {**self.headers, "Last-Event-ID": event}
        async with self.client.stream("GET", "/mcp", headers=headers) as response:
            assert response.status_code == 200
            yield events(response)


async def events(response: httpx.Response) -> AsyncIterator[dict[str, str]]:
    """The events of a stream, field by field."""
    event: dict[str, str] = {}
    async for line in response.aiter_lines():
        name, _, value = line.partition(": ")
        if line and name:
            event[name] = value
        elif event:
            yield event
            event = {}


def text_of(event: dict[str, str]) -> str:
    """The output of the command whose answer this is."""
    message = json.loads(event["data"])
    assert message["id"] == 1
    return str(json.loads(message["result"]["content"][0]["text"])["stdout"])


@contextlib.asynccontextmanager
async def serving(url: str) -> AsyncIterator[Callable[[], Session]]:
    """The server over HTTP on a desktop; what makes sessions with it."""
    async with await AsyncDesktop.connect(url) as desktop:
        socket = listening()
        config = uvicorn.Config(application(DesktopServer(desktop), TOKEN), log_level="warning", lifespan="on")
        server = uvicorn.Server(config)
        running = asyncio.create_task(server.serve(sockets=[socket]))
        address = f"http://127.0.0.1:{socket.getsockname()[1]}"
        async with httpx.AsyncClient(verify=False, base_url=address, timeout=PATIENCE) as client:
            yield lambda: Session(client)
        server.should_exit = True
        await running


def use(url: str, using: Callable[[Callable[[], Session]], Awaitable[None]]) -> None:
    """Use the server, within a bounded time."""

    async def within() -> None:
        async with asyncio.timeout(PATIENCE), serving(url) as session:
            await using(session)

    asyncio.run(within())


@pytest.fixture
def gate(tmp_path: Path) -> Path:
    """A command that reads from here ends when something was written."""
    os.mkfifo(gate := tmp_path / "gate")
    return gate


def test_an_answer_that_came_while_the_client_was_away_is_had_later_and_again(url: str, gate: Path) -> None:
    async def using(session: Callable[[], Session]) -> None:
        client = await session().open()
        async with client.calling("run", command=["cat", str(gate)]) as stream:
            begun = await anext(stream)
        assert begun["retry"] == str(resuming.RETRY_MS) and begun.get("data", "") == ""
        async with client.after(begun["id"]) as stream:
            again = await anext(stream)
            await asyncio.to_thread(gate.write_text, "it is done")
            answer = await anext(stream)
        assert text_of(answer) == "it is done"
        # It was kept, too: who did not read it has it by the same number, and after it there is nothing.
        async with client.after(begun["id"]) as stream:
            assert await anext(stream) == answer
        async with client.after(answer["id"]) as stream:
            assert (await anext(stream)).get("data", "") == ""
        assert again["id"] != begun["id"]

    use(url, using)


def test_the_events_of_a_session_are_nobody_elses(url: str) -> None:
    async def using(session: Callable[[], Session]) -> None:
        first, second = await session().open(), await session().open()
        async with first.calling("run", command=["echo", "secret"]) as stream:
            begun, answer = [event async for event in stream]
        assert "secret" in answer["data"]
        async with second.calling("run", command=["echo", "other"]) as stream:
            own = [event async for event in stream]
        for event in (begun["id"], answer["id"], "1", "nothing"):
            async with second.after(event) as stream:
                assert [event async for event in stream] == []
        # Both have a request 1: each goes on with its own.
        async with second.after(own[0]["id"]) as stream:
            assert await anext(stream) == own[1]
        for authorization in ("", f"Bearer {'u' * 24}"):
            headers = {**first.headers, "Last-Event-ID": begun["id"], "Authorization": authorization}
            refused = await first.client.get("/mcp", headers=headers)
            assert refused.status_code == 401 and "secret" not in refused.text

    use(url, using)


def test_the_events_of_a_session_end_with_it(url: str) -> None:
    async def using(session: Callable[[], Session]) -> None:
        client = await session().open()
        async with client.calling("run", command=["true"]) as stream:
            begun, _ = [event async for event in stream]
        assert (await client.client.delete("/mcp", headers=client.headers)).status_code == 200
        headers = {**client.headers, "Last-Event-ID": begun["id"]}
        assert (await client.client.get("/mcp", headers=headers)).status_code == 404

    use(url, using)


def test_an_older_client_is_said_no_event_without_data(url: str) -> None:
    async def using(session: Callable[[], Session]) -> None:
        client = await session().open("2025-06-18")
        async with client.calling("run", command=["echo", "x"]) as stream:
            (answer,) = [event async for event in stream]
        assert text_of(answer) == "x\n" and answer["id"]

    use(url, using)


def said(text: str) -> JSONRPCNotification:
    """A message that takes a little more room than its text."""
    return JSONRPCNotification(jsonrpc="2.0", method="notifications/test", params={"text": text})


async def later(kept: resuming.SessionEvents, event: str) -> list[str] | None:
    """The ids of what is said again after an event; none where nothing can be gone on with."""
    again: list[str] = []

    async def take(message: EventMessage) -> None:
        assert message.event_id
        again.append(message.event_id)

    return again if await kept.replay_events_after(event, take) else None


def test_the_newest_events_are_kept_and_what_is_gone_on_with_is_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resuming, "MOST_EVENTS", 3)

    async def using() -> None:
        kept = resuming.Room().session()
        ids = [await kept.store_event("stream", said(str(number))) for number in range(5)]
        assert await later(kept, ids[2]) == ids[3:]
        assert await later(kept, ids[1]) is None
        other = await kept.store_event("other", None)
        assert await later(kept, ids[3]) == ids[4:]
        assert await later(kept, other) == []

    asyncio.run(using())


def test_what_is_said_while_a_client_is_told_again_comes_behind_that() -> None:
    async def using() -> None:
        kept = resuming.Room().session()
        ids = [await kept.store_event("stream", said(str(number))) for number in range(2)]
        again: list[str] = []

        async def take(message: EventMessage) -> None:
            again.append(str(message.event_id))
            if len(again) < 3:
                await kept.store_event("other", said("of another stream"))
                ids.append(await kept.store_event("stream", said("late")))

        assert await kept.replay_events_after(ids[0], take) == "stream"
        assert again == ids[1:] and len(again) == 3

    asyncio.run(using())


def test_a_session_keeps_so_many_bytes_and_nothing_before_what_is_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resuming, "MOST_BYTES", 1000)

    async def using() -> None:
        kept = resuming.Room().session()
        begun, first, second = [await kept.store_event("stream", said("x" * 300)) for _ in range(3)]
        assert kept.size <= 1000 and await later(kept, begun) is None
        assert await later(kept, first) == [second]
        large = await kept.store_event("stream", said("x" * 1000))
        assert kept.size == 0 and await later(kept, second) is None and await later(kept, large) is None

    asyncio.run(using())


def test_all_sessions_together_keep_so_many_bytes_and_forget_the_oldest_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resuming, "MOST_BYTES_IN_ALL", 1000)

    async def using() -> None:
        room = resuming.Room()
        first, second = room.session(), room.session()
        old = await first.store_event("stream", said("x" * 300))
        new = [await second.store_event("stream", said("x" * 300)) for _ in range(2)]
        assert first.size + second.size <= 1000 and await later(first, old) is None
        assert await later(second, new[0]) == new[1:]

    asyncio.run(using())


def test_events_are_forgotten_in_time_though_nothing_more_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    async def using() -> None:
        kept = resuming.Room().session()
        monkeypatch.setattr(resuming, "MOST_SECONDS", 0.0)
        event = await kept.store_event("stream", said("x"))
        async with asyncio.timeout(PATIENCE):
            while kept.size:
                await asyncio.sleep(0)
        assert await later(kept, event) is None

    asyncio.run(using())
