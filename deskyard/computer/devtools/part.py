"""DevTools as a part of the service: the browser started, its pages listed, and connections to it and to them."""

import contextlib
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING

from starlette.requests import HTTPConnection, Request
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.websockets import WebSocket

from deskyard.computer.answers import screen as answers
from deskyard.computer.answers.answered import Answered
from deskyard.computer.caller import Caller, caller
from deskyard.computer.devtools.browser import Browser, ask
from deskyard.computer.devtools.relay import Relay
from deskyard.computer.display.part import Display
from deskyard.computer.fields import body, query, wrong
from deskyard.computer.problem import Problem, close, deny
from deskyard.wire.computer import ACT, FILES, SEE

if TYPE_CHECKING:
    from websockets.asyncio.client import ClientConnection

PLACE = "/v1/devtools"
PAGE = re.compile(r"[A-Za-z0-9-]{1,64}")
START_SECONDS = 60.0
MOST_WITHIN_MS = 600_000
MOST_CONNECTIONS = 16
# A page is seen and acted on, and the browser reads the files that it is sent to.
NEEDED = (SEE, ACT, FILES)


class Devtools:
    """A browser with a profile of its own on the display; commands pass as long as no person drives."""

    def __init__(self, display: Display, home: Path | None = None, command: Sequence[str] = ()) -> None:
        self._display = display
        self._browser = Browser(home or Path.home(), command)
        self._connections = 0

    def routes(self) -> Sequence[BaseRoute]:
        """The paths of DevTools."""
        return [
            Route(PLACE, self._describe, methods=["GET"]),
            Route(PLACE, self._start, methods=["POST"]),
            Route(PLACE, self._end, methods=["DELETE"]),
            WebSocketRoute(PLACE, self._whole),
            WebSocketRoute(PLACE + "/page/{id}", self._page),
        ]

    def running(self) -> AbstractAsyncContextManager[None]:
        """The browser outlives the service."""
        return self._running()

    @contextlib.asynccontextmanager
    async def _running(self) -> AsyncIterator[None]:
        yield
        await self._browser.close()

    async def _describe(self, request: Request) -> Answered[answers.Browser]:
        caller(request).require(SEE)
        query(request).done()
        connection = await self._browser.running()
        if connection is None:
            return Answered({"running": False, "path": PLACE})
        return Answered(await _described(connection))

    async def _start(self, request: Request) -> Answered[answers.Browser]:
        who = _allowed(request)
        fields = await body(request)
        seconds = fields.integer("within_ms", 1, MOST_WITHIN_MS, int(START_SECONDS * 1000)) / 1000
        fields.done()
        self._display.drive.check()
        connection = await self._browser.started(seconds)
        self._display.sink.note({"kind": "devtools.start", "session": who.session, "scope": ACT})
        return Answered(await _described(connection))

    async def _end(self, request: Request) -> Answered[answers.Ended]:
        who = _allowed(request)
        query(request).done()
        self._display.drive.check()
        ended = await self._browser.end()
        if ended:
            self._display.sink.note({"kind": "devtools.end", "session": who.session, "scope": ACT})
        return Answered({"ok": True, "ended": ended})

    async def _whole(self, socket: WebSocket) -> None:
        await self._serve(socket, lambda: self._browser.started(START_SECONDS))

    async def _page(self, socket: WebSocket) -> None:
        id = socket.path_params["id"]
        if not PAGE.fullmatch(id):
            await deny(socket, wrong("page", id, "is no page's id", "take one of GET /v1/devtools"))
            return
        await self._serve(socket, lambda: self._browser.page(id))

    async def _serve(self, socket: WebSocket, opened: Callable[[], Awaitable["ClientConnection"]]) -> None:
        if self._connections >= MOST_CONNECTIONS:
            reason = "connections to the browser are open already"
            remedy = "close one of them"
            problem = Problem(HTTPStatus.TOO_MANY_REQUESTS, "connections", self._connections, reason, remedy)
            await deny(socket, problem)
            return
        self._connections += 1
        try:
            try:
                who = _allowed(socket)
                self._display.drive.check()
            except Problem as problem:
                await deny(socket, problem)
                return
            # A handshake gets ten seconds, and a browser that starts on a slow machine needs more.
            await socket.accept()
            try:
                browser = await opened()
            except Problem as problem:
                await close(socket, problem)
                return
            await Relay(socket, browser, self._display.drive.check, lambda *what: self._record(who, *what)).serve()
        finally:
            self._connections -= 1

    def _record(self, who: Caller, method: str, params: str) -> None:
        note = {"kind": "devtools", "session": who.session, "scope": ACT, "method": method, "params": params}
        self._display.sink.note(note)


def _allowed(connection: HTTPConnection) -> Caller:
    who = caller(connection)
    for scope in NEEDED:
        who.require(scope)
    return who


async def _described(connection: "ClientConnection") -> answers.Browser:
    """The browser and its pages as they stand in answers; the connection is closed."""
    try:
        version = await ask(connection, "Browser.getVersion")
        targets = (await ask(connection, "Target.getTargets")).get("targetInfos", [])
    finally:
        await connection.close()
    pages: list[answers.Page] = [
        {"id": page["targetId"], "title": page["title"], "url": page["url"], "path": f"{PLACE}/page/{page['targetId']}"}
        for page in targets
        if page["type"] == "page"
    ]
    name = str(version.get("product", ""))
    return {"running": True, "path": PLACE, "browser": name, "pages": pages, "untrusted": ["title", "url"]}
