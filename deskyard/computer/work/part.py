"""Files and processes as a part of the service."""

import contextlib
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path

from starlette.routing import BaseRoute

from deskyard.computer.work.file_routes import FileRoutes
from deskyard.computer.work.process_routes import ProcessRoutes
from deskyard.computer.work.processes import Processes
from deskyard.computer.work.standing_watches import StandingWatches
from deskyard.computer.work.telling import Events, Telling
from deskyard.computer.work.watches import Watches


class Work:
    """The processes and watches of the service, and the paths by which they are asked for."""

    def __init__(self, home: Path | None = None) -> None:
        self.home = home or Path.home()
        self.telling = Telling()
        self.processes = Processes(self.telling.follow)
        self.watches = Watches()
        self._standing = StandingWatches(self.home, self.watches, self.telling)

    def routes(self) -> Sequence[BaseRoute]:
        """The paths about files and processes."""
        return [
            *FileRoutes(self.home, self.watches).routes(),
            *self._standing.routes(),
            *ProcessRoutes(self.home, self.processes, self.telling).routes(),
        ]

    def tells(self, events: Events) -> None:
        """Tell of processes that end, and of what else is asked for, among the desktop's events."""
        self.telling.events = events

    def running(self) -> AbstractAsyncContextManager[None]:
        """Ends all processes and watches on the way out."""
        return self._running()

    @contextlib.asynccontextmanager
    async def _running(self) -> AsyncIterator[None]:
        try:
            yield
        finally:
            self.watches.stop_all()
            await self._standing.ended()
            await self.processes.end_all()
