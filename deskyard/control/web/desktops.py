"""/api/desktops: what there is, and what is wanted of it."""

from http import HTTPStatus
from typing import Annotated, Any

from fastapi import APIRouter, Body, Depends, Query

from deskyard.control.api import rows
from deskyard.control.api.admission import Asked, Once, Repeat, Wanted, known
from deskyard.control.api.caller import Caller, Connection, Link, Row, may
from deskyard.control.api.forms.base import Page
from deskyard.control.api.forms.conversations import Said, Sent
from deskyard.control.api.forms.desktops import (
    Desktop,
    DesktopState,
    Force,
    NewDesktop,
    Pause,
    Selector,
    SessionWanted,
)
from deskyard.control.api.forms.signing import Destroy
from deskyard.control.api.forms.work import Operation
from deskyard.control.api.named import require_desktop, require_kept, require_workspace
from deskyard.control.api.problem import Problem
from deskyard.control.api.proof import proof_of
from deskyard.control.halting.kinds import lane
from deskyard.control.machines.others import require_others
from deskyard.control.opening import seal
from deskyard.control.opening.target import SESSION, create_target, session_target
from deskyard.control.people.intent import CREATE, is_signed
from deskyard.control.people.intent import DESTROY as DESTROYED
from deskyard.control.people.scopes import CHAT, DESTROY, READ, WRITE
from deskyard.control.quotas import admission as quotas
from deskyard.control.web.chat import send, store

router = APIRouter(prefix="/api", tags=["desktops"])
PAUSED = "paused"
Reader = Annotated[Caller, Depends(may(READ))]
Writer = Annotated[Caller, Depends(may(WRITE))]


def where(who: Caller, chosen: Selector) -> tuple[str, list[Any]]:
    """The condition of a selection, within the caller's bounds."""
    condition, values = rows.conditions(
        (
            ("d.workspace_id = any(%s)", who.bounds),
            ("d.workspace_id = %s", chosen.workspace),
            ("d.state = %s", chosen.state),
            ("d.tier = %s", chosen.tier),
            ("position(lower(%s) in d.id) > 0", chosen.q),
            (f"({rows.HAS_UPGRADE}) = %s", chosen.upgrade),
            ("d.id = any(%s)", chosen.ids),
        )
    )
    return f"d.gone_at is null and {condition}", values


@router.get("/desktops")
async def listing(
    link: Connection,
    who: Reader,
    workspace: str | None = None,
    state: DesktopState | None = None,
    tier: Annotated[str | None, Query(max_length=40)] = None,
    q: Annotated[str | None, Query(max_length=80)] = None,
    upgrade: bool | None = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    after: str | None = None,
) -> Page[Desktop]:
    """List desktops by workspace and name."""
    chosen = Selector(workspace=workspace, state=state, tier=tier, q=q, upgrade=upgrade)
    condition, values = where(who, chosen)
    count, counted = f"select count(*) as total from desktop d where {condition}", values
    if (start := rows.place(after, 2)) is not None:
        condition, values = f"{condition} and (d.workspace_id, d.name) > (%s, %s)", [*values, *start]
    # Counted by the same statement: each way to the database and back costs as much as the count.
    query = f"select d.*, ({count}) as total from ({rows.DESKTOP} where {condition}) d order by workspace_id, name"
    found, last = await rows.part(link, query, [*counted, *values], limit)
    total = found[0] if found else await rows.row(link, count, counted)
    return Page(
        items=await rows.desktops(link, found),
        next_cursor=rows.cursor(last["workspace_id"], last["name"]) if last else None,
        total=total["total"] if total else 0,
    )


@router.post("/desktops", status_code=HTTPStatus.ACCEPTED)
async def create(asked: Asked, who: Writer, wanted: NewDesktop) -> Operation:
    """Declare a desktop and bring it up; with `firstTask` its agent is given that once it is ready.

    Where it gets keys, a person signs `desktop.create` over `ID KEY,KEY`, the keys in order.
    """
    link, id = asked.link, f"{wanted.workspace_id}.{wanted.name}"

    async def make() -> Wanted:
        await require_workspace(link, who, wanted.workspace_id)
        if await rows.row(link, "select 1 from desktop where id = %s and gone_at is null", [id]):
            raise Problem(HTTPStatus.CONFLICT, "name", wanted.name, "is the name of a desktop there", "choose another")
        if await rows.row(link, "select 1 from seat where id = %s", [id]):
            raise Problem(HTTPStatus.CONFLICT, "name", wanted.name, "is the name of a seat there", "choose another")
        if wanted.first_task is not None:
            who.require(CHAT)
        await quotas.require(link, who, wanted.workspace_id, wanted.tier)
        values = wanted.model_dump(exclude={"intent"}, by_alias=False, mode="json")
        proof = None
        if is_signed(CREATE, values):
            proof = await proof_of(link, who, CREATE, create_target(id, values), wanted.intent)
        return Wanted(CREATE, wanted.workspace_id, id, values, proof)

    async def give_task(created: str) -> None:
        if wanted.first_task is not None:
            await store(link, who, Repeat(None, b""), id, Said(message=wanted.first_task), after=created)

    return await asked.admitted(who, make, give_task)


@router.get("/desktops/{id}")
async def look(link: Connection, who: Reader, id: str) -> Desktop:
    """Show a desktop."""
    return (await rows.desktops(link, [await require_desktop(link, who, id)]))[0]


@router.post("/desktops/{id}/start", status_code=HTTPStatus.ACCEPTED)
async def start(asked: Asked, who: Writer, id: str) -> Operation:
    """Start a desktop, or let it go on, and wait until its routes answer."""
    return await _power(asked, who, "start", id, {})


@router.post("/desktops/{id}/stop", status_code=HTTPStatus.ACCEPTED)
async def stop(asked: Asked, who: Writer, id: str, how: Annotated[Force | None, Body()] = None) -> Operation:
    """Shut a desktop down and keep it off; its disks stay."""
    return await _power(asked, who, "stop", id, {"force": bool(how and how.force)})


@router.post("/desktops/{id}/restart", status_code=HTTPStatus.ACCEPTED)
async def restart(asked: Asked, who: Writer, id: str, how: Annotated[Force | None, Body()] = None) -> Operation:
    """Shut a desktop down and start it again."""
    return await _power(asked, who, "restart", id, {"force": bool(how and how.force)})


@router.post("/desktops/{id}/pause", status_code=HTTPStatus.ACCEPTED)
async def pause(asked: Asked, who: Writer, id: str, how: Annotated[Pause | None, Body()] = None) -> Operation:
    """Halt a desktop as it is, with all that runs in it; with `toDisk` its memory is free on the host."""
    return await _power(asked, who, "pause", id, {"to_disk": bool(how and how.to_disk)})


@router.post("/desktops/{id}/resume", status_code=HTTPStatus.ACCEPTED)
async def resume(asked: Asked, who: Writer, id: str) -> Operation:
    """Let a paused desktop go on where it was halted, with its clock set right, until its routes answer."""
    return await _power(asked, who, "resume", id, {})


@router.post("/desktops/{id}/freeze", status_code=HTTPStatus.ACCEPTED)
async def freeze(asked: Asked, who: Writer, id: str) -> Operation:
    """Halt what a desktop's agent runs, at once, before other work; a person still sees the screen and types."""
    return await _power(asked, who, "freeze", id, {})


@router.post("/desktops/{id}/thaw", status_code=HTTPStatus.ACCEPTED)
async def thaw(asked: Asked, who: Writer, id: str) -> Operation:
    """Let a desktop's agent go on where it was halted."""
    return await _power(asked, who, "thaw", id, {})


@router.post("/desktops/{id}/destroy", status_code=HTTPStatus.ACCEPTED)
@router.delete("/desktops/{id}", status_code=HTTPStatus.ACCEPTED)
async def destroy(
    asked: Asked,
    who: Annotated[Caller, Depends(may(DESTROY))],
    id: str,
    leave: Annotated[Destroy | None, Body()] = None,
) -> Operation:
    """Take a desktop out of the declaration and delete it with all its data; the only one of its workspace stays."""

    async def make() -> Wanted:
        found = await require_kept(asked.link, who, id)
        await require_others(asked.link, id)
        proof = await proof_of(asked.link, who, DESTROYED, id, leave.intent if leave else None)
        return Wanted(DESTROYED, found["workspace_id"], id, proof=proof)

    return await asked.admitted(who, make)


@router.post("/desktops/{id}/session", status_code=HTTPStatus.ACCEPTED)
async def session(asked: Asked, who: Writer, id: str, how: Annotated[SessionWanted | None, Body()] = None) -> Operation:
    """Grant a link to the viewer; the operation's result holds it for its asker, for a minute.

    With `sealTo` it holds the link as `sealed`: `key`, a public key, and `box`. A person signs `desktop.session` over
    `ID MODE[+SCOPE...] for key FINGERPRINT`: the scopes in order, of the key's SHA-256 the first 32 digits. The box
    is AES-256-GCM with a nonce of zeros, by HKDF-SHA-256 of the ECDH of both keys without salt; its info is
    "deskyard link", a zero byte, both keys (the answer's first), and what was signed.
    """

    async def make() -> Wanted:
        found = await require_desktop(asked.link, who, id)
        await _require_going_on(asked.link, found)
        chosen = how or SessionWanted()
        if chosen.scopes is not None and chosen.mode != "agent":
            remedy = 'leave them out, or ask for the mode "agent"'
            raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, "scopes", chosen.mode, "are for an agent alone", remedy)
        values = chosen.model_dump(exclude={"intent"})
        if chosen.seal_to is not None:
            seal.recipient(chosen.seal_to)
        elif who.person is not None:
            reason = "is missing: a person's link is sealed to their browser"
            raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, "sealTo", None, reason, seal.REMEDY)
        proof = await proof_of(asked.link, who, SESSION, session_target(id, values), chosen.intent)
        # Nobody moves the machine for it: it waits for no other operation.
        lane = f"session:{who.actor}:{id}"
        return Wanted(SESSION, found["workspace_id"], id, values, proof, lane=lane)

    return await asked.admitted(who, make)


@router.post("/desktops/{id}/chat", status_code=HTTPStatus.ACCEPTED)
async def chat(link: Connection, who: Annotated[Caller, Depends(may(CHAT))], once: Once, id: str, said: Said) -> Sent:
    """Store a message for a desktop's agent and deliver it; the same conversation goes on if it is named."""
    found = await require_desktop(link, who, id)
    # What was stored before is answered as it was then.
    if found["state"] == PAUSED and await known(link, who, once) is None:
        await _require_going_on(link, found)
    return await send(link, who, once, id, said)


async def _require_going_on(link: Link, found: Row) -> None:
    """Raise a 409 for a desktop that is paused: nobody there would answer."""
    if found["state"] != PAUSED:
        return
    # It may go on by now: how it is, is seen a moment later.
    query = """select 1 from operation where desktop_id = %s and state = 'done' and ended_at > %s
        and kind in ('desktop.resume', 'desktop.start', 'desktop.restart')"""
    if await rows.row(link, query, [found["id"], found["state_at"]]) is None:
        remedy = f"let it go on: POST /api/desktops/{found['id']}/resume, or ./inv desktop.resume at its host"
        raise Problem(HTTPStatus.CONFLICT, "desktop", found["id"], "is paused", remedy)


async def _power(asked: Asked, who: Caller, verb: str, id: str, values: dict[str, Any]) -> Operation:
    async def make() -> Wanted:
        found = await require_kept(asked.link, who, id)
        kind = f"desktop.{verb}"
        return Wanted(kind, found["workspace_id"], id, values, lane=lane(kind, id))

    return await asked.admitted(who, make)
