"""/api/conversations: what was said with agents, also with those of desktops that are gone."""

import re
import secrets
from collections.abc import AsyncIterator, Iterator
from http import HTTPStatus
from typing import Annotated, Any, Literal

import psycopg
from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi.responses import StreamingResponse

from deskyard.control.api import rows
from deskyard.control.api.admission import Asked, Repeat, Wanted, admit, known, note
from deskyard.control.api.caller import Caller, Connection, Link, Row, may
from deskyard.control.api.forms.base import Page
from deskyard.control.api.forms.conversations import Conversation, Message, Said, Sent, Transcript
from deskyard.control.api.forms.work import Operation
from deskyard.control.api.problem import Problem, unknown
from deskyard.control.people.scopes import CHAT, READ

router = APIRouter(prefix="/api", tags=["conversations"])
Reader = Annotated[Caller, Depends(may(READ))]
TITLE_LENGTH = 80
REMEDY = "see GET /api/conversations; what is older than GET /api/retention says is deleted"
MARKDOWN = "text/markdown"
# So many messages of an export are in memory at once.
PART = 10
# What would steer the terminal of whoever reads an export, or the order in which its letters stand.
STEERS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
MARK = "\ufffd"


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
        found = await require(link, who, conversation)
        if found["desktop_id"] != desktop:
            remedy = "leave it out for a new one"
            raise Problem(HTTPStatus.CONFLICT, "conversationId", conversation, "is of another desktop", remedy)
    message, operation = f"ms_{secrets.token_hex(8)}", f"op_{secrets.token_hex(8)}"
    query = """insert into message (id, conversation_id, role, author, text, state, operation_id)
        values (%s, %s, 'person', %s, %s, 'queued', %s)"""
    try:
        await link.execute(query, [message, conversation, who.actor, said.message, operation])
    except psycopg.errors.ForeignKeyViolation as error:
        # Its time was over, and it went in this moment.
        raise unknown("conversation", conversation, REMEDY) from error
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
    await require(link, who, id)
    start = rows.place(after, 1)
    number = int(start[0]) if start is not None and start[0].isdigit() else 0
    query = "select * from message where conversation_id = %s and number > %s order by number"
    found, last = await rows.part(link, query, [id, number], limit)
    return Page(
        items=[rows.message(record) for record in found],
        next_cursor=rows.cursor(str(last["number"])) if last else None,
    )


@router.get(
    "/conversations/{id}/export",
    response_model=Transcript,
    responses={HTTPStatus.OK.value: {"content": {MARKDOWN: {"schema": {"type": "string"}}}}},
)
async def export(
    request: Request, link: Connection, who: Reader, id: str, format: Literal["json", "markdown"] = "json"
) -> Response:
    """Export a whole conversation, the oldest message first."""
    conversation = rows.conversation(await require(link, who, id))
    said = _each(request.app.state.pool, conversation)
    is_markdown = format == "markdown"
    parts = _markdown(conversation, said) if is_markdown else _json(conversation, said)
    headers = {"Content-Disposition": f'attachment; filename="{_file_name(id)}.{"md" if is_markdown else "json"}"'}
    return StreamingResponse(parts, headers=headers, media_type=MARKDOWN if is_markdown else "application/json")


@router.post("/conversations/{id}/interrupt", status_code=HTTPStatus.ACCEPTED)
async def interrupt(asked: Asked, who: Annotated[Caller, Depends(may(CHAT))], id: str) -> Operation:
    """End the turn that runs; what the agent said so far is kept."""
    return await asked.found(who, lambda: _interrupted(asked.link, who, id))


async def _interrupted(link: Link, who: Caller, id: str) -> str:
    await require(link, who, id)
    query = "select id from operation where lane = %s and state in ('running', 'queued') order by state desc limit 1"
    found = await rows.row(link, query, [f"conversation:{id}"])
    if found is None:
        raise Problem(HTTPStatus.CONFLICT, "conversation", id, "has no turn that runs", "nothing is to be done")
    await link.execute("update operation set cancel_requested_at = now() where id = %s", [found["id"]])
    await note(link, who.actor, "conversation.interrupt", id, operation=found["id"])
    return str(found["id"])


async def require(link: Link, who: Caller, id: str) -> Row:
    """The row of a conversation that the caller may see; raises a 404 for none."""
    found = await rows.row(link, f"{rows.CONVERSATION} where c.id = %s", [id])
    if found is None or not who.sees(found["desktop_id"].partition(".")[0]):
        raise unknown("conversation", id, REMEDY)
    return found


async def _each(pool: Any, conversation: Conversation) -> AsyncIterator[Message]:
    """As many messages as it has, the oldest first; what is said meanwhile does not make its export endless.

    Each part is read with a connection that is given back before it is sent: a slow reader keeps none from others.
    """
    query = "select * from message where conversation_id = %s and number > %s order by number limit %s"
    number, left = 0, conversation.messages
    while left > 0:
        async with pool.connection() as link:
            found = await rows.rows(link, query, [conversation.id, number, min(left, PART)])
        if not found:
            # The answer is cut, so that nobody takes it for the whole.
            raise unknown("message", conversation.id, "export the conversation again")
        for record in found:
            yield rows.message(record)
        number, left = found[-1]["number"], left - len(found)


async def _json(conversation: Conversation, said: AsyncIterator[Message]) -> AsyncIterator[str]:
    """A `Transcript`, message by message."""
    yield f'{{"conversation":{conversation.model_dump_json(by_alias=True)},"messages":['
    comma = ""
    async for message in said:
        yield comma + message.model_dump_json(by_alias=True)
        comma = ","
    yield "]}"


async def _markdown(conversation: Conversation, said: AsyncIterator[Message]) -> AsyncIterator[str]:
    yield f"# {_plain(conversation.title)}\n"
    yield f"\nDesktop {_plain(conversation.desktop_id)}, conversation {_plain(conversation.id)}\n"
    async for message in said:
        yield "".join(f"\n{paragraph}\n" for paragraph in _paragraphs(message))


def _paragraphs(message: Message) -> Iterator[str]:
    yield f"## {_plain(message.author)}, {message.at.isoformat(timespec='seconds')}, {message.state}"
    for tool in message.tools:
        yield f"Tool {_plain(tool.name)}, {tool.state}"
        for text, cut in ((tool.arguments, tool.arguments_cut), (tool.output, tool.output_cut)):
            if text:
                yield _block(text)
                if cut:
                    yield "Cut: it was longer."
    for question in message.questions:
        options = {option.id: option.name for option in question.options}
        chosen = f"{question.answered_by} answered {options.get(question.option or '')}"
        end = chosen if question.state == "answered" else question.state
        yield _plain(f"Question of the agent: {question.asked}; {end}")
    if message.more_tools:
        yield f"{message.more_tools} more tools were used, and are not kept."
    yield _block(message.text)
    if message.claimed is not None:
        claimed = message.claimed
        yield f"Tokens, as the agent claims: {claimed.input} in, {claimed.output} out, {claimed.cached} cached"
    if message.problem is not None:
        yield _plain(f"{message.problem.field} {message.problem.value}: {message.problem.reason}")


def _block(text: str) -> str:
    """The text as a code block, which is not interpreted: it loads no picture and passes for no other message."""
    shown = STEERS.sub(MARK, re.sub("\r\n?", "\n", text))
    fence = "`" * max(3, 1 + max((len(run[0]) for run in re.finditer("`+", shown)), default=0))
    return f"{fence}text\n{shown}\n{fence}"


def _plain(text: str) -> str:
    """A line that means nothing in Markdown."""
    return re.sub(r"([!-/:-@\[-`{-~])", r"\\\1", STEERS.sub(MARK, " ".join(text.split())))


def _file_name(id: str) -> str:
    """The id as it may stand in a header, whatever the tables hold."""
    return re.sub("[^A-Za-z0-9_-]", "_", id)
