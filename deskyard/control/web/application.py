"""The application of the web process."""

import asyncio
import contextlib
import select
import tomllib
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from http import HTTPStatus
from typing import Any

import psycopg
from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from psycopg.rows import dict_row
from psycopg_pool import AsyncConnectionPool
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from deskyard.control.api import problem
from deskyard.control.api.caller import Link
from deskyard.control.api.forms.base import ProblemDetails
from deskyard.control.approvals import calls as approvals
from deskyard.control.approvals import rule_calls
from deskyard.control.asked.tally import Tally
from deskyard.control.consent import calls as consent
from deskyard.control.credentials import calls as credentials
from deskyard.control.founding import calls as founding
from deskyard.control.identity import calls as identity
from deskyard.control.identity.door import Door
from deskyard.control.machines import calls as machines
from deskyard.control.people.passkeys import Passkeys
from deskyard.control.questions import calls as questions
from deskyard.control.quotas import calls as quotas
from deskyard.control.retention import calls as retention
from deskyard.control.tasks import calls as tasks
from deskyard.control.transcripts import calls as transcripts
from deskyard.control.upkeep import calls as upkeep
from deskyard.control.web import chat, desktops, meta, operations, pages, people, settings, workspaces
from deskyard.control.web.feed import Feed
from deskyard.control.web.pages import Pages
from deskyard.control.web.watch import alerts, budgets, metrics, timeline, usage, webhooks
from deskyard.control.web.watch.turns import Turns
from deskyard.errors import DeskyardError
from deskyard.host.places import tree

TITLE = "Deskyard Mission Control"
ABOUT = (
    "Desktops of AI agents: what there is, what is wanted of it, and who did what. docs/mission-control.md has it all."
)
TAGS = {
    "desktops": "Desktops, and what is done with them.",
    "workspaces": "Workspaces, and the same for many desktops at once.",
    "tasks": "Desktops for a task: there in seconds, and gone with all their data.",
    "upkeep": "What keeps a workspace well: looks, isolation, snapshots, backups, allowed names.",
    "operations": "Long work, from the request to its end.",
    "conversations": "What was said with agents, and how long that is kept.",
    "approvals": "What desktops want to reach, who answers, and the answers.",
    "usage": "Machine time, prices and budgets.",
    "quotas": "How much a workspace, a person or a key may have.",
    "alerts": "What is wrong by itself, and the rules that find it.",
    "webhooks": "Who is told of alerts.",
    "people": "Persons, their passkeys and sessions.",
    "keys": "Keys of programs.",
    "audit": "What was decided, by whom.",
    "events": "What happens, as it does.",
    "health": "Whether it lives and is ready, and its counts.",
}
CONNECTIONS = 20
MOST_BODY = 2 << 20
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'"
)
_FORM = {"schema": {"$ref": "#/components/schemas/ProblemDetails"}}
PROBLEM: dict[str, Any] = {"description": "A problem", "content": {problem.MEDIA_TYPE: _FORM}}
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
}
# A room before `workspaces`, whose verbs would take its paths.
ROOMS: tuple[Any, ...] = (
    desktops,
    timeline,
    machines,
    upkeep,
    tasks,
    founding,
    workspaces,
    operations,
    consent,
    approvals,
    rule_calls,
    chat,
    people,
    settings,
    credentials,
)
ROOMS += (identity, questions, retention, transcripts, usage, budgets, quotas, alerts, webhooks, metrics, meta)


def create(url: str, origin: str, files: Pages, door: Door | None = None) -> FastAPI:
    """The application on a database, for pages of one origin; `door` leads to the provider that was declared."""
    app = Described(
        title=TITLE,
        description=ABOUT,
        openapi_tags=[{"name": name, "description": text} for name, text in TAGS.items()],
        version=_release(),
        lifespan=_lifespan(url),
        openapi_url="/api/openapi.json",
        docs_url=None,
        redoc_url=None,
        responses=dict.fromkeys(("4XX", "5XX"), PROBLEM),
    )
    app.state.origin, app.state.pages, app.state.passkeys = origin, files, Passkeys(origin)
    app.state.door, app.state.tables, app.state.usage = door, Turns("tables"), Turns("usage")
    app.add_exception_handler(DeskyardError, problem.refused)
    app.add_exception_handler(RequestValidationError, problem.invalid)
    app.add_exception_handler(HTTPException, problem.plain)
    app.add_exception_handler(psycopg.DataError, problem.no_text)
    app.add_exception_handler(psycopg.OperationalError, problem.no_database)
    app.add_exception_handler(psycopg.errors.InvalidAuthorizationSpecification, problem.nobody)
    app.add_exception_handler(Exception, problem.broken)
    for module in (*ROOMS, pages):
        app.include_router(module.router)
    app.add_middleware(Frame)
    return app


class Described(FastAPI):
    """The application with its OpenAPI document, which has the form of a problem once."""

    def openapi(self) -> dict[str, Any]:
        """The document."""
        found = super().openapi()
        found["components"]["schemas"].setdefault("ProblemDetails", ProblemDetails.model_json_schema())
        return found


def _lifespan(url: str) -> Callable[[FastAPI], AbstractAsyncContextManager[None]]:
    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async def check(connection: Link) -> None:
            await _check(pool, connection)

        pool: AsyncConnectionPool[Link] = AsyncConnectionPool(
            url,
            min_size=2,
            max_size=CONNECTIONS,
            open=False,
            kwargs={"row_factory": dict_row},
            check=check,
        )
        await pool.open()
        app.state.pool, app.state.feed, app.state.tally = pool, Feed(url, pool), Tally(pool)
        tasks = [asyncio.create_task(each.run()) for each in (app.state.feed, app.state.tally)]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await app.state.tally.finish()
            await pool.close()

    return lifespan


async def _check(pool: AsyncConnectionPool[Link], connection: Link) -> None:
    """Raise if a connection is lost; asked over it only where something waits to be read, as when its server ends.

    The others are likely lost with it, and the pool waits twice as long after each that it finds: all go at once.
    """
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    if poll.poll(0):
        try:
            await AsyncConnectionPool.check_connection(connection)
        except psycopg.OperationalError:
            await pool.check()
            raise


class Frame:
    """The middleware that gives every answer its headers and bounds the length of a request."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        is_api, taken = scope["path"].startswith("/api"), 0

        async def bounded() -> Message:
            nonlocal taken
            message = await receive()
            taken += len(message.get("body", b""))
            if taken > MOST_BODY:
                raise HTTPException(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"the body is longer than {MOST_BODY} bytes")
            return message

        async def framed(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(HEADERS)
                if is_api:
                    headers.setdefault("cache-control", "no-store")
            await send(message)

        length = Headers(scope=scope).get("content-length", "0")
        if not length.isdigit() or int(length) > MOST_BODY:
            error = DeskyardError("body", length, f"is longer than {MOST_BODY} bytes", "send less")
            await problem.answer(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, error)(scope, receive, framed)
            return
        await self._app(scope, bounded, framed)


def _release() -> str:
    return str(tomllib.loads((tree() / "pyproject.toml").read_text())["project"]["version"])
