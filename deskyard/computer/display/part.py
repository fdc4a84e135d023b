"""The display part of the service: its routes, and the connections and threads that last as long as it does."""

import asyncio
import base64
import contextlib
import json
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import TimeoutError as TookTooLong
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route, WebSocketRoute

from deskyard.computer.answers.answered import Answered, Happened
from deskyard.computer.answers.screen import Acted, Effect, ListedWindow, Pictured, Unchanged, Window
from deskyard.computer.caller import Caller, caller
from deskyard.computer.claims import Claiming, Sink
from deskyard.computer.display import windows
from deskyard.computer.display.acting.actions import Tools, read
from deskyard.computer.display.acting.audience import Audience
from deskyard.computer.display.acting.batch import Runner, Stderr
from deskyard.computer.display.acting.drive import Drive
from deskyard.computer.display.acting.drive_routes import DriveRoutes
from deskyard.computer.display.acting.hands import Hands
from deskyard.computer.display.acting.read_back import ReadBack
from deskyard.computer.display.acting.remembered import Outcome
from deskyard.computer.display.clipboard_routes import ClipboardRoutes
from deskyard.computer.display.endings import Endings
from deskyard.computer.display.events import SETTLED, Armed, Log, Wait, now_ms, read_wait
from deskyard.computer.display.eyes import Eyes, Picture
from deskyard.computer.display.feed import Feed
from deskyard.computer.display.pictures import Wanted, wanted
from deskyard.computer.display.spaces import Rectangle, Shots, Spaces
from deskyard.computer.display.watcher import ANSWER_SECONDS, SOON_SECONDS, UNANSWERED, Watcher
from deskyard.computer.display.window_routes import WindowRoutes
from deskyard.computer.display.x_server import Askers, Line
from deskyard.computer.fields import Fields, body, query
from deskyard.computer.privacy import Privacy
from deskyard.computer.problem import Problem, described
from deskyard.errors import HostError
from deskyard.wire.computer import ACT, SEE, UNTRUSTED_HEADER

PASTE_SECONDS = 3.0
CALL_SECONDS = 5.0


@dataclass(frozen=True)
class Settings:
    """The display's waiting times."""

    start_seconds: float = 30  # how long to wait for the X server at the start
    quiet_seconds: float = 5  # a person who does nothing for so long has left
    hold_seconds: float = 60  # a key that the agent holds without acting is let go after so long


class Display:
    """The screen of one X display: seen, acted on, and listened to."""

    def __init__(self, display: str, settings: Settings | None = None, sink: Sink | None = None) -> None:
        if not display:
            raise HostError("DISPLAY", display, "names no X display", "start the service in the desktop's session")
        self._display = display
        self._settings = settings or Settings()
        self.log = Log(start=now_ms())
        self.drive = Drive(self._settings.quiet_seconds, self._settings.hold_seconds, self.log.tell)
        self._shots = Shots()
        self.eyes = Eyes(display, self._shots)
        self.desk = Line(display)
        hands = Hands(display, self.drive)
        spaces = Spaces(lambda: hands.line.get().size(), self._window_of(hands.line), self._shots)
        record = sink or Stderr()
        self.sink = Claiming(record)
        self.read_back = ReadBack()
        tools = Tools(hands, spaces, self._paste, self._await_event, self.read_back)
        # What a batch did is claimed by the first answer that reaches a client, which may be that to a repeat.
        self._runner = Runner(tools, self.eyes, record)
        self._seeing = Askers(display, "eyes")
        self.asking = Askers(display, "desk")
        self._watcher: Watcher | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._feed = Feed(self.log)
        # Who streams or records asks it, or hears of it.
        self.privacy = Privacy(self.log, self.taken)

    def routes(self) -> Sequence[BaseRoute]:
        """The paths of the display."""
        return [
            Route("/v1/act", self._act, methods=["POST"]),
            Route("/v1/screen", self._screen, methods=["GET"]),
            *WindowRoutes(self).routes(),
            *ClipboardRoutes(self._listening, self.drive).routes(),
            *Endings(self._listening, self.drive).routes(),
            *DriveRoutes(self, self._listening).routes(),
            Route("/v1/wait", self._wait, methods=["POST"]),
            Route("/v1/events", self._feed.sse, methods=["GET"]),
            WebSocketRoute("/v1/events", self._feed.websocket),
        ]

    def running(self) -> AbstractAsyncContextManager[None]:
        """The connections, from the time that the X server answers."""
        return self._running()

    @contextlib.asynccontextmanager
    async def _running(self) -> AsyncIterator[None]:
        self._loop = self.read_back.loop = asyncio.get_running_loop()
        self._watcher = watcher = Watcher(self._display, self.log, self.drive)
        self.log.look = self._look_at_drawing
        watcher.start()
        try:
            if not await asyncio.to_thread(watcher.ready.wait, self._settings.start_seconds):
                reason = f"no X server answered within {self._settings.start_seconds:g} s"
                raise HostError("DISPLAY", self._display, reason, "start the desktop's display before the service")
            yield
        finally:
            await asyncio.to_thread(self._runner.close)
            await asyncio.to_thread(watcher.stop)
            for askers in (self._seeing, self.asking):
                await asyncio.to_thread(askers.close)
            self.eyes.close()
            self._runner.tools.hands.close()
            self.desk.close()

    @staticmethod
    def _window_of(line: Line) -> Callable[[int, str], Rectangle]:
        return lambda window, field: windows.shown(line.get(), window, field)

    async def _act(self, request: Request) -> Answered[Acted]:
        who = caller(request)
        who.require(ACT)
        fields = await body(request)
        said = json.dumps(fields.peek("actions"), sort_keys=True)
        id = fields.text("id", "", 100)
        actions = read(fields, lambda inner: read_wait(inner, who))
        picture = wanted_of(fields, "return")
        wait = read_wait_of(fields, who)
        fields.done()
        if picture is not None or any(action.reads for action in actions):
            who.require(SEE)
        if picture is not None:
            await self._seeing.ask(self._require_seen, picture)
        armed = await self.log.arm(wait) if wait else None
        batch = self._runner.begin(who, actions, id, said, armed)
        watch = asyncio.ensure_future(_watch(request, batch.audience))
        try:
            outcome = await batch.outcome()
            try:
                return await self._answered(outcome, batch.armed_for(armed), picture, id)
            finally:
                if not watch.done():
                    outcome.claim()
        finally:
            watch.cancel()

    async def _answered(
        self, outcome: Outcome, armed: Armed | None, picture: Wanted | None, id: str
    ) -> Answered[Acted]:
        answer: Acted = {
            "results": outcome.results,
            "ok": outcome.problem is None,
            "driver": self.drive.driver,
            "event": self.log.last,
        }
        status = HTTPStatus.OK
        if id:
            answer["id"] = id
        if outcome.problem:
            status = outcome.problem.status
            answer = {**answer, **described(outcome.problem)}
        elif armed:
            try:
                # A screen settles after the actions, not while they are done.
                waiting = self.log.next(armed.wait) if armed.wait.kind == SETTLED else self.log.wait(armed)
                answer["wait"] = await waiting
            except Problem as problem:
                # The actions are done: only the wait was in vain, and a client must not send them again.
                answer["ok"], answer["wait"] = False, described(problem)
        if picture is not None:
            try:
                answer["picture"] = as_json(await self._look(picture))
            except Problem as problem:
                # As above: a window that is closed by them cannot be seen any more.
                answer["ok"], answer["picture"], answer["unseen"] = False, None, described(problem)
        answer["event"] = self.log.last
        return Answered(answer, int(status))

    async def _look(self, asked: Wanted) -> Picture:
        return await self._seeing.ask(lambda: self.eyes.picture(asked, self._place(asked)))

    def _require_seen(self, asked: Wanted) -> None:
        """Raise `Problem` for a picture that cannot be taken, before something is done for which it is wanted."""
        self._place(asked)
        if asked.region is not None:
            self.eyes.require(asked.region)

    def _place(self, asked: Wanted) -> Rectangle | None:
        if asked.window is None:
            return None
        with self.desk.lock:
            return windows.shown(self.desk.get(), asked.window, "window")

    async def _screen(self, request: Request) -> Answered[Pictured | Unchanged] | Response:
        caller(request).require(SEE)
        picture = await self._look(read_query(request, wanted))
        if "application/json" in request.headers.get("accept", ""):
            return Answered(as_json(picture))
        headers = {"x-deskyard-state": str(picture.state), "cache-control": "no-store", UNTRUSTED_HEADER: "body"}
        if picture.data is None or picture.shot is None:
            return Response(None, HTTPStatus.NOT_MODIFIED, headers)
        headers |= {
            "x-deskyard-shot": picture.shot.id,
            "x-deskyard-space": f"shot:{picture.shot.id}",
            "x-deskyard-region": ",".join(map(str, picture.shot.region.as_list())),
            "x-deskyard-size": f"{picture.shot.width},{picture.shot.height}",
        }
        return Response(picture.data, headers=headers, media_type=f"image/{picture.format}")

    async def windows(self) -> list[ListedWindow]:
        """The windows as they stand in answers, the topmost last."""

        def listed() -> list[ListedWindow]:
            with self.desk.lock:
                return windows.all_windows(self.desk.get())

        return await self.asking.ask(listed)

    async def window(self, window: int, field: str) -> Window:
        """A window as it stands in answers; raises `Problem` (404) if there is none."""

        def described_window() -> Window:
            with self.desk.lock:
                windows.place(self.desk.get(), window, field)
                found = windows.described(self.desk.get(), window)
            if found is None:
                raise windows.unmanaged(field, window)
            return found

        return await self.asking.ask(described_window)

    def _listening(self) -> Watcher:
        assert self._watcher is not None
        return self._watcher

    async def _look_at_drawing(self, seconds: float) -> None:
        watcher = self._listening()
        with contextlib.suppress(*UNANSWERED):  # without a screen nothing is drawn
            async with asyncio.timeout(min(max(seconds, SOON_SECONDS), ANSWER_SECONDS)):
                await asyncio.wrap_future(watcher.call(watcher.look_at_drawing))

    def _paste(self, text: str, keys: tuple[int, ...]) -> None:
        watcher = self._listening()
        self.drive.check()
        served = watcher.call(lambda c: watcher.clipboard.put(c, text, windows.reader(c))).result(CALL_SECONDS)
        self._runner.tools.hands.combination(keys)
        try:
            served.result(PASTE_SECONDS)
        except TookTooLong:
            reason = f"no program took the clipboard's text within {PASTE_SECONDS:g} s"
            remedy = "focus a field that takes text, or give the program's own keys (keys: ctrl+shift+v)"
            raise Problem(HTTPStatus.CONFLICT, "paste", None, reason, remedy) from None

    def _await_event(self, wait: Wait) -> Effect:
        assert self._loop is not None
        coming = asyncio.run_coroutine_threadsafe(self.log.next(wait), self._loop)
        return {"event": self._runner.tools.hands.await_event(coming)}

    async def _wait(self, request: Request) -> Answered[Happened]:
        who = caller(request)
        who.require(SEE)
        fields = await body(request)
        wait = read_wait(fields, who)
        fields.done()
        return Answered(await self.log.next(wait))

    async def taken(self, why: str = "privacy") -> None:
        """A person takes the drive, by another way than a key."""
        watcher = self._listening()
        await asyncio.wrap_future(watcher.call(lambda c: self.drive.person_acts(watcher.let_go, why)))


def read_query(request: Request, read_it: Callable[[Fields], Any]) -> Any:
    """Read a query's fields; raises `Problem` for one that is unknown."""
    fields = query(request)
    found = read_it(fields)
    fields.done()
    return found


def wanted_of(fields: Fields, name: str) -> Wanted | None:
    """The picture that an answer shall bring along, if any."""
    if not fields.given(name):
        return None
    inner = fields.inner(name)
    found = wanted(inner)
    inner.done()
    return found


def read_wait_of(fields: Fields, who: Caller) -> Wait | None:
    """Read from a request the wait that follows the actions; None if there is none."""
    if not fields.given("wait"):
        return None
    inner = fields.inner("wait")
    found = read_wait(inner, who)
    inner.done()
    return found


def as_json(picture: Picture) -> Pictured | Unchanged:
    """A picture as it stands in an answer."""
    if picture.data is None or picture.shot is None:
        return {"state": picture.state, "changed": False}
    shot = picture.shot
    return {
        "state": picture.state,
        "changed": True,
        "id": shot.id,
        "space": f"shot:{shot.id}",
        "size": [shot.width, shot.height],
        "region": shot.region.as_list(),
        "scale": round(shot.width / shot.region.width, 6),
        "format": picture.format,
        "data": base64.b64encode(picture.data).decode(),
        "untrusted": ["data"],
    }


async def _watch(request: Request, audience: Audience) -> None:
    """Say so when the client leaves before its answer."""
    audience.come()
    while (await request.receive())["type"] != "http.disconnect":
        pass
    audience.leave()
