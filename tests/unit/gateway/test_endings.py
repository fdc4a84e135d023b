"""A desktop hears once, and at once, which of its sessions are over; one that does not take it is asked for a while."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from deskyard.gateway.view import endings, word
from deskyard.gateway.view.endings import Ended, Endings

RAN = 12.5


class Desktop:
    """Takes words, with these answers one after the other, the last for all that follow."""

    def __init__(self, *statuses: bytes) -> None:
        self.heard: list[dict[str, Any]] = []
        self._statuses = list(statuses)
        self._news = asyncio.Condition()

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"PUT /v1/sessions HTTP/1.1\r\n") and b"deskyard-scopes" not in head.lower()
        length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
        async with self._news:
            self.heard.append(json.loads(await reader.readexactly(length)))
            self._news.notify_all()
        status = self._statuses.pop(0) if len(self._statuses) > 1 else self._statuses[0]
        if status:
            writer.write(b"HTTP/1.1 " + status + b"\r\nContent-Length: 0\r\n\r\n")
            writer.close()
        else:
            await reader.read()

    async def hears(self, count: int) -> list[list[str]]:
        async with asyncio.timeout(20), self._news:
            await self._news.wait_for(lambda: len(self.heard) >= count)
        return [word["ended"] for word in self.heard]


def played(desktop: Callable[[], Desktop], body: Callable[[Desktop, tuple[str, int]], Awaitable[None]]) -> None:
    async def play() -> None:
        playing = desktop()
        server = await asyncio.start_server(playing, "127.0.0.1", 0)
        async with server:
            await body(playing, server.sockets[0].getsockname()[:2])

    asyncio.run(play())


def over(where: tuple[str, int], *sessions: str) -> Ended:
    return (*where, sessions)


def test_desktop_hears_once_of_each_end_and_how_long_the_gateway_ran() -> None:
    async def body(desktop: Desktop, where: tuple[str, int]) -> None:
        telling = Endings(lambda: RAN)
        for sessions in ((), (), ("s1",), ("s1",), ("s2", "s1")):
            telling.send({"d1": over(where, *sessions)})
            await asyncio.gather(*telling.tasks)
        assert await desktop.hears(3) == [[], ["s1"], ["s2", "s1"]]
        assert {word["gateway_seconds"] for word in desktop.heard} == {RAN}
        telling.send({})
        await asyncio.gather(*telling.tasks)
        assert len(desktop.heard) == 3

    played(lambda: Desktop(b"200 OK"), body)


@pytest.mark.parametrize("refusal", [b"503 Service Unavailable", b""])
def test_desktop_that_does_not_take_it_hears_it_again_until_it_does(
    monkeypatch: pytest.MonkeyPatch, refusal: bytes
) -> None:
    monkeypatch.setattr(endings, "AGAIN_SECONDS", 0.001)
    monkeypatch.setattr(word, "ANSWER_SECONDS", 0.5)

    async def body(desktop: Desktop, where: tuple[str, int]) -> None:
        telling = Endings(lambda: RAN)
        telling.send({"d1": over(where, "s1")})
        await asyncio.gather(*telling.tasks)
        assert await desktop.hears(3) == [["s1"]] * 3

    played(lambda: Desktop(refusal, refusal, b"200 OK"), body)


def test_desktop_that_never_takes_it_is_given_up_and_asked_of_the_next_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endings, "AGAIN_SECONDS", 0.001)
    monkeypatch.setattr(endings, "MOST_SECONDS", 0.004)

    async def body(desktop: Desktop, where: tuple[str, int]) -> None:
        telling = Endings(lambda: RAN)
        for sessions in (("s1",), ("s1",), ("s2", "s1")):
            telling.send({"d1": over(where, *sessions)})
            await asyncio.gather(*telling.tasks)
        assert await desktop.hears(8) == [["s1"]] * 4 + [["s2", "s1"]] * 4

    played(lambda: Desktop(b"404 Not Found"), body)


def test_silent_desktop_holds_up_no_other() -> None:
    async def body(desktop: Desktop, where: tuple[str, int]) -> None:
        silent = Desktop(b"")
        server = await asyncio.start_server(silent, "127.0.0.1", 0)
        async with server:
            telling = Endings(lambda: RAN)
            telling.send({"d0": over(server.sockets[0].getsockname()[:2], "s0"), "d1": over(where, "s1")})
            assert (await silent.hears(1), await desktop.hears(1)) == ([["s0"]], [["s1"]])
            for task in telling.tasks:
                task.cancel()

    played(lambda: Desktop(b"200 OK"), body)


def test_machine_has_run_for_longer_than_this_process() -> None:
    assert endings.since_boot() > 0
