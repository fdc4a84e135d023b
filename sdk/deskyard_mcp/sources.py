"""Sources of changes: the desktop's events, its screen, the end of a process, each followed by one connection."""

import asyncio
from collections.abc import AsyncGenerator, Collection
from contextlib import aclosing
from http import HTTPStatus
from typing import Protocol

from deskyard_sdk import AsyncDesktop, AsyncProcess, DesktopError

from deskyard_mcp.resources import EVENTS, SCREEN, WINDOWS

OF_WINDOWS = ("window.", "dialog.", "events.lost")
# For looks at the screen that only ask whether it is another: as small as there are.
GLANCE = {"format": "jpeg", "max": 16, "cursor": False}
QUIET_SECONDS, RESTLESS_SECONDS = 0.2, 3.0
# A wait counts from when it has arrived: what was drawn between a look and that is seen by another look after so long.
ARRIVED_SECONDS = 1.0
WAIT_SECONDS = 60.0


class Source(Protocol):
    """A part of the desktop that is followed by one connection at a time."""

    over: bool

    async def begin(self) -> None:
        """Learn from where on changes count; raises `DesktopError` where the desktop refuses that."""

    def changes(self) -> AsyncGenerator[Collection[str], None]:
        """Yield the resources that changed, as long as a connection lasts; taken up again, it goes on where it was."""


class Happenings:
    """The desktop's events, by their numbers."""

    over = False

    def __init__(self, desktop: AsyncDesktop) -> None:
        self._desktop = desktop
        self._last = 0

    async def begin(self) -> None:
        """Count from the last event."""
        self._last = await self._desktop.last_event()

    async def changes(self) -> AsyncGenerator[Collection[str], None]:
        """Yield for each event, also for those since the last connection."""
        if await self._desktop.last_event() < self._last:
            # It was started anew, and counts from the beginning.
            self._last = 0
        async with aclosing(self._desktop.events(after=self._last)) as events:
            async for event in events:
                self._last = event.seq
                yield (EVENTS, WINDOWS) if event.kind.startswith(OF_WINDOWS) else (EVENTS,)


class Drawings:
    """Drawings on the screen, once it is at rest or has not been for some seconds."""

    over = False

    def __init__(self, desktop: AsyncDesktop) -> None:
        self._desktop = desktop
        self._state = 0

    async def begin(self) -> None:
        """Count from the picture of now."""
        self._state = (await self._desktop.screen(**GLANCE)).state

    async def changes(self) -> AsyncGenerator[Collection[str], None]:
        """Yield when the picture is another."""
        while True:
            if await self._is_another():
                yield (SCREEN,)
            drawn = asyncio.create_task(self._came("region.changed", WAIT_SECONDS))
            try:
                await asyncio.wait([drawn], timeout=ARRIVED_SECONDS)
                if not drawn.done() and await self._is_another():
                    yield (SCREEN,)
                if await drawn:
                    await self._came("screen.settled", RESTLESS_SECONDS)
            finally:
                drawn.cancel()

    async def _is_another(self) -> bool:
        look = await self._desktop.screen(**GLANCE, if_changed=self._state)
        self._state = look.state
        return look.data is not None

    async def _came(self, event: str, within: float) -> bool:
        try:
            await self._desktop.wait_for(event, within=within, quiet=QUIET_SECONDS)
        except DesktopError as error:
            if error.status != HTTPStatus.REQUEST_TIMEOUT:
                raise
            return False
        return True


class Ending:
    """The end of a process."""

    def __init__(self, desktop: AsyncDesktop, uri: str) -> None:
        self.over = False
        self._desktop, self._uri = desktop, uri
        self._process: AsyncProcess | None = None

    async def begin(self) -> None:
        """Find the process."""
        self._process = await self._desktop.processes.get(self._uri.rpartition("/")[2])

    async def changes(self) -> AsyncGenerator[Collection[str], None]:
        """Yield once, when it has ended or is not known any more."""
        assert self._process is not None, "it is begun with"
        try:
            async with aclosing(self._process.output(self._process.info_end)) as pieces:
                async for _ in pieces:
                    pass
        except DesktopError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise
            self.over = True
        else:
            self.over = not self._process.info.running
        if self.over:
            yield (self._uri,)
