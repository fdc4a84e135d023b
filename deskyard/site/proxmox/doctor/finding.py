"""Findings of an examination of a cluster."""

from dataclasses import dataclass
from typing import Literal

State = Literal["ok", "warning", "error"]


@dataclass(frozen=True)
class Finding:
    """A fact about a cluster; for what is not ok, why it matters and the command or change that mends it."""

    name: str
    state: State
    what: str
    why: str = ""
    mend: str = ""


def ok(name: str, what: str) -> Finding:
    """Something is as it should be."""
    return Finding(name, "ok", what)


def warning(name: str, what: str, why: str, mend: str) -> Finding:
    """Something works, and may come to bite."""
    return Finding(name, "warning", what, why, mend)


def error(name: str, what: str, why: str, mend: str) -> Finding:
    """Something has to be mended before workspaces run here."""
    return Finding(name, "error", what, why, mend)
