"""Tells desktops what is so, again and again: one word at a time for each, so that none overtakes another."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from typing import Generic, TypeVar

Word = TypeVar("Word")
# Says to a desktop what is so by now, None for nothing any more; in how many seconds again, None for never.
Cry = Callable[[str, Word | None], Awaitable[float | None]]


class Criers(Generic[Word]):
    """A crier for each desktop that has something to hear; a silent desktop holds up no other."""

    def __init__(self, cry: Cry[Word]) -> None:
        self.tasks: set[asyncio.Task[None]] = set()
        self._cry = cry
        self._words: Mapping[str, Word] = {}
        self._news: dict[str, asyncio.Event] = {}

    def send(self, words: Mapping[str, Word]) -> None:
        """Have these desktops hear their words at once, and those of before that there is nothing any more."""
        before, self._words = self._words, words
        for desktop in before.keys() | words.keys():
            if desktop in self._news:
                if before.get(desktop) != words.get(desktop):
                    self._news[desktop].set()
            elif desktop in words:
                self._news[desktop] = asyncio.Event()
                task = asyncio.create_task(self._tell(desktop))
                self.tasks.add(task)
                task.add_done_callback(self.tasks.discard)

    def word(self, desktop: str) -> Word | None:
        """The word that a desktop has to hear now; None if there is nothing to say."""
        return self._words.get(desktop)

    async def _tell(self, desktop: str) -> None:
        news = self._news[desktop]
        try:
            while True:
                news.clear()
                pause = await self._cry(desktop, self.word(desktop))
                if pause is None and not news.is_set():
                    return
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(news.wait(), pause)
        finally:
            del self._news[desktop]
