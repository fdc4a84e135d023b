"""Desktops take turns in the filter: a busy one does not keep another waiting, however many connections it has."""

import asyncio
import contextlib
from collections import Counter, defaultdict
from collections.abc import AsyncIterator

import pytest

from deskyard.gateway.machine.layout import Layout
from deskyard.gateway.view import budget, view
from deskyard.gateway.view.stream import Filter, Stream
from deskyard.gateway.view.view import TURN, View
from deskyard.gateway.view.websocket import BINARY, PING, frame
from tests.support.ports import free_ports

SHAKE = frame(BINARY, b"RFB 003.008\n\x01\x01")
DROPPED = b"".join(frame(BINARY, bytes([byte])) for byte in b"\x04\x01\0\0\0\0\0k") * 2000
WORD = frame(PING, b"still here")
TURNS = 300  # that are looked at
MANY = 8
FEW = 20 * TURN


class Link:
    """A session service that lets everybody in."""

    def __init__(self, where: tuple[str, int]) -> None:
        self._where = where

    async def keep(self) -> None:
        await asyncio.Event().wait()

    async def open(self, stream: Stream) -> tuple[str, int]:
        return self._where

    def closed(self, stream: Stream, reason: str, *, flood: bool) -> None:
        pass


class Turns:
    """Whose turn it was, and how much was read: every client may send as much as it likes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.of: Counter[Filter] = Counter()
        self.read = 0
        self.heard = asyncio.Event()
        monkeypatch.setattr(budget, "STEPS_AT_ONCE", 1e12)
        monkeypatch.setattr(budget, "BYTES_AT_ONCE", 1e12)
        feed = Filter.feed

        def counted(sieve: Filter, data: bytes) -> bytes:
            self.of[sieve] += 1
            self.read += len(data)
            if WORD in data:
                self.heard.set()
            return feed(sieve, data)

        monkeypatch.setattr(Filter, "feed", counted)

    async def until(self, count: int) -> None:
        """Wait for so many turns of any."""
        async with asyncio.timeout(60):
            while self.of.total() < count:
                await asyncio.sleep(0)


@contextlib.asynccontextmanager
async def filtering() -> AsyncIterator[int]:
    """The port of a filter before desktops that listen."""
    port, far = free_ports(2)

    async def desktop(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.read(65536):
            pass
        writer.close()

    server = await asyncio.start_server(desktop, "127.0.0.1", far)
    running = View(Layout())
    running._link = Link(("127.0.0.1", far))  # type: ignore[assignment]
    task = asyncio.create_task(running.run(port))
    try:
        yield port
    finally:
        task.cancel()
        server.close()
        await asyncio.gather(task, return_exceptions=True)


async def connected(port: int, desktop: str) -> asyncio.StreamWriter:
    """A client of this desktop that shook hands."""
    async with asyncio.timeout(60):
        while True:
            with contextlib.suppress(ConnectionRefusedError):
                _, writer = await asyncio.open_connection("127.0.0.1", port)
                break
            await asyncio.sleep(0)
    writer.write(f"GET / HTTP/1.1\r\nX-Deskyard-Session: s\r\nX-Deskyard-Desktop: {desktop}\r\n\r\n".encode() + SHAKE)
    return writer


async def flood(writer: asyncio.StreamWriter) -> None:
    """Send for as long as the other side takes it."""
    with contextlib.suppress(OSError):
        while True:
            writer.write(DROPPED)
            await writer.drain()


async def bytes_before_a_word(turns: Turns) -> int:
    """How much of a flood to d1 is read between a word to d2 and its turn, up to more than a few turns."""
    async with filtering() as port:
        busy, quiet = await connected(port, "d1"), await connected(port, "d2")
        flooding = asyncio.create_task(flood(busy))
        await turns.until(2)
        before = turns.read
        quiet.write(WORD)
        async with asyncio.timeout(60):
            while not turns.heard.is_set() and turns.read - before <= FEW:
                await asyncio.sleep(0)
        flooding.cancel()
        return turns.read - before


async def share(turns: Turns) -> float:
    """What part of all turns the one busy connection to d2 has beside many to d1."""
    async with filtering() as port:
        floods = [asyncio.create_task(flood(await connected(port, "d2")))]
        await turns.until(1)
        (mine,) = turns.of
        floods += [asyncio.create_task(flood(await connected(port, "d1"))) for _ in range(MANY)]
        async with asyncio.timeout(60):
            while len(turns.of) <= MANY:
                await asyncio.sleep(0)
        turns.of.clear()
        await turns.until(TURNS)
        for task in floods:
            task.cancel()
        return turns.of[mine] / turns.of.total()


def test_message_of_another_desktop_waits_for_a_few_short_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    assert asyncio.run(bytes_before_a_word(Turns(monkeypatch))) <= FEW


def test_desktops_have_equal_shares_however_many_connections_one_has(monkeypatch: pytest.MonkeyPatch) -> None:
    assert asyncio.run(share(Turns(monkeypatch))) > 1 / 3


def test_filter_whose_connections_take_turns_of_their_own_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    class Own(defaultdict[str, asyncio.Lock]):
        def __getitem__(self, desktop: str) -> asyncio.Lock:
            return asyncio.Lock()

    monkeypatch.setattr(view, "defaultdict", Own)
    assert asyncio.run(share(Turns(monkeypatch))) < 1 / 3


def test_filter_that_reads_all_there_is_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(view, "TURN", 256 * 1024)
    monkeypatch.setattr(view, "HEAD_LIMIT", 256 * 1024)
    assert asyncio.run(bytes_before_a_word(Turns(monkeypatch))) > FEW
