"""The filter's line to the session service is made anew whatever came of it: without it nobody's desktop opens."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest import mock

import pytest

from deskyard.gateway.view.link import ViewLink
from deskyard.gateway.view.stream import Filter, Stream

WAIT_SECONDS = 30
WHERE = ("10.0.0.1", 6080)


class Service:
    """Plays the session service: its first connections say `wrong` things, and the next is as it should be."""

    def __init__(self, *wrong: str, then: str = "") -> None:
        self.wrong = list(wrong)
        self.then = then  # said in one write with each answer

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.wrong:
            writer.write(f"{self.wrong.pop(0)}\n".encode())
        else:
            writer.write(b'{"private": {}}\n')
        while line := await reader.readline():
            asked = json.loads(line)
            answer = {"answer": asked["stream"], "status": 101, "address": WHERE[0], "port": WHERE[1], "drivers": {}}
            writer.write(f"{json.dumps(answer)}\n{self.then}".encode())
        writer.close()


@pytest.fixture
def path() -> Iterator[Path]:
    with TemporaryDirectory() as folder:  # the path of a socket must be short
        yield Path(folder) / "streams.sock"


@asynccontextmanager
async def opened(path: Path, service: Service, view: Any) -> AsyncIterator[tuple[str, int]]:
    """Where a stream is led once the line to this service is as it should be; the line is kept in the block."""
    server = await asyncio.start_unix_server(service, str(path))
    heard = asyncio.Event()
    view.hide = lambda private: heard.set()
    link = ViewLink(path, view)
    keeper = asyncio.create_task(link.keep())
    try:
        async with asyncio.timeout(WAIT_SECONDS):
            await heard.wait()
            yield await link.open(Stream(1, "A" * 24, "d1", "192.0.2.1", "", Filter(lambda: False), None))
    finally:
        keeper.cancel()
        server.close()


@pytest.mark.parametrize("wrong", ["5", "null", "{", '{"awaited": null}', '{"halted": {"d1": 5}}', '{"close": []}'])
def test_line_is_made_anew_whatever_was_said_on_it(path: Path, wrong: str) -> None:
    async def body() -> None:
        view = mock.Mock(streams={}, close=lambda session: {session: None})
        async with opened(path, Service(wrong), view) as where:
            assert where == WHERE

    asyncio.run(body())


def test_driver_who_came_right_after_the_answer_stays_the_driver(path: Path) -> None:
    async def body() -> None:
        view = mock.Mock(streams={})
        async with opened(path, Service(then='{"drivers": {"d1": "C"}}\n'), view):
            while view.drivers == {}:
                await asyncio.sleep(0)
            assert view.drivers == {"d1": "C"}

    asyncio.run(body())
