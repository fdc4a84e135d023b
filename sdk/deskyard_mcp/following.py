"""Follows parts of the desktop while somebody is subscribed to them, and says which resources changed."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from http import HTTPStatus

from deskyard_sdk import AsyncDesktop, DesktopError, PrivacyError
from deskyard_sdk.waking import wakes

from deskyard_mcp.resources import EVENTS, SCREEN, WINDOWS
from deskyard_mcp.sources import Drawings, Ending, Happenings, Source

# The gateway gives a session four connections at once: tools always have one.
MOST_LINES = 3
# Of what changes again and again, subscribers hear at most so often.
PAUSE_SECONDS = 0.5
FIRST_AGAIN_SECONDS, LAST_AGAIN_SECONDS = 0.5, 30.0
PRIVACY_SECONDS = 300.0

Publish = Callable[[str], Awaitable[None]]


async def pause() -> None:
    """Wait until subscribers may hear of more."""
    await asyncio.sleep(PAUSE_SECONDS)


class Line:
    """One source that is followed: reads what changed, and says it without haste."""

    def __init__(self, desktop: AsyncDesktop, source: Source, publish: Publish, end: Callable[[], None]) -> None:
        self._desktop, self._source, self._publish, self._end = desktop, source, publish, end
        self._changed: set[str] = set()
        self._news = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self.subscribers = 0

    @property
    def reads(self) -> bool:
        """Whether it holds a connection to the desktop, or will again."""
        return not self._tasks or not self._tasks[0].done()

    async def begin(self) -> None:
        """Follow from now on; raises `DesktopError` where the desktop refuses that."""
        await self._source.begin()
        self._tasks = [asyncio.create_task(self._read()), asyncio.create_task(self._say())]

    async def close(self) -> None:
        """Follow no more."""
        for task in self._tasks:
            task.cancel()
        # Whoever closes it may be cancelled, too: they go on giving back their connection.
        await asyncio.wait(self._tasks)

    async def _read(self) -> None:
        # It comes again and again: a desktop that sleeps would never sleep for long.
        wakes.set(False)
        seconds = FIRST_AGAIN_SECONDS
        while not self._source.over:
            # What ends in the middle of an event is no JSON.
            with contextlib.suppress(ValueError):
                try:
                    async with contextlib.aclosing(self._source.changes()) as changes:
                        async for uris in changes:
                            seconds = FIRST_AGAIN_SECONDS
                            self._changed.update(uris)
                            self._news.set()
                except PrivacyError:
                    with contextlib.suppress(DesktopError):
                        await self._desktop.wait_for("privacy.off", within=PRIVACY_SECONDS)
                        seconds = FIRST_AGAIN_SECONDS
                except DesktopError as error:
                    if error.status == HTTPStatus.UNAUTHORIZED:
                        self._end()
                        return
            if not self._source.over:
                await asyncio.sleep(seconds)
                seconds = min(2 * seconds, LAST_AGAIN_SECONDS)

    async def _say(self) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            changed, self._changed = self._changed, set()
            for uri in sorted(changed):
                await self._publish(uri)
            await pause()


class Following:
    """The lines that are open, each as long as somebody is subscribed to what it tells of.

    `end` is called when the session is over: nothing will be heard of the desktop again.
    """

    def __init__(self, desktop: AsyncDesktop, publish: Publish, end: Callable[[], None]) -> None:
        self._desktop, self._publish, self._end = desktop, publish, end
        self._lines: dict[str, Line] = {}
        self._opening = asyncio.Lock()

    @contextlib.asynccontextmanager
    async def of(self, uris: Iterable[str]) -> AsyncIterator[None]:
        """Follow what these resources show; raises `DesktopError` for what is refused, or too much."""
        async with contextlib.AsyncExitStack() as stack:
            for uri in sorted(set(uris)):
                await stack.enter_async_context(self._following(uri))
            yield

    @contextlib.asynccontextmanager
    async def _following(self, uri: str) -> AsyncIterator[None]:
        name = EVENTS if uri in (EVENTS, WINDOWS) else uri
        async with self._opening:
            line = self._lines.get(name)
            if line is None or not line.reads:
                line = await self._open(name)
            line.subscribers += 1
        try:
            yield
        finally:
            line.subscribers -= 1
            if not line.subscribers:
                if self._lines.get(name) is line:
                    del self._lines[name]
                await line.close()

    async def _open(self, name: str) -> Line:
        if sum(line.reads for line in self._lines.values()) >= MOST_LINES:
            reason = f"would be followed beside {MOST_LINES} others, by more connections than a session has"
            raise DesktopError("uri", name, reason, "unsubscribe from one of them, or use the tool that waits for it")
        line = Line(self._desktop, self._source(name), self._publish, self._end)
        await line.begin()
        self._lines[name] = line
        return line

    def _source(self, name: str) -> Source:
        if name == EVENTS:
            return Happenings(self._desktop)
        return Drawings(self._desktop) if name == SCREEN else Ending(self._desktop, name)
