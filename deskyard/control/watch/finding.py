"""The finding of a rule of alerts."""

from dataclasses import dataclass
from datetime import UTC, datetime


@dataclass(frozen=True)
class Finding:
    """Something that a rule found: what it is about, in which workspace, in words, with a number."""

    rule: str
    object: str
    workspace: str | None
    text: str
    number: int = 0


def moment(at: datetime) -> str:
    """A time, as texts of alerts have it."""
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M} UTC"


def mib(count: int) -> str:
    """A count of bytes, as texts of alerts have it."""
    return f"{count / 2**20:,.1f} MiB"
