"""/api/desktops/ID/timeline: what happened to a desktop, days later too, from all that is kept of it."""

from datetime import datetime
from typing import Annotated, Literal, get_args

from fastapi import APIRouter, Depends, Query
from pydantic import AwareDatetime, Field

from deskyard.control.api import rows
from deskyard.control.api.caller import Caller, Connection, Link, may
from deskyard.control.api.forms.base import Form, Page
from deskyard.control.api.problem import unknown
from deskyard.control.people.scopes import APPROVALS, READ

router = APIRouter(prefix="/api", tags=["desktops"])
Reader = Annotated[Caller, Depends(may(READ))]
Kind = Literal["operation", "machine", "message", "tool", "approval", "alert", "session", "refusal", "task"]
KINDS: tuple[Kind, ...] = get_args(Kind)
MOST_DETAIL = 300
FIRST = ("infinity", "")
# Moments of each kind, as `id`, `at`, `what`, `actor`, `detail`, `state`, `times` and `subject`. A message says what
# its operation would; of a turn that is over no tool runs any more.
OF_KIND: dict[Kind, str] = {
    "operation": """
        select 'operation:' || id as id, created_at as at, kind as what, actor,
          coalesce(problem ->> 'reason', '') as detail, state, 1 as times, id as subject
        from operation where desktop_id = %(desktop)s and kind <> 'desktop.chat'""",
    "machine": """
        select 'machine:' || u.id || ':' || turn.what as id, turn.at, turn.what, '' as actor,
          'tier ' || u.tier as detail, '' as state, 1 as times, u.id::text as subject
        from usage_interval u
          cross join lateral (values ('runs', u.began_at),
            (case when u.unwatched then 'is not watched' else 'is off' end, u.ended_at)) as turn (what, at)
        where u.desktop_id = %(desktop)s and turn.at is not null""",
    "message": """
        select 'message:' || m.id as id, m.at, m.role as what, m.author as actor, m.text as detail, m.state, 1 as times,
          m.conversation_id as subject
        from conversation c join message m on m.conversation_id = c.id where c.desktop_id = %(desktop)s""",
    "tool": """
        select 'tool:' || m.id || ':' || (card ->> 'id') as id, (card ->> 'started_at')::timestamptz as at,
          card ->> 'name' as what, m.author as actor, card ->> 'arguments' as detail,
          case when card ->> 'state' = 'running' and m.state <> 'streaming' then 'interrupted'
            else card ->> 'state' end as state, 1 as times, m.conversation_id as subject
        from conversation c join message m on m.conversation_id = c.id cross join jsonb_array_elements(m.tools) card
        where c.desktop_id = %(desktop)s""",
    "approval": f"""
        select 'approval:' || id as id, since as at, name || ':' || port as what, coalesce(decided_by, '') as actor,
          reason as detail, state, 1 as times, id as subject
        from ({rows.APPROVAL}) a where desktop_id = %(desktop)s""",
    "alert": """
        select 'alert:' || id as id, opened_at as at, rule as what, coalesce(acknowledged_by, '') as actor,
          text as detail, case when closed_at is null then 'open' else 'closed' end as state, 1 as times, id as subject
        from alert where substring(object from '[^ ]*$') = %(desktop)s""",
    "session": """
        select 'session:' || key as id, at, what, actor, detail, '' as state, times, key as subject
        from moment where desktop_id = %(desktop)s and source = 'door'""",
    "refusal": """
        select 'refusal:' || key as id, at, what, actor, detail, '' as state, times, key as subject
        from moment where desktop_id = %(desktop)s and source = 'egress'""",
    # What is done to a whole workspace at the host is done to its desktops, too.
    "task": """
        select 'task:' || id as id, began_at as at, task as what, actor, detail, state, 1 as times, id as subject
        from host_task where desktop_id = %(desktop)s
          or (desktop_id is null and workspace_id = split_part(%(desktop)s, '.', 1))""",
}
PART = f"""(select '{{kind}}' as part, id, at, what, actor, left(detail, {MOST_DETAIL}) as detail, state, times, subject
  from ({{query}}) {{kind}}
  where (at, id) < (%(at)s::timestamptz, %(id)s) order by at desc, id desc limit %(most)s)"""


class Moment(Form):
    """Something that happened to a desktop."""

    id: str
    kind: Kind
    at: datetime
    what: str = Field(
        description="Of an operation its kind, of an alert its rule, of an approval the name and port, of a task of "
        "./inv at the host its name; of a machine "
        "`runs`, `is off`, or `is not watched`: nobody looked from then on, and the time does not count."
    )
    actor: str
    detail: str
    state: str = Field(description="As the operation, message, tool, approval, alert or task has it now; else empty.")
    times: int = Field(description="How often, of a refusal: those of an hour, a target and a reason are one moment.")
    subject: str = Field(description="The operation, the conversation, the approval or the alert.")


class Timeline(Page[Moment]):
    """Moments of a desktop, the newest first; what its gateway wrote down is known as of a moment."""

    read_at: datetime | None = Field(description="As of when sessions and refusals are known; none: not yet.")


@router.get("/desktops/{id}/timeline")
async def timeline(
    link: Connection,
    who: Reader,
    id: str,
    kind: Annotated[list[Kind] | None, Query(description="Only these; else all that the caller may see.")] = None,
    before: Annotated[AwareDatetime | None, Query(description="Only what is older.")] = None,
    limit: Annotated[int, Query(ge=1, le=500)] = 100,
    after: str | None = None,
) -> Timeline:
    """List what happened to a desktop, the newest first, also to one that is gone; approvals for who may see these."""
    read_at = await _read_at(link, who, id)
    chosen = [name for name in KINDS if name in (kind or KINDS) and (name != "approval" or APPROVALS in who.scopes)]
    if not chosen:
        return Timeline(items=[], read_at=read_at)
    start = rows.place(after, 2) or (before.isoformat() if before else FIRST[0], FIRST[1])
    parts = " union all ".join(PART.format(kind=name, query=OF_KIND[name]) for name in chosen)
    values = {"desktop": id, "at": start[0], "id": start[1], "most": limit + 1}
    found = await rows.rows(link, f"select * from ({parts}) m order by at desc, id desc limit %(most)s", values)
    last = found[limit - 1] if len(found) > limit else None
    return Timeline(
        items=[
            Moment(kind=row["part"], **{name: row[name] for name in Moment.model_fields if name != "kind"})
            for row in found[:limit]
        ],
        next_cursor=rows.cursor(last["at"].isoformat(), last["id"]) if last else None,
        read_at=read_at,
    )


async def _read_at(link: Link, who: Caller, id: str) -> datetime | None:
    """As of when its gateway's lines are known; raises a 404 for a desktop that never was, or is out of bounds."""
    workspace = id.partition(".")[0]
    query = """select moments_read_at from workspace w where id = %s and (exists (select from desktop where id = %s)
        or exists (select from operation where desktop_id = %s))"""
    found = await rows.row(link, query, [workspace, id, id])
    if found is None or not who.sees(workspace):
        raise unknown("desktop", id, "see GET /api/desktops; an id is WORKSPACE.DESKTOP")
    read_at: datetime | None = found["moments_read_at"]
    return read_at
