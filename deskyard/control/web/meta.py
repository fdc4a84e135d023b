"""/healthz, /readyz, /version, and the stream of events."""

from http import HTTPStatus
from typing import Annotated, Any

from fastapi import APIRouter, Header, Request
from fastapi.responses import JSONResponse, StreamingResponse

from deskyard.control.api import rows
from deskyard.control.api.caller import SECURED, Caller, Connection, caller
from deskyard.control.people.scopes import READ
from deskyard.control.web import feed

router = APIRouter()


@router.get("/healthz", tags=["health"])
async def healthz() -> dict[str, str]:
    """Say that the process lives."""
    return {"state": "ok"}


@router.get(
    "/readyz", tags=["health"], responses={503: {"description": "Not ready", "content": {"application/json": {}}}}
)
async def readyz(link: Connection) -> JSONResponse:
    """Say whether the database answers and a worker runs; 503 if not."""
    query = f"select exists (select from worker where recent(seen_at, '{rows.WORKER_GONE}')) as worker"
    found = await rows.row(link, query, [])
    ready = bool(found and found["worker"])
    state = {"database": "ok", "worker": "ok" if ready else "none"}
    return JSONResponse(state, HTTPStatus.OK if ready else HTTPStatus.SERVICE_UNAVAILABLE)


@router.get("/version", tags=["health"])
async def version(request: Request) -> dict[str, Any]:
    """Say which release this is."""
    return {"version": request.app.version}


@router.get("/api/events", tags=["events"], response_class=StreamingResponse, dependencies=SECURED)
async def events(
    request: Request,
    workspace: str | None = None,
    desktop: str | None = None,
    last_event_id: Annotated[str | None, Header()] = None,
) -> StreamingResponse:
    """Follow what happens, as server-sent events; `Last-Event-ID` goes on where a stream was cut.

    Where the event of that id is not kept any more, `reset` comes first: lists have to be read anew. `heartbeat`, which
    has no id, comes at least every 30 seconds: where none does, the stream is cut.
    """

    async def who() -> Caller:
        # Not a dependency: a watcher would hold its connection as long as it listens.
        async with request.app.state.pool.connection() as link:
            found = await caller(request, link)
        found.require(READ)
        return found

    stream = request.app.state.feed.stream(await who(), who, feed.parsed(last_event_id), feed.Only(workspace, desktop))
    return StreamingResponse(stream, media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})
