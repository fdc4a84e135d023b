"""/api/conversations/ID/export, and the same of a workspace: to whoever may read them, as they are read."""

import json
from collections.abc import AsyncIterator
from http import HTTPStatus
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Request
from fastapi.responses import StreamingResponse

from deskyard.control.api import rows
from deskyard.control.api.admission import note
from deskyard.control.api.caller import Caller, Connection, may
from deskyard.control.api.forms.conversations import Conversation, Transcript, Transcripts
from deskyard.control.api.named import require_conversation
from deskyard.control.api.problem import unknown
from deskyard.control.people.scopes import READ
from deskyard.control.transcripts import written

router = APIRouter(prefix="/api", tags=["conversations"])
Reader = Annotated[Caller, Depends(may(READ))]
Way = Literal["json", "markdown"]
JSON, MARKDOWN = "application/json", "text/markdown"
IN_MARKDOWN: dict[int | str, dict[str, Any]] = {
    HTTPStatus.OK.value: {"content": {MARKDOWN: {"schema": {"type": "string"}}}}
}
# As the index of the tables has it.
OF = "split_part(c.desktop_id, '.', 1) = %s"


@router.get("/conversations/{id}/export", response_model=Transcript, responses=IN_MARKDOWN)
async def export(request: Request, link: Connection, who: Reader, id: str, format: Way = "json") -> StreamingResponse:
    """Export a whole conversation, the oldest message first."""
    conversation = rows.conversation(await require_conversation(link, who, id))
    await note(link, who.actor, "conversation.export", id, desktop=conversation.desktop_id, format=format)
    said = written.each(request.app.state.pool, conversation)
    parts = written.as_markdown(conversation, said) if format == "markdown" else written.as_json(conversation, said)
    return _answer(parts, id, format)


@router.get("/workspaces/{id}/conversations/export", response_model=Transcripts, responses=IN_MARKDOWN)
async def export_all(
    request: Request, link: Connection, who: Reader, id: str, format: Way = "json"
) -> StreamingResponse:
    """Export all conversations of a workspace, the oldest first, also those of what is gone."""
    query = f"""select now() as at, exists (select from workspace where id = %s)
        or exists (select from conversation c where {OF}) as known"""
    found = await rows.row(link, query, [id, id])
    if found is None or not found["known"] or not who.sees(id):
        raise unknown("workspace", id, "see GET /api/workspaces")
    await note(link, who.actor, "conversations.export", id, format=format)
    pool = request.app.state.pool
    conversations = _each(pool, id, found["at"])
    parts = _markdown(pool, id, conversations) if format == "markdown" else _json(pool, id, conversations)
    return _answer(parts, f"conversations-{id}", format)


def _answer(parts: AsyncIterator[str], name: str, format: Way) -> StreamingResponse:
    ending, media_type = ("md", MARKDOWN) if format == "markdown" else ("json", JSON)
    headers = {"Content-Disposition": f'attachment; filename="{written.file_name(name)}.{ending}"'}
    return StreamingResponse(parts, headers=headers, media_type=media_type)


async def _each(pool: Any, workspace: str, at: Any) -> AsyncIterator[Conversation]:
    """The conversations that had begun by a moment, each as it is when it is its turn."""
    condition = f"{OF} and c.created_at <= %s and (c.created_at, c.id) > (%s, %s)"
    query = f"{rows.CONVERSATION} where {condition} order by c.created_at, c.id limit 1"
    begin: tuple[Any, str] = ("-infinity", "")
    while True:
        async with pool.connection() as link:
            found = await rows.row(link, query, [workspace, at, *begin])
        if found is None:
            return
        yield rows.conversation(found)
        begin = found["created_at"], found["id"]


async def _json(pool: Any, workspace: str, conversations: AsyncIterator[Conversation]) -> AsyncIterator[str]:
    """The JSON of `Transcripts`."""
    yield f'{{"workspaceId":{json.dumps(workspace)},"conversations":['
    comma = ""
    async for conversation in conversations:
        yield comma
        async for part in written.as_json(conversation, written.each(pool, conversation)):
            yield part
        comma = ","
    yield "]}"


async def _markdown(pool: Any, workspace: str, conversations: AsyncIterator[Conversation]) -> AsyncIterator[str]:
    yield f"Conversations of workspace {written.plain(workspace)}\n"
    async for conversation in conversations:
        yield "\n"
        async for part in written.as_markdown(conversation, written.each(pool, conversation)):
            yield part
