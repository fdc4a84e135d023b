"""/api/workspaces: a workspace is declared and brought up, or destroyed with all that it holds; an admin signs it."""

from http import HTTPStatus
from typing import Annotated, Literal

from fastapi import APIRouter, Body, Depends
from pydantic import Field

from deskyard.control.api import rows
from deskyard.control.api.admission import Asked, Wanted
from deskyard.control.api.caller import Caller, Link, may
from deskyard.control.api.forms.base import Form, Label
from deskyard.control.api.forms.signing import SignedIntent
from deskyard.control.api.forms.work import Operation
from deskyard.control.api.named import require_workspace
from deskyard.control.api.problem import Problem
from deskyard.control.api.proof import proof_of
from deskyard.control.founding.target import FOUND, PREVIEW, end_target, found_target
from deskyard.control.people.intent import END
from deskyard.control.people.scopes import ADMIN
from deskyard.control.quotas import admission as quotas
from deskyard.model.workspace import Workspace

router = APIRouter(prefix="/api/workspaces", tags=["workspaces"])
Admin = Annotated[Caller, Depends(may(ADMIN))]
MOST_DESKTOPS = 20
# Stands for the one that the host chooses, so that the rest can be checked before.
SOME_NETWORK = "10.80.1.0/24"


class FirstDesktop(Form):
    """A desktop that a new workspace begins with."""

    name: Label
    tier: str = Field("free", max_length=40)
    image: Label | None = Field(None, description="Another image than `desktop`.")


class NewWorkspace(Form):
    """A workspace to be made; a key with the scope `admin` needs no signature."""

    name: Label
    site: Label = Field("local", description="The site that runs it.")
    network: str | None = Field(
        None, max_length=20, description="A private /24 of its own; left out: the host takes one that is free."
    )
    desktops: list[FirstDesktop] = Field(min_length=1, max_length=MOST_DESKTOPS)
    egress: Literal["open", "locked", "none"] = Field(
        "open", description="What its desktops reach: the internet, only what is allowed, or nothing."
    )
    intent: SignedIntent | None = Field(None, description="An admin's signature, as the call's text has it.")


class WorkspaceEnd(Form):
    """Leave to destroy a workspace; a key with the scope `admin` needs no signature."""

    desktops: list[Label] = Field(
        max_length=200, description="The names of its desktops as the caller saw them: with another one there, 409."
    )
    intent: SignedIntent | None = Field(None, description="An admin's signature, as the call's text has it.")


@router.post("", status_code=HTTPStatus.ACCEPTED)
async def found(asked: Asked, who: Admin, wanted: NewWorkspace) -> Operation:
    """Declare a workspace at the host and bring it up; a person signs all of it.

    Refused before anything is written: a name or a network that is taken, more than a quota or the host has room for.
    If it does not come up, it stays declared, to be brought `up` again, or removed at its host. A person signs
    `workspace.create` over `NAME on site SITE, network NETWORK, egress EGRESS: DESKTOP (TIER, IMAGE)`, with a comma
    between desktops; `chosen by the host` stands for no network, `desktop` for no image.
    """

    async def make() -> Wanted:
        values = wanted.model_dump(exclude={"intent"}, by_alias=False, mode="json")
        declared = {**values, "network": wanted.network or SOME_NETWORK}
        declared["desktops"] = [{key: value for key, value in each.items() if value} for each in values["desktops"]]
        Workspace.check(declared, "request")
        query = "select 1 from workspace where id = %s and gone_at is null"
        if await rows.row(asked.link, query, [wanted.name]) is not None:
            raise Problem(HTTPStatus.CONFLICT, "name", wanted.name, "is the name of a workspace", "choose another")
        tiers = [desktop.tier for desktop in wanted.desktops]
        await quotas.require_many(asked.link, who, wanted.name, tiers, wanted.site)
        proof = await proof_of(asked.link, who, FOUND, found_target(wanted.name, values), wanted.intent)
        return Wanted(FOUND, wanted.name, input=values, proof=proof)

    return await asked.admitted(who, make)


@router.post("/{id}/destroy/preview", status_code=HTTPStatus.ACCEPTED)
async def preview(asked: Asked, who: Admin, id: str) -> Operation:
    """Ask what would be lost with a workspace, and what stays: the operation's result says it. Nothing is touched.

    `desktops` are those to be named to destroy it; `notice` tells which are backed up and verified before; `snapshots`
    and `goes_too` go, and what `tasks` have; of each desktop, `stays` tells which backup is there.
    """

    async def make() -> Wanted:
        await require_workspace(asked.link, who, id)
        # It moves nothing: it waits for nobody who moves the workspace.
        return Wanted(PREVIEW, id, lane=f"preview:{id}")

    return await asked.admitted(who, make)


@router.post("/{id}/destroy", status_code=HTTPStatus.ACCEPTED)
@router.delete("/{id}", status_code=HTTPStatus.ACCEPTED)
async def end(asked: Asked, who: Admin, id: str, how: Annotated[WorkspaceEnd, Body()]) -> Operation:
    """Delete a workspace with all its desktops and their data, and put its declaration away.

    A last backup of each desktop is made and verified before, unless it is declared `backup: never`; if one fails,
    nothing is touched. Refused with 409 while its `workspace.create` waits or runs. A person signs `workspace.destroy`
    over `NAME with DESKTOP DESKTOP`, the names in order.
    """

    async def make() -> Wanted:
        await require_workspace(asked.link, who, id)
        await _require_brought_up(asked.link, id)
        query = "select name from desktop where workspace_id = %s and gone_at is null"
        there = {row["name"] for row in await rows.rows(asked.link, query, [id])}
        if more := sorted(there - {*how.desktops}):
            reason, remedy = f"are not all that it has: {', '.join(more)}", "look again, then repeat it"
            raise Problem(HTTPStatus.CONFLICT, "desktops", id, reason, remedy)
        names = sorted({*how.desktops})
        proof = await proof_of(asked.link, who, END, end_target(id, names), how.intent)
        return Wanted(END, id, input={"desktops": names}, proof=proof)

    return await asked.admitted(who, make)


async def _require_brought_up(link: Link, workspace: str) -> None:
    """Raise a 409 while a workspace is still to be made: behind its end it would be declared again, and brought up."""
    query = """select id from operation where kind = %s and workspace_id = %s and state in ('queued', 'running')
        and cancel_requested_at is null limit 1"""
    if (making := await rows.row(link, query, [FOUND, workspace])) is not None:
        reason = f"is still being made, by operation {making['id']}"
        remedy = f"cancel that first: POST /api/operations/{making['id']}/cancel; or wait for its end"
        raise Problem(HTTPStatus.CONFLICT, "workspace", workspace, reason, remedy)
