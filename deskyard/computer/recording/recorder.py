"""The recorder: one more viewer of the screen, who writes down what is seen and what is done."""

import asyncio
import contextlib
import errno
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, TypeVar

from deskyard.computer.claims import BATCH, Sink
from deskyard.computer.problem import Problem
from deskyard.computer.recording.asked import Asked
from deskyard.computer.recording.declared import Declared
from deskyard.computer.recording.segment import Segment
from deskyard.computer.recording.shelf import Shelf
from deskyard.computer.streaming import rfb
from deskyard.computer.streaming.encodings import TIGHT, Form, rectangle
from deskyard.computer.streaming.stream import Stream, Update

FRAMES_PER_SECOND = 5
FORM = Form(TIGHT, "BGRX", 6)
SEGMENT_BYTES = 32 << 20
SEGMENTS_IN_SIZE = 8  # the largest share of what is kept that a segment may have
MOST_WAITING = 10_000  # actions that are not written yet
OFF, RECORDING, STOPPED = "off", "recording", "stopped"
LEFT = "the recorder left"
NOT_ASKED = "the desktop's declaration does not ask for it"
PERSON = ("person.took", "person.left")

LINE = 1024  # bytes: what is left free for an action

Action = tuple[float, dict[str, Any]]  # when, by the monotonic clock, and what
Tell = Callable[[str, dict[str, Any]], object]
T = TypeVar("T")


@dataclass(frozen=True)
class Limits:
    """How long a segment gets, how much of the disk stays free, and after how long what failed is tried again."""

    segment_seconds: float = 300.0
    least_free: int = 512 << 20
    retry_seconds: float = 15.0


class Screens(Protocol):
    """Where the recorder looks."""

    async def screen(self, between: float) -> Stream:
        """A stream of the whole screen."""

    async def leave(self, stream: Stream, reason: str) -> None:
        """End it."""


class Noting:
    """A sink that also hands the recorder what it takes."""

    def __init__(self, sink: Sink, recorder: "Recorder") -> None:
        self._sink = sink
        self._recorder = recorder

    def note(self, entry: dict[str, Any]) -> None:
        """Pass it on."""
        self._sink.note(entry)
        if entry["kind"] != BATCH:
            self._recorder.note({"actor": "agent", **entry})


class Recorder:
    """Records whenever the desktop's declaration says so, and there is room."""

    def __init__(self, shelf: Shelf, limits: Limits | None = None) -> None:
        self.shelf = shelf
        self.state, self.reason = OFF, ""
        self._limits = limits or Limits()
        self._waiting: deque[Action] = deque(maxlen=MOST_WAITING)
        self._lock = threading.Lock()
        self._wake: Callable[[], object] | None = None  # while something is recorded
        self._disk = ThreadPoolExecutor(1, "recording")

    def note(self, entry: dict[str, Any]) -> None:
        """Take what was done, from any thread; forgotten where nothing is recorded."""
        with self._lock:
            if self._wake:
                self._waiting.append((time.monotonic(), entry))
                self._wake()

    def hear(self, event: dict[str, Any]) -> None:
        """Take an event of the display: a person's coming and going is told, and no key of theirs."""
        if event["event"] in PERSON:
            self.note({"actor": "person", "kind": event["event"], "by": event.get("by", ""), "ok": True})

    async def on_disk(self, function: Callable[..., T], *arguments: Any) -> T:
        """Do something with the files; one thing at a time."""
        return await asyncio.get_running_loop().run_in_executor(self._disk, partial(function, *arguments))

    async def run(self, declared: Declared, screens: Screens, tell: Tell) -> None:
        """Record until cancelled."""
        while True:
            declared.changed.clear()
            bounds, reason = declared.recording, declared.reason
            if bounds:
                reason = await self._record(bounds, declared.changed, screens, tell)
                if not reason:
                    continue
            stopped = (STOPPED, reason) if reason else (OFF, "")
            if stopped != (self.state, self.reason):
                self.state, self.reason = stopped
                tell("recording.stopped", {"reason": reason or NOT_ASKED})
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(declared.changed.wait(), self._limits.retry_seconds if bounds else None)

    async def _record(self, bounds: Asked, changed: asyncio.Event, screens: Screens, tell: Tell) -> str:
        """Record until the declaration changes (an empty text), or why it cannot go on."""
        stream: Stream | None = None
        try:
            await self.on_disk(self.shelf.keep, bounds)
            self._check_room()
            stream = await screens.screen(1 / FRAMES_PER_SECOND)
            with stream.watch() as news:
                self._begin(news)
                watching = asyncio.ensure_future(self._pass_on(changed, news))
                try:
                    await self._write(bounds, stream, news, changed, tell)
                finally:
                    watching.cancel()
            return stream.over
        except Problem as problem:
            return f"{problem.field}: {problem.reason}"
        except OSError as error:
            return _why(error)
        except Exception as error:
            print(f"recording: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
            return f"failed: {type(error).__name__}"
        finally:
            with self._lock:
                self._wake = None
            await self.on_disk(self._end, self._taken())
            if stream:
                await screens.leave(stream, LEFT)

    def _begin(self, news: asyncio.Event) -> None:
        loop = asyncio.get_running_loop()
        with self._lock:
            self._wake = partial(loop.call_soon_threadsafe, news.set)

    @staticmethod
    async def _pass_on(changed: asyncio.Event, news: asyncio.Event) -> None:
        await changed.wait()
        news.set()

    async def _write(
        self, bounds: Asked, stream: Stream, news: asyncio.Event, changed: asyncio.Event, tell: Tell
    ) -> None:
        seen, is_told = 0, False
        while not (stream.over or changed.is_set()):
            news.clear()
            if not self.shelf.expires(bounds):
                await self.on_disk(self.shelf.keep, bounds)
            segment, actions = self.shelf.open, self._taken()
            is_new = bool(actions) or stream.frame.number > seen
            # What stood still for as long as is kept begins anew, so that the old segment can go.
            begins = segment is None or not self.shelf.expires(bounds) or (is_new and self._is_full(bounds, segment))
            if begins or is_new:
                begins = begins or segment is None or stream.frame.size != segment.size
                size = stream.frame.size if begins or segment is None else segment.size
                update = await stream.update(0 if begins else seen, FORM, size)
                if changed.is_set():
                    # It may have looked after a person wanted privacy.
                    self._waiting.extendleft(reversed(actions))
                    return
                if update.size != size:
                    self._waiting.extendleft(reversed(actions))
                    continue
                await self.on_disk(self._add, bounds, update, actions, begins)
                seen = update.number
                if not is_told:
                    self.state, self.reason, is_told = RECORDING, "", True
                    tell("recording.started", {"keep_seconds": bounds.keep_seconds, "size_bytes": bounds.size_bytes})
            else:
                stream.want()
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(news.wait(), self.shelf.expires(bounds))

    def _taken(self) -> list[Action]:
        with self._lock:
            taken = list(self._waiting)
            self._waiting.clear()
        return taken

    def _is_full(self, bounds: Asked, segment: Segment) -> bool:
        most = min(SEGMENT_BYTES, bounds.size_bytes // SEGMENTS_IN_SIZE)
        return segment.seconds >= self._limits.segment_seconds or segment.length >= most

    def _add(self, bounds: Asked, update: Update, actions: list[Action], begins: bool) -> None:
        parts = [rectangle(part, TIGHT, data) for part, data in update.parts]
        message = rfb.updates(len(parts)) + b"".join(parts)
        self._check_room()
        if begins:
            begin = min([time.monotonic(), *(at for at, _ in actions)])
            self.shelf.begin(update.size, time.time() - (time.monotonic() - begin))
        self.shelf.keep(bounds, len(message) + LINE * len(actions))
        segment = self.shelf.open
        assert segment is not None
        if parts:
            segment.frame(message)
        for at, entry in actions:
            segment.action(at, entry)

    def _end(self, actions: list[Action]) -> None:
        """Close the segment with what was done last, as far as that can be written."""
        with contextlib.suppress(OSError):
            if segment := self.shelf.open:
                for at, entry in actions:
                    segment.action(at, entry)
        with contextlib.suppress(OSError):
            self.shelf.close()

    def _check_room(self) -> None:
        least = self._limits.least_free
        if self.shelf.free() < least:
            raise OSError(errno.ENOSPC, f"less than {least >> 20} MiB of the disk are free")

    def close(self) -> None:
        """End the thread."""
        self._disk.shutdown(wait=True)


def _why(error: OSError) -> str:
    return f"the disk: {error.strerror or error}"
