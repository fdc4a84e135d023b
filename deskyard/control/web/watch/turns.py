"""Answers that are sent as they are read: who has a turn, and how long a reader may keep it.

Each holds a connection to the database until its end, so only some are read at a time: of one caller fewer than of all,
and a reader that takes too little is cut off, as a slow one would keep the others waiting.
"""

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from http import HTTPStatus

from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from deskyard.control.api.problem import AGAIN_SECONDS, Problem

AT_ONCE, OF_CALLER = 4, 2
TURN_SECONDS = 20.0
# What a reader takes in a second, in the long run, and for how long it may take nothing: less than for which the
# database waits.
PACE, PAUSE_SECONDS = 64 << 10, 25.0
log = logging.getLogger(__name__)


class Turns:
    """The turns of one kind of answers."""

    def __init__(self, field: str) -> None:
        # As a refusal calls them.
        self._field = field
        self._reading: Counter[str] = Counter()
        self._waiting: list[tuple[str, asyncio.Future[None]]] = []

    @contextlib.asynccontextmanager
    async def turn(self, actor: str) -> AsyncIterator[None]:
        """Wait for a turn, and hold it for the block; raises a 429 or a 503 where none is free in time."""
        waits = asyncio.get_running_loop().create_future()
        self._waiting.append((actor, waits))
        self._give()
        try:
            try:
                async with asyncio.timeout(TURN_SECONDS):
                    await waits
            except TimeoutError as error:
                raise self._refusal(actor) from error
            yield
        finally:
            if waits.cancelled():
                self._waiting.remove((actor, waits))
            else:
                self._reading[actor] -= 1
                # Without those that read nothing.
                self._reading = +self._reading
            self._give()

    def _give(self) -> None:
        """Give turns that are free, first to whoever has the fewest."""
        while self._reading.total() < AT_ONCE:
            entitled = [
                each for each in self._waiting if self._reading[each[0]] < OF_CALLER and not each[1].cancelled()
            ]
            if not entitled:
                return
            chosen = min(entitled, key=lambda each: self._reading[each[0]])
            self._waiting.remove(chosen)
            self._reading[chosen[0]] += 1
            chosen[1].set_result(None)

    def _refusal(self, actor: str) -> Problem:
        if (mine := self._reading[actor]) >= OF_CALLER:
            reason, remedy = f"of {actor} are being read", "wait for the end of one, or end it, then send it again"
            return Problem(HTTPStatus.TOO_MANY_REQUESTS, self._field, mine, reason, remedy, AGAIN_SECONDS)
        reason, remedy = "are being read by others, which is all there are", "send it again"
        return Problem(HTTPStatus.SERVICE_UNAVAILABLE, self._field, AT_ONCE, reason, remedy, AGAIN_SECONDS)


class Pace:
    """The time that a reader has left to take what it is sent: it earns some with all that it takes."""

    def __init__(self, bound: asyncio.Timeout) -> None:
        self._bound, self._left = bound, PAUSE_SECONDS

    @contextlib.contextmanager
    def taking(self, size: int) -> Iterator[None]:
        """Bound the block, in which a reader takes so many bytes."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        self._bound.reschedule(began + self._left)
        yield
        if not self._bound.expired():
            # What the database takes for the next part is nothing that the reader could help.
            self._bound.reschedule(None)
        self._left = min(PAUSE_SECONDS, self._left - (loop.time() - began) + size / PACE)


class Sent(StreamingResponse):
    """Parts that are sent as they are read, by whoever has a turn."""

    def __init__(
        self,
        turns: Turns,
        actor: str,
        parts: Callable[[], AsyncGenerator[str, None]],
        headers: dict[str, str],
        # The document takes it from here.
        status_code: int = HTTPStatus.OK,
    ) -> None:
        super().__init__((), status_code, headers)
        self._turns, self._actor, self._parts = turns, actor, parts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it when it has its turn; one that breaks off is cut, and passes for no whole."""
        async with self._turns.turn(self._actor), contextlib.aclosing(self._parts()) as parts:
            # Where the database refuses it, or is away, that is the answer: nothing is sent yet.
            first = await anext(parts)
            try:
                async with asyncio.timeout(None) as bound:
                    self.body_iterator = _paced(first, parts, Pace(bound))
                    await super().__call__(scope, receive, send)
            except TimeoutError:
                if not bound.expired():
                    raise
                log.warning("%s took too little of %s, and was cut off", self._actor, scope["path"])


async def _paced(first: str, parts: AsyncIterator[str], pace: Pace) -> AsyncIterator[bytes]:
    part: str | None = first
    while part is not None:
        content = part.encode()
        with pace.taking(len(content)):
            yield content
        part = await anext(parts, None)
