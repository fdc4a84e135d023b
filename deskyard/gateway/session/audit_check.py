"""Looks through the audit's chain and names every line that is missing, changed or out of order."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from deskyard.gateway import anchors
from deskyard.gateway.session.audit import digest, events, files, head_file, lines, read_head

# In the audit: number and hash of the last action that there was.
ANCHOR = "actions"


@dataclass(frozen=True)
class Problem:
    """A fault of the audit, and the line and file where it is."""

    file: str
    line: int
    problem: str


def verify(path: Path, noted: Mapping[int, str] | None = None) -> dict[str, Any]:
    """Check the whole chain; `noted` are numbers and hashes of lines that somebody took down before."""
    # The head is read first: what is written meanwhile comes after it.
    has_head, head = head_file(path).exists(), read_head(path)
    problems: list[Problem] = [] if has_head else [Problem(head_file(path).name, 1, "the head file is missing")]
    number, expected, count = head.first - 1, head.before, 0
    where = (path.name, 0)
    noted = noted or {}
    wanted, hashes = {head.last, *noted}, dict[int, str]()
    for file, at, line in lines(path):
        count += 1
        try:
            event = json.loads(line)
            seq, previous = int(event["seq"]), str(event["prev"])
        except (ValueError, KeyError, TypeError):
            problems.append(Problem(file.name, at, "is no line of the audit"))
            seq, previous = number + 1, expected
        if seq > number + 1:
            problems.append(Problem(file.name, at, f"lines {number + 1} to {seq - 1} are missing before it"))
        elif seq <= number:
            problems.append(Problem(file.name, at, f"line {seq} comes after line {number}"))
        elif previous != expected:
            # The line before is not what it was when this one was written, or this one's own record of it.
            culprit = where if where[1] else (file.name, at)
            problems.append(Problem(*culprit, "was changed, or the line after it"))
        number, expected, where = seq, digest(line), (file.name, at)
        if seq in wanted:
            hashes[seq] = expected
    if number < head.last:
        problems.append(Problem(where[0], where[1] + 1, f"lines {number + 1} to {head.last} are missing at the end"))
    elif hashes.get(head.last, head.hash) != head.hash:
        problems.append(Problem(*where, f"line {head.last} was changed: the head file holds another hash"))
    problems += [
        Problem(*where, f"line {line} is not the one that was taken down")
        for line, wrote in noted.items()
        if line >= head.first and hashes.get(line) != wrote
    ]
    return {
        "ok": not problems,
        "lines": count,
        "first": head.first,
        "last": number,
        "hash": expected,
        "problems": [asdict(problem) for problem in problems],
    }


def verify_both(audit: Path, actions: Path, noted: Mapping[int, str] | None = None) -> dict[str, Any]:
    """Check the audit, and the chain of actions, whose last line the audit takes down from time to time."""
    checked = verify(audit, noted)
    wrong = [asdict(Problem(*problem)) for problem in anchors.problems(audit)]
    checked = {**checked, "ok": checked["ok"] and not wrong, "problems": [*checked["problems"], *wrong]}
    # One that was changed is named as a changed line of the audit.
    noted_actions = {
        line: str(event.get("head")) for event in events(audit, about={"event": ANCHOR}) if (line := _last(event))
    }
    if not noted_actions and not files(actions) and not head_file(actions).exists():
        return {**checked, ANCHOR: None}
    also = verify(actions, noted_actions)
    problems = checked["problems"] + also.pop("problems")
    return {**checked, "ok": not problems, "problems": problems, ANCHOR: also}


def _last(event: Mapping[str, Any]) -> int:
    last = event.get("last")
    return last if isinstance(last, int) else 0
