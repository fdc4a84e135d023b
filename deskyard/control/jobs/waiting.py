"""Operations that wait for another person, by the rule of their workspace: held here, and answered by who signed that.

Only the worker moves one on: after it saw for itself who asks, who answers, and that these are not the same.
"""

from typing import Any

from psycopg.types.json import Jsonb

from deskyard.control.approvals import rules
from deskyard.control.approvals.rules import Rule
from deskyard.control.consent import target as consent
from deskyard.control.consent.target import ALLOWED, AS, OPERATIONS, OWN, REFUSED, WAITS
from deskyard.control.jobs.deciding import role_of
from deskyard.control.people.intent import Intent, is_signed
from deskyard.control.people.scopes import DECIDE, ROLES
from deskyard.control.queue.claim import Claim
from deskyard.control.store.connection import Link, Row
from deskyard.errors import ConfigError

OVER = {
    "field": "operation",
    "value": "",
    "reason": f"nobody allowed it within {WAITS}",
    "remedy": "ask those whom GET /api/approval-rules names; then ask for it anew",
}


def hold(link: Link, held: Claim, asker: str) -> bool:
    """Whether it waits from now on, for lack of others who agree; raises `ConfigError` where there are too few."""
    rule = _rule(link, held.workspace, held.kind) if is_signed(held.kind, held.input) else None
    if rule is None or len(_agreeing(link, rule, held.id, asker)) >= rule.persons:
        return False
    _require_enough(link, rule, asker)
    signed = Intent.parsed((held.proof or {}).get("intent")).target
    asked = consent.asked(held.desktop, held.kind, held.input, signed)
    # Those of its lane need not wait for it; what it may take of attempts stays.
    query = f"""update operation set state = 'waiting', worker = null, lease_until = null, refusals = refusals + 1,
            asker = %s, asked = %s, waits_until = coalesce(waits_until, now() + interval '{WAITS}')
        where id = %s and attempt = %s and state = 'running' returning id"""
    if link.execute(query.encode(), [asker, asked, held.id, held.attempt]).fetchone() is not None:
        _note(link, asker, "operation.wait", asked, operation=held.id, needed=rule.persons)
    return True


def decide(link: Link, held: Claim, actor: str) -> dict[str, Any]:
    """Count an answer: enough who agree let the operation go on, one who refuses ends it."""
    id, answer = str(held.input["operation"]), str(held.input["answer"])
    if answer not in (ALLOWED, REFUSED):
        raise ConfigError("answer", answer, "is no answer", f"say {ALLOWED} or {REFUSED}")
    with link.transaction():
        query = """select id, kind, workspace_id, asker, asked from operation
            where id = %s and state = 'waiting' for update"""
        found = link.execute(query, [id]).fetchone()
        if found is None and _was_counted(link, held):
            # The worker of the attempt before ended after it had counted this answer.
            return {"operation": id, "answer": answer}
        rule = _rule(link, found["workspace_id"], found["kind"]) if found is not None else None
        if found is None or rule is None:
            raise ConfigError("operation", id, "does not wait for anybody", "see GET /api/operations?state=waiting")
        if (reason := _refusal(link, rule, actor, found["asker"], answer)) is not None:
            raise rules.refused(actor, reason)
        why = str(held.input.get("reason", ""))
        _note(link, actor, "operation.answer", found["asked"], operation=id, answer=answer, reason=why)
        query = """insert into operation_decision (operation_id, actor, answer, decision_id) values (%s, %s, %s, %s)
            on conflict (operation_id, actor) do update
                set answer = excluded.answer, decision_id = excluded.decision_id, at = now()"""
        link.execute(query, [id, actor, answer, held.id])
        if answer == REFUSED:
            _end(link, found, actor, why)
            return {"operation": id, "answer": answer}
        agreeing = len(_agreeing(link, rule, id, found["asker"]))
        if agreeing >= rule.persons:
            link.execute("update operation set state = 'queued' where id = %s", [id])
    return {"operation": id, "answer": answer, "answers": agreeing, "needed": rule.persons}


def end_late(link: Link) -> None:
    """End what nobody allowed in time."""
    query = "update operation set state = 'failed', ended_at = now(), problem = %s where state = 'waiting'"
    link.execute(f"{query} and waits_until < now()".encode(), [Jsonb(OVER)])


def _was_counted(link: Link, held: Claim) -> bool:
    query = "select 1 from operation_decision where operation_id = %s and decision_id = %s"
    return link.execute(query, [held.input["operation"], held.id]).fetchone() is not None


def _end(link: Link, found: Row, actor: str, why: str) -> None:
    reason = f"was refused by {actor}" + (f": {why}" if why else "")
    problem = {
        "field": "operation",
        "value": found["asked"],
        "reason": reason,
        "remedy": "ask them; then ask for it anew",
    }
    query = "update operation set state = 'cancelled', ended_at = now(), problem = %s where id = %s"
    link.execute(query, [Jsonb(problem), found["id"]])


def _rule(link: Link, workspace: str | None, kind: str) -> Rule | None:
    """The rule by which a kind of operation waits in a workspace; None if there is none."""
    row = link.execute(rules.RULE, [workspace]).fetchone() if kind in OPERATIONS else None
    rule = Rule.of(str(workspace), row) if row is not None else None
    return rule if rule is not None and AS.get(kind, kind) in rule.operations else None


def _agreeing(link: Link, rule: Rule, id: str, asker: str) -> list[str]:
    """Who allowed it, and may still."""
    query = "select actor from operation_decision where operation_id = %s and answer = %s"
    found = link.execute(query, [id, ALLOWED]).fetchall()
    return [row["actor"] for row in found if _refusal(link, rule, row["actor"], asker, ALLOWED) is None]


def _refusal(link: Link, rule: Rule, actor: str, asker: str, answer: str) -> str | None:
    """Why somebody may not give an answer; None if they may."""
    if actor == asker and answer != REFUSED:
        return OWN
    role = role_of(link, actor, rule.workspace)
    if actor.startswith("person:") and DECIDE not in ROLES.get(role or "", ()):
        return "may not answer approvals"
    return rule.refusal(actor, role, (), answer)


def _require_enough(link: Link, rule: Rule, asker: str) -> None:
    """Raise `ConfigError` where nobody could ever agree: it is said at once, and not after a day."""
    people = """select distinct 'person:' || person.name as actor from person join passkey on person_id = person.id
        where disabled_at is null"""
    keys = """select 'key:' || name || ':' || id as actor from api_key
        where revoked_at is null and expires_at > now() and %s = any(scopes)
            and (workspaces is null or %s = any(workspaces))"""
    query = f"{people} union all {keys}"
    there = [row["actor"] for row in link.execute(query.encode(), [DECIDE, rule.workspace]).fetchall()]
    able = [actor for actor in there if _refusal(link, rule, actor, asker, ALLOWED) is None]
    if len(able) < rule.persons:
        reason = f"needs {rule.persons} beside {asker} who allow it, and there are {len(able)}"
        raise ConfigError("operation", None, reason, rules.REMEDY)


def _note(link: Link, actor: str, action: str, target: str, **detail: Any) -> None:
    query = "insert into audit_intake (actor, action, target, detail) values (%s, %s, %s, %s)"
    link.execute(query, [actor, action, target, Jsonb(detail)])
