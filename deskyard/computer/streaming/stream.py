"""A stream: something that is looked at, its frame, and who waits for the next one, over how many channels they may."""

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import Any, Protocol

from deskyard.computer.answers import screen as answers
from deskyard.computer.display.spaces import Rectangle
from deskyard.computer.streaming.budget import Budget
from deskyard.computer.streaming.encodings import Form, encoded
from deskyard.computer.streaming.frame import Frame
from deskyard.computer.streaming.scene import Scene


@dataclass(frozen=True)
class Update:
    """An update that brings a viewer to the frame of this number: rectangles with their data."""

    number: int
    size: tuple[int, int]
    parts: list[tuple[Rectangle, bytes]]


class Audience(Protocol):
    """Somebody who is told that a stream is over."""

    def end(self, reason: str) -> None:
        """There is nothing more to come."""


@dataclass
class Stream:
    """Scene and frame belong to the studio's thread, all else to the event loop."""

    about: answers.Shown  # what it shows, as it stands in answers
    scene: Scene
    budget: Budget
    packing: Executor
    loop: asyncio.AbstractEventLoop
    between: float = 0.0  # seconds between two frames, if more than the studio's
    ask: Callable[[], None] = lambda: None  # wakes the studio
    frame: Frame = field(default_factory=Frame)
    over: str = ""  # why it ended
    wanted: bool = False  # somebody waits for a frame; set here, taken back by the studio
    anew: bool = False  # somebody waits for a frame of now, whatever was drawn; set and taken back as `wanted` is
    dirty: bool = True  # there is something new to take; of the studio
    due: float = 0.0  # when the next frame may be taken; of the studio
    viewers: int = 0
    audience: list[Audience] = field(default_factory=list)
    _news: set[asyncio.Event] = field(default_factory=set)
    _packed: dict[tuple[Any, ...], "asyncio.Future[Update]"] = field(default_factory=dict)

    def tell(self) -> None:
        """Wake those who wait, from the studio's thread."""
        if not self.loop.is_closed():
            self.loop.call_soon_threadsafe(self._wake)

    def end(self, reason: str) -> None:
        """There is nothing more to come; called in any thread, the first reason counts."""
        self.over = self.over or reason
        self.tell()

    def _wake(self) -> None:
        self._packed = {}
        if self.over:
            for audience in self.audience:
                audience.end(self.over)
        for news in self._news:
            news.set()

    @contextlib.contextmanager
    def watch(self) -> Iterator[asyncio.Event]:
        """Look on: the event is set whenever there is something new, also when the stream is over."""
        news = asyncio.Event()
        self._news.add(news)
        self.viewers += 1
        self.ask()
        try:
            yield news
        finally:
            self._news.discard(news)
            self.viewers -= 1
            self.ask()

    def renew(self) -> int:
        """Have a frame taken now; the number that it is after."""
        self.anew = True
        self.ask()
        return self.frame.number

    def want(self) -> None:
        """Have the next frame taken as soon as something is drawn; the news is told."""
        self.wanted = True
        self.ask()

    async def update(self, since: int, form: Form, size: tuple[int, int]) -> Update:
        """The changes since that number, packed once for all viewers who have the same and take it in the same form."""
        key = (self.frame.number, since, form, size)
        if key not in self._packed:
            self._packed[key] = self.loop.run_in_executor(self.packing, self._pack, since, form, size)
        return await asyncio.shield(self._packed[key])

    def _pack(self, since: int, form: Form, size: tuple[int, int]) -> Update:
        with self.frame.lock:
            number, whole = self.frame.number, self.frame.size
            images = self.frame.since(since, size)
        self.budget.spend(sum(part.width * part.height for part, _ in images))
        return Update(number, whole, [cut for part, image in images for cut in encoded(image, part, form)])
