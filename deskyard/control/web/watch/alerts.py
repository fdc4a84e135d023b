"""/api/alerts and their rules: what is wrong by itself, why, and what to do next."""

from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Depends, Query
from pydantic import AwareDatetime, Field, StrictBool, StrictInt

from deskyard.control.answers.kept import Answered
from deskyard.control.api import rows
from deskyard.control.api.admission import in_the_name_of
from deskyard.control.api.caller import Caller, Connection, Link, Row, may
from deskyard.control.api.forms.base import Form, Page
from deskyard.control.api.problem import Problem, unknown
from deskyard.control.api.unchanged import Conditions
from deskyard.control.people.scopes import ADMIN, READ, WRITE
from deskyard.control.watch.rules import RULES

router = APIRouter(prefix="/api", tags=["alerts"])
Reader = Annotated[Caller, Depends(may(READ))]
Writer = Annotated[Caller, Depends(may(WRITE))]
LONGEST_SILENCE = timedelta(days=366)


class Alert(Form):
    """Something that a rule found: what, about whom, by which number, and what to do next."""

    id: str
    rule: str
    title: str
    object: str
    workspace_id: str | None
    text: str
    number: int
    unit: str
    next_step: str
    opened_at: datetime
    closed_at: datetime | None
    acknowledged_at: datetime | None
    acknowledged_by: str | None
    silenced_until: datetime | None


class Silence(Form):
    """Until when an alert, and a later one of the same, is not told to webhooks."""

    until: AwareDatetime


class AlertRule(Form):
    """A rule, whether it is in force, and its number."""

    kind: str
    title: str
    enabled: bool
    number: int
    unit: str
    next_step: str
    changed_at: datetime


class NewRule(Form):
    """How a rule is to be from now on."""

    kind: str = Field(max_length=40)
    enabled: StrictBool
    number: StrictInt = Field(ge=0, le=100_000)


class NewRules(Form):
    """Rules from now on; those that are not named stay."""

    rules: list[NewRule] = Field(min_length=1, max_length=100)


@router.get("/alerts")
async def listing(
    link: Connection,
    who: Reader,
    open: bool | None = None,
    workspace: Annotated[str | None, Query(max_length=80)] = None,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
    after: str | None = None,
) -> Page[Alert]:
    """List alerts, the newest first; `open` is whether their cause is still there."""
    condition, values = rows.conditions(
        (
            ("workspace_id = any(%s)", who.bounds),
            ("(closed_at is null) = %s", open),
            ("workspace_id = %s", workspace),
        )
    )
    count = await rows.row(link, f"select count(*) as total from alert where {condition}", values)
    if (start := rows.place(after, 2)) is not None:
        condition, values = f"{condition} and (opened_at, id) < (%s::timestamptz, %s)", [*values, *start]
    query = f"select * from alert where {condition} order by opened_at desc, id desc"
    found, last = await rows.part(link, query, values, limit)
    return Page(
        items=[alert(row) for row in found],
        next_cursor=rows.cursor(last["opened_at"].isoformat(), last["id"]) if last else None,
        total=count["total"] if count else 0,
    )


@router.post("/alerts/{id}/acknowledge")
async def acknowledge(answered: Answered, who: Writer, id: str) -> Alert:
    """Say that somebody looks after an alert; it stays open until its cause is gone."""
    return await answered.given(who, Alert, lambda: _acknowledged(answered.link, who, id))


async def _acknowledged(link: Link, who: Caller, id: str) -> Alert:
    await _require(link, who, id)
    await in_the_name_of(link, who)
    found = await rows.row(link, "update alert set acknowledged_at = now() where id = %s returning *", [id])
    assert found is not None
    return alert(found)


@router.post("/alerts/{id}/silence")
async def silence(answered: Answered, who: Writer, id: str, wanted: Silence) -> Alert:
    """Tell webhooks nothing of an alert until a moment, also if it closes and comes again."""
    return await answered.given(who, Alert, lambda: _silenced(answered.link, who, id, wanted))


async def _silenced(link: Link, who: Caller, id: str, wanted: Silence) -> Alert:
    await _require(link, who, id)
    if not datetime.now(UTC) - timedelta(days=1) < wanted.until < datetime.now(UTC) + LONGEST_SILENCE:
        remedy = "name a moment within a year; one that is over ends a silence"
        raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, "until", wanted.until, "is too far away", remedy)
    await in_the_name_of(link, who)
    query = "update alert set silenced_until = %s where id = %s returning *"
    found = await rows.row(link, query, [wanted.until, id])
    assert found is not None
    return alert(found)


@router.get("/alert-rules")
async def rules(link: Connection, who: Reader) -> Page[AlertRule]:
    """List the rules of alerts."""
    found = await rows.rows(link, "select * from alert_rule order by kind", [])
    items = [
        AlertRule(**row, title=RULES[row["kind"]].title, unit=unit, next_step=RULES[row["kind"]].next_step)
        for row in found
        if row["kind"] in RULES
        for unit in (RULES[row["kind"]].unit,)
    ]
    return Page(items=items, total=len(items))


@router.put("/alert-rules")
async def set_rules(
    link: Connection, who: Annotated[Caller, Depends(may(ADMIN))], wanted: NewRules, conditions: Conditions
) -> Page[AlertRule]:
    """Put rules in force or out of it, and set their numbers."""
    kinds = [rule.kind for rule in wanted.rules]
    for kind in kinds:
        if kind not in RULES:
            raise unknown("kind", kind, f"choose one of: {', '.join(RULES)}")
    await conditions.require(link, "select max(changed_at) as changed_at from alert_rule where kind = any(%s)", kinds)
    await in_the_name_of(link, who)
    for rule in wanted.rules:
        query = "update alert_rule set enabled = %s, number = %s where kind = %s"
        await link.execute(query, [rule.enabled, rule.number, rule.kind])
    return await rules(link, who)


def alert(found: Row) -> Alert:
    """An alert of its row."""
    rule = RULES[found["rule"]]
    names = [name for name in Alert.model_fields if name not in ("title", "unit", "next_step")]
    values = {name: found[name] for name in names}
    return Alert(**values, title=rule.title, unit=rule.unit, next_step=rule.next_step)


async def _require(link: Link, who: Caller, id: str) -> None:
    found = await rows.row(link, "select workspace_id from alert where id = %s", [id])
    if found is None or not who.sees(found["workspace_id"]):
        raise unknown("alert", id, "see GET /api/alerts")
