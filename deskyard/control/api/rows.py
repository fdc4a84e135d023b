"""Reads the tables into what the API answers; lists go on where the page before ended, whatever changed meanwhile."""

import base64
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import Depends, Query

from deskyard.control.api.caller import Link, Row
from deskyard.control.api.forms.approvals import Approval
from deskyard.control.api.forms.base import Trouble
from deskyard.control.api.forms.conversations import Claimed, Conversation, Message, Question, Tool
from deskyard.control.api.forms.desktops import Desktop, Workspace
from deskyard.control.api.forms.work import Consent, LogLine, Operation
from deskyard.control.api.problem import Problem
from deskyard.control.queue.parts import settled
from deskyard.control.queue.turns import PLACE

MOST_ITEMS = 1000
# Of a worker that renews every some seconds, nothing was heard for so long: it is gone.
WORKER_GONE = "30 seconds"
# Of an operation, what is not a column of its row as it stands there.
MADE = ("attempt", "why", "problem", "consent")

OPERATION = f"""
with {PLACE}
select o.*,
  case when o.state = 'queued' then (select place from queue q where q.id = o.id) end as position,
  share_of(o.kind) as share,
  case when o.state = 'running' and o.force_requested_at is null then force_from(o.cancel_requested_at) end
    as force_from,
  case when o.state = 'queued' then
    (select count(*) from operation r where r.state = 'running' and share_of(r.kind) = share_of(o.kind)) end as taken,
  case when o.state = 'queued' then
    (select sum((slots ->> share_of(o.kind))::integer) from worker where recent(seen_at, '{WORKER_GONE}'))
  end as slots,
  case when o.state = 'queued' then
    (select r.id from operation r where r.state = 'running' and r.lane = o.lane limit 1) end as waits_for,
  (select p.id from operation p where p.id = o.after_id and p.state <> 'done') as waits_after,
  exists (select 1 from worker where recent(seen_at, '{WORKER_GONE}')) as has_worker,
  (select line from operation_log l where l.operation_id = o.id order by number desc limit 1) as progress,
  case when o.state = 'waiting' then
    (select persons from approval_rule r where r.workspace_id = o.workspace_id) end as needed,
  case when o.state = 'waiting' then
    (select coalesce(jsonb_agg(jsonb_build_object('actor', actor, 'answer', answer, 'at', at) order by at), '[]')
      from operation_decision d where d.operation_id = o.id) end as answers
from operation o
"""
# Of what is not known, it is not said.
HAS_UPGRADE = "d.lifetime = 'kept' and coalesce(d.image_now <> d.image_newest, false)"
DESKTOP = f"""
select d.*, case when {HAS_UPGRADE} then d.image_newest end as upgrade_to,
  (select o.id from operation o where o.desktop_id = d.id and o.state in ('queued', 'running', 'waiting')
    order by o.state = 'running' desc, o.state = 'queued' desc, o.created_at limit 1) as operation_id,
  (select max(last_at) from conversation c where c.desktop_id = d.id) as last_chat_at
from desktop d
"""
WORKSPACE = """
select w.*, (select count(*) from desktop d where d.workspace_id = w.id and d.gone_at is null) as desktops
from workspace w
"""
CONVERSATION = """
select c.*, (select count(*) from message m where m.conversation_id = c.id) as messages from conversation c
"""
# Without what its words are found by, which may be as long as its text.
MESSAGE = """
select id, conversation_id, number, role, author, text, state, at, operation_id, problem, tools, more_tools, questions,
  claimed_input, claimed_output, claimed_cached
from message
"""
# What ends by the clock has ended, whether or not its gateway said so.
APPROVAL = """
select a.* from (
  select id, workspace_id, desktop_id, name, port, tries, since, until, last_at, verdict as answer, decided_by, reason,
    decided_at, ends_at,
    case when state = 'waiting' and until <= now() then 'lapsed'
      when state in ('allowed', 'refused') and ends_at <= now() then 'over' else state end as state,
    case when held_until > now() then held else 0 end as held,
    case when held_until > now() then held_until end as held_until,
    coalesce((select persons from approval_rule r where r.workspace_id = approval.workspace_id), 1) as needed,
    (select coalesce(jsonb_agg(jsonb_build_object('actor', actor, 'answer', answer, 'at', at) order by at), '[]')
      from approval_decision d where d.approval_id = approval.id) as answers
  from approval
) a
"""


@dataclass(frozen=True)
class Part:
    """The part of a list that is asked for."""

    limit: int
    after: str | None


def asked_part(limit: Annotated[int, Query(ge=1, le=MOST_ITEMS)] = MOST_ITEMS, after: str | None = None) -> Part:
    """As many as a part may have, unless fewer are asked for: who knows no parts gets as much as there was before."""
    return Part(limit, after)


AskedPart = Annotated[Part, Depends(asked_part)]


async def rows(link: Link, query: str, values: Sequence[Any] | Mapping[str, Any]) -> list[Row]:
    """All rows of a query."""
    return await (await link.execute(query.encode(), values)).fetchall()


async def row(link: Link, query: str, values: Sequence[Any]) -> Row | None:
    """The first row of a query."""
    return await (await link.execute(query.encode(), values)).fetchone()


def operation(found: Row) -> Operation:
    """An operation of a row of `OPERATION`."""
    return Operation(
        **{name: found[name] for name in Operation.model_fields if name not in MADE},
        # What was begun and refused for now took no worker with it.
        attempt=found["attempt"] - found["refusals"],
        why=_why(found),
        problem=trouble(found["problem"]),
        consent=_consent(found),
    )


def _consent(found: Row) -> Consent | None:
    if found["state"] != "waiting":
        return None
    return Consent(
        **{name: found[name] for name in ("asker", "asked", "answers")},
        needed=found["needed"] or 1,
        until=found["waits_until"],
    )


def _why(found: Row) -> str | None:
    if found["state"] == "waiting":
        needed, count = found["needed"] or 1, len(found["answers"])
        others = "another has" if needed == 1 else f"{needed} others have"
        return f"{others} to allow it beside {found['asker']}" + (f": {count} did" if count else "")
    if found["state"] == "running" and found["remains"]:
        return (
            f"its program was ended, but the kernel does not end {found['remains']}: begun again beside that is nothing"
        )
    if found["state"] != "queued":
        return None
    if found["waits_after"]:
        return f"operation {found['waits_after']} has to be done before"
    if found["waits_for"]:
        return f"operation {found['waits_for']} moves {found['workspace_id'] or 'the same'} now"
    if not found["has_worker"]:
        return "no worker runs: see ./inv control.status"
    if found["waits"]:
        return f"waits for room: {found['waits']}"
    is_full = found["slots"] is not None and found["taken"] >= found["slots"]
    return f"no slot for {found['share']} is free, of {found['slots']}" if is_full else None


async def desktops(link: Link, found: Sequence[Row]) -> list[Desktop]:
    """Desktops of rows of `DESKTOP`, each with what runs or waits for it."""
    ids = [record["operation_id"] for record in found if record["operation_id"]]
    of = {}
    if ids:
        of = {
            record["id"]: operation(record) for record in await rows(link, f"{OPERATION} where o.id = any(%s)", [ids])
        }
    names = [name for name in Desktop.model_fields if name != "operation"]
    return [
        Desktop(**{name: record[name] for name in names}, operation=of.get(record["operation_id"])) for record in found
    ]


def workspace(found: Row) -> Workspace:
    """A workspace of a row of `WORKSPACE`."""
    names = [name for name in Workspace.model_fields if name not in ("name", "problem", "state")]
    # Its gateway may be reached all the same: who asks it goes on by the state of before.
    state = "unknown" if found["unseen_since"] else found["state"]
    values = {name: found[name] for name in names}
    return Workspace(**values, name=found["id"], state=state, problem=trouble(found["problem"]))


def approval(found: Row) -> Approval:
    """The approval in a row of `APPROVAL`."""
    return Approval(**{name: found[name] for name in Approval.model_fields if name != "strength"})


def conversation(found: Row) -> Conversation:
    """A conversation of a row of `CONVERSATION`."""
    return Conversation(**{name: found[name] for name in Conversation.model_fields})


def message(found: Row) -> Message:
    """A message of its row."""
    names = [name for name in Message.model_fields if name not in ("problem", "tools", "questions", "claimed")]
    return Message(
        **{name: found[name] for name in names},
        problem=trouble(found["problem"]),
        tools=[Tool(**settled(card, found["state"])) for card in found["tools"]],
        questions=questions(found),
        claimed=_claimed(found),
    )


def questions(found: Row) -> list[Question]:
    """The questions in a row of a message; those that nobody answered before its turn was over are open no more."""
    return [Question(**settled(card, found["state"])) for card in found["questions"]]


def _claimed(found: Row) -> Claimed | None:
    """The tokens that are claimed in a row."""
    if found["claimed_input"] is None:
        return None
    return Claimed(**{name: found[f"claimed_{name}"] for name in Claimed.model_fields})


def log_line(found: Row) -> LogLine:
    """A line of a log of its row."""
    return LogLine(**{name: found[name] for name in LogLine.model_fields})


def trouble(found: Any) -> Trouble | None:
    """An error that was written down; what was left out of it is empty, so that the rest can be read."""
    return Trouble(**{name: found.get(name) or "" for name in Trouble.model_fields}) if found else None


def conditions(parts: Iterable[tuple[str, Any]]) -> tuple[str, list[Any]]:
    """The condition that those parts make whose value is given, and the values."""
    given = [(part, value) for part, value in parts if value is not None]
    return " and ".join(part for part, _ in given) or "true", [value for _, value in given]


async def part(link: Link, query: str, values: Sequence[Any], limit: int) -> tuple[list[Row], Row | None]:
    """At most `limit` rows of a query in its order, and the last of them if there are more."""
    found = await rows(link, f"{query} limit %s", [*values, limit + 1])
    return found[:limit], found[limit - 1] if len(found) > limit else None


async def cut(
    link: Link, source: str, order: Sequence[str], values: Sequence[Any], part_of: Part, *, newest_first: bool = False
) -> tuple[list[Row], str | None, int]:
    """A part of the rows of a query in the order of columns, the cursor of the next part, and how many there are."""
    count = await row(link, f"select count(*) as total from ({source}) as counted", values)
    # As text they are the same again, to the microsecond.
    marks = ", ".join(f"%s::{'timestamptz' if column.endswith('_at') else 'text'}" for column in order)
    condition, start = "", place(part_of.after, len(order))
    if start is not None:
        condition, values = f" where ({', '.join(order)}) {'<' if newest_first else '>'} ({marks})", [*values, *start]
    by = ", ".join(f"{column} desc" if newest_first else column for column in order)
    found, last = await part(
        link, f"select * from ({source}) as listed{condition} order by {by}", values, part_of.limit
    )
    going_on = cursor(*(_text(last[column]) for column in order)) if last else None
    return found, going_on, count["total"] if count else 0


def _text(value: Any) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)


def cursor(*parts: str) -> str:
    """Where a part of a list ended."""
    return base64.urlsafe_b64encode(json.dumps(parts).encode()).decode().rstrip("=")


def place(text: str | None, count: int) -> list[str] | None:
    """The parts of a cursor; raises a 422 for a text that is none."""
    if text is None:
        return None
    try:
        found = json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    except ValueError:
        found = None
    if not isinstance(found, list) or len(found) != count or not all(isinstance(part, str) for part in found):
        remedy = "send nextCursor of the part before as it came"
        raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, "after", text, "is no cursor of this list", remedy)
    return found
