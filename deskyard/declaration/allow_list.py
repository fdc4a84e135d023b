"""Edits the allow-list in a declaration and nothing else: every other line stays as it was written."""

from pathlib import Path
from typing import Any

from deskyard.declaration.declaration import PROJECT
from deskyard.declaration.stack_text import changing, config_nodes, inserted, save
from deskyard.model.egress import normal_entry

NAME = "egress_allow"
KEY = f"{PROJECT}:{NAME}"
BESIDE = f"{PROJECT}:egress"


@changing
def declare(path: Path, entry: str) -> bool:
    """Add an entry; false if it was there."""
    text = path.read_text()
    config = config_nodes(text)
    listed = config.get(KEY)
    if listed is not None and entry in _entries(listed):
        return False
    lines = text.splitlines(keepends=True)
    if listed is not None and listed.flow_style:
        at = listed.end_mark.index - 1
        fresh = f"{text[:at].rstrip()}{', ' if listed.value else ''}{_quoted(entry)}{text[at:]}"
    elif listed is not None:
        last = listed.value[-1].start_mark.line
        dash = lines[last].partition("-")[0]
        fresh = inserted(lines, last + 1, [f"{dash}- {_quoted(entry)}\n"])
    else:
        mark = config[BESIDE].start_mark
        line = lines[mark.line]
        indent = line[: len(line) - len(line.lstrip())]
        fresh = inserted(lines, mark.line + 1, [f"{indent}{KEY}:\n", f"{indent}  - {_quoted(entry)}\n"])
    save(path, fresh, KEY)
    return True


@changing
def undeclare(path: Path, entry: str) -> bool:
    """Take an entry out; false if it was not there."""
    text = path.read_text()
    listed = config_nodes(text).get(KEY)
    if listed is None or entry not in _entries(listed):
        return False
    kept = [item for item, normal in zip(listed.value, _entries(listed), strict=True) if normal != entry]
    lines = text.splitlines(keepends=True)
    if listed.flow_style:
        inside = ", ".join(text[item.start_mark.index : item.end_mark.index] for item in kept)
        fresh = f"{text[: listed.start_mark.index]}[{inside}]{text[listed.end_mark.index :]}"
    else:
        gone = {item.start_mark.line for item in listed.value if item not in kept}
        if not kept:
            above = range(listed.start_mark.line, -1, -1)
            gone.add(next(number for number in above if lines[number].lstrip().startswith((f"{KEY}:", f"{NAME}:"))))
        fresh = "".join(line for number, line in enumerate(lines) if number not in gone)
    save(path, fresh, KEY)
    return True


def _entries(listed: Any) -> list[str]:
    return [normal_entry(item.value) for item in listed.value]


def _quoted(entry: str) -> str:
    """A star would be an alias."""
    return f'"{entry}"' if entry.startswith("*") else entry
