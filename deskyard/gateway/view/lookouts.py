"""Looks which routes of a desktop answer, again and again while somebody waits for it.

It is here, since the session service reaches nobody but HAProxy: the filter connects to desktops all day.
"""

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor

from deskyard.gateway import probe

PAUSE_SECONDS = 1.5
ANSWER_SECONDS = 3.0
AT_ONCE = 16

Where = tuple[str, int]
Say = Callable[[str, dict[str, bool]], None]


class Lookouts:
    """One for each desktop that is awaited; `say` hears which of its routes answer, after each look."""

    def __init__(self, say: Say) -> None:
        self._say = say
        self._awaited: Mapping[str, Mapping[str, Where]] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        # A hostile desktop holds a thread for some seconds, and those of no other.
        self._pool = ThreadPoolExecutor(AT_ONCE, "lookout")

    def send(self, awaited: Mapping[str, Mapping[str, Where]]) -> None:
        """Look at these desktops, and at no other."""
        self._awaited = awaited
        for desktop in awaited:
            if desktop not in self._tasks:
                self._tasks[desktop] = asyncio.create_task(self._look(desktop))

    async def _look(self, desktop: str) -> None:
        loop = asyncio.get_running_loop()
        try:
            while places := self._awaited.get(desktop):
                looks = [
                    loop.run_in_executor(self._pool, probe.route, name, address, port, ANSWER_SECONDS)
                    for name, (address, port) in places.items()
                ]
                answers = await asyncio.gather(*looks)
                self._say(desktop, {name: answer.ready for name, answer in zip(places, answers, strict=True)})
                await asyncio.sleep(PAUSE_SECONDS)
        finally:
            del self._tasks[desktop]
