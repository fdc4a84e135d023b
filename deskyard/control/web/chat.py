"""/api/conversations: what was said with agents, also with those of desktops that are gone."""

import secrets
from http import HTTPStatus
from typing import Annotated

import psycopg
from fastapi import APIRouter, Depends, Query

from deskyard.control.api import rows
from deskyard.control.api.admission import Asked, Repeat, Wanted, admit, in_the_name_of, known
from deskyard.control.api.caller import Caller, Connection, Link, may
from deskyard.control.api.forms.base import Page
from deskyard.control.api.forms.conversations import Conversation, Message, Said, Sent
from deskyard.control.api.forms.work import Operation
from deskyard.control.api.named import CONVERSATION_REMEDY, require_conversation
from deskyard.control.api.problem import Problem, unknown
from deskyard.control.people.scopes import CHAT, READ

router = APIRouter(prefix="/api", tags=["conversations"])
Reader = Annotated[Caller, Depends(may(READ))]
TITLE_LENGTH = 80


async def send(link: Link, who: Caller, once: Repeat, desktop: str, said: Said) -> Sent:
    """Store a message, and the operation that delivers it, in one transaction."""
    before = await known(link, who, once)
    if before is None:
        before = await store(link, who, once, desktop, said)
    await link.commit()
    query = (
        "select id, conversation_id from message where operation_id = %s and role = 'person' order by number limit 1"
    )
    stored = await rows.row(link, query, [before])
    if stored is None:
        raise Problem(HTTPStatus.CONFLICT, "Idempotency-Key", once.key, "was used for another request", "use a new one")
    return Sent(conversation_id=stored["conversation_id"], message_id=stored["id"], operation_id=before)


async def store(link: Link, who: Caller, once: Repeat, desktop: str, said: Said, *, after: str | None = None) -> str:
    """Write down a message and its delivery, which waits until the operation `after` is done; the delivery's id."""
    if said.conversation_id is None:
        conversation = f"cv_{secrets.token_hex(8)}"
        title = " ".join(said.message.split())[:TITLE_LENGTH]
        await link.execute(
            "insert into conversation (id, desktop_id, title) values (%s, %s, %s)", [conversation, desktop, title]
        )
    else:
        conversation = said.conversation_id
        found = await require_conversation(link, who, conversation)
        if found["desktop_id"] != desktop:
            remedy = "leave it out for a new one"
            raise Problem(HTTPStatus.CONFLICT, "conversationId", conversation, "is of another desktop", remedy)
        # At a seat there is another desktop for each task: whoever had the one before spoke with another agent.
        query = "select 1 from desktop where id = %s and lifetime = 'task' and there_since > %s"
        if await rows.row(link, query, [desktop, found["created_at"]]):
            remedy = "leave it out for a new one"
            raise Problem(HTTPStatus.CONFLICT, "conversationId", conversation, "is of a desktop that is gone", remedy)
    message, operation = f"ms_{secrets.token_hex(8)}", f"op_{secrets.token_hex(8)}"
    query = """insert into message (id, conversation_id, role, author, text, state, operation_id)
        values (%s, %s, 'person', %s, %s, 'queued', %s)"""
    try:
        await link.execute(query, [message, conversation, who.actor, said.message, operation])
    except psycopg.errors.ForeignKeyViolation as error:
        # Its time was over, and it went in this moment.
        raise unknown("conversation", conversation, CONVERSATION_REMEDY) from error
    workspace = desktop.partition(".")[0]
    wanted = Wanted(
        "desktop.chat",
        workspace,
        desktop,
        {"conversation": conversation, "message": message},
        # One turn of a conversation at a time; the machine may be moved meanwhile.
        lane=f"conversation:{conversation}",
        after=after,
    )
    return await admit(link, who, once, wanted, id=operation)


@router.get("/conversations")
async def listing(
    link: Connection,
    who: Reader,
    desktop: str | None = None,
    q: Annotated[str | None, Query(max_length=200)] = None,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
    after: str | None = None,
) -> Page[Conversation]:
    """List conversations, the last first; `q` looks for words in what was said."""
    condition, values = rows.conditions(
        (
            ("split_part(c.desktop_id, '.', 1) = any(%s)", who.bounds),
            ("c.desktop_id = %s", desktop),
            (
                "exists (select from message m where m.conversation_id = c.id and"
                " m.words @@ websearch_to_tsquery('simple', %s))",
                q or None,
            ),
        )
    )
    if (start := rows.place(after, 2)) is not None:
        condition, values = f"{condition} and (c.last_at, c.id) < (%s::timestamptz, %s)", [*values, *start]
    query = f"{rows.CONVERSATION} where {condition} order by c.last_at desc, c.id desc"
    found, last = await rows.part(link, query, values, limit)
    return Page(
        items=[rows.conversation(record) for record in found],
        next_cursor=rows.cursor(last["last_at"].isoformat(), last["id"]) if last else None,
    )


@router.get("/conversations/{id}/messages")
async def messages(
    link: Connection,
    who: Reader,
    id: str,
    limit: Annotated[int, Query(ge=1, le=1000)] = 200,
    after: str | None = None,
) -> Page[Message]:
    """List the messages of a conversation, the oldest first."""
    await require_conversation(link, who, id)
    start = rows.place(after, 1)
    number = int(start[0]) if start is not None and start[0].isdigit() else 0
    query = f"{rows.MESSAGE} where conversation_id = %s and number > %s order by number"
    found, last = await rows.part(link, query, [id, number], limit)
    return Page(
        items=[rows.message(record) for record in found],
        next_cursor=rows.cursor(str(last["number"])) if last else None,
    )


@router.post("/conversations/{id}/interrupt", status_code=HTTPStatus.ACCEPTED)
async def interrupt(asked: Asked, who: Annotated[Caller, Depends(may(CHAT))], id: str) -> Operation:
    """End the turn that runs; what the agent said so far is kept."""
    return await asked.found(who, lambda: _interrupted(asked.link, who, id))


async def _interrupted(link: Link, who: Caller, id: str) -> str:
    await require_conversation(link, who, id)
    query = "select id from operation where lane = %s and state in ('running', 'queued') order by state desc limit 1"
    found = await rows.row(link, query, [f"conversation:{id}"])
    if found is None:
        raise Problem(HTTPStatus.CONFLICT, "conversation", id, "has no turn that runs", "nothing is to be done")
    await in_the_name_of(link, who)
    await link.execute("update operation set cancel_requested_at = now() where id = %s", [found["id"]])
    return str(found["id"])
