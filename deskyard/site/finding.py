"""Findings of an examination of a site."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

State = Literal["ok", "warning", "error"]


@dataclass(frozen=True)
class Finding:
    """A fact about a site; for what is not ok, why it matters and the command or change that mends it."""

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


def report(findings: Sequence[Finding]) -> str:
    """The findings for people: what is not ok with its reason and remedy."""
    lines = []
    for finding in findings:
        lines.append(f"{finding.state:<8}{finding.name:<18}{finding.what}")
        if finding.state != "ok":
            lines.append(f"{'':<26}{finding.why}")
            lines += [f"{'':<26}-> {line}" for line in finding.mend.splitlines()]
    counted = {state: sum(finding.state == state for finding in findings) for state in ("error", "warning", "ok")}
    lines.append(", ".join(f"{number} {state}" for state, number in counted.items()))
    return "\n".join(lines)
