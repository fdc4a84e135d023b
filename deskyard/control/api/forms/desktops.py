"""Desktops and workspaces, and what is wanted of them."""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field, StrictBool, StrictInt

from deskyard.control.api.forms.base import Form, Label, Trouble
from deskyard.control.api.forms.signing import SignedIntent
from deskyard.control.api.forms.work import Operation
from deskyard.control.opening.seal import LENGTH, PATTERN

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
    agent: Literal["openclaw", "acp", "none"] | None = Field(
        None,
        description="Who answers what is said to it: OpenClaw, a program that speaks ACP, or nobody; null: unknown.",
    )
    lifetime: Literal["kept", "task"] = Field(
        "kept", description="Kept until it is destroyed, or for a task: then it is released, or goes at `until`."
    )
    until: datetime | None = Field(None, description="When a desktop for a task goes.")
    machine: str | None = Field(None, description="Of one for a task: the next at the same seat has another.")
    image_now: str | None = Field(
        None, description="The image that its system started from, as NAME-DIGEST; null: its host did not tell."
    )
    upgrade_to: str | None = Field(
        None, description="The image that an upgrade would give it; null: it runs that, or which it runs is not known."
    )
    generation: int
    operation: Operation | None = Field(description="What runs or waits for it.")
    last_chat_at: datetime | None
    frozen_at: datetime | None = Field(
        description="Since when its agent stands still, as Mission Control knows; a machine that boots lets it go on."
    )


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
    intent: SignedIntent | None = Field(
        None, description="A person's signature, where it gets keys; a key with the scope `desktops:write` needs none."
    )


class Force(Form):
    """How a machine is stopped."""

    force: StrictBool = Field(False, description="Pull the plug: what programs have not written is lost.")


class Pause(Form):
    """How a machine is halted."""

    to_disk: StrictBool = Field(False, description="Write its memory to disk, which frees it on the host.")


class SessionWanted(Form):
    """How a desktop is to be opened."""

    mode: Literal["drive", "view", "agent"] = Field(
        "drive", description="A person drives or views; a program is an agent."
    )
    scopes: list[Literal["see", "act", "files", "shell"]] | None = Field(
        None, max_length=4, description="What an agent may do; without: all of it."
    )
    seal_to: str | None = Field(
        None,
        max_length=LENGTH,
        pattern=PATTERN,
        description="A fresh public key (ECDH, P-256, raw, base64url) that the link is sealed to, as a person's is.",
    )
    intent: SignedIntent | None = Field(
        None, description="A person's signature; a key with the scope `desktops:write` needs none."
    )


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
    silence: str = Field("", description="What keeps its gateway from answering; empty: it answers, or was not asked.")
    silent_since: datetime | None = Field(None, description="Since when its gateway does not answer.")
    unseen_since: datetime | None = Field(
        None, description="Since when nobody sees its machines, as its hypervisor does not answer: none is known."
    )
    unseen_why: str = Field("", description="What keeps its machines from being seen, if that is known.")


class Selector(Form):
    """Which desktops."""

    workspace: str | None = Field(None, max_length=80)
    state: DesktopState | None = None
    tier: str | None = Field(None, max_length=40)
    q: str | None = Field(None, max_length=80)
    upgrade: bool | None = Field(None, description="Whether there is another image for it.")
    ids: list[Annotated[str, Field(max_length=130)]] | None = Field(None, max_length=10_000)


class FleetAction(Form):
    """The same for many desktops."""

    action: Literal["start", "stop", "restart", "pause", "resume", "freeze", "thaw", "upgrade"]
    selector: Selector
    expected_count: StrictInt = Field(ge=0, description="How many the caller saw: another number is refused.")
    dry_run: StrictBool = False
    intent: SignedIntent | None = Field(
        None, description="To upgrade, a person's signature over the answer's `toSign`; a key needs none."
    )


class Upgrade(Form):
    """The image that a desktop runs, and the one that it gets."""

    id: str
    image_now: str | None
    upgrade_to: str


class Skipped(Form):
    """A desktop of the selection with which nothing is done."""

    id: str
    reason: str


class FleetAnswer(Form):
    """Which desktops an action is for, and its operations."""

    count: int = Field(description="How many the selection has: what `expectedCount` is to be.")
    desktops: list[str] = Field(description="Those with which something is done.")
    operations: list[str]
    upgrades: list[Upgrade] = Field([], description="To upgrade: of each, from which image to which.")
    skipped: list[Skipped] = Field([], description="To upgrade: which are left out, and why.")
    to_sign: str | None = Field(None, description="The target that a person signs for it, as `desktop.upgrade`.")
