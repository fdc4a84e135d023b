"""/api/approvals: connections that wait at gateways for a person, and the answers."""

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request, Response

from deskyard.control.api import rows
from deskyard.control.api.admission import Once, Wanted, accepted, admit, known, note
from deskyard.control.api.caller import Caller, Connection, Link, Row, may
from deskyard.control.api.forms.approvals import Approval, ApprovalState, Decision
from deskyard.control.api.forms.base import Page
from deskyard.control.api.forms.work import Operation
from deskyard.control.api.problem import Problem, unknown
from deskyard.control.api.proof import proof_of
from deskyard.control.approvals import rules
from deskyard.control.approvals.rules import Rule
from deskyard.control.approvals.target import KIND, target
from deskyard.control.people.scopes import APPROVALS, DECIDE

router = APIRouter(prefix="/api/approvals", tags=["approvals"])
Reader = Annotated[Caller, Depends(may(APPROVALS))]
Decider = Annotated[Caller, Depends(may(DECIDE))]
# An answer to these is in force at once, or takes the place of an earlier one.
OPEN = ("waiting", "allowed", "refused")


@router.get("")
async def listing(
    link: Connection,
    who: Reader,
    state: ApprovalState | None = None,
    workspace: str | None = None,
    desktop: str | None = None,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
    after: str | None = None,
) -> Page[Approval]:
    """List what desktops want to reach, the newest first."""
    condition, values = rows.conditions(
        (
            ("a.workspace_id = any(%s)", who.bounds),
            ("a.state = %s", state),
            ("a.workspace_id = %s", workspace),
            ("a.desktop_id = %s", desktop),
        )
    )
    if (start := rows.place(after, 2)) is not None:
        condition, values = f"{condition} and (a.since, a.id) < (%s::timestamptz, %s)", [*values, *start]
    query = f"{rows.APPROVAL} where {condition} order by a.since desc, a.id desc"
    found, last = await rows.part(link, query, values, limit)
    return Page(
        items=[rows.approval(record) for record in found],
        next_cursor=rows.cursor(last["since"].isoformat(), last["id"]) if last else None,
    )


@router.get("/{id}")
async def look(link: Connection, who: Reader, id: str) -> Approval:
    """Show what a desktop wants to reach, and what was answered."""
    return rows.approval(await _require(link, who, id))


@router.post("/{id}/decide", status_code=HTTPStatus.ACCEPTED)
async def decide(
    request: Request, response: Response, link: Connection, who: Decider, once: Once, id: str, answer: Decision
) -> Operation:
    """Answer: the worker checks the signature over desktop, name, port and answer, and tells the gateway."""
    before = await known(link, who, once)
    if before is None:
        found = await _require(link, who, id)
        if found["state"] not in OPEN:
            remedy = "wait for the desktop's next try, which asks anew"
            raise Problem(HTTPStatus.CONFLICT, "approval", id, f"is {found['state']}", remedy)
        if answer.answer == "refuse" and not answer.reason.strip():
            remedy = "say why: the desktop reads it"
            raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, "reason", None, "is missing", remedy)
        await _require_leave(link, who, found, answer.answer)
        aim = target(found, answer.answer)
        proof = await proof_of(link, who, KIND, aim, answer.intent)
        # A lane of its own: a connection waits 90 seconds, an `up` of its workspace may take minutes.
        wanted = Wanted(
            *(KIND, found["workspace_id"], found["desktop_id"]),
            {"approval": id, "answer": answer.answer, "reason": answer.reason.strip()},
            proof,
            lane=f"approval:{id}",
        )
        before = await admit(link, who, once, wanted)
        await note(link, who.actor, "approval.answer", aim, operation=before, reason=answer.reason.strip())
    return await accepted(request, response, link, before)


async def _require_leave(link: Link, who: Caller, approval: Row, answer: str) -> None:
    """Raise a 403 for whom the rule of the workspace lets not answer; the worker looks again, at who signed."""
    found = await rows.row(link, rules.RULE, [approval["workspace_id"]])
    if found is None:
        return
    askers = {row["actor"] for row in await rows.rows(link, rules.ASKERS, [approval["id"]])}
    role = who.person["role"] if who.person else None
    reason = Rule.of(approval["workspace_id"], found).refusal(who.actor, role, askers, answer)
    if reason is not None:
        raise Problem(HTTPStatus.FORBIDDEN, "decider", who.actor, reason, rules.REMEDY)


async def _require(link: Link, who: Caller, id: str) -> Row:
    found = await rows.row(link, f"{rows.APPROVAL} where a.id = %s", [id])
    if found is None or not who.sees(found["workspace_id"]):
        raise unknown("approval", id, "see GET /api/approvals")
    return found
