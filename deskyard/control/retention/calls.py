"""/api/retention: how long what is said with agents is kept; the worker writes what was signed."""

from datetime import datetime
from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Body, Depends, Query
from pydantic import Field, StrictInt

from deskyard.control.api import rows
from deskyard.control.api.admission import Asked, Wanted, note
from deskyard.control.api.caller import Caller, Connection, Link, Row, may
from deskyard.control.api.forms.base import Form, Label, Page
from deskyard.control.api.forms.signing import Signed, SignedIntent
from deskyard.control.api.forms.work import Operation
from deskyard.control.api.problem import unknown
from deskyard.control.api.proof import proof_of
from deskyard.control.people.scopes import ADMIN, READ
from deskyard.control.retention import policy
from deskyard.control.retention.policy import MOST_DAYS, Policy

router = APIRouter(prefix="/api/retention", tags=["conversations"])
Admin = Annotated[Caller, Depends(may(ADMIN))]
Reader = Annotated[Caller, Depends(may(READ))]
Days = Annotated[StrictInt, Field(ge=1, le=MOST_DAYS)]


class Retention(Form):
    """How long conversations are kept after their last message."""

    workspace_id: str | None = Field(description="None: of all workspaces without one of their own.")
    days: int | None = Field(description="None: for ever.")
    actor: str
    changed_at: datetime


class NewRetention(Form):
    """How long from now on, signed by an admin; a key with the scope `admin` needs no signature."""

    workspace_id: Label | None = Field(None, description="None: all workspaces without one of their own.")
    days: Days | None = Field(description="None: for ever.")
    intent: SignedIntent | None = None


class WouldGo(Form):
    """The conversations that would be deleted now; those in which something waits or runs are not among them."""

    conversations: int
    messages: int
    oldest_at: datetime | None = Field(description="When something was said last in the oldest of them.")
    newest_at: datetime | None


@router.get("")
async def listing(link: Connection, who: Reader) -> Page[Retention]:
    """List how long conversations are kept, first by the site; where nothing is said, they are kept for ever."""
    query = """select nullif(substr(subject, 11), '') as workspace_id, days, actor, changed_at from retention
        where subject = %s or %s::text[] is null or substr(subject, 11) = any(%s) order by subject"""
    found = await rows.rows(link, query, [policy.SITE, who.bounds, who.bounds])
    return Page(items=[Retention(**row) for row in found], total=len(found))


@router.get("/preview")
async def preview(
    link: Connection,
    who: Reader,
    days: Annotated[int, Query(ge=1, le=MOST_DAYS)],
    workspace: Annotated[Label | None, Query(description="None: all workspaces without one of their own.")] = None,
) -> WouldGo:
    """Count what would be deleted now if conversations were kept for so many days; nothing is."""
    if workspace is not None:
        await _require(link, who, workspace)
    values = {"days": days, "workspace": workspace, "bounds": who.bounds}
    (found,) = await (await link.execute(policy.WOULD_GO.encode(), values)).fetchall()
    return WouldGo(**found)


@router.post("", status_code=HTTPStatus.ACCEPTED)
async def put_in_force(asked: Asked, who: Admin, wanted: NewRetention) -> Operation:
    """Say how long conversations are kept: the worker checks the signature over all of it, and puts it in force."""
    kept = Policy(wanted.workspace_id, wanted.days)

    async def make() -> Wanted:
        if kept.workspace is not None:
            await _require(asked.link, who, kept.workspace)
        proof = await proof_of(asked.link, who, policy.SET, kept.target, wanted.intent)
        return Wanted(policy.SET, kept.workspace, None, {"days": kept.days}, proof, lane=f"retention:{kept.subject}")

    async def note_policy(id: str) -> None:
        await note(asked.link, who.actor, "retention.want", kept.target, operation=id)

    return await asked.admitted(who, make, note_policy)


@router.delete("/{workspace}", status_code=HTTPStatus.ACCEPTED)
async def remove(asked: Asked, who: Admin, workspace: str, leave: Annotated[Signed | None, Body()] = None) -> Operation:
    """Let the site say again how long the conversations of a workspace are kept."""
    kept = Policy(workspace, None)

    async def make() -> Wanted:
        found = await rows.row(asked.link, "select 1 from retention where subject = %s", [kept.subject])
        if found is None or not who.sees(workspace):
            raise unknown("workspace", workspace, "see GET /api/retention")
        proof = await proof_of(asked.link, who, policy.REMOVE, workspace, leave.intent if leave else None)
        return Wanted(policy.REMOVE, workspace, proof=proof, lane=f"retention:{kept.subject}")

    return await asked.admitted(who, make)


async def _require(link: Link, who: Caller, name: str) -> Row:
    """Raise a 404 for a workspace that the caller does not see; one that is gone has conversations, too."""
    found = await rows.row(link, "select id from workspace where id = %s", [name])
    if found is None or not who.sees(name):
        raise unknown("workspaceId", name, "see GET /api/workspaces; leave it out for all without one of their own")
    return found
