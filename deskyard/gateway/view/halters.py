"""Tells desktops to halt what their agents run, or to let it go on, again and again until that is lifted or done.

It is here, since the session service reaches nobody but HAProxy: the filter connects to desktops all day. A stop is
said again while it stands, so that it holds for a desktop that was started anew; what an agent with root does against
it, the door does not depend on.
"""

import asyncio
import contextlib
import json
from collections.abc import Callable, Mapping

from deskyard.wire.computer import GO, STOP

ANSWER_SECONDS = 30.0  # a program starts there for it
AGAIN_SECONDS = 2.0
STANDS_SECONDS = 20.0  # it was done; a desktop that boots has forgotten it
MOST_ANSWER = 1024

Place = tuple[str, int, bool]
Say = Callable[[str, bool | None], None]


class Halters:
    """One for each desktop of which there is something to say; `say` hears whether its agent stands still."""

    def __init__(self, say: Say) -> None:
        self._say = say
        self._wanted: Mapping[str, Place] = {}
        self._news: dict[str, asyncio.Event] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def send(self, wanted: Mapping[str, Place]) -> None:
        """Have these desktops know it, and say nothing to any other."""
        before, self._wanted = self._wanted, wanted
        for desktop in before.keys() | wanted.keys():
            if desktop in self._news:
                if before.get(desktop) != wanted.get(desktop):
                    self._news[desktop].set()
            elif desktop in wanted:
                self._news[desktop] = asyncio.Event()
                task = asyncio.create_task(self._tell(desktop))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

    async def _tell(self, desktop: str) -> None:
        news = self._news[desktop]
        try:
            while place := self._wanted.get(desktop):
                news.clear()
                address, port, stops = place
                still = await ask(address, port, STOP if stops else GO)
                if self._wanted.get(desktop) == place:
                    self._say(desktop, still)
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(news.wait(), STANDS_SECONDS if still is stops else AGAIN_SECONDS)
        finally:
            del self._news[desktop]


async def ask(address: str, port: int, word: str) -> bool | None:
    """Say a word to a desktop; whether its agent stands still, None for no answer. It holds up nobody else."""
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            reader, writer = await asyncio.open_connection(address, port, limit=MOST_ANSWER)
            try:
                writer.write(json.dumps({"agent": word}).encode() + b"\n")
                answer = json.loads(await reader.readline())
            finally:
                writer.close()
    except (OSError, ValueError, TimeoutError):
        return None
    still = answer.get("still") if isinstance(answer, dict) else None
    return still if isinstance(still, bool) else None
