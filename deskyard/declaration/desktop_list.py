"""Adds a desktop to a declaration, or takes one out: every other line stays as it was written."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from deskyard.declaration.declaration import PROJECT
from deskyard.declaration.stack_text import changing, config_nodes, inserted, save
from deskyard.errors import ConfigError

KEY = f"{PROJECT}:desktops"


@changing
def declare(path: Path, desktop: Mapping[str, Any]) -> bool:
    """Add a desktop; false if it is declared just so. Raises `ConfigError` for one of its name that differs."""
    text = path.read_text()
    listed = _listed(path, text)
    for node, entry in zip(listed.value, yaml.safe_load(yaml.serialize(listed)), strict=True):
        if entry.get("name") == desktop["name"]:
            if {key: value for key, value in entry.items() if key in desktop} == dict(desktop):
                return False
            line = node.start_mark.line + 1
            raise ConfigError("name", desktop["name"], f"is declared otherwise in line {line}", "choose another name")
    written = yaml.safe_dump(dict(desktop), default_flow_style=True, sort_keys=False, width=1000).strip()
    if listed.flow_style:
        at = listed.end_mark.index - 1
        fresh = f"{text[:at].rstrip()}{', ' if listed.value else ''}{written}{text[at:]}"
    else:
        lines = text.splitlines(keepends=True)
        last = listed.value[-1]
        dash = lines[last.start_mark.line].partition("-")[0]
        fresh = inserted(lines, _end(lines, last), [f"{dash}- {written}\n"])
    save(path, fresh, KEY)
    return True


@changing
def undeclare(path: Path, name: str) -> bool:
    """Take a desktop out; false if it is not declared. Raises `ConfigError` if it is the only one."""
    text = path.read_text()
    listed = _listed(path, text)
    names = [entry.get("name") for entry in yaml.safe_load(yaml.serialize(listed))]
    if name not in names:
        return False
    if len(names) == 1:
        remedy = f"destroy the workspace: ./inv workspace.destroy {path.name.split('.')[1]}"
        raise ConfigError("desktop", name, "is the only one of its workspace", remedy)
    node = listed.value[names.index(name)]
    if listed.flow_style:
        kept = [item for item in listed.value if item is not node]
        inside = ", ".join(text[item.start_mark.index : item.end_mark.index] for item in kept)
        fresh = f"{text[: listed.start_mark.index]}[{inside}]{text[listed.end_mark.index :]}"
    else:
        lines = text.splitlines(keepends=True)
        fresh = "".join(lines[: node.start_mark.line] + lines[_end(lines, node) :])
    save(path, fresh, KEY)
    return True


def _listed(path: Path, text: str) -> Any:
    listed = config_nodes(text).get(KEY)
    if not isinstance(listed, yaml.SequenceNode):
        raise ConfigError("file", str(path), f"has no list {KEY}", "mend it by hand; examples/ has some")
    return listed


def _end(lines: list[str], node: Any) -> int:
    """The line after an entry: a block's mark stands where the next thing begins, behind comments and blanks."""
    mark = node.end_mark
    ends_on_a_line_of_its_own = mark.line < len(lines) and lines[mark.line][: mark.column].strip()
    end = int(mark.line) + (1 if ends_on_a_line_of_its_own else 0)
    while end > node.start_mark.line + 1 and lines[end - 1].strip()[:1] in ("", "#"):
        end -= 1
    return end
