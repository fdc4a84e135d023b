"""Writes a conversation down as it is read, so that its length costs no memory."""

import re
from collections.abc import AsyncIterator, Iterator
from typing import Any

from deskyard.control.api import rows
from deskyard.control.api.forms.conversations import Conversation, Message
from deskyard.control.api.problem import unknown

# So many messages of an export are in memory at once.
PART = 10
# What would steer the terminal of whoever reads an export, or the order in which its letters stand.
STEERS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
MARK = "\ufffd"


async def each(pool: Any, conversation: Conversation) -> AsyncIterator[Message]:
    """As many messages as it has, the oldest first; what is said meanwhile does not make its export endless.

    Each part is read with a connection that is given back before it is sent: a slow reader keeps none from others.
    """
    query = f"{rows.MESSAGE} where conversation_id = %s and number > %s order by number limit %s"
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


async def as_json(conversation: Conversation, said: AsyncIterator[Message]) -> AsyncIterator[str]:
    """The JSON of a `Transcript`, message by message."""
    yield f'{{"conversation":{conversation.model_dump_json(by_alias=True)},"messages":['
    comma = ""
    async for message in said:
        yield comma + message.model_dump_json(by_alias=True)
        comma = ","
    yield "]}"


async def as_markdown(conversation: Conversation, said: AsyncIterator[Message]) -> AsyncIterator[str]:
    """The same to be read, message by message."""
    yield f"# {plain(conversation.title)}\n"
    yield f"\nDesktop {plain(conversation.desktop_id)}, conversation {plain(conversation.id)}\n"
    async for message in said:
        yield "".join(f"\n{paragraph}\n" for paragraph in _paragraphs(message))


def _paragraphs(message: Message) -> Iterator[str]:
    yield f"## {plain(message.author)}, {message.at.isoformat(timespec='seconds')}, {message.state}"
    for tool in message.tools:
        yield f"Tool {plain(tool.name)}, {tool.state}"
        for text, cut in ((tool.arguments, tool.arguments_cut), (tool.output, tool.output_cut)):
            if text:
                yield _block(text)
                if cut:
                    yield "Cut: it was longer."
    for question in message.questions:
        options = {option.id: option.name for option in question.options}
        chosen = f"{question.answered_by} answered {options.get(question.option or '')}"
        end = chosen if question.state == "answered" else question.state
        yield plain(f"Question of the agent: {question.asked}; {end}")
    if message.more_tools:
        yield f"{message.more_tools} more tools were used, and are not kept."
    yield _block(message.text)
    if message.claimed is not None:
        claimed = message.claimed
        yield f"Tokens, as the agent claims: {claimed.input} in, {claimed.output} out, {claimed.cached} cached"
    if message.problem is not None:
        yield plain(f"{message.problem.field} {message.problem.value}: {message.problem.reason}")


def _block(text: str) -> str:
    """The text as a code block, which is not interpreted: it loads no picture and passes for no other message."""
    shown = STEERS.sub(MARK, re.sub("\r\n?", "\n", text))
    fence = "`" * max(3, 1 + max((len(run[0]) for run in re.finditer("`+", shown)), default=0))
    return f"{fence}text\n{shown}\n{fence}"


def plain(text: str) -> str:
    """A line that means nothing in Markdown."""
    return re.sub(r"([!-/:-@\[-`{-~])", r"\\\1", STEERS.sub(MARK, " ".join(text.split())))


def file_name(id: str) -> str:
    """The id as it may stand in a header, whatever the tables hold."""
    return re.sub("[^A-Za-z0-9_-]", "_", id)
