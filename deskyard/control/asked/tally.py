"""Writes down who was refused or read what few should, once a minute for many of the same.

The first of a minute is a line at once, the others of it are counted, and are one more line: whoever sends thousands of
requests writes no thousands of lines. What they sent is in none.
"""

import asyncio
import logging
from collections import Counter
from typing import Annotated, Any, NamedTuple

import psycopg
from fastapi import Depends, Request

from deskyard.control.api.admission import note
from deskyard.control.store.connection import AWAY
from deskyard.host.deadline import Deadline

WINDOW_SECONDS = 60.0
# Of so many different ones in a minute each has lines of its own; the others are counted together.
MOST = 200
AGAIN_SECONDS = 1.0
NOBODY, REFUSED, OTHERS = "nobody", "request.refused", "others"
log = logging.getLogger(__name__)


class Asked(NamedTuple):
    """A request of a kind: by whom, and of what. For a refused one its status, and what of it was refused."""

    actor: str
    action: str
    target: str
    status: int | None = None
    field: str | None = None


class Tally:
    """The requests of this process that are to be written down."""

    def __init__(self, pool: Any) -> None:
        self._pool = pool
        self._seen: set[Asked] = set()
        self._counted: Counter[Asked] = Counter()
        self._due: Counter[Asked] = Counter()
        self._news = asyncio.Event()

    def add(self, asked: Asked) -> None:
        """Count a request; it waits for nothing."""
        if asked not in self._seen and len(self._seen) >= MOST:
            asked = Asked(OTHERS, asked.action, OTHERS)
        if asked in self._seen:
            self._counted[asked] += 1
            return
        self._seen.add(asked)
        self._due[asked] += 1
        self._news.set()

    def refuse(self, request: Request, status: int, field: str) -> None:
        """Count a refused request by its path as the document has it; what was sent is a secret, perhaps."""
        route = request.scope.get("route")
        target = f"{request.method} {getattr(route, 'path', OTHERS)}"
        self.add(Asked(getattr(request.state, "actor", NOBODY), REFUSED, target, status, field))

    async def run(self) -> None:
        """Write down for ever; while the database is away, it is counted."""
        window = Deadline(WINDOW_SECONDS)
        while True:
            try:
                async with asyncio.timeout(window.left):
                    await self._news.wait()
            except TimeoutError:
                self._turn()
                window = Deadline(WINDOW_SECONDS)
            self._news.clear()
            if not await self._write():
                self._news.set()
                await asyncio.sleep(AGAIN_SECONDS)

    async def finish(self) -> None:
        """Write down what is left, as the process ends."""
        self._turn()
        await self._write()

    def _turn(self) -> None:
        """Begin another minute."""
        self._due.update(self._counted)
        self._counted.clear()
        self._seen.clear()

    async def _write(self) -> bool:
        due = self._due.copy()
        if not due:
            return True
        try:
            async with self._pool.connection() as link:
                for asked, times in due.items():
                    refused = {"status": asked.status, "field": asked.field} if asked.status else {}
                    await note(link, asked.actor, asked.action, asked.target, times=times, **refused)
        except AWAY as error:
            log.warning("requests are written down later: %s", error)
            return False
        except psycopg.Error:
            # What is refused now is refused again, and would keep all that come after it from the audit.
            log.exception("%d lines of requests were refused by the database, and are lost", len(due))
        self._due -= due
        return True


def tally(request: Request) -> Tally:
    """The tally of the process."""
    found = request.app.state.tally
    assert isinstance(found, Tally)
    return found


Counted = Annotated[Tally, Depends(tally)]
