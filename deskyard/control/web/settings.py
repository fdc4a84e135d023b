"""/api/keys, people, sessions, audit: what an admin looks after."""

import asyncio
from collections.abc import AsyncIterator
from datetime import datetime
from http import HTTPStatus
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import StreamingResponse
from psycopg.rows import dict_row
from pydantic import Field

from deskyard.control.api import rows
from deskyard.control.api.admission import in_the_name_of, note
from deskyard.control.api.caller import Caller, Connection, Link, Row, caller, may
from deskyard.control.api.forms.base import Form, Page
from deskyard.control.api.problem import Problem, unknown
from deskyard.control.asked.tally import Asked, Counted
from deskyard.control.people import session
from deskyard.control.people.scopes import ADMIN
from deskyard.control.recorder import chain

router = APIRouter(prefix="/api")
JSON_LINES, MOST_LINES = "application/jsonl", 2**53
# The proxy ends an answer after 90 seconds: some 20,000 lines are checked in each.
PART_LINES, WHOLE_LINES = 100_000, 1_000_000
Admin = Annotated[Caller, Depends(may(ADMIN))]
PEOPLE = """select person.*, (select count(*) from passkey where person_id = person.id) as passkeys,
    case when exists (select 1 from identity where person_id = person.id and ended_at is null) then 'linked'
      when exists (select 1 from mail_offer where person_id = person.id) then 'offered' end as account,
    (select max(expires_at) from enrolment
      where person_id = person.id and used_at is null and expires_at > now()) as invited_until
    from person where disabled_at is null and (%s::text is null or id = %s)"""


class ApiKey(Form):
    """A key, without its secret."""

    id: str
    name: str
    scopes: list[str]
    workspaces: list[str] | None
    created_at: datetime
    expires_at: datetime
    last_used_at: datetime | None
    revoked_at: datetime | None


class Person(Form):
    """A person."""

    id: str
    name: str
    role: str
    workspaces: list[str] | None = Field(None, description="The only ones that it sees; none: all.")
    by_rule: bool = Field(False, description="Made by a rule of the declared provider, and followed at each sign-in.")
    rule: str | None = Field(None, description="The rule that gives role and workspaces; none: somebody did.")
    granted_at: datetime | None = Field(None, description="Since when they are so; none: it was not written down yet.")
    giver: str | None = Field(
        None, description="Who gave it to them, as the audit has it; none: a rule, or it was not written down yet."
    )
    gives: Literal["viewer", "operator"] = Field(
        "viewer", description="Of an admin: up to whom they give by the web, as the host says of them."
    )
    passkeys: int
    account: Literal["linked", "offered"] | None = Field(
        None, description="Whether an account of the declared provider is this person, or the next one with their mail."
    )
    invited_until: datetime | None = Field(
        None, description="Until when a link of theirs enrols a passkey, if any does."
    )
    created_at: datetime


class Session(Form):
    """A person's session in a browser."""

    id: str
    person: str
    agent: str
    created_at: datetime
    seen_at: datetime
    current: bool


class AuditEntry(Form):
    """A line of the audit."""

    number: int
    at: datetime
    actor: str
    action: str
    target: str
    detail: dict[str, Any]
    hash: str


class AuditVerdict(Form):
    """Whether the audit is whole."""

    ok: bool
    entries: int
    head: str
    problem: str | None
    more: bool = Field(False, description="Of a part: lines behind it are not checked yet.")


@router.get("/keys", tags=["keys"])
async def keys(link: Connection, who: Admin, counted: Counted, part: rows.AskedPart) -> Page[ApiKey]:
    """List API keys, the newest first."""
    counted.add(Asked(who.actor, "keys.read", "keys"))
    order = ["created_at", "id"]
    found, going_on, total = await rows.cut(link, "select * from api_key", order, [], part, newest_first=True)
    items = [ApiKey(**{name: record[name] for name in ApiKey.model_fields}) for record in found]
    return Page(items=items, next_cursor=going_on, total=total)


@router.delete("/keys/{id}", status_code=HTTPStatus.NO_CONTENT, tags=["keys"])
async def revoke(link: Connection, who: Admin, id: str) -> None:
    """Revoke a key at once."""
    if await rows.row(link, "select id from api_key where id = %s", [id]) is None:
        raise unknown("key", id, "see GET /api/keys")
    await in_the_name_of(link, who)
    await link.execute("update api_key set revoked_at = now() where id = %s and revoked_at is null", [id])


@router.get("/people", tags=["people"])
async def people(
    link: Connection, who: Annotated[Caller, Depends(caller)], counted: Counted, part: rows.AskedPart
) -> Page[Person]:
    """List persons, what they may and what gives it to them: an admin sees all, others themselves.

    What somebody may is changed at the host: ./inv control.person.
    """
    mine = _only(who)
    counted.add(Asked(who.actor, "people.read", mine or "people"))
    found, going_on, total = await rows.cut(link, PEOPLE, ["name"], [mine, mine], part)
    items = [Person(**{name: record[name] for name in Person.model_fields}) for record in found]
    return Page(items=items, next_cursor=going_on, total=total)


@router.get("/sessions", tags=["people"])
async def sessions(
    link: Connection, who: Annotated[Caller, Depends(caller)], counted: Counted, part: rows.AskedPart
) -> Page[Session]:
    """List open sessions, the newest first: an admin sees all, others their own."""
    mine = _only(who)
    counted.add(Asked(who.actor, "sessions.read", mine or "sessions"))
    source = f"""select session.*, person.name as person from session join person on person.id = person_id
        where {session.OPEN} and (%s::text is null or person_id = %s)"""
    order = ["created_at", "id"]
    found, going_on, total = await rows.cut(link, source, order, [mine, mine], part, newest_first=True)
    names = [name for name in Session.model_fields if name != "current"]
    items = [Session(**{name: record[name] for name in names}, current=record["id"] == who.session) for record in found]
    return Page(items=items, next_cursor=going_on, total=total)


@router.delete("/sessions/{id}", status_code=HTTPStatus.NO_CONTENT, tags=["people"])
async def end_session(link: Connection, who: Annotated[Caller, Depends(caller)], id: str) -> None:
    """End a session at once: of one's own, or as an admin any."""
    mine = _only(who)
    await in_the_name_of(link, who)
    query = """update session set ended_at = now()
        where id = %s and (%s::text is null or person_id = %s) returning id"""
    if await rows.row(link, query, [id, mine, mine]) is None:
        raise unknown("session", id, "see GET /api/sessions")


@router.get("/audit", tags=["audit"])
async def audit(
    link: Connection,
    who: Admin,
    counted: Counted,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    after: str | None = None,
) -> Page[AuditEntry]:
    """List what was decided, the newest first."""
    counted.add(Asked(who.actor, "audit.read", "audit"))
    start = rows.place(after, 1)
    if start is not None and not start[0].isdigit():
        raise Problem(
            HTTPStatus.UNPROCESSABLE_ENTITY, "after", after, "is no cursor of this list", "send it as it came"
        )
    query = f"select {chain.COLUMNS} from audit_entry where number < %s order by number desc"
    found, last = await rows.part(link, query, [int(start[0]) if start else 1 << 62], limit)
    return Page(
        items=[_entry(record) for record in found],
        next_cursor=rows.cursor(str(last["number"])) if last else None,
    )


@router.get(
    "/audit/export",
    tags=["audit"],
    response_class=StreamingResponse,
    responses={HTTPStatus.OK.value: {"content": {JSON_LINES: {"schema": {"type": "string"}}}}},
)
async def export(
    request: Request, link: Connection, who: Admin, after: Annotated[int, Query(ge=0, le=MOST_LINES)] = 0
) -> StreamingResponse:
    """Export all lines after a number, each an AuditEntry as JSON, the oldest first: for a store of logs elsewhere."""
    found = await rows.row(link, "select max(number) as number from audit_entry", [])
    last = (found or {}).get("number") or 0
    await note(link, who.actor, "audit.export", "audit", after=after, last=last)
    lines = _lines(request.app.state.pool, after, last)
    headers = {"Content-Disposition": f'attachment; filename="audit-after-{after}.jsonl"'}
    return StreamingResponse(lines, headers=headers, media_type=JSON_LINES)


@router.get("/audit/verify", tags=["audit"])
async def verify(
    link: Connection,
    who: Admin,
    after: Annotated[int | None, Query(ge=0, le=MOST_LINES)] = None,
    head: Annotated[str | None, Query(pattern="^[0-9a-f]{64}$")] = None,
    limit: Annotated[int, Query(ge=1, le=PART_LINES)] = PART_LINES,
) -> AuditVerdict:
    """Check every line of the audit against the one before; in parts where `after` is sent, 0 at first.

    While `more` is true, send `entries` of the answer as `after` of the next part, and its `head`. A million lines and
    more are checked in parts alone: no answer may take so long.
    """
    if after and head is None:
        reason = f"is missing: the hash of line {after}"
        raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, "head", None, reason, "send that of the answer before")
    if after is not None:
        return await _verdict(link, after, head or chain.START.hex(), limit)
    whole = await _verdict(link, 0, chain.START.hex(), WHOLE_LINES)
    if whole.more:
        reason = f"has {WHOLE_LINES:,} lines or more, which take longer than an answer may"
        remedy = "send after=0, and go on with the answer; or at the host: ./inv control.audit"
        raise Problem(HTTPStatus.CONFLICT, "audit", None, reason, remedy)
    return whole


async def _verdict(link: Link, after: int, head: str, most: int) -> AuditVerdict:
    """The verdict of so many lines behind a number, and of that line itself, which may have changed since."""
    query = f"select {chain.COLUMNS} from audit_entry where number > %s order by number limit %s"
    last = await rows.row(link, "select hash from audit_entry where number = %s", [after]) if after else None
    if after and (last is None or bytes(last["hash"]).hex() != head):
        problem = f"line {after} is missing" if last is None else f"line {after} was changed"
        return AuditVerdict(ok=False, entries=after, head=head, problem=problem)
    verdict = chain.verify([], after, bytes.fromhex(head))
    async with link.cursor("audit", row_factory=dict_row) as cursor:
        await cursor.execute(query.encode(), [after, most])
        while verdict.ok and (lines := await cursor.fetchmany(chain.LINES)):
            # In a thread: others are answered meanwhile.
            verdict = await asyncio.to_thread(chain.verify, lines, verdict.entries, bytes.fromhex(verdict.head))
    found = {"ok": verdict.ok, "entries": verdict.entries, "head": verdict.head, "problem": verdict.problem}
    return AuditVerdict(**found, more=verdict.ok and verdict.entries == after + most)


def _entry(record: Row) -> AuditEntry:
    return AuditEntry(**{**record, "hash": bytes(record["hash"]).hex()})


async def _lines(pool: Any, number: int, last: int) -> AsyncIterator[str]:
    """The lines after a number up to the last one that was there; each part is read with a connection of its own."""
    query = f"select {chain.COLUMNS} from audit_entry where number between %s and %s order by number limit %s"
    while number < last:
        async with pool.connection() as link:
            found = await rows.rows(link, query, [number + 1, last, chain.LINES])
        if not found or found[0]["number"] != number + 1:
            # The answer is cut, so that nobody takes it for the whole.
            raise unknown("line", str(number + 1), "see ./inv control.audit")
        yield "".join(f"{_entry(record).model_dump_json(by_alias=True)}\n" for record in found)
        number = found[-1]["number"]


def _only(who: Caller) -> str | None:
    """The person whose own alone a caller sees; None for an admin, who sees all."""
    return None if ADMIN in who.scopes else str((who.person or {}).get("id", ""))
