"""The session service: pages and redemption for browsers, behind HAProxy; grants and revocations for root."""

import asyncio
import contextlib
import json
import re
import sys
import time
from collections.abc import AsyncIterator, Callable
from http import HTTPStatus
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from deskyard.errors import GatewayError
from deskyard.gateway.actions import ledger
from deskyard.gateway.chat import chat
from deskyard.gateway.chat.exchange import Exchange
from deskyard.gateway.config.servers import servers
from deskyard.gateway.machine import systemd
from deskyard.gateway.machine.layout import Layout
from deskyard.gateway.page_news import Page, PageNews, Source, changes
from deskyard.gateway.session import admin, signing, tokens
from deskyard.gateway.session.audit import Audit
from deskyard.gateway.session.grants import AGENT
from deskyard.gateway.session.proxy import Proxy
from deskyard.gateway.session.refusal import Refusal, status_of
from deskyard.gateway.session.refusals import PERIOD_SECONDS, Refusals, listen
from deskyard.gateway.session.sessions import Sessions
from deskyard.gateway.session.store import Session, Store
from deskyard.gateway.session.stream_line import StreamLine
from deskyard.wire.gateway_settings import parse

TICKET = re.compile(r"[A-Za-z0-9_-]{20,100}\Z")
PAUSE_SECONDS = 0.5  # between two sweeps, however much happens
NO_STORE = {"Cache-Control": "no-store"}


def create(layout: Layout) -> Starlette:
    """The application; reads the settings in force once: `apply` restarts the service when they change."""
    settings = parse(layout.settings_file.read_text())
    audit, keys = Audit(layout.audit_file), signing.Ring(layout.signing_keys)
    store = Store(layout.database)
    sessions = Sessions(
        settings,
        store,
        Proxy(layout.master_socket, layout.revoked_file, servers(settings, layout)),
        audit,
        keys,
        layout,
    )
    app = Starlette(
        routes=[
            Route("/", _page(layout, "index.html")),
            Route("/healthz", _healthz),
            Route("/redeem", _redeem, methods=["POST"]),
            Route("/d/{desktop}/", _page(layout, "viewer.html")),
            Route("/d/{desktop}/session", _session),
            Route("/d/{desktop}/events", _events),
            Route("/d/{desktop}/chat", _chat),
            Route("/d/{desktop}/say", _say, methods=["POST"]),
            Route("/d/{desktop}/renew", _renew, methods=["POST"]),
            Route("/d/{desktop}/drive", _drive, methods=["POST"]),
            Mount("/assets", StaticFiles(directory=layout.assets, check_dir=False)),
        ],
        exception_handlers={GatewayError: _unauthorised},
        lifespan=lambda app: _lifespan(app, layout),
    )
    app.state.sessions = sessions
    app.state.keys = keys
    app.state.refusals = Refusals(audit.note)
    app.state.actions = ledger.Ledger(ledger.chain(layout), audit, store.actor, unanswered=sessions.hear_unanswered)
    return app


@contextlib.asynccontextmanager
async def _lifespan(app: Starlette, layout: Layout) -> AsyncIterator[None]:
    sessions: Sessions = app.state.sessions
    line = await admin.serve(sessions, layout.admin_socket)
    streams = await StreamLine(sessions, layout.view_user).serve(layout.streams_socket)
    exchange = await Exchange(sessions.chat).serve(layout.chat_socket)
    await sessions.revoke_removed_desktops()
    refusals = await listen(app.state.refusals, layout.refusals_port)
    actions: ledger.Ledger = app.state.actions
    heard = await ledger.listen(actions, layout.actions_port)
    tasks = [asyncio.create_task(_sweep(sessions, app.state.refusals)), asyncio.create_task(actions.run())]
    systemd.notify("READY=1")
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        refusals.close()
        heard.close()
        app.state.refusals.flush()
        actions.close()
        line.close()
        streams.close()
        exchange.close()


async def _sweep(sessions: Sessions, refusals: Refusals) -> None:
    flushed = time.monotonic()
    while True:
        sessions.woken.clear()
        rest = 0.0
        try:
            rest = await sessions.sweep()
            if time.monotonic() - flushed > PERIOD_SECONDS:
                flushed = time.monotonic()
                refusals.flush()
        except Exception as error:  # the sweep must outlive a full disk or a restarting HAProxy; nothing opens by it
            print(f"sweep failed: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
        await asyncio.sleep(PAUSE_SECONDS)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(sessions.woken.wait(), rest - PAUSE_SECONDS)


def _page(layout: Layout, name: str) -> Any:
    async def page(request: Request) -> Response:
        return FileResponse(layout.assets / name, headers=NO_STORE)

    return page


async def _healthz(request: Request) -> Response:
    return PlainTextResponse("ok\n", headers=NO_STORE)


async def _redeem(request: Request) -> Response:
    sessions: Sessions = request.app.state.sessions
    address = request.headers.get("x-deskyard-address", "")
    try:
        ticket = _ticket(await request.body())
        session, token = await sessions.redeem(ticket, address)
    except GatewayError as error:
        if status_of(error) == HTTPStatus.TOO_MANY_REQUESTS:
            # In a flood each is counted, and a few are written down.
            request.app.state.refusals.count(address, HTTPStatus.TOO_MANY_REQUESTS, "ticket", None, "redeem")
        return _refusal(error)
    return _with_token(session, token, sessions)


async def _session(request: Request) -> Response:
    return JSONResponse(_facts(_session_of(request), request.app.state.sessions), headers=NO_STORE)


async def _events(request: Request) -> Response:
    """How far a desktop is, to a page that waits for it."""
    sessions: Sessions = request.app.state.sessions
    awaiting = sessions.awaiting
    try:
        page = awaiting.join(_session_of(request))
    except Refusal as error:
        return _refusal(error)
    return _news(page, changes(lambda: awaiting.facts(page.session)), awaiting.leave, sessions)


async def _chat(request: Request) -> Response:
    """The chat of a desktop, to a page that shows it."""
    sessions: Sessions = request.app.state.sessions
    try:
        page = sessions.chat.join(_session_of(request))
    except Refusal as error:
        return _refusal(error)
    return _news(page, sessions.chat.reader(page), sessions.chat.leave, sessions)


def _news(
    page: Page, read: Callable[[], dict[str, Any] | None], leave: Callable[[Page], None], sessions: Sessions
) -> Response:
    source = Source(read, lambda: leave(page), lambda: sessions.is_good(page.session))
    return PageNews(page, source, NO_STORE)


async def _say(request: Request) -> Response:
    """Pass on a message to the agent, or that its turn is to end; answered when Mission Control has it."""
    sessions: Sessions = request.app.state.sessions
    session = _session_of(request)
    try:
        answer = await sessions.chat.ask(session, chat.parse(await request.body()))
    except GatewayError as error:
        return _refusal(error)
    return JSONResponse(answer, headers=NO_STORE)


async def _renew(request: Request) -> Response:
    """The page asks while it is open; HAProxy has checked that it is a page of ours."""
    sessions: Sessions = request.app.state.sessions
    session, token = sessions.renew(_session_of(request))
    return _with_token(session, token, sessions)


async def _drive(request: Request) -> Response:
    """Do with the drive what a person asks: take it, hand it over, hide the desktop from programs or show it.

    Whoever may drive, driving or not, may also stop the agent and let it go on; and before there is anything to drive,
    want the desktop to start, as a program may that may act there.
    """
    sessions: Sessions = request.app.state.sessions
    session = _session_of(request)
    try:
        action = json.loads(await request.body())["action"]
        if action in ("hide", "show"):
            await sessions.set_privacy(session, private=action == "hide")
        elif action == "stop":
            await sessions.stop_agent(session.desktop, session.actor, session)
        elif action == "go":
            await sessions.let_agent_go(session.desktop, session.actor, session)
        elif action == "wake":
            sessions.want(session)
            if session.mode == AGENT:
                return JSONResponse(sessions.awaiting.facts(session), headers=NO_STORE)
        else:
            {"take": sessions.streams.take, "hand-over": sessions.streams.hand_over}[action](session)
    except (ValueError, KeyError, TypeError):
        remedy = 'send {"action": "take"}, or hand-over, hide, show, stop, go or wake'
        return _refusal(Refusal(HTTPStatus.BAD_REQUEST, "request", "is malformed", remedy))
    except GatewayError as error:
        return _refusal(error)
    return JSONResponse(_facts(session, sessions), headers=NO_STORE)


async def _unauthorised(request: Request, error: Exception) -> Response:
    """The answer to an error that no page expects: there is no session that may do this."""
    assert isinstance(error, GatewayError)
    return _refusal(error)


def _session_of(request: Request) -> Session:
    """The live session behind the cookie, or behind a program's bearer token; raises `GatewayError`."""
    sessions: Sessions = request.app.state.sessions
    desktop = request.path_params["desktop"]
    scheme, _, bearer = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        token, audience = bearer, tokens.PROGRAMS
    else:
        token, audience = request.cookies.get(tokens.cookie_name(desktop), ""), tokens.AUDIENCE
    claims = tokens.verify(token, request.app.state.keys.public, sessions.settings.workspace, audience)
    return sessions.session_of(claims, desktop)


def _with_token(session: Session, token: str, sessions: Sessions) -> Response:
    """The facts of a session and its token: for a browser in a cookie that no page can read, for a program in JSON."""
    facts = _facts(session, sessions)
    if session.mode == AGENT:
        return JSONResponse({**facts, "scopes": list(session.scopes), "token": token}, headers=NO_STORE)
    response = JSONResponse(facts, headers=NO_STORE)
    response.set_cookie(
        tokens.cookie_name(session.desktop),
        token,
        max_age=max(1, int(session.ends - time.time())),
        path="/",
        secure=True,
        httponly=True,
        samesite="strict",
    )
    return response


def _ticket(body: bytes) -> str:
    wrong = Refusal(HTTPStatus.BAD_REQUEST, "request", "is malformed", 'send {"ticket": "..."}')
    try:
        ticket = json.loads(body)["ticket"]
    except (ValueError, KeyError, TypeError) as error:
        raise wrong from error
    if not isinstance(ticket, str) or not TICKET.match(ticket):
        raise wrong
    return ticket


def _facts(session: Session, sessions: Sessions) -> dict[str, Any]:
    return {
        "workspace": sessions.settings.workspace,
        "desktop": session.desktop,
        "path": f"/d/{session.desktop}/",
        "routes": list(session.routes),
        "mode": session.mode,
        "expires": int(session.expires),
        "renew_before": int(session.ends),
        **sessions.state_of(session),
    }


def _refusal(error: GatewayError) -> Response:
    body = {"error": error.field, "message": error.reason, "remedy": error.remedy}
    return JSONResponse(body, status_of(error), headers=NO_STORE)


def serve(layout: Layout) -> None:
    """Serve until told to stop."""
    uvicorn.run(
        create(layout),
        host="127.0.0.1",
        port=layout.service_port,
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=2,
        http="h11",
        loop="asyncio",
        ws="none",
    )
