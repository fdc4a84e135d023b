"""Connections that wait for a person, and the answers."""

from datetime import datetime
from typing import Literal

from pydantic import Field

from deskyard.control.api.forms.base import Form
from deskyard.control.api.forms.signing import SignedIntent

ApprovalState = Literal["waiting", "allowed", "refused", "used", "over", "lapsed"]


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
