"""The filter's line to the session service is made anew whatever came of it: without it nobody's desktop opens."""

import asyncio
import json
from collections.abc import Iterator
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


@pytest.mark.parametrize("wrong", ["5", "null", "{", '{"awaited": null}', '{"halted": {"d1": 5}}', '{"close": []}'])
def test_line_is_made_anew_whatever_was_said_on_it(path: Path, wrong: str) -> None:
    async def body() -> None:
        server = await asyncio.start_unix_server(Service(wrong), str(path))
        heard = asyncio.Event()
        view: Any = mock.Mock(streams={}, hide=lambda private: heard.set(), close=lambda session: {session: None})
        link = ViewLink(path, view)
        keeper = asyncio.create_task(link.keep())
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                await heard.wait()
                stream = Stream(1, "A" * 24, "d1", "192.0.2.1", "", Filter(lambda: False), None)
                assert await link.open(stream) == WHERE
        finally:
            keeper.cancel()
            server.close()

    asyncio.run(body())


def test_driver_who_came_right_after_the_answer_stays_the_driver(path: Path) -> None:
    async def body() -> None:
        server = await asyncio.start_unix_server(Service(then='{"drivers": {"d1": "C"}}\n'), str(path))
        heard = asyncio.Event()
        view: Any = mock.Mock(streams={}, hide=lambda private: heard.set())
        link = ViewLink(path, view)
        keeper = asyncio.create_task(link.keep())
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                await heard.wait()
                stream = Stream(1, "A" * 24, "d1", "192.0.2.1", "", Filter(lambda: False), None)
                await link.open(stream)
                while view.drivers == {}:
                    await asyncio.sleep(0)
                assert view.drivers == {"d1": "C"}
        finally:
            keeper.cancel()
            server.close()

    asyncio.run(body())
