"""Messages to and from agents, the tools that they use and the questions that they ask."""

from datetime import datetime
from typing import Literal

from pydantic import Field

from deskyard.control.api.forms.base import Form, Trouble

MessageState = Literal["queued", "sent", "streaming", "done", "failed", "interrupted"]

ToolState = Literal["running", "done", "failed", "interrupted"]


class Said(Form):
    """A message to an agent."""

    message: str = Field(min_length=1, max_length=1_000_000)
    conversation_id: str | None = Field(None, max_length=80)


class Sent(Form):
    """A message that is stored, and will be delivered."""

    conversation_id: str
    message_id: str
    operation_id: str


class Conversation(Form):
    """A conversation with the agent of a desktop, which may be gone."""

    id: str
    desktop_id: str
    title: str
    created_at: datetime
    last_at: datetime
    messages: int


class Tool(Form):
    """A tool that an agent used, in its own words, which may be cut; the times are those at which it was heard of."""

    id: str
    name: str
    state: ToolState
    started_at: datetime
    ended_at: datetime | None
    arguments: str
    arguments_cut: bool
    output: str
    output_cut: bool


class QuestionOption(Form):
    """An answer that the agent offers, in its own words."""

    id: str
    name: str
    kind: str


class Question(Form):
    """A question that the agent asked by itself: courtesy, as nothing but the agent holds it to the answer."""

    id: str
    asked: str
    options: list[QuestionOption]
    strength: Literal["courtesy"] = "courtesy"
    state: Literal["open", "answered", "lapsed"] = Field(description="`lapsed`: nobody answered, which is a refusal.")
    asked_at: datetime
    until: datetime
    option: str | None
    answered_by: str | None
    answered_at: datetime | None
    heard: bool = Field(description="Whether the agent got the answer.")


class Claimed(Form):
    """The tokens that a turn took, as its agent claims: nobody has measured them."""

    input: int
    output: int
    cached: int


class Message(Form):
    """A message of a conversation; `moreTools` were used beside those of `tools`."""

    id: str
    conversation_id: str
    role: Literal["person", "agent"]
    author: str
    text: str
    state: MessageState
    at: datetime
    operation_id: str | None
    problem: Trouble | None
    tools: list[Tool]
    more_tools: int
    questions: list[Question]
    claimed: Claimed | None


class Transcript(Form):
    """A conversation with all that was said in it, the oldest first."""

    conversation: Conversation
    messages: list[Message]


class Transcripts(Form):
    """All conversations of a workspace, the oldest first."""

    workspace_id: str
    conversations: list[Transcript]
