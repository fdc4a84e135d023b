"""A client's wishes for a new sandbox, read strictly: whatever we do not have is refused, and never passed over."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from deskyard_sdk import DesktopError

from deskyard_e2b.answers import not_had

LONGEST_SECONDS = 10 * 365 * 24 * 3600
MOST_ENTRIES, LONGEST_TEXT = 100, 10_000
ELSEWHERE = "see docs/e2b.md"
# What E2B has beside sandboxes, and what of ours is nearest.
NOT_HAD = {
    "network": "the workspace's egress rules say what its desktops reach: docs/egress.md",
    "mcp": "deskyard-mcp serves a desktop: docs/mcp.md",
    "iam": "give desktops keys: docs/keys.md",
    "volumeMounts": "a desktop has a disk of its own, which stays",
}


@dataclass(frozen=True)
class Wanted:
    """A new sandbox as it is asked for."""

    template: str
    seconds: int
    metadata: dict[str, str]
    environment: dict[str, str]
    pauses: bool
    # Whether a pause at the end of its time keeps the memory.
    memory: bool = True


def read(body: Mapping[str, Any], default_seconds: int) -> Wanted:
    """Read a request to create a sandbox; raises `DesktopError`."""
    for name, remedy in NOT_HAD.items():
        if body.get(name):
            raise not_had(name, f"leave it out; {remedy}")
    if body.get("allow_internet_access") is False:
        raise not_had("allow_internet_access", f"leave it out; {NOT_HAD['network']}")
    resume = body.get("autoResume")
    if isinstance(resume, dict) and resume.get("enabled"):
        raise not_had("autoResume", "leave it out, and call Sandbox.connect()")
    template = body.get("templateID")
    if not isinstance(template, str) or len(template) > LONGEST_TEXT:
        raise _wrong("templateID", "must be a text", "give base, or WORKSPACE/TIER")
    metadata, environment = _texts(body, "metadata"), _texts(body, "envVars")
    lasts, memory = seconds(body, "timeout", default_seconds), flag(body, "autoPauseMemory") is not False
    return Wanted(template, lasts, metadata, environment, bool(body.get("autoPause")), memory)


def seconds(body: Mapping[str, Any], name: str, default: int) -> int:
    """How long something lasts."""
    value = body.get(name)
    if value is None:
        return default
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= LONGEST_SECONDS:
        raise _wrong(name, "must be a whole number of seconds", f"give 0 to {LONGEST_SECONDS}")
    return value


def flag(body: Mapping[str, Any], name: str) -> bool | None:
    """Whether something is wanted; None where the client does not say."""
    value = body.get(name)
    if value is not None and not isinstance(value, bool):
        raise _wrong(name, "must be true or false", "leave it out, or give one of them")
    return value


def _texts(body: Mapping[str, Any], name: str) -> dict[str, str]:
    found = body.get(name) or {}
    if not isinstance(found, dict) or len(found) > MOST_ENTRIES:
        raise _wrong(name, f"must be an object of at most {MOST_ENTRIES} texts", "leave some out")
    for key, value in found.items():
        if not key or not isinstance(value, str) or len(key) > LONGEST_TEXT or len(value) > LONGEST_TEXT:
            # The value may be a secret: it is not repeated.
            raise _wrong(f"{name}.{key[:40]}", "must be a text", f"give at most {LONGEST_TEXT} characters")
    return dict(found)


def _wrong(field: str, reason: str, remedy: str) -> DesktopError:
    return DesktopError(field, "", reason, remedy, 400)
