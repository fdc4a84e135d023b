"""The desktop's events, numbered and kept for a while, and waiting for the next ones."""

import asyncio
import contextlib
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

from deskyard.computer.caller import Caller
from deskyard.computer.display.spaces import Rectangle, region_of
from deskyard.computer.fields import Fields, whole, wrong
from deskyard.computer.privacy import refused
from deskyard.computer.problem import Problem
from deskyard.wire.computer import (
    FILE_CHANGED,
    FILES,
    PRIVACY_OFF,
    PRIVACY_ON,
    PROCESS_ENDED,
    PROCESS_OUTPUT,
    SHELL,
)

MOST_EVENTS = 5000
MOST_CHANGES = 2000
MOST_WITHIN_MS = 300_000
SETTLED, CHANGED, READY = "screen.settled", "region.changed", "app.ready"
OF_DRAWING = (SETTLED, CHANGED)
# What is told while a person wants privacy: nothing of what is on the screen.
TOLD_IN_PRIVATE = (PRIVACY_ON, PRIVACY_OFF, "person.took", "person.left", "screen.ready", "screen.gone")
KINDS = (
    "window.appeared", "window.closed", "window.title", "window.focus", "window.moved", "dialog.appeared",
    "clipboard.changed", "person.took", "person.left", "screen.ready", "screen.gone", "screen.resized",
    "recording.started", "recording.stopped", PRIVACY_ON, PRIVACY_OFF, SETTLED, CHANGED, READY,
    PROCESS_ENDED, PROCESS_OUTPUT, FILE_CHANGED,
)  # fmt: skip
# The scope that a kind of event takes besides `see`.
NEEDED = {PROCESS_ENDED: SHELL, PROCESS_OUTPUT: SHELL, FILE_CHANGED: FILES}
# Parts of an event that hold text of the screen: content, never an instruction.
UNTRUSTED = ("title", "class", "instance")
CONTENT = (*UNTRUSTED, "text", "path")
CARET_WIDTH, CARET_HEIGHT, CARET_SECONDS = 24, 48, 3.0


@dataclass(frozen=True)
class Change:
    """Something was drawn."""

    at: float
    number: int
    parts: tuple[Rectangle, ...]
    carets: tuple[Rectangle, ...] = ()  # small spots that came before in their place

    def touches(self, region: Rectangle | None, *, with_carets: bool = False) -> bool:
        """Whether something of it is in a region, or anywhere."""
        parts = self.parts + self.carets if with_carets else self.parts
        return bool(parts) if region is None else any(part.meets(region) for part in parts)


@dataclass(frozen=True)
class Wait:
    """A wait for an event: of which kind, after which event, and for how long at most."""

    kind: str
    within: float
    match: dict[str, Any] = field(default_factory=dict)
    region: Rectangle | None = None
    quiet: float = 0.2
    after: int | None = None

    def suits(self, event: dict[str, Any]) -> bool:
        """Whether an event is the one; a text is matched by what it holds."""
        return event["event"] == self.kind and all(
            matches(event.get(name), value) for name, value in self.match.items()
        )


def matches(found: Any, value: Any) -> bool:
    """Whether a field is as it is wanted; a text is matched by what it holds, in any case."""
    return value.lower() in found.lower() if isinstance(found, str) and isinstance(value, str) else bool(found == value)


@dataclass(frozen=True)
class Armed:
    """A wait together with the moment from which on it counts."""

    wait: Wait
    event: int
    change: int
    at: float


def read_wait(fields: Fields, who: Caller) -> Wait:
    """The wait that an object asks for; raises `Problem` (403) where the caller may not know of such events."""
    kind = fields.choice("event", KINDS)
    if kind in NEEDED:
        who.require(NEEDED[kind])
    within = fields.integer("within_ms", 1, MOST_WITHIN_MS, 30_000) / 1000
    match = fields.take("match", {})
    if not isinstance(match, dict) or len(match) > 10:
        raise wrong(fields.at("match"), match, "is no object of at most 10 fields", 'give such as {"class": "XTerm"}')
    region = fields.take("region", None)
    where = region_of(region, fields.at("region")) if region is not None else None
    if where is not None and kind not in OF_DRAWING:
        raise wrong(fields.at("region"), region, f"has no meaning for {kind}", "leave it out")
    quiet = fields.integer("quiet_ms", 1, 60_000, 200) / 1000
    after = fields.take("after", None)
    if after is not None:
        after = whole(after, fields.at("after"), 0, 1 << 53)
    return Wait(kind, within, match, where, quiet, after)


def now_ms() -> int:
    """A number to begin with that is higher than what a service before this one came to, which told less often."""
    return int(time.time() * 1000)


async def _nothing(seconds: float) -> None:
    """Where nobody looks at a screen there is nothing to write down."""


@dataclass(frozen=True, eq=False)
class _Waker:
    event: asyncio.Event
    loop: asyncio.AbstractEventLoop
    hears_drawing: bool


class Log:
    """The events so far; written from any thread, read in the event loop.

    Numbers begin after `start`: a service that is started anew begins higher than the one before it could come, so that
    whoever goes on from a number of that one is told of a loss, and does not wait for numbers that never come.
    """

    def __init__(self, most: int = MOST_EVENTS, start: int = 0) -> None:
        self._lock = threading.Lock()
        self._events: deque[dict[str, Any]] = deque(maxlen=most)
        self._changes: deque[Change] = deque(maxlen=MOST_CHANGES)
        self._small: dict[Rectangle, float] = {}
        self._wakers: set[_Waker] = set()
        self._start = self.last = start
        self.changes = 0
        self.listeners: list[Callable[[dict[str, Any]], None]] = []  # hear each event in the thread that tells it
        self.hidden = False  # while a person wants privacy: what happens on the screen is not kept, and never told
        # Writes down what was drawn so far, within about so many seconds; else that is done at a pace.
        self.look: Callable[[float], Awaitable[None]] = _nothing
        # Waits that are no events of their own: they are over when something is so.
        self.conditions: dict[str, Callable[[Wait], Awaitable[dict[str, Any]]]] = {}

    def tell(self, kind: str, data: Mapping[str, Any]) -> dict[str, Any]:
        """Add an event, and return it; while a person wants privacy, it may be forgotten at once."""
        with self._lock:
            if self.hidden and kind not in TOLD_IN_PRIVATE:
                return {"event": kind}
            self.last += 1
            event = {"seq": self.last, "event": kind, "time": round(time.time(), 3), **data}
            if untrusted := [name for name in CONTENT if name in data]:
                event["untrusted"] = untrusted
            self._events.append(event)
        self._wake()
        for listener in self.listeners:
            listener(event)
        return event

    def drew(self, parts: Iterable[Rectangle]) -> None:
        """Add what was drawn; a small spot that comes again and again in its place is marked as a caret."""
        now = time.monotonic()
        new, carets = list[Rectangle](), list[Rectangle]()
        self._small = {spot: at for spot, at in self._small.items() if now - at < CARET_SECONDS}
        for part in parts:
            (carets if self._is_caret(part, now) else new).append(part)
        if not (new or carets) or self.hidden:
            return
        with self._lock:
            self.changes += 1
            self._changes.append(Change(now, self.changes, tuple(new), tuple(carets)))
        self._wake(of_drawing=True)

    @property
    def awaits_drawing(self) -> bool:
        """Whether somebody waits for what is drawn, or until nothing is."""
        with self._lock:
            return any(waker.hears_drawing for waker in self._wakers)

    def drawn(self, region: Rectangle) -> float:
        """When something but a caret was last drawn there, by the monotonic clock; 0 if that is not known."""
        with self._lock:
            newest = self._newest(region)
        return newest.at if newest else 0.0

    def _newest(self, region: Rectangle | None, *, with_carets: bool = False) -> Change | None:
        """The last time that something was drawn there; whoever asks holds the lock."""
        return next(
            (change for change in reversed(self._changes) if change.touches(region, with_carets=with_carets)), None
        )

    def _is_caret(self, part: Rectangle, now: float) -> bool:
        if part.width > CARET_WIDTH or part.height > CARET_HEIGHT:
            return False
        before = self._small.get(part)
        self._small[part] = now
        return before is not None and now - before > 0.2

    def _wake(self, *, of_drawing: bool = False) -> None:
        with self._lock:
            wakers = [waker for waker in self._wakers if waker.hears_drawing or not of_drawing]
        for waker in wakers:
            if not waker.loop.is_closed():
                waker.loop.call_soon_threadsafe(waker.event.set)

    @contextlib.contextmanager
    def _woken(self, *, by_drawing: bool = False) -> Iterator[asyncio.Event]:
        """An event of the loop that is set whenever there is something new."""
        waker = _Waker(asyncio.Event(), asyncio.get_running_loop(), by_drawing)
        with self._lock:
            self._wakers.add(waker)
        try:
            yield waker.event
        finally:
            with self._lock:
                self._wakers.discard(waker)

    def since(self, after: int) -> tuple[list[dict[str, Any]], int]:
        """The events after this one, and how many of them are forgotten already.

        After a number of another service these are all there are, and what that one told is counted as one.
        """
        with self._lock:
            others = after > self.last or 0 < after < self._start
            begin = self._start if others else max(after, self._start)
            found = [event for event in self._events if event["seq"] > begin]
            oldest = self._events[0]["seq"] if self._events else self.last + 1
        return found, max(0, oldest - begin - 1) + int(others)

    async def arm(self, wait: Wait) -> Armed:
        """Have the wait count from now on, or from the event that it names; what was drawn before is no change."""
        if wait.kind == CHANGED:
            await self.look(wait.within)
        with self._lock:
            return Armed(wait, self.last if wait.after is None else wait.after, self.changes, time.monotonic())

    async def stream(self, after: int) -> AsyncIterator[dict[str, Any]]:
        """The events after this one, for ever; `events.lost` stands where some are forgotten."""
        with self._woken() as news:
            while True:
                news.clear()
                found, lost = self.since(after)
                if lost:
                    after = found[0]["seq"] - 1 if found else self._start
                    yield {"seq": after, "event": "events.lost", "count": lost}
                for event in found:
                    yield event
                    after = event["seq"]
                if not found:
                    await news.wait()

    async def next(self, wait: Wait) -> dict[str, Any]:
        """The event that is waited for from now on; raises `Problem` (408) when it does not come in time."""
        if wait.kind in self.conditions:
            return await self.wait(await self.arm(wait))
        with self._woken(by_drawing=wait.kind in OF_DRAWING) as news:
            armed = await self.arm(wait)
            if wait.kind == SETTLED:
                await self.look(wait.within)
            return await self._come(armed, news)

    async def wait(self, armed: Armed) -> dict[str, Any]:
        """The event that was waited for; raises `Problem` (408) when it does not come in time."""
        if condition := self.conditions.get(armed.wait.kind):
            try:
                return await self._in_public(condition, armed.wait)
            except TimeoutError:
                raise self._late(armed.wait) from None
        with self._woken(by_drawing=armed.wait.kind in OF_DRAWING) as news:
            if armed.wait.kind in OF_DRAWING:
                await self.look(armed.wait.within)  # at what was drawn before it was known that somebody waits
            return await self._come(armed, news)

    async def _come(self, armed: Armed, news: asyncio.Event) -> dict[str, Any]:
        deadline = time.monotonic() + armed.wait.within
        while True:
            news.clear()
            found, again = self._found(armed)
            if found is not None:
                return found
            left = deadline - time.monotonic()
            if left <= 0:
                raise self._late(armed.wait)
            try:
                await asyncio.wait_for(news.wait(), min(left, again))
            except TimeoutError:
                continue

    def _late(self, wait: Wait) -> Problem:
        reason = f"did not come within {wait.within:g} s"
        remedy = f"look at the screen, or wait again after event {self.last}"
        return Problem(HTTPStatus.REQUEST_TIMEOUT, "wait", wait.kind, reason, remedy)

    async def _in_public(self, condition: Callable[[Wait], Awaitable[dict[str, Any]]], wait: Wait) -> dict[str, Any]:
        """Wait for a condition; refused as soon as a person wants privacy, however soon that is over."""
        if self.hidden:
            raise refused()
        private = Armed(Wait(PRIVACY_ON, wait.within), self.last, 0, 0)
        waiting, hidden = asyncio.ensure_future(condition(wait)), asyncio.ensure_future(self.wait(private))
        try:
            await asyncio.wait({waiting, hidden}, timeout=wait.within, return_when=asyncio.FIRST_COMPLETED)
            if self._found(private)[0]:
                raise refused()
            if not waiting.done():
                raise TimeoutError
            return waiting.result()
        finally:
            waiting.cancel()
            hidden.cancel()
            await asyncio.wait({waiting, hidden})

    def _found(self, armed: Armed) -> tuple[dict[str, Any] | None, float]:
        if self.hidden and armed.wait.kind not in TOLD_IN_PRIVATE:
            raise refused()
        if armed.wait.kind == PRIVACY_OFF and armed.wait.after is None and not self.hidden:
            return {"event": PRIVACY_OFF, "seq": self.last}, 60  # who comes to wait for it may come too late
        if armed.wait.kind not in OF_DRAWING:
            found, lost = self.since(armed.event)
            if lost:
                reason = f"is too long ago: {lost} events since are forgotten"
                raise Problem(HTTPStatus.GONE, "after", armed.event, reason, f"wait again after event {self.last}")
            return next((event for event in found if armed.wait.suits(event)), None), 60
        # A thing that is named is waited for, however small it is and often it changes; on the whole screen a caret is
        # no news to those who wait for any.
        carets = armed.wait.kind == CHANGED and armed.wait.region is not None
        with self._lock:
            newest = self._newest(armed.wait.region, with_carets=carets)
        if armed.wait.kind == CHANGED:
            if newest is None or newest.number <= armed.change:
                return None, 60
            return {"event": CHANGED, "seq": self.last, "change": newest.number}, 60
        last = max(armed.at, newest.at if newest else 0.0)
        left = last + armed.wait.quiet - time.monotonic()
        return (
            {"event": SETTLED, "seq": self.last, "quiet_ms": int(armed.wait.quiet * 1000)} if left <= 0 else None
        ), left
