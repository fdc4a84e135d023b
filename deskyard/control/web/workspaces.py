"""/api/workspaces, and the same for many desktops at once."""

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Depends, Response

from deskyard.control.api import rows
from deskyard.control.api.admission import Asked, Once, Repeat, Wanted, admit, known
from deskyard.control.api.caller import Caller, Connection, Row, may
from deskyard.control.api.forms.base import Page
from deskyard.control.api.forms.desktops import FleetAction, FleetAnswer, Workspace
from deskyard.control.api.forms.work import Operation
from deskyard.control.api.named import for_a_task, require_workspace
from deskyard.control.api.problem import Problem
from deskyard.control.halting.kinds import lane
from deskyard.control.machines.upgrades import Upgrades
from deskyard.control.people.scopes import DESTROY, READ, WRITE
from deskyard.control.web.desktops import where

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
    """Do the same with all desktops of a selection, if they are as many as the caller saw.

    To `upgrade` asks for the scope `desktops:destroy`, and a person's signature over all of them; those for which there
    is no other image, and those that do not run, are left out and named.
    """
    condition, values = where(who, wanted.selector)
    query = f"""select d.id, d.workspace_id, d.name, d.lifetime, d.state, d.image_now, d.image_newest
        from desktop d where {condition} order by d.id"""
    found = await rows.rows(link, query, values)
    for record in found:
        if record["lifetime"] != "kept":
            raise for_a_task(record)
    if wanted.action == "upgrade":
        who.require(DESTROY)
    if not wanted.dry_run and len(found) != wanted.expected_count:
        reason = f"is not what there is: {len(found)} desktops"
        raise Problem(HTTPStatus.CONFLICT, "expectedCount", wanted.expected_count, reason, "look again, then repeat it")
    # Each has a name of its own, which follows from the request's: sent again, none is made twice.
    parts = {id: Repeat(f"{once.key}/{id}" if once.key else None, once.request_hash) for id in _ids(found)}
    before = {} if wanted.dry_run else {id: await known(link, who, part) for id, part in parts.items()}
    fresh = [record for record in found if not before.get(record["id"])]
    upgrades = Upgrades.of(fresh) if wanted.action == "upgrade" else None
    answer = _answer(who, found, upgrades)
    if wanted.dry_run:
        response.status_code = HTTPStatus.OK
        return answer
    tasks = await upgrades.tasks(link, who, wanted.intent) if upgrades is not None else _tasks(wanted.action, fresh)
    for id, part in parts.items():
        if (operation := before.get(id)) is not None:
            answer.operations.append(operation)
        elif id in tasks:
            answer.operations.append(await admit(link, who, part, tasks[id]))
    return answer


def _ids(found: list[Row]) -> list[str]:
    return [record["id"] for record in found]


def _tasks(action: str, found: list[Row]) -> dict[str, Wanted]:
    """An operation for each desktop, by its id."""
    kind = f"desktop.{action}"
    return {each["id"]: Wanted(kind, each["workspace_id"], each["id"], lane=lane(kind, each["id"])) for each in found}


def _answer(who: Caller, found: list[Row], upgrades: Upgrades | None) -> FleetAnswer:
    """The answer before anything is done."""
    answer = FleetAnswer(count=len(found), desktops=_ids(found), operations=[])
    if upgrades is None:
        return answer
    left_out = {each.id for each in upgrades.skipped}
    return answer.model_copy(
        update={
            "desktops": [id for id in answer.desktops if id not in left_out],
            "upgrades": list(upgrades.chosen),
            "skipped": list(upgrades.skipped),
            "to_sign": upgrades.to_sign(who),
        }
    )
