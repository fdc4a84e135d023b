"""/api/approval-rules: who answers what desktops of a workspace want to reach; the worker writes what was signed."""

from datetime import datetime
from http import HTTPStatus
from typing import Annotated, Literal

from fastapi import APIRouter, Body, Depends
from pydantic import Field, StrictInt

from deskyard.control.api import rows
from deskyard.control.api.admission import Asked, Wanted, note
from deskyard.control.api.caller import Caller, Connection, Link, may
from deskyard.control.api.forms.base import Form, Label, Page
from deskyard.control.api.forms.signing import Signed, SignedIntent
from deskyard.control.api.forms.work import Operation
from deskyard.control.api.named import require_workspace
from deskyard.control.api.problem import Problem, unknown
from deskyard.control.api.proof import proof_of
from deskyard.control.approvals import rules
from deskyard.control.approvals.rules import Rule
from deskyard.control.people.scopes import ADMIN, APPROVALS, DECIDE, ROLES

router = APIRouter(prefix="/api/approval-rules", tags=["approvals"])
Admin = Annotated[Caller, Depends(may(ADMIN))]
Name = Annotated[str, Field(min_length=1, max_length=80)]


class ApprovalRuleChange(Form):
    """A change of a rule of two persons that an admin signed; it is done once another admin signs the same."""

    actor: str
    remove: bool = Field(description="There is to be no rule any more; what follows says nothing then.")
    persons: int = 1
    roles: list[str] = Field([])
    people: list[str] = Field([])
    keys: list[str] = Field([])
    operations: list[str] = Field([])
    at: datetime


class ApprovalRule(Form):
    """Who answers for a workspace, and how many have to; whoever asked never does."""

    workspace_id: str
    persons: int = Field(description="How many persons have to give the same answer; one is enough to refuse.")
    roles: list[str]
    people: list[str] = Field(description="Names of persons.")
    keys: list[str] = Field(description="Ids of keys. With no role, person or key all may who may answer at all.")
    operations: list[str] = Field(
        description="Kinds of operations that wait until so many others than who asked allow them."
    )
    actor: str
    changed_at: datetime
    changes: list[ApprovalRuleChange] = Field([], description="Changes that wait for another admin, for 24 hours.")


class NewApprovalRule(Form):
    """The rule of a workspace from now on, signed by an admin; a key with the scope `admin` needs no signature.

    A rule that asks for two persons is changed by two admins, who sign the same; a key changes it not at all.
    """

    workspace_id: Label
    persons: StrictInt = Field(1, ge=1, le=2)
    roles: list[Literal["operator", "admin"]] = Field([], max_length=2)
    people: list[Name] = Field([], max_length=20)
    keys: list[Name] = Field([], max_length=20)
    operations: list[
        Literal["desktop.create", "desktop.destroy", "desktop.upgrade", "snapshot.restore", "egress.allow"]
    ] = Field(
        [],
        max_length=5,
        description="What waits until so many others than who asked allow it; a new desktop does where it gets keys.",
    )
    intent: SignedIntent | None = None


@router.get("")
async def listing(
    link: Connection, who: Annotated[Caller, Depends(may(APPROVALS))], part: rows.AskedPart
) -> Page[ApprovalRule]:
    """List the rules of workspaces; where there is none, everybody answers who may at all, alone."""
    source = "select * from approval_rule where %s::text[] is null or workspace_id = any(%s)"
    found, going_on, total = await rows.cut(link, source, ["workspace_id"], [who.bounds, who.bounds], part)
    changes = await _changes(link, [row["workspace_id"] for row in found])
    items = [ApprovalRule(**row, changes=changes.get(row["workspace_id"], [])) for row in found]
    return Page(items=items, next_cursor=going_on, total=total)


@router.post("", status_code=HTTPStatus.ACCEPTED)
async def put_in_force(asked: Asked, who: Admin, wanted: NewApprovalRule) -> Operation:
    """Set the rule of a workspace: the worker checks the signature over all of it, and puts it in force."""
    values = wanted.model_dump(include={"persons", "roles", "people", "keys", "operations"})
    rule = Rule.of(wanted.workspace_id, values)

    async def make() -> Wanted:
        await require_workspace(asked.link, who, wanted.workspace_id)
        await _require_somebody(asked.link, rule)
        await _require_admins(asked.link, who, rule.workspace)
        proof = await proof_of(asked.link, who, rules.SET, rule.target, wanted.intent)
        return Wanted(rules.SET, rule.workspace, None, values, proof, lane=f"approval-rule:{rule.workspace}")

    async def note_rule(id: str) -> None:
        await note(asked.link, who.actor, "approval-rule.want", rule.target, operation=id)

    return await asked.admitted(who, make, note_rule)


@router.delete("/{workspace}", status_code=HTTPStatus.ACCEPTED)
async def remove(asked: Asked, who: Admin, workspace: str, leave: Annotated[Signed | None, Body()] = None) -> Operation:
    """Take the rule of a workspace out of force: everybody who may answer at all does so alone again."""

    async def make() -> Wanted:
        found = await rows.row(asked.link, rules.RULE, [workspace])
        if found is None or not who.sees(workspace):
            raise unknown("workspace", workspace, "see GET /api/approval-rules")
        await _require_admins(asked.link, who, workspace)
        proof = await proof_of(asked.link, who, rules.REMOVE, workspace, leave.intent if leave else None)
        return Wanted(rules.REMOVE, workspace, proof=proof, lane=f"approval-rule:{workspace}")

    return await asked.admitted(who, make)


async def _changes(link: Link, workspaces: list[str]) -> dict[str, list[ApprovalRuleChange]]:
    """The changes that wait for another admin, of each workspace from the earliest."""
    found: dict[str, list[ApprovalRuleChange]] = {}
    for row in await rows.rows(link, rules.CHANGES, [workspaces]):
        wanted = row["wanted"]
        change = ApprovalRuleChange(actor=row["actor"], at=row["at"], remove=wanted is None, **(wanted or {}))
        found.setdefault(row["workspace_id"], []).append(change)
    return found


async def _require_admins(link: Link, who: Caller, workspace: str) -> None:
    """Raise a 403 for a key, and a 422 where there are too few admins, if the rule of now asks for two persons."""
    found = await rows.row(link, rules.RULE, [workspace])
    needed = found["persons"] if found else 1
    if needed == 1:
        return
    if who.key is not None:
        reason = f"is a key, and {needed} admins have to sign a change of this rule"
        raise Problem(
            HTTPStatus.FORBIDDEN, "caller", who.actor, reason, "sign in as an admin, and have another sign it"
        )
    query = """select count(distinct person.id) from person join passkey on person_id = person.id
        where disabled_at is null and role = 'admin'"""
    (admins,) = (await rows.rows(link, query, []))[0].values()
    if admins < needed:
        reason = f"admins have to sign a change of this rule, and there are {admins}"
        remedy = "make another at the host: ./inv control.person NAME --role admin"
        raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, "admins", needed, reason, remedy)


async def _require_somebody(link: Link, rule: Rule) -> None:
    """Raise a 422 for a rule that names who is not there, or that nobody could satisfy."""
    query = """select distinct person.name, role from person join passkey on person_id = person.id
        where disabled_at is null"""
    people = {row["name"]: row["role"] for row in await rows.rows(link, query, [])}
    query = "select id from api_key where revoked_at is null and expires_at > now() and %s = any(scopes)"
    keys = {row["id"] for row in await rows.rows(link, query, [DECIDE])}
    for field, names, there in (("people", rule.people, people), ("keys", rule.keys, keys)):
        for name in names:
            if name not in there:
                remedy = (
                    "name persons with a passkey (GET /api/people), and ids of keys that may answer (GET /api/keys)"
                )
                raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, field, name, "is nobody who can answer", remedy)
    if rule.persons > 1 and rule.keys:
        reason = "are no persons, and two have to answer"
        raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, "keys", rule.keys[0], reason, "leave keys out, or ask for one")
    able = [
        name
        for name, role in people.items()
        if DECIDE in ROLES[role] and rule.refusal(f"person:{name}", role, (), "once") is None
    ]
    if not rule.keys and len(able) < rule.persons:
        reason = f"are more than those who can answer: {', '.join(able) or 'nobody'}"
        remedy = "name more people or roles; ./inv control.person NAME --role operator makes a person"
        raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, "persons", rule.persons, reason, remedy)
