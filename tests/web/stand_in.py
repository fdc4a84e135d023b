"""A stand-in of Mission Control: its API in memory, its pages, and the headers that it sends with them."""

import asyncio
import contextlib
import json
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import FileResponse, Response, StreamingResponse
from starlette.routing import Route

from tests.web import administration, calls, credentials, founding, rules, upkeep
from tests.web.estate import Estate
from tests.web.passkeys import Passkeys

HOST = "mission.deskyard.localhost"
COOKIE = "__Host-mission"
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "font-src 'self'; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'; require-trusted-types-for 'script'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
}
OPEN = ("/api/sign-in", "/api/enrol")
HELD_SECONDS = 60.0


@dataclass
class StandIn:
    """The server of one test run; `estate` is changed by tests.

    `requests` notes what the pages asked for, `keys` by which Idempotency-Key of which path, `refused` counts what was
    asked while the server was away. The answer to what is asked of a path of `held` is sent once that is set.
    """

    pages: Path
    estate: Estate = field(default_factory=Estate)
    passkeys: Passkeys = field(default_factory=Passkeys)
    requests: list[tuple[str, str, Any]] = field(default_factory=list)
    keys: list[tuple[str, str]] = field(default_factory=list)
    sessions: set[str] = field(default_factory=set)
    held: dict[str, threading.Event] = field(default_factory=dict)
    away: bool = False
    refused: int = 0
    # Whether its database keeps nothing new.
    full: bool = False
    port: int = 0

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}"

    def asked(self, method: str, path: str) -> list[Any]:
        """The bodies of all requests of that kind, in their order."""
        return [body for found, where, body in self.requests if (found, where) == (method, path)]

    def app(self) -> Starlette:
        found = [
            Route(path, self._guarded(handler), methods=[method])
            for module in (administration, credentials, founding, upkeep, calls, rules)
            for method, path, handler in module.ROUTES
        ]
        found += [Route("/api/events", self._guarded(events)), Route("/{path:path}", self._page)]
        app = Starlette(routes=found, middleware=[Middleware(BaseHTTPMiddleware, dispatch=self._with_headers)])
        app.state.stand_in = self
        return app

    def _guarded(self, handler: Callable[..., Any]) -> Callable[..., Any]:
        async def guarded(request: Request) -> Response:
            body = json.loads(await request.body() or b"null")
            self.requests.append((request.method, request.url.path, body))
            if self.away:
                self.refused += 1
                return Response(status_code=503)
            if self.full and request.method != "GET":
                remedy = "make room on Mission Control's machine; it goes on by itself"
                return calls.problem(503, "database", "", "has no room left on its disk", remedy)
            if not request.url.path.startswith(OPEN) and request.cookies.get(COOKIE) not in self.sessions:
                return calls.problem(401, "session", "", "nobody is signed in", "Sign in")
            if request.method != "GET" and (
                request.headers.get("x-deskyard") != "1" or not request.headers.get("idempotency-key")
            ):
                return calls.problem(400, "X-Deskyard", "", "the header is missing", "Send it")
            if request.method != "GET":
                self.keys.append((request.url.path, request.headers["idempotency-key"]))
            answer: Response = await handler(request, self, body)
            if held := self.held.get(request.url.path):
                await asyncio.to_thread(held.wait, HELD_SECONDS)
            return answer

        return guarded

    async def _page(self, request: Request) -> Response:
        name = request.url.path.strip("/")
        file = self.pages / (name if "." in name else "index.html")
        return FileResponse(file) if file.is_file() else Response(status_code=404)

    async def _with_headers(self, request: Request, proceed: Callable[..., Any]) -> Response:
        response: Response = await proceed(request)
        response.headers.update(HEADERS)
        return response


async def events(request: Request, stand_in: StandIn, _body: Any) -> Response:
    """The stream of events, from where the browser last was."""
    queue: asyncio.Queue[Any] = asyncio.Queue()
    estate = stand_in.estate
    estate.listeners.add(queue)
    last = request.headers.get("last-event-id")
    missed = [entry for entry in estate.events if last and entry[0] > int(last.split("-")[1])]

    async def lines() -> AsyncIterator[str]:
        try:
            yield "retry: 200\n\n"
            for entry in missed:
                yield _event(*entry)
            while (entry := await queue.get()) is not None:
                yield _event(*entry)
        finally:
            estate.listeners.discard(queue)

    return StreamingResponse(lines(), media_type="text/event-stream", headers={"Cache-Control": "no-store"})


def _event(number: int, event: str, data: Any) -> str:
    return f"id: 1-{number}\nevent: {event}\ndata: {json.dumps(data)}\n\n"


@contextmanager
def running(pages: Path) -> Iterator[StandIn]:
    """A stand-in that serves built pages on a free port."""
    stand_in = StandIn(pages)
    app = GZipMiddleware(stand_in.app(), minimum_size=2000)
    server = uvicorn.Server(
        uvicorn.Config(app, host="127.0.0.1", port=0, log_level="warning", timeout_graceful_shutdown=1, lifespan="off")
    )
    started = threading.Event()

    async def serve() -> None:
        stand_in.estate.loop = asyncio.get_running_loop()
        serving = asyncio.create_task(server.serve())
        while not server.started and not serving.done():
            await asyncio.sleep(0.01)
        stand_in.port = server.servers[0].sockets[0].getsockname()[1]
        started.set()
        await serving

    thread = threading.Thread(target=lambda: asyncio.run(serve()), daemon=True)
    thread.start()
    assert started.wait(20)
    try:
        yield stand_in
    finally:
        stand_in.estate.hang_up()
        server.should_exit = True
        with contextlib.suppress(RuntimeError):
            thread.join(10)
