"""POST /api/operations/ID/decide: the answer to an operation that waits for another person."""

from http import HTTPStatus
from typing import Annotated, Literal

from fastapi import APIRouter, Depends
from pydantic import Field

from deskyard.control.api import rows
from deskyard.control.api.admission import Asked, Wanted
from deskyard.control.api.caller import Caller, Link, Row, may
from deskyard.control.api.forms.base import Form
from deskyard.control.api.forms.signing import SignedIntent
from deskyard.control.api.forms.work import Operation
from deskyard.control.api.named import require_operation
from deskyard.control.api.problem import Problem
from deskyard.control.api.proof import proof_of
from deskyard.control.approvals import rules
from deskyard.control.approvals.rules import Rule
from deskyard.control.consent.target import KIND, OWN, REFUSED, target
from deskyard.control.people.scopes import DECIDE

router = APIRouter(prefix="/api/operations", tags=["operations"])


class OperationAnswer(Form):
    """An answer, with a person's signature; a key with the scope `approvals:decide` needs none."""

    answer: Literal["allow", "refuse"]
    reason: str = Field("", max_length=200, pattern=r"^[^\x00-\x1f\x7f]*$")
    intent: SignedIntent | None = None


@router.post("/{id}/decide", status_code=HTTPStatus.ACCEPTED)
async def decide(
    asked: Asked, who: Annotated[Caller, Depends(may(DECIDE))], id: str, given: OperationAnswer
) -> Operation:
    """Let an operation that waits for others go on, or end it; the worker checks who answers.

    A person signs `operation.decide` over `ANSWER ID KIND ASKED by ASKER`, as the operation has them.
    """

    async def make() -> Wanted:
        found = await require_operation(asked.link, who, id)
        if found["state"] != "waiting":
            remedy = "see GET /api/operations?state=waiting"
            raise Problem(HTTPStatus.CONFLICT, "operation", id, f"is {found['state']}, and waits for nobody", remedy)
        reason = given.reason.strip()
        if given.answer == REFUSED and not reason:
            remedy = "say why: whoever asked reads it"
            raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, "reason", None, "is missing", remedy)
        await _require_leave(asked.link, who, found, given.answer)
        proof = await proof_of(asked.link, who, KIND, target(found, given.answer), given.intent)
        values = {"operation": id, "answer": given.answer, "reason": reason}
        return Wanted(KIND, found["workspace_id"], found["desktop_id"], values, proof, lane=f"decide:{id}")

    return await asked.admitted(who, make)


async def _require_leave(link: Link, who: Caller, operation: Row, answer: str) -> None:
    """Raise a 403 for whoever asked, and for whom the rule lets not answer; the worker looks again, at who signed."""
    found = await rows.row(link, rules.RULE, [operation["workspace_id"]])
    role = who.person["role"] if who.person else None
    reason = Rule.of(operation["workspace_id"], found).refusal(who.actor, role, (), answer) if found else None
    if answer != REFUSED and who.actor == operation["asker"]:
        reason = OWN
    if reason is not None:
        raise Problem(HTTPStatus.FORBIDDEN, "decider", who.actor, reason, rules.REMEDY)
