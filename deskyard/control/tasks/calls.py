"""/api/workspaces/ID/tasks: desktops for a task, that are there in seconds and go with all their data."""

import secrets
from datetime import datetime
from http import HTTPStatus
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Body, Depends, Query
from pydantic import Field

from deskyard.control.api import rows
from deskyard.control.api.admission import Asked, Wanted
from deskyard.control.api.caller import Caller, Connection, Link, Row, may
from deskyard.control.api.forms.base import Form, Label, Page
from deskyard.control.api.forms.signing import SignedIntent
from deskyard.control.api.forms.work import Operation
from deskyard.control.api.named import require_workspace
from deskyard.control.api.problem import Problem, unknown
from deskyard.control.api.proof import proof_of
from deskyard.control.people.scopes import DESTROY, READ, WRITE
from deskyard.control.quotas import admission as quotas
from deskyard.control.tasks.target import BEGIN, RELEASE, release_target
from deskyard.model import duration

router = APIRouter(prefix="/api/workspaces/{id}/tasks", tags=["tasks"])
Reader = Annotated[Caller, Depends(may(READ))]
Writer = Annotated[Caller, Depends(may(WRITE))]
REMEDY = "declare a desktop with lifetime: task, and bring the workspace up (docs/disposable.md)"
SEEN = "see GET /api/workspaces/ID/tasks"


class Seat(Form):
    """A seat for desktops that are for a task: free, or how far the desktop there is, and who has it."""

    id: str = Field(description="WORKSPACE.SEAT, the id of the desktop that is there while it is claimed.")
    name: str
    tier: str
    image: str
    address: str
    state: Literal["free", "making", "waiting", "claimed"] = Field(
        description="Waiting: booted, and the next that fits is given in a moment."
    )
    since: datetime | None
    machine: str | None = Field(description="Stands for the desktop that is there: the next one has another.")
    claimed_by: str | None = Field(description="Who has it: a person, a key, or an account of the host.")
    operation_id: str | None = Field(description="The operation that claimed it, if that was one.")
    until: datetime | None = Field(description="Then it goes.")


class NewTask(Form):
    """A desktop for a task, of any seat that fits."""

    tier: str | None = Field(None, max_length=40, description="Of this tier alone.")
    image: Label | None = Field(None, description="Of this image alone.")
    for_: str = Field(
        "8h",
        alias="for",
        max_length=7,
        pattern=r"^[1-9][0-9]{0,5}[smhd]$",
        description="Then it goes: 90s, 30m, 8h, 2d.",
    )


class Release(Form):
    """Leave to end it. A key needs none: with the scope `desktops:write` for its own, `desktops:destroy` for others."""

    intent: SignedIntent | None = Field(
        None, description="A person's signature of `task.release` over `WORKSPACE.SEAT MACHINE`."
    )


@router.get("")
async def listing(link: Connection, who: Reader, id: str, part: rows.AskedPart) -> Page[Seat]:
    """List the seats of a workspace, with what is there; as the host said within seconds, a cluster within a minute."""
    await require_workspace(link, who, id)
    names = ", ".join(Seat.model_fields)
    source = f"select {names} from seat where workspace_id = %s"
    found, going_on, total = await rows.cut(link, source, ["name"], [id], part)
    return Page(items=[Seat(**record) for record in found], next_cursor=going_on, total=total)


@router.post("", status_code=HTTPStatus.ACCEPTED)
async def begin(asked: Asked, who: Writer, id: str, wanted: Annotated[NewTask | None, Body()] = None) -> Operation:
    """Get a desktop for a task: one that waits, or else one that is made; the result names it, `desktop` and `until`.

    It is another desktop than every one before, and yours until it is released or its time is over.
    """
    chosen = wanted or NewTask()

    async def make() -> Wanted:
        await require_workspace(asked.link, who, id)
        tier = await require_seat(asked.link, id, chosen.tier, chosen.image)
        await quotas.require(asked.link, who, id, tier)
        values: dict[str, Any] = {"tier": chosen.tier, "image": chosen.image, "seconds": duration.seconds(chosen.for_)}
        # Many may begin at once: each takes another seat. While it is under way it counts as the largest that fits.
        return Wanted(BEGIN, id, input={**values, "counts": tier}, lane=f"task:{secrets.token_hex(8)}")

    return await asked.admitted(who, make)


@router.delete("/{seat}", status_code=HTTPStatus.ACCEPTED)
async def release(
    asked: Asked,
    who: Writer,
    id: str,
    seat: str,
    machine: Annotated[str | None, Query(max_length=40, description="This one alone, and no other after it.")] = None,
    leave: Annotated[Release | None, Body()] = None,
) -> Operation:
    """End the desktop at a seat with all its data; whoever has it may, and who may destroy desktops."""

    async def make() -> Wanted:
        await require_workspace(asked.link, who, id)
        found = await _seat(asked.link, id, seat)
        if found["state"] != "claimed":
            reason = f"is {found['state']}: nobody has a desktop there"
            raise Problem(HTTPStatus.CONFLICT, "seat", seat, reason, "nothing is to be done")
        if machine not in (None, found["machine"]):
            raise Problem(HTTPStatus.CONFLICT, "machine", machine, "is gone: another is there", "nothing is to be done")
        if found["claimed_by"] != who.actor:
            who.require(DESTROY)
        values = {"machine": found["machine"]}
        target = release_target(found["id"], values)
        proof = await proof_of(asked.link, who, RELEASE, target, leave.intent if leave else None)
        return Wanted(RELEASE, id, found["id"], values, proof, lane=f"seat:{found['id']}")

    return await asked.admitted(who, make)


async def require_seat(link: Link, workspace: str, tier: str | None, image: str | None) -> str:
    """The tier of the largest seat that fits; raises a 409 where none is declared."""
    condition, values = rows.conditions((("s.tier = %s", tier), ("s.image = %s", image)))
    query = f"""select s.tier from seat s join workspace w on w.id = s.workspace_id
        left join lateral (select t from jsonb_array_elements(w.tiers) t where t ->> 'name' = s.tier) d on true
        where w.id = %s and {condition} order by (t ->> 'memory_gib')::numeric desc nulls last limit 1"""
    found = await rows.row(link, query, [workspace, *values])
    if found is None:
        wanted = " and ".join(f"{name} {value}" for name, value in (("tier", tier), ("image", image)) if value)
        reason = f"has no seat for a task{f' with {wanted}' if wanted else ''}"
        raise Problem(HTTPStatus.CONFLICT, "workspace", workspace, reason, REMEDY)
    return str(found["tier"])


async def _seat(link: Link, workspace: str, name: str) -> Row:
    found = await rows.row(link, "select * from seat where workspace_id = %s and name = %s", [workspace, name])
    if found is None:
        raise unknown("seat", name, SEEN)
    return found
