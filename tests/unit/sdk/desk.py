"""A desktop without a screen of its own: its service's events, what is drawn as tests say, and its processes."""

import asyncio
import base64
import contextlib
import threading
from collections.abc import AsyncIterator, Sequence

from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Mount, Route

from deskyard.computer.caller import caller
from deskyard.computer.display.events import Log, read_wait
from deskyard.computer.display.feed import Feed
from deskyard.computer.display.spaces import Rectangle
from deskyard.computer.fields import body
from deskyard.computer.work.part import Work

# What the gateway and the service answer instead: by the name of the state that a test puts the desk in.
STATES = {
    "away": (503, "desktop", "does not answer"),
    "private": (423, "privacy", "a person wants privacy"),
    "over": (401, "session", "is over"),
}
SPOT = Rectangle(0, 0, 200, 200)


class Desk:
    """The routes that an agent's eyes need, on the service's own log."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self._lines: set[asyncio.Task[None]] = set()
        self.scopes = ["see", "act", "files", "shell"]
        self.state = ""
        self.refused = threading.Event()
        self.waits: list[str] = []
        self.looks = 0
        self.draws_before_a_wait = False
        self._waited = asyncio.Event()
        self.again()

    def again(self) -> None:
        """Begin anew, as a service that was restarted: events are counted from 1."""
        self.log = Log()
        self._feed = Feed(self.log)

    def tell(self, kind: str, **data: object) -> None:
        """Let something happen."""
        self.log.tell(kind, data)

    def draw(self) -> None:
        """Let something be drawn."""
        self.log.drew([SPOT])

    def cut(self, state: str) -> None:
        """Answer so from now on, and end the streams that are open."""
        self.refused.clear()
        self.state = state
        for line in list(self._lines):
            line.get_loop().call_soon_threadsafe(line.cancel)

    def streams(self) -> int:
        """How many streams of events are open."""
        return len(self._lines)

    def routes(self) -> Sequence[BaseRoute]:
        """Those of the service from inside, and behind a gateway's link."""
        service = [
            *self._work.routes(),
            Route("/v1/events", self.events),
            Route("/v1/drive", self.drive),
            Route("/v1/screen", self.screen),
            Route("/v1/windows", self.windows),
            Route("/v1/wait", self.wait, methods=["POST"]),
        ]
        door = [Route("/redeem", self.redeem, methods=["POST"]), Mount("/d/desk/computer", routes=service)]
        return [*service, *door]

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with self._work.running():
            yield

    async def redeem(self, request: Request) -> Response:
        facts = {"desktop": "desk", "path": "/d/desk/", "routes": ["computer"], "mode": "agent", "expires": 1 << 40}
        return JSONResponse({**facts, "scopes": self.scopes, "token": "token"})

    async def events(self, request: Request) -> Response:
        if refusal := self._refusal():
            return refusal
        response = await self._feed.sse(request)
        assert isinstance(response, StreamingResponse)
        response.body_iterator = self._until_cut(response.body_iterator)
        return response

    async def _until_cut(self, pieces: object) -> AsyncIterator[bytes]:
        queue: asyncio.Queue[bytes | None] = asyncio.Queue()

        async def read() -> None:
            try:
                async for piece in pieces:  # type: ignore[attr-defined]
                    queue.put_nowait(piece)
            finally:
                queue.put_nowait(None)

        line = asyncio.create_task(read())
        self._lines.add(line)
        try:
            while (piece := await queue.get()) is not None:
                yield piece
        finally:
            self._lines.discard(line)
            line.cancel()
            await asyncio.wait([line])

    async def drive(self, request: Request) -> Response:
        return self._refusal() or JSONResponse({"driver": "agent", "event": self.log.last})

    async def windows(self, request: Request) -> Response:
        return self._refusal() or JSONResponse({"windows": [{"id": 1, "title": "Do as I say"}]})

    async def screen(self, request: Request) -> Response:
        if refusal := self._refusal():
            return refusal
        self.looks += 1
        if self.draws_before_a_wait and self.looks > 2:
            # The looks that are before the first wait are over: however slow all is, this sees what was drawn.
            await self._waited.wait()
        if request.query_params.get("if_changed") == str(self.log.changes):
            return JSONResponse({"state": self.log.changes, "changed": False})
        data = base64.b64encode(b"\xff\xd8").decode()
        picture = {"data": data, "format": "jpeg", "space": "shot:1", "size": [16, 12], "region": [0, 0, 16, 12]}
        return JSONResponse({"state": self.log.changes, **picture})

    async def wait(self, request: Request) -> Response:
        if self.draws_before_a_wait:
            self.draw()
        self._waited.set()
        armed = await self.log.arm(read_wait(await body(request), caller(request)))
        self.waits.append(armed.wait.kind)
        return JSONResponse(await self.log.wait(armed))

    def _refusal(self) -> Response | None:
        if self.state not in STATES:
            return None
        status, field, reason = STATES[self.state]
        self.refused.set()
        return JSONResponse({"error": field, "value": "", "reason": reason, "remedy": "wait"}, status)
