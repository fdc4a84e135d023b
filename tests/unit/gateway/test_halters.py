"""Desktops hear whether their agents are stopped, again while it is so, and a silent one holds up nobody."""

import asyncio
import json
from collections.abc import Awaitable, Callable

import pytest

from deskyard.gateway.view import halters
from deskyard.gateway.view.halters import Halters, ask

Found = list[tuple[str, bool | None]]


class Desktop:
    """Halts its agent as it is asked, or does nothing that was asked; may forget all, as one that boots."""

    def __init__(self) -> None:
        self.heard: list[str] = []
        self.still = False
        self.answer: bytes | None = None
        self.found: Found = []
        self.news = asyncio.Condition()

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        word = json.loads(await reader.readline())["agent"]
        self.heard.append(word)
        self.still = word == "stop"
        writer.write(self.answer if self.answer is not None else json.dumps({"still": self.still}).encode() + b"\n")
        writer.close()

    def say(self, desktop: str, still: bool | None) -> None:
        self.found.append((desktop, still))
        asyncio.get_running_loop().create_task(self._tell())

    async def _tell(self) -> None:
        async with self.news:
            self.news.notify_all()

    async def finds(self, what: Callable[[Found], bool]) -> None:
        async with asyncio.timeout(20), self.news:
            await self.news.wait_for(lambda: what(self.found))


def played(body: Callable[[Desktop, Halters, int], Awaitable[None]]) -> None:
    async def play() -> None:
        desktop = Desktop()
        halting = Halters(desktop.say)
        async with await asyncio.start_server(desktop, "127.0.0.1", 0) as server:
            await body(desktop, halting, server.sockets[0].getsockname()[1])
            halting.send({})
            await asyncio.wait_for(asyncio.gather(*halting.tasks), 20)

    asyncio.run(play())


def test_stop_is_said_again_so_that_a_desktop_that_booted_knows_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(halters, "STANDS_SECONDS", 0.01)

    async def body(desktop: Desktop, halting: Halters, port: int) -> None:
        halting.send({"d1": ("127.0.0.1", port, True)})
        await desktop.finds(lambda found: ("d1", True) in found)
        desktop.still, before = False, len(desktop.found)
        await desktop.finds(lambda found: len(found) > before + 1)
        assert desktop.still

    played(body)


def test_go_follows_stop_at_once_and_is_the_last_word() -> None:
    async def body(desktop: Desktop, halting: Halters, port: int) -> None:
        halting.send({"d1": ("127.0.0.1", port, True)})
        await desktop.finds(lambda found: found == [("d1", True)])
        halting.send({"d1": ("127.0.0.1", port, False)})
        await desktop.finds(lambda found: found[-1] == ("d1", False))
        assert desktop.heard == ["stop", "go"]

    played(body)


def test_desktop_that_cannot_be_reached_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(halters, "AGAIN_SECONDS", 0.01)

    async def body(desktop: Desktop, halting: Halters, port: int) -> None:
        halting.send({"d1": ("127.0.0.1", 1, True), "d2": ("127.0.0.1", port, True)})
        await desktop.finds(lambda found: found.count(("d1", None)) > 2 and ("d2", True) in found)

    played(body)


def test_desktop_that_does_not_answer_is_asked_ever_less_often_until_there_is_news(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pauses: list[float] = []
    wait = asyncio.wait_for

    async def waits(awaitable: Awaitable[bool], seconds: float) -> bool:
        pauses.append(seconds)
        return await wait(awaitable, seconds / 1000)

    async def body(desktop: Desktop, halting: Halters, port: int) -> None:
        monkeypatch.setattr(asyncio, "wait_for", waits)
        halting.send({"d1": ("127.0.0.1", 1, False)})
        await desktop.finds(lambda found: len(found) > 7)
        monkeypatch.setattr(asyncio, "wait_for", wait)
        assert pauses[:7] == [2.0, 4.0, 8.0, 16.0, 20.0, 20.0, 20.0]
        halting.send({"d1": ("127.0.0.1", port, False)})
        await desktop.finds(lambda found: found[-1] == ("d1", False))

    played(body)


@pytest.mark.parametrize(
    "answer", [b"", b"\n", b"null\n", b'{"still": 1}\n', b"[" * 900 + b"\n", b"x" * 5000, b'{"still": true']
)
def test_answer_that_is_none_says_nothing(answer: bytes) -> None:
    async def body(desktop: Desktop, halting: Halters, port: int) -> None:
        desktop.answer = answer
        assert await ask("127.0.0.1", port, "stop") is None

    played(body)


def test_desktop_that_holds_the_line_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(halters, "ANSWER_SECONDS", 0.05)

    async def holds(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    async def play() -> None:
        async with await asyncio.start_server(holds, "127.0.0.1", 0) as server:
            assert await ask("127.0.0.1", server.sockets[0].getsockname()[1], "stop") is None

    asyncio.run(play())
