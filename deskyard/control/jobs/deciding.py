"""The worker's own look at the rule of a workspace: who answers, how many have to; and how admins set one."""

from collections.abc import Mapping
from typing import Any

from psycopg.types.json import Jsonb

from deskyard.control.approvals import rules
from deskyard.control.approvals.rules import Rule
from deskyard.control.people.scopes import ADMIN, DECIDE, ROLES
from deskyard.control.queue.claim import Claim
from deskyard.control.store.connection import Link
from deskyard.errors import ConfigError

# With what is signed now, as many as a gateway looks at.
MOST_OTHERS = 7


def collect(link: Link, held: Claim, actor: str) -> dict[str, Any] | None:
    """Raise `ConfigError` for who may not answer; what is kept while another has to say the same, None once all did."""
    with link.transaction():
        row = link.execute(rules.RULE, [held.workspace]).fetchone()
        if row is None:
            return None
        rule, approval, answer = Rule.of(str(held.workspace), row), held.input["approval"], held.input["answer"]
        askers = {found["actor"] for found in link.execute(rules.ASKERS.encode(), [approval]).fetchall()}
        if (reason := rule.refusal(actor, role_of(link, actor, held.workspace), askers, answer)) is not None:
            raise rules.refused(actor, reason)
        needed = rule.needs(answer)
        if needed == 1:
            return None
        link.execute(
            """insert into approval_decision (approval_id, actor, answer, operation_id) values (%s, %s, %s, %s)
            on conflict (approval_id, actor) do update
                set answer = excluded.answer, operation_id = excluded.operation_id, at = now()""",
            [approval, actor, answer, held.id],
        )
        query = f"""select actor from approval_decision where approval_id = %s and answer = %s
            and recent(at, '{rules.WAITS}')"""
        said = {found["actor"] for found in link.execute(query.encode(), [approval, answer]).fetchall()}
        # Who answered before may have lost their role, or asked for something since.
        roles = {each: role_of(link, each, held.workspace) for each in said}
        may = {each: role for each, role in roles.items() if DECIDE in ROLES.get(role or "", ())}
        count = sum(rule.refusal(each, role, askers, answer) is None for each, role in may.items())
    return None if count >= needed else {"approval": approval, "answers": count, "needed": needed}


def signatures(link: Link, held: Claim) -> list[dict[str, Any]]:
    """The signatures of people for an answer, that of now at the end; none where a key gave it.

    The gateway verifies them by itself; those of others count there while they may still answer, and only where the
    rule asks for more than one person.
    """
    own = dict(held.proof or {})
    if not _is_persons(own):
        return []
    rule = link.execute(rules.RULE, [held.workspace]).fetchone()
    if rule is None or rule["persons"] == 1:
        return [own]
    query = f"""select proof from approval_decision d join operation o on o.id = d.operation_id
        where approval_id = %s and answer = %s and o.id <> %s and recent(d.at, '{rules.WAITS}') order by d.at desc"""
    given = [held.input["approval"], held.input["answer"], held.id]
    found = [dict(row["proof"] or {}) for row in link.execute(query.encode(), given).fetchall()]
    others = [proof for proof in found if _is_persons(proof)][:MOST_OTHERS]
    return [*reversed(others), own]


def _is_persons(proof: Mapping[str, Any]) -> bool:
    return "credential" in proof and "key" not in proof


def forget(link: Link, held: Claim) -> None:
    """An answer was given: those that led to it count for nothing more."""
    link.execute("delete from approval_decision where approval_id = %s", [held.input["approval"]])


def set_rule(link: Link, held: Claim, actor: str) -> dict[str, Any]:
    """Put the rule of a workspace in force; who signed it last is its author."""
    rule = Rule.of(str(held.workspace), held.input)
    with link.transaction():
        if link.execute("select 1 from workspace where id = %s", [rule.workspace]).fetchone() is None:
            raise ConfigError("workspaceId", rule.workspace, "is not known", "see GET /api/workspaces")
        if (waits := _signed(link, held, actor, rule)) is not None:
            return {"rule": rule.target, **waits}
        link.execute(
            """insert into approval_rule (workspace_id, persons, roles, people, keys, operations, actor)
            values (%s, %s, %s, %s, %s, %s, %s) on conflict (workspace_id) do update set persons = excluded.persons,
                roles = excluded.roles, people = excluded.people, keys = excluded.keys,
                operations = excluded.operations, actor = excluded.actor, changed_at = now()""",
            [rule.workspace, rule.persons, *map(list, (rule.roles, rule.people, rule.keys, rule.operations)), actor],
        )
        _look_again(link, rule.workspace)
    return {"rule": rule.target}


def remove_rule(link: Link, held: Claim, actor: str) -> dict[str, Any]:
    """Let everybody who may answer at all do so again, alone."""
    with link.transaction():
        waits = _signed(link, held, actor, None)
        if waits is None:
            link.execute("delete from approval_rule where workspace_id = %s", [held.workspace])
            _look_again(link, str(held.workspace))
    return {"removed": held.workspace} if waits is None else {"remove": held.workspace, **waits}


def _signed(link: Link, held: Claim, actor: str, wanted: Rule | None) -> dict[str, int] | None:
    """The signatures so far while another admin has to sign the same change; None once there are enough."""
    row = link.execute(f"{rules.RULE} for update".encode(), [held.workspace]).fetchone()
    needed = row["persons"] if row else 1
    if needed > 1:
        if not actor.startswith("person:"):
            raise rules.refused(actor, f"is a key, and {needed} admins have to sign a change of this rule")
        link.execute(
            """insert into approval_rule_change (workspace_id, actor, wanted, operation_id) values (%s, %s, %s, %s)
            on conflict (workspace_id, actor) do update
                set wanted = excluded.wanted, operation_id = excluded.operation_id, at = now()""",
            [held.workspace, actor, wanted and Jsonb(wanted.values()), held.id],
        )
        found = link.execute(rules.CHANGES.encode(), [[held.workspace]]).fetchall()
        same = [each["actor"] for each in found if rules.wanted_by(each) == wanted]
        # Who signed before may have lost their role since.
        count = sum(ADMIN in ROLES.get(role_of(link, each, held.workspace) or "", ()) for each in same)
        if count < needed:
            return {"signatures": count, "needed": needed}
    link.execute("delete from approval_rule_change where workspace_id = %s", [held.workspace])
    return None


def _look_again(link: Link, workspace: str) -> None:
    """Let all operations that wait for others be held against the rule of the workspace anew: it was changed."""
    link.execute("update operation set state = 'queued' where workspace_id = %s and state = 'waiting'", [workspace])


def role_of(link: Link, actor: str, workspace: str | None) -> str | None:
    """The role of a person in a workspace; None for nobody, and for a key."""
    kind, _, name = actor.partition(":")
    row = link.execute(rules.ROLE, [name, workspace]).fetchone() if kind == "person" else None
    return str(row["role"]) if row else None
