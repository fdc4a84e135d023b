"""Privacy: while the person who drives wants it, the service shows nobody the screen, nor what is on it.

The gateway says so and refuses programs by itself; here it is for who asks inside the desktop, and for events and
streams that are open. It is believed for some seconds only, until the gateway says it again.

Whatever path is not known to be harmless is hidden, so that a new one is.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Any, Protocol

from starlette.requests import Request
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.websockets import WebSocket

from deskyard.computer.answers.answered import Answered
from deskyard.computer.answers.screen import Private
from deskyard.computer.caller import caller, is_gateway
from deskyard.computer.fields import body
from deskyard.computer.problem import Problem, deny, described
from deskyard.wire.computer import PRIVACY_OFF, PRIVACY_ON, PRIVACY_PATH, SEE

MOST_SECONDS = 60
CLOSED = 4423  # why a WebSocket is closed
LAST_WORDS_SECONDS = 2.0
# Below /v1/. Files and processes are no part of the screen; waits and events leave out what happens on it.
OPEN = ("privacy", "sessions", "drive", "wait", "events", "files", "processes")
REASON = "a person at this desktop wants privacy: nothing of the screen is shown, and nothing done on it"
REMEDY = f'wait for the event {PRIVACY_OFF} (POST /v1/wait {{"event": "{PRIVACY_OFF}"}}), then look again'


class Events(Protocol):
    """The record of events, which keeps nothing of the screen while `hidden`."""

    hidden: bool

    def tell(self, kind: str, data: dict[str, Any]) -> object:
        """Add an event."""


def refused() -> Problem:
    """The refusal of what is hidden."""
    return Problem(HTTPStatus.LOCKED, "privacy", "on", REASON, REMEDY)


class Privacy:
    """Whether it is on. `take` stops what the agent does as it begins; who records or streams may `hear` of it."""

    def __init__(self, events: Events, take: Callable[[], Awaitable[None]]) -> None:
        self._events = events
        self._take = take
        self._lapse: asyncio.TimerHandle | None = None
        self._heard: list[Callable[[bool], None]] = []
        self.times = 0  # how often it began

    @property
    def is_on(self) -> bool:
        """Whether the screen is hidden."""
        return self._events.hidden

    def hear(self, listener: Callable[[bool], None]) -> None:
        """Have it called with True as privacy begins and False as it ends, in the event loop."""
        self._heard.append(listener)

    def routes(self) -> list[Route]:
        """Its path."""
        return [Route(PRIVACY_PATH, self._get, methods=["GET"]), Route(PRIVACY_PATH, self._put, methods=["PUT"])]

    async def _get(self, request: Request) -> Answered[Private]:
        caller(request).require(SEE)
        return Answered({"on": self.is_on})

    async def _put(self, request: Request) -> Answered[Private]:
        if not is_gateway(request):
            reason = "is for the gateway to say, as the person who drives wants it"
            raise Problem(HTTPStatus.FORBIDDEN, "privacy", None, reason, "use the button of the desktop's page")
        fields = await body(request)
        on = fields.flag("on")
        seconds = fields.integer("seconds", 1, MOST_SECONDS, MOST_SECONDS)
        fields.done()
        await (self.begin(seconds) if on else self.end("off"))
        return Answered({"on": self.is_on})

    async def begin(self, seconds: float) -> None:
        """Hide the screen for so long, or for so long from now on."""
        if self._lapse:
            self._lapse.cancel()
        self._lapse = asyncio.get_running_loop().call_later(seconds, self._over, "the gateway said it no more")
        if self.is_on:
            return
        self.times += 1
        self._events.hidden = True
        self._events.tell(PRIVACY_ON, {})
        for listener in self._heard:
            listener(True)
        await self._take()

    async def end(self, why: str) -> None:
        """Show it again."""
        self._over(why)

    def _over(self, why: str) -> None:
        if self._lapse:
            self._lapse.cancel()
            self._lapse = None
        if not self.is_on:
            return
        self._events.hidden = False
        self._events.tell(PRIVACY_OFF, {"by": why})
        for listener in self._heard:
            listener(False)


class Gate:
    """An application that answers nothing of the screen while privacy is on, nor what was asked before it."""

    def __init__(self, app: ASGIApp, privacy: Privacy) -> None:
        self._app = app
        self._privacy = privacy
        self._sockets: set[asyncio.Event] = set()
        privacy.hear(self._cut)

    def _cut(self, on: bool) -> None:
        for over in self._sockets if on else ():
            over.set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on what is not hidden."""
        if scope["type"] not in ("http", "websocket") or not _is_hidden(scope["path"]):
            await self._app(scope, receive, send)
        elif self._privacy.is_on:
            await _refuse(scope, receive, send)
        elif scope["type"] == "http":
            await self._answer(scope, receive, send)
        else:
            await self._serve(scope, receive, send)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        times, late = self._privacy.times, False

        async def guarded(message: Message) -> None:
            nonlocal late
            # It may have looked after privacy began, or begin to be sent after it is over.
            if message["type"] == "http.response.start" and times != self._privacy.times:
                late = True
                await _refuse(scope, receive, send)
            if not late:
                await send(message)

        await self._app(scope, receive, guarded)

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        over = asyncio.Event()
        self._sockets.add(over)

        async def guarded(message: Message) -> None:
            if not over.is_set():
                await send(message)

        serving = asyncio.ensure_future(self._app(scope, receive, guarded))
        ending = asyncio.ensure_future(over.wait())
        try:
            await asyncio.wait({serving, ending}, return_when=asyncio.FIRST_COMPLETED)
            if not serving.done():
                with contextlib.suppress(RuntimeError, OSError):  # it is being closed already
                    await send({"type": "websocket.close", "code": CLOSED, "reason": "a person wants privacy"})
                await asyncio.wait({serving}, timeout=LAST_WORDS_SECONDS)
        finally:
            self._sockets.discard(over)
            ending.cancel()
            serving.cancel()
            await asyncio.wait({serving, ending})
        if not serving.cancelled() and not over.is_set() and (error := serving.exception()):
            raise error


def _is_hidden(path: str) -> bool:
    """Whether a path tells of the screen, or acts on it."""
    parts = path.split("/")
    return parts[1:2] == ["v1"] and parts[2:3] != [""] and "".join(parts[2:3]) not in OPEN


async def _refuse(scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "websocket":
        await deny(WebSocket(scope, receive, send), refused())
    else:
        await Answered(described(refused()), int(HTTPStatus.LOCKED))(scope, receive, send)
