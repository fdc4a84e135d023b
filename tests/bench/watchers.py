"""Many watchers of Mission Control's events in one process: as little work for each event as may be."""

import asyncio
import re
import threading
import time
from collections.abc import Callable
from pathlib import Path

OPEN_AT_ONCE = 16
OPEN_SECONDS = 60.0
# For what is still on its way after the last event.
LAST_SECONDS = 20.0
MOMENT = re.compile(rb'"detail":"(\d+\.\d+)"')
TAIL = 4096


class Watcher(asyncio.Protocol):
    """One stream; `heard` gets the seconds from the moment in each event to now."""

    def __init__(self, request: bytes, heard: list[float], wanted: int, done: Callable[[], None]) -> None:
        self._request, self._heard, self._left, self._done = request, heard, wanted, done
        self._rest = b""
        self.began: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Ask for the stream."""
        assert isinstance(transport, asyncio.Transport)
        transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        """Note every moment that has come whole."""
        now, text = time.monotonic(), self._rest + data
        if not self.began.done() and b": deskyard" in text:
            self.began.set_result(None)
        end = 0
        for found in MOMENT.finditer(text):
            end = found.end()
            self._heard.append(now - float(found[1]))
            self._left -= 1
            if self._left == 0:
                self._done()
        self._rest = text[end:][-TAIL:]

    def connection_lost(self, error: Exception | None) -> None:
        """Nobody waits for a stream that ended."""
        if not self.began.done():
            self.began.set_exception(error or ConnectionError("the stream ended before it began"))


def watch_all(
    path: Path, key: str, watchers: int, tell: Callable[[int], None], events: int, rate: float
) -> list[float]:
    """Seconds from `tell` to each watcher, of so many events a second."""
    return asyncio.run(_watch_all(path, key, watchers, tell, events, rate))


async def _watch_all(
    path: Path, key: str, watchers: int, tell: Callable[[int], None], events: int, rate: float
) -> list[float]:
    loop, heard, all_done = asyncio.get_running_loop(), list[float](), asyncio.Event()
    head = f"GET /api/events HTTP/1.1\r\nHost: mission.localhost:9443\r\nAuthorization: Bearer {key}\r\n\r\n".encode()
    left, gate = watchers, asyncio.Semaphore(OPEN_AT_ONCE)

    def done() -> None:
        nonlocal left
        left -= 1
        if left == 0:
            all_done.set()

    async def open_stream() -> asyncio.BaseTransport:
        async with gate:
            transport, watcher = await loop.create_unix_connection(
                lambda: Watcher(head, heard, events, done), str(path)
            )
            await asyncio.wait_for(watcher.began, OPEN_SECONDS)
            return transport

    streams = await asyncio.gather(*(open_stream() for _ in range(watchers)))
    try:
        await asyncio.to_thread(_tell_all, tell, events, rate)
        await asyncio.wait_for(all_done.wait(), LAST_SECONDS)
    except TimeoutError:
        # What was not heard shows in the count.
        pass
    finally:
        for stream in streams:
            assert isinstance(stream, asyncio.Transport)
            stream.abort()
    return heard


def _tell_all(tell: Callable[[int], None], events: int, rate: float) -> None:
    """Tell at a rate, in a thread of its own: watchers must not put it off."""
    pace = threading.Event()
    began = time.monotonic()
    for number in range(events):
        pace.wait(max(0.0, began + number / rate - time.monotonic()))
        tell(number)
