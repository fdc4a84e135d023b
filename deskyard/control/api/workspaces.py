"""/api/workspaces, and the same for many desktops at once."""

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Depends, Response

from deskyard.control.api import rows
from deskyard.control.api.admission import Asked, Once, Repeat, Wanted, admit, known
from deskyard.control.api.caller import Caller, Connection, may
from deskyard.control.api.desktops import for_a_task, require_workspace, where
from deskyard.control.api.forms.base import Page
from deskyard.control.api.forms.desktops import FleetAction, FleetAnswer, Workspace
from deskyard.control.api.forms.work import Operation
from deskyard.control.api.problem import Problem
from deskyard.control.halting.kinds import lane
from deskyard.control.people.scopes import READ, WRITE

router = APIRouter(prefix="/api", tags=["workspaces"])
Reader = Annotated[Caller, Depends(may(READ))]
Writer = Annotated[Caller, Depends(may(WRITE))]


@router.get("/workspaces")
async def listing(link: Connection, who: Reader, part: rows.AskedPart) -> Page[Workspace]:
    """List the declared workspaces."""
    condition, values = ("w.id = any(%s) and", [who.bounds]) if who.bounds is not None else ("", [])
    source = f"{rows.WORKSPACE} where {condition} w.gone_at is null"
    found, going_on, total = await rows.cut(link, source, ["id"], values, part)
    return Page(items=[rows.workspace(record) for record in found], next_cursor=going_on, total=total)


@router.get("/workspaces/{id}")
async def look(link: Connection, who: Reader, id: str) -> Workspace:
    """Show a workspace."""
    return rows.workspace(await require_workspace(link, who, id))


@router.post("/workspaces/{id}/{verb}", status_code=HTTPStatus.ACCEPTED)
async def act(asked: Asked, who: Writer, id: str, verb: str) -> Operation:
    """Bring a workspace to what is declared (`up`), or start or stop all its machines."""
    if verb not in ("up", "start", "stop"):
        raise Problem(HTTPStatus.NOT_FOUND, "verb", verb, "is not known", "choose up, start or stop")

    async def make() -> Wanted:
        await require_workspace(asked.link, who, id)
        return Wanted(f"workspace.{verb}", id)

    return await asked.admitted(who, make)


@router.post(
    "/fleet/actions",
    status_code=HTTPStatus.ACCEPTED,
    responses={200: {"model": FleetAnswer, "description": "What a dry run found"}},
)
async def fleet(response: Response, link: Connection, who: Writer, once: Once, wanted: FleetAction) -> FleetAnswer:
    """Do the same with all desktops of a selection, if they are as many as the caller saw."""
    condition, values = where(who, wanted.selector)
    query = f"select d.id, d.workspace_id, d.name, d.lifetime from desktop d where {condition} order by d.id"
    found = await rows.rows(link, query, values)
    for record in found:
        if record["lifetime"] != "kept":
            raise for_a_task(record)
    ids = [record["id"] for record in found]
    if wanted.dry_run:
        response.status_code = HTTPStatus.OK
        return FleetAnswer(count=len(ids), desktops=ids, operations=[])
    if len(ids) != wanted.expected_count:
        reason = f"is not what there is: {len(ids)} desktops"
        raise Problem(HTTPStatus.CONFLICT, "expectedCount", wanted.expected_count, reason, "look again, then repeat it")
    operations = []
    for record in found:
        # Each has a name of its own, which follows from the request's: sent again, none is made twice.
        part = Repeat(f"{once.key}/{record['id']}" if once.key else None, once.request_hash)
        before = await known(link, who, part)
        kind, id = f"desktop.{wanted.action}", record["id"]
        task = Wanted(kind, record["workspace_id"], id, lane=lane(kind, id))
        operations.append(before or await admit(link, who, part, task))
    return FleetAnswer(count=len(ids), desktops=ids, operations=operations)
