"""Mission Control's answers, by the names of its OpenAPI document; times are texts of ISO 8601."""

from typing import Any, Literal, TypedDict

DesktopIs = Literal[
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
OperationIs = Literal["queued", "running", "waiting", "done", "failed", "cancelled"]
ApprovalIs = Literal["waiting", "allowed", "refused", "used", "over", "lapsed"]
MomentKind = Literal["operation", "machine", "message", "tool", "approval", "alert", "session", "refusal", "task"]


class Trouble(TypedDict):
    """An error: what is wrong, and what to do."""

    field: str
    value: str
    reason: str
    remedy: str


class Given(TypedDict):
    """An answer that waits for another person's."""

    actor: str
    answer: str
    at: str


class Consent(TypedDict):
    """The consent that an operation waits for: of others than who asked, by the rule of its workspace."""

    strength: Literal["worker"]
    asker: str
    asked: str
    needed: int
    answers: list[Given]
    until: str


class Operation(TypedDict):
    """Long work, from the request to its end; `why` says why it waits, `position` its place in the queue."""

    id: str
    kind: str
    workspaceId: str | None
    desktopId: str | None
    state: OperationIs
    actor: str
    createdAt: str
    startedAt: str | None
    endedAt: str | None
    cancelRequestedAt: str | None
    forceFrom: str | None
    attempt: int
    position: int | None
    why: str | None
    progress: str | None
    result: dict[str, Any] | None
    problem: Trouble | None
    consent: Consent | None


class LogLine(TypedDict):
    """A line of what an operation says."""

    operationId: str
    number: int
    at: str
    line: str


class DesktopState(TypedDict):
    """A desktop as it is declared, and as it was seen last; its id is WORKSPACE.DESKTOP."""

    id: str
    name: str
    workspaceId: str
    tier: str
    image: str
    address: str
    state: DesktopIs
    stateAt: str
    detail: str
    wanted: str | None
    routes: list[str]
    agent: Literal["openclaw", "acp", "none"] | None
    lifetime: Literal["kept", "task"]
    until: str | None
    machine: str | None
    imageNow: str | None
    upgradeTo: str | None
    generation: int
    operation: Operation | None
    lastChatAt: str | None
    frozenAt: str | None


class Workspace(TypedDict):
    """A workspace as it is declared, and as it was seen last."""

    id: str
    name: str
    site: str
    url: str
    state: Literal["ready", "not ready", "absent", "stopped", "unknown"]
    egress: str
    egressAllow: list[str]
    image: str
    tiers: list[dict[str, Any]]
    keys: list[str]
    desktops: int
    problem: Trouble | None
    seenAt: str
    silence: str
    silentSince: str | None
    unseenSince: str | None
    unseenWhy: str


class Seat(TypedDict):
    """A seat for desktops that are for a task: free, or how far the desktop there is, and who has it until when."""

    id: str
    name: str
    tier: str
    image: str
    address: str
    state: Literal["free", "making", "waiting", "claimed"]
    since: str | None
    machine: str | None
    claimedBy: str | None
    operationId: str | None
    until: str | None


class Sent(TypedDict):
    """A message that is stored, and will be delivered by its operation."""

    conversationId: str
    messageId: str
    operationId: str


class Conversation(TypedDict):
    """A conversation with the agent of a desktop, which may be gone."""

    id: str
    desktopId: str
    title: str
    createdAt: str
    lastAt: str
    messages: int


class Tool(TypedDict):
    """A tool that an agent used, in its own words."""

    id: str
    name: str
    state: Literal["running", "done", "failed", "interrupted"]
    startedAt: str
    endedAt: str | None
    arguments: str
    argumentsCut: bool
    output: str
    outputCut: bool


class QuestionOption(TypedDict):
    """An answer that an agent offers, in its own words."""

    id: str
    name: str
    kind: str


class Question(TypedDict):
    """A question that an agent asked by itself: courtesy, as nothing but the agent holds it to the answer."""

    id: str
    asked: str
    options: list[QuestionOption]
    strength: Literal["courtesy"]
    state: Literal["open", "answered", "lapsed"]
    askedAt: str
    until: str
    option: str | None
    answeredBy: str | None
    answeredAt: str | None
    heard: bool


class Claimed(TypedDict):
    """The tokens that a turn took, as its agent claims: nobody has measured them."""

    input: int
    output: int
    cached: int


class Message(TypedDict):
    """A message of a conversation; an agent's text is content, never an instruction."""

    id: str
    conversationId: str
    role: Literal["person", "agent"]
    author: str
    text: str
    state: Literal["queued", "sent", "streaming", "done", "failed", "interrupted"]
    at: str
    operationId: str | None
    problem: Trouble | None
    tools: list[Tool]
    moreTools: int
    questions: list[Question]
    claimed: Claimed | None


class Alert(TypedDict):
    """Something that a rule found: what, about whom, by which number, and what to do next."""

    id: str
    rule: str
    title: str
    object: str
    workspaceId: str | None
    text: str
    number: int
    unit: str
    nextStep: str
    openedAt: str
    closedAt: str | None
    acknowledgedAt: str | None
    acknowledgedBy: str | None
    silencedUntil: str | None


class Moment(TypedDict):
    """Something that happened to a desktop."""

    id: str
    kind: MomentKind
    at: str
    what: str
    actor: str
    detail: str
    state: str
    times: int
    subject: str


class Approval(TypedDict):
    """A connection that a desktop wants to make, held at its gateway until a person answers."""

    id: str
    workspaceId: str
    desktopId: str
    name: str
    port: int
    state: ApprovalIs
    strength: Literal["gateway"]
    tries: int
    held: int
    heldUntil: str | None
    since: str
    until: str
    lastAt: str
    answer: str | None
    decidedBy: str | None
    reason: str
    decidedAt: str | None
    endsAt: str | None
    needed: int
    answers: list[Given]


class Upgrade(TypedDict):
    """The image that a desktop runs, and the one that it gets."""

    id: str
    imageNow: str | None
    upgradeTo: str


class Skipped(TypedDict):
    """A desktop of a selection with which nothing is done."""

    id: str
    reason: str


class Fleet(TypedDict):
    """Which desktops an action is for, and its operations; none of these after a dry run."""

    count: int
    desktops: list[str]
    operations: list[str]
    upgrades: list[Upgrade]
    skipped: list[Skipped]
    toSign: str | None


class News(TypedDict):
    """Something that changed: its place in the stream, its kind, and what it tells of as it is now."""

    id: str
    kind: str
    data: dict[str, Any]
