"""/api/operations: what runs, what waits and why, what came of it."""

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Body, Depends, Query, Request, Response

from deskyard.control.api import rows
from deskyard.control.api.admission import Asked, Prefer, Wanted, awaited, in_the_name_of, note
from deskyard.control.api.caller import Caller, Connection, Link, may
from deskyard.control.api.forms.base import Page
from deskyard.control.api.forms.work import Cancelling, LogLine, Operation, OperationState
from deskyard.control.api.named import require_operation
from deskyard.control.api.problem import Problem
from deskyard.control.credentials.target import KINDS as GIVEN
from deskyard.control.people.intent import is_signed
from deskyard.control.people.scopes import ADMIN, CHAT, READ, WRITE
from deskyard.control.quotas import admission as quotas
from deskyard.control.tasks.target import BEGIN

router = APIRouter(prefix="/api/operations", tags=["operations"])
Reader = Annotated[Caller, Depends(may(READ))]
OVER = ("failed", "cancelled")


@router.get("")
async def listing(
    link: Connection,
    who: Reader,
    state: OperationState | None = None,
    workspace: str | None = None,
    desktop: str | None = None,
    kind: Annotated[str | None, Query(max_length=60)] = None,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
    after: str | None = None,
) -> Page[Operation]:
    """List operations, the newest first."""
    condition, values = rows.conditions(
        (
            ("o.workspace_id = any(%s)", who.bounds),
            ("o.state = %s", state),
            ("o.workspace_id = %s", workspace),
            ("o.desktop_id = %s", desktop),
            ("o.kind = %s", kind),
        )
    )
    if (start := rows.place(after, 2)) is not None:
        condition, values = f"{condition} and (o.created_at, o.id) < (%s::timestamptz, %s)", [*values, *start]
    query = f"{rows.OPERATION} where {condition} order by o.created_at desc, o.id desc"
    found, last = await rows.part(link, query, values, limit)
    return Page(
        items=[rows.operation(record) for record in found],
        next_cursor=rows.cursor(last["created_at"].isoformat(), last["id"]) if last else None,
    )


@router.get("/{id}")
async def look(
    request: Request, response: Response, link: Connection, who: Reader, id: str, _prefer: Prefer = None
) -> Operation:
    """Show an operation; whoever asked for a link sees it here, once. `Prefer: wait=30` waits for its end."""
    record = await require_operation(link, who, id)
    if (after := await awaited(request, response, id)) is not None:
        link = after
        record = await require_operation(link, who, id)
    found = rows.operation(record)
    query = "delete from operation_secret where operation_id = %s and actor = %s and expires_at > now() returning value"
    secret = await rows.row(link, query, [id, who.actor])
    if secret is None:
        return found
    await note(link, who.actor, "link.read", record["desktop_id"] or id, operation=id)
    return found.model_copy(update={"result": secret["value"]})


@router.get("/{id}/log")
async def log(
    link: Connection,
    who: Reader,
    id: str,
    after: Annotated[int, Query(ge=0)] = 0,
    limit: Annotated[int, Query(ge=1, le=5000)] = 1000,
) -> Page[LogLine]:
    """Show what an operation said, after a line number."""
    await require_operation(link, who, id)
    query = "select * from operation_log where operation_id = %s and number > %s order by number limit %s"
    found = await rows.rows(link, query, [id, after, limit])
    return Page(items=[rows.log_line(record) for record in found])


@router.post("/{id}/cancel", status_code=HTTPStatus.ACCEPTED)
async def cancel(asked: Asked, who: Reader, id: str, how: Annotated[Cancelling | None, Body()] = None) -> Operation:
    """Ask an operation to end; what it did so far is left as it is, and the next run goes on from there.

    One that still runs 15 seconds later may be ended by force.
    """
    return await asked.found(who, lambda: _cancelled(asked.link, who, id, bool(how and how.force)))


async def _cancelled(link: Link, who: Caller, id: str, force: bool) -> str:
    found = await require_operation(link, who, id)
    who.require(_needed(found["kind"]))
    if found["ended_at"] is not None:
        return id
    await in_the_name_of(link, who)
    # What waits in the queue has no program that could be killed.
    by_force = force and found["state"] == "running"
    if by_force and found["force_requested_at"] is None:
        await _require_time(link, id)
        await link.execute("update operation set force_requested_at = now() where id = %s", [id])
    elif found["cancel_requested_at"] is None:
        await link.execute("update operation set cancel_requested_at = now() where id = %s", [id])
    return id


def _needed(kind: str) -> str:
    """The scope that an operation needs of whoever cancels it or runs it again."""
    if kind in GIVEN:
        # Else who is to be removed would hold that up.
        return ADMIN
    return CHAT if kind == "desktop.chat" else WRITE


async def _require_time(link: Link, id: str) -> None:
    """Raise a 409 unless it was asked to stop, and had the time for it."""
    query = """select ceil(extract(epoch from force_from(cancel_requested_at) - now()))::integer as seconds
        from operation where id = %s"""
    found = await rows.row(link, query, [id])
    seconds = found["seconds"] if found is not None else None
    if seconds is None:
        remedy = "cancel it without force first: only what does not stop by itself is killed"
        raise Problem(HTTPStatus.CONFLICT, "force", True, "is for what was asked to stop before", remedy)
    if seconds > 0:
        reason, remedy = f"comes too early: it has {seconds} s left to stop by itself", f"ask again in {seconds} s"
        raise Problem(HTTPStatus.CONFLICT, "force", True, reason, remedy, again=seconds)


@router.post("/{id}/retry", status_code=HTTPStatus.ACCEPTED)
async def retry(asked: Asked, who: Reader, id: str) -> Operation:
    """Want the same again, as a new operation."""
    found = await require_operation(asked.link, who, id)
    who.require(_needed(found["kind"]))
    if found["state"] not in OVER:
        raise Problem(
            HTTPStatus.CONFLICT, "operation", id, f"is {found['state']}", "retry what failed, or was cancelled"
        )
    if is_signed(found["kind"], found["input"]) or found["kind"].startswith("person."):
        remedy = "ask for it anew: its signature counts once"
        raise Problem(HTTPStatus.CONFLICT, "operation", id, "cannot be repeated by another", remedy)

    async def make() -> Wanted:
        if found["kind"] == "desktop.create":
            await quotas.require_again(asked.link, who, found["desktop_id"], found["input"]["tier"])
        if found["kind"] == BEGIN:
            await quotas.require(asked.link, who, found["workspace_id"], found["input"]["counts"])
        return Wanted(found["kind"], found["workspace_id"], found["desktop_id"], found["input"], lane=found["lane"])

    return await asked.admitted(who, make)
