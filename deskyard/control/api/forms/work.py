"""Long work, from the request to its end."""

from datetime import datetime
from typing import Any, Literal

from pydantic import Field, StrictBool

from deskyard.control.api.forms.approvals import Given
from deskyard.control.api.forms.base import Form, Trouble

OperationState = Literal["queued", "running", "waiting", "done", "failed", "cancelled"]


class Consent(Form):
    """The consent that an operation waits for: of others than who asked, by the rule of its workspace."""

    strength: Literal["worker"] = Field("worker", description="Who enforces the answer.")
    asker: str = Field(description="Who signed that it is done.")
    asked: str = Field(description="What, in the line that was signed.")
    needed: int = Field(description="How many others have to allow it; one is enough to refuse.")
    answers: list[Given] = Field(description="Those who did so far.")
    until: datetime = Field(description="Then it fails.")


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
    cancel_requested_at: datetime | None = Field(description="When it was asked to stop.")
    force_from: datetime | None = Field(description="From when on it may be cancelled by force, while it still runs.")
    attempt: int
    position: int | None = Field(description="Place in the queue of its share of the work, from 1.")
    why: str | None = Field(description="Why it waits.")
    progress: str | None = Field(description="The last line of its log.")
    result: dict[str, Any] | None
    problem: Trouble | None
    consent: Consent | None = Field(description="What it waits for in the state `waiting`.")


class Cancelling(Form):
    """How an operation is ended."""

    force: StrictBool = Field(
        False, description="Kill its program and all that it started: what it was at may be half done."
    )


class LogLine(Form):
    """A line of what an operation says."""

    operation_id: str
    number: int
    at: datetime
    line: str
