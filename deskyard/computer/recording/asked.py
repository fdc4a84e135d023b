"""Whether a desktop's screen is recorded, as the desktop is told: a file of root's, written when it is set up."""

import json
from dataclasses import dataclass

PATH = "/etc/deskyard/recording.json"
LEAST_KEEP_SECONDS, MOST_KEEP_SECONDS = 3600, 366 * 86400
LEAST_SIZE_BYTES, MOST_SIZE_BYTES = 64 << 20, 1 << 40


class NotUnderstood(Exception):
    """The file says what cannot be followed; the text is the reason."""


@dataclass(frozen=True)
class Asked:
    """How long what was recorded is kept, and how much of it at most."""

    keep_seconds: int
    size_bytes: int


def written(asked: Asked) -> str:
    """The file's text."""
    return json.dumps({"keep_seconds": asked.keep_seconds, "size_bytes": asked.size_bytes}) + "\n"


def read(text: str) -> Asked:
    """Read the text of the file; raises `NotUnderstood`."""
    try:
        said = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise NotUnderstood("is no JSON") from error
    if not isinstance(said, dict) or set(said) != {"keep_seconds", "size_bytes"}:
        raise NotUnderstood("does not say keep_seconds and size_bytes alone")
    keep = _within(said, "keep_seconds", LEAST_KEEP_SECONDS, MOST_KEEP_SECONDS)
    return Asked(keep, _within(said, "size_bytes", LEAST_SIZE_BYTES, MOST_SIZE_BYTES))


def _within(said: dict[str, object], name: str, low: int, high: int) -> int:
    value = said[name]
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise NotUnderstood(f"{name} is no whole number from {low} to {high}")
    return value
