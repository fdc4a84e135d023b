"""The one kind of error: what the desktop or its gateway refuses."""

from typing import Any

import httpx

LOCKED = 423


class DesktopError(Exception):
    """A refusal: `field` names what is wrong, `reason` why, `remedy` what to do; `status` is HTTP's, or 0.

    `body` is all that was answered: of a batch of actions that failed, for example, what was done before.
    """

    def __init__(
        self, field: str, value: str, reason: str, remedy: str, status: int = 0, body: dict[str, Any] | None = None
    ) -> None:
        super().__init__(f"{field}{f' = {value!r}' if value else ''}: {reason}\n  -> {remedy}")
        self.field, self.value, self.reason, self.remedy, self.status = field, value, reason, remedy, status
        self.body = body or {}


class PrivacyError(DesktopError):
    """A person at the desktop wants privacy: nothing is seen or done there until the event `privacy.off`."""


class StoppedError(DesktopError):
    """A person has stopped the agent of this desktop: no program comes in until a person lets it go on."""


# What the gateway says of a desktop that it has shut for programs.
SHUT = {"privacy": PrivacyError, "stopped": StoppedError}


def refusal(status: int, answer: bytes) -> DesktopError:
    """The error that an answer tells of."""
    try:
        body = httpx.Response(status, content=answer).json()
    except ValueError:
        body = None
    if not isinstance(body, dict):
        body = {}
    reason = str(body.get("reason") or body.get("message") or f"was answered with {status}")
    remedy = str(body.get("remedy") or "look at the gateway's log")
    kind = SHUT.get(str(body.get("error")), DesktopError) if status == LOCKED else DesktopError
    return kind(
        str(body.get("error") or body.get("field") or "answer"),
        str(body.get("value") or ""),
        reason,
        remedy,
        status,
        body,
    )


def unreachable(url: str, error: Exception) -> DesktopError:
    """The error of an address where nobody answers, or where who answers is not known."""
    remedy = "look whether the desktop runs, and give the gateway's CA file if it has a CA of its own"
    return DesktopError("url", url, f"does not answer ({error or type(error).__name__})", remedy)
