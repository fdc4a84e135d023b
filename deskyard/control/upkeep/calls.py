"""/api: what keeps a workspace well, wanted by its people; the worker does it as the host's tasks do."""

from http import HTTPStatus
from typing import Annotated, Literal

from fastapi import APIRouter, Body, Depends
from pydantic import AfterValidator, Field, StrictInt

from deskyard.control.api import rows
from deskyard.control.api.admission import Asked, Wanted
from deskyard.control.api.caller import Caller, may
from deskyard.control.api.forms.base import Form
from deskyard.control.api.forms.signing import SignedIntent
from deskyard.control.api.forms.work import Operation
from deskyard.control.api.named import require_kept, require_workspace
from deskyard.control.api.problem import Problem
from deskyard.control.api.proof import proof_of
from deskyard.control.approvals import rules
from deskyard.control.people.scopes import DECIDE, DESTROY, WRITE
from deskyard.control.upkeep.signed import ALLOW, RESTORE, RULED, allow_target, restore_target
from deskyard.model.egress import normal_entry
from deskyard.plan.snapshot import MOST_TEXT, NAME

router = APIRouter(prefix="/api", tags=["upkeep"])
Writer = Annotated[Caller, Depends(may(WRITE))]
MOST_HOURS = 24 * 366


class NewSnapshot(Form):
    """A desktop as it is now, to come back to."""

    name: str = Field(min_length=2, max_length=40, pattern=f"^{NAME.pattern}$")
    text: str = Field("", max_length=MOST_TEXT, description="A line that says what it is for.")
    expires_hours: StrictInt | None = Field(
        None, ge=1, le=MOST_HOURS, description="Deleted at the next snapshot after so long; without: kept."
    )


class Restore(Form):
    """Leave to put a desktop back; a key with the scope `desktops:destroy` needs none."""

    intent: SignedIntent | None = None


class NewAllowed(Form):
    """A name that all desktops of a locked workspace may reach."""

    name: Annotated[str, AfterValidator(normal_entry)] = Field(
        min_length=1, max_length=300, description="As in egress_allow: pypi.org, *.example.org, a.example.org:22."
    )
    how_long: Literal["15m", "1h", "always"] = Field(description="Always: it is written into the declaration, too.")
    intent: SignedIntent | None = Field(None, description="A key with the scope `approvals:decide` needs none.")


@router.post("/desktops/{id}/snapshots", status_code=HTTPStatus.ACCEPTED)
async def take_snapshot(asked: Asked, who: Writer, id: str, wanted: NewSnapshot) -> Operation:
    """Take a snapshot of a desktop: with its memory while it runs, of its disk alone while it is off."""

    async def make() -> Wanted:
        found = await require_kept(asked.link, who, id)
        return Wanted("snapshot.create", found["workspace_id"], id, wanted.model_dump())

    return await asked.admitted(who, make)


@router.post("/desktops/{id}/snapshots/{name}/restore", status_code=HTTPStatus.ACCEPTED)
async def restore_snapshot(
    asked: Asked,
    who: Annotated[Caller, Depends(may(DESTROY))],
    id: str,
    name: str,
    leave: Annotated[Restore | None, Body()] = None,
) -> Operation:
    """Put a desktop back to a snapshot; what changed since is lost, so it is signed."""
    values = {"name": name}

    async def make() -> Wanted:
        found = await require_kept(asked.link, who, id)
        if not NAME.fullmatch(name):
            remedy = "see the snapshots of POST /api/workspaces/ID/look"
            raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, "name", name, "is no name of a snapshot", remedy)
        intent = leave.intent if leave else None
        proof = await proof_of(asked.link, who, RESTORE, restore_target(id, values), intent)
        return Wanted(RESTORE, found["workspace_id"], id, values, proof)

    return await asked.admitted(who, make)


@router.post("/desktops/{id}/backups", status_code=HTTPStatus.ACCEPTED)
async def back_up(asked: Asked, who: Writer, id: str) -> Operation:
    """Make a backup of a desktop, of all its disks as of one moment; it counts once the host has verified it."""

    async def make() -> Wanted:
        found = await require_kept(asked.link, who, id)
        return Wanted("backup.run", found["workspace_id"], id)

    return await asked.admitted(who, make)


@router.post("/workspaces/{id}/look", status_code=HTTPStatus.ACCEPTED)
async def look(asked: Asked, who: Writer, id: str) -> Operation:
    """Look what is allowed, closed and was refused, keys by fingerprint, snapshots and backups: the result says it."""

    async def make() -> Wanted:
        await require_workspace(asked.link, who, id)
        # It changes nothing: it waits for no other operation than such a one.
        return Wanted("workspace.look", id, lane=f"look:{id}")

    return await asked.admitted(who, make)


@router.post("/workspaces/{id}/verify", status_code=HTTPStatus.ACCEPTED)
async def verify(asked: Asked, who: Writer, id: str) -> Operation:
    """Probe the isolation of a running workspace from its own machines; the result counts, and names what is wrong."""

    async def make() -> Wanted:
        await require_workspace(asked.link, who, id)
        return Wanted("workspace.verify", id)

    return await asked.admitted(who, make)


@router.post("/workspaces/{id}/allowed", status_code=HTTPStatus.ACCEPTED)
async def allow(asked: Asked, who: Annotated[Caller, Depends(may(DECIDE))], id: str, wanted: NewAllowed) -> Operation:
    """Let the desktops of a locked workspace reach a name, signed; where there is a rule, if others agree by it."""
    values = {"name": wanted.name, "how_long": wanted.how_long}

    async def make() -> Wanted:
        found = await require_workspace(asked.link, who, id)
        if found["egress"] != "locked":
            remedy = "declare egress: locked, and bring it up"
            raise Problem(HTTPStatus.CONFLICT, "workspace", id, f"is {found['egress']}: it has no list", remedy)
        rule = await rows.row(asked.link, rules.RULE, [id])
        if rule is not None and ALLOW not in rule["operations"]:
            raise Problem(HTTPStatus.CONFLICT, "workspace", id, RULED, rules.REMEDY)
        proof = await proof_of(asked.link, who, ALLOW, allow_target(id, values), wanted.intent)
        return Wanted(ALLOW, id, input=values, proof=proof)

    return await asked.admitted(who, make)
