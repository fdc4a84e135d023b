"""What the API takes and answers, as pydantic models: OpenAPI is made from them."""

from datetime import datetime
from typing import Annotated, Any, Generic, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictInt
from pydantic.alias_generators import to_camel

from deskyard.model.base import DnsLabel

T = TypeVar("T")
Label = Annotated[DnsLabel, Field(max_length=63)]

OperationState = Literal["queued", "running", "waiting", "done", "failed", "cancelled"]
DesktopState = Literal[
    "declared",
    "provisioning",
    "booting",
    "ready",
    "stopping",
    "stopped",
    "paused",
    "error",
    "io-error",
    "unknown",
]
WorkspaceState = Literal["ready", "not ready", "absent", "stopped", "unknown"]
ApprovalState = Literal["waiting", "allowed", "refused", "used", "over", "lapsed"]
MessageState = Literal["queued", "sent", "streaming", "done", "failed", "interrupted"]
ToolState = Literal["running", "done", "failed", "interrupted"]


class Form(BaseModel):
    """JSON in camel case; what is not known is refused."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="forbid")


class Page(Form, Generic[T]):
    """A part of a list."""

    items: list[T]
    next_cursor: str | None = Field(None, description="`after` of the next part; none: this is the last.")
    total: int | None = Field(None, description="How many there are in all, with these filters.")


class Trouble(Form):
    """An error: what is wrong, and what to do."""

    field: str
    value: str
    reason: str
    remedy: str


class ProblemDetails(Form):
    """What is refused or went wrong, as RFC 9457 has it, with the four parts of every Deskyard error."""

    type: str
    title: str
    status: int
    detail: str
    field: str
    value: str
    reason: str
    remedy: str
    request_id: str


class Operation(Form):
    """Long work, from the request to its end."""

    id: str
    kind: str
    workspace_id: str | None
    desktop_id: str | None
    state: OperationState
    actor: str
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    attempt: int
    position: int | None = Field(description="Place in the queue, from 1.")
    why: str | None = Field(description="Why it waits.")
    progress: str | None = Field(description="The last line of its log.")
    result: dict[str, Any] | None
    problem: Trouble | None


class LogLine(Form):
    """A line of what an operation says."""

    operation_id: str
    number: int
    at: datetime
    line: str


class Desktop(Form):
    """A desktop as it is declared, and as it was seen last."""

    id: str = Field(description="WORKSPACE.DESKTOP")
    name: str
    workspace_id: str
    tier: str
    image: str
    address: str
    state: DesktopState
    state_at: datetime
    detail: str
    wanted: str | None
    routes: list[str]
    generation: int
    operation: Operation | None = Field(description="What runs or waits for it.")
    last_chat_at: datetime | None


class NewDesktop(Form):
    """A desktop to be made."""

    name: Label
    workspace_id: Label = Field(description="A workspace that is declared.")
    tier: str = Field("free", max_length=40)
    image: Label | None = Field(None, description="Another image than the workspace's.")
    keys: list[Label] = Field([], max_length=32, description="Names of keys of the workspace that it gets.")
    first_task: str | None = Field(
        None, min_length=1, max_length=100_000, description="What its agent is to do once it is ready."
    )


class Force(Form):
    """How a machine is stopped."""

    force: StrictBool = Field(False, description="Pull the plug: what programs have not written is lost.")


class SignedIntent(Form):
    """An intent with a passkey's answer to it."""

    intent: dict[str, Any]
    credential: dict[str, Any]


class Signed(Form):
    """An admin's signature; a key with the scope `admin` needs none."""

    intent: SignedIntent | None = None


class Destroy(Form):
    """Leave to destroy a desktop; a key with the scope `desktops:destroy` needs none."""

    intent: SignedIntent | None = None


class WantedIntent(Form):
    """What somebody wants to sign."""

    kind: str = Field(max_length=60)
    target: str = Field(max_length=5000)


class IntentToSign(Form):
    """An intent, the sentence that a person reads, and what the browser's passkey is asked."""

    intent: dict[str, Any]
    text: str
    public_key: dict[str, Any]


class Given(Form):
    """An answer that waits for another person's."""

    actor: str
    answer: str
    at: datetime


class Approval(Form):
    """A connection that a desktop wants to make, held at its gateway until a person answers."""

    id: str = Field(description="WORKSPACE.TICKET")
    workspace_id: str
    desktop_id: str
    name: str = Field(description="The exact name that the desktop asked for.")
    port: int
    state: ApprovalState = Field(
        description="waiting, allowed and refused can be answered; used, over, lapsed: the next try asks anew."
    )
    strength: Literal["gateway"] = Field("gateway", description="Who enforces the answer.")
    tries: int
    held: int = Field(description="How many connections wait now.")
    held_until: datetime | None = Field(description="When the last of them is refused.")
    since: datetime
    until: datetime = Field(description="Until when it can be answered.")
    last_at: datetime
    answer: str | None
    decided_by: str | None
    reason: str
    decided_at: datetime | None
    ends_at: datetime | None = Field(description="When what was answered ends by itself.")
    needed: int = Field(description="How many persons have to give the same answer, by the rule of the workspace.")
    answers: list[Given] = Field(description="Those that wait for another person's.")


class Decision(Form):
    """An answer, with a person's signature; a key with the scope `approvals:decide` needs none."""

    answer: Literal["once", "15m", "always", "refuse"]
    reason: str = Field("", max_length=200, pattern=r"^[^\x00-\x1f\x7f]*$")
    intent: SignedIntent | None = None


class SessionWanted(Form):
    """How a desktop is to be opened."""

    mode: Literal["drive", "view", "agent"] = Field(
        "drive", description="A person drives or views; a program is an agent."
    )
    scopes: list[Literal["see", "act", "files", "shell"]] | None = Field(
        None, max_length=4, description="What an agent may do; without: all of it."
    )


class Said(Form):
    """What is said to an agent."""

    message: str = Field(min_length=1, max_length=1_000_000)
    conversation_id: str | None = Field(None, max_length=80)


class Sent(Form):
    """A message that is stored, and will be delivered."""

    conversation_id: str
    message_id: str
    operation_id: str


class Conversation(Form):
    """What was said with the agent of a desktop, which may be gone."""

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
    """What the agent asked by itself: courtesy, as nothing but the agent holds it to the answer."""

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


class TierChoice(Form):
    """A size that a desktop of the workspace may have."""

    name: str
    vcpus: int
    memory_gib: float
    disk_gib: int
    home_gib: int


class Workspace(Form):
    """A workspace as it is declared, and as it was seen last."""

    id: str
    name: str
    site: str
    url: str
    state: WorkspaceState
    egress: str
    egress_allow: list[str]
    image: str
    tiers: list[TierChoice]
    keys: list[str]
    desktops: int
    problem: Trouble | None
    seen_at: datetime


class Selector(Form):
    """Which desktops."""

    workspace: str | None = Field(None, max_length=80)
    state: DesktopState | None = None
    tier: str | None = Field(None, max_length=40)
    q: str | None = Field(None, max_length=80)
    ids: list[Annotated[str, Field(max_length=130)]] | None = Field(None, max_length=10_000)


class FleetAction(Form):
    """The same for many desktops."""

    action: Literal["start", "stop", "restart"]
    selector: Selector
    expected_count: StrictInt = Field(ge=0, description="How many the caller saw: another number is refused.")
    dry_run: StrictBool = False


class FleetAnswer(Form):
    """Which desktops an action is for, and its operations."""

    count: int
    desktops: list[str]
    operations: list[str]
