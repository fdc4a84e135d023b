"""A desktop hears whether it is private in the order in which that was so, and a silent one holds up nobody."""

import asyncio
import json
from collections.abc import Awaitable, Callable

import pytest

from deskyard.gateway.view import heralds, word
from deskyard.gateway.view.heralds import Heralds, say

Heard = list[bool]


class Desktop:
    """Takes words, and answers each when it is allowed to."""

    def __init__(self, status: bytes = b"200 OK") -> None:
        self.heard: Heard = []
        self.news = asyncio.Condition()
        self.answers = asyncio.Event()
        self.answers.set()
        self._status = status

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"PUT /v1/privacy HTTP/1.1\r\n")
        assert b"deskyard-scopes" not in head.lower()
        length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
        async with self.news:
            self.heard.append(json.loads(await reader.readexactly(length))["on"])
            self.news.notify_all()
        await self.answers.wait()
        writer.write(b"HTTP/1.1 " + self._status + b"\r\nContent-Length: 0\r\n\r\n")
        writer.close()

    async def hears(self, count: int) -> Heard:
        """What was heard, when that is so much."""
        async with asyncio.timeout(20), self.news:
            await self.news.wait_for(lambda: len(self.heard) >= count)
        return self.heard


def played(desktop: Callable[[], Desktop], body: Callable[[Desktop, tuple[str, int]], Awaitable[None]]) -> None:
    async def play() -> None:
        playing = desktop()
        server = await asyncio.start_server(playing, "127.0.0.1", 0)
        async with server:
            await body(playing, server.sockets[0].getsockname()[:2])

    asyncio.run(play())


def test_word_is_said_again_while_it_is_so_and_once_when_it_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heralds, "AGAIN_SECONDS", 0.01)

    async def body(desktop: Desktop, where: tuple[str, int]) -> None:
        sending = Heralds()
        sending.send({"d1": where})
        assert (await desktop.hears(3))[:3] == [True] * 3
        sending.send({})
        while (await desktop.hears(len(desktop.heard)))[-1]:
            await desktop.hears(len(desktop.heard) + 1)
        await asyncio.gather(*sending.tasks)
        assert desktop.heard.count(False) == 1

    played(Desktop, body)


def test_last_word_is_what_is_so_however_fast_it_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def body(desktop: Desktop, where: tuple[str, int]) -> None:
        sending = Heralds()
        desktop.answers.clear()
        sending.send({"d1": where})
        await desktop.hears(1)
        for private in ({}, {"d1": where}, {}, {"d1": where}):
            sending.send(private)
        desktop.answers.set()
        assert await desktop.hears(2) == [True, True]
        sending.send({})
        assert (await desktop.hears(3))[2:] == [False]
        await asyncio.gather(*sending.tasks)
        sending.send({"d1": where})
        assert (await desktop.hears(4))[3:] == [True]
        sending.send({})
        await asyncio.gather(*sending.tasks)

    played(Desktop, body)


def test_desktop_that_says_nothing_or_no_holds_up_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(word, "ANSWER_SECONDS", 0.05)

    async def silent(desktop: Desktop, where: tuple[str, int]) -> None:
        desktop.answers.clear()
        assert not await say(where, on=True)
        desktop.answers.set()

    async def refuses(desktop: Desktop, where: tuple[str, int]) -> None:
        assert not await say(where, on=True)

    played(Desktop, silent)
    monkeypatch.undo()
    played(lambda: Desktop(b"404 Not Found"), refuses)
    assert not asyncio.run(say(("127.0.0.1", 1), on=True))
