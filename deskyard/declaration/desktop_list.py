"""Adds a desktop to a declaration, takes one out or puts it back: every other line stays as it was written."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from deskyard.declaration.declaration import PROJECT
from deskyard.declaration.stack_text import changing, config_nodes, inserted, save
from deskyard.errors import ConfigError

KEY = f"{PROJECT}:desktops"


@dataclass(frozen=True)
class TakenOut:
    """A desktop that was taken out of a declaration: what it says, and the file with it and without."""

    desktop: dict[str, Any]
    before: str
    after: str


@changing
def declare(path: Path, desktop: Mapping[str, Any]) -> bool:
    """Add a desktop; false if it is declared just so. Raises `ConfigError` for one of its name that differs."""
    text = path.read_text()
    listed = _listed(path, text)
    for node, entry in zip(listed.value, _entries(listed), strict=True):
        if entry.get("name") == desktop["name"]:
            if {key: value for key, value in entry.items() if key in desktop} == dict(desktop):
                return False
            line = node.start_mark.line + 1
            raise ConfigError("name", desktop["name"], f"is declared otherwise in line {line}", "choose another name")
    save(path, _with(text, listed, desktop), KEY)
    return True


@changing
def undeclare(path: Path, name: str, keep: Callable[[TakenOut], None] | None = None) -> bool:
    """Take a desktop out; false if it is not declared. Raises `ConfigError` if it is the only one.

    `keep` is given what `put_back` needs before the file changes.
    """
    text = path.read_text()
    listed = _listed(path, text)
    names = _names(listed)
    if name not in names:
        return False
    _require_others(path, names, name)
    place = names.index(name)
    node = listed.value[place]
    if listed.flow_style:
        kept = [item for item in listed.value if item is not node]
        inside = ", ".join(text[item.start_mark.index : item.end_mark.index] for item in kept)
        fresh = f"{text[: listed.start_mark.index]}[{inside}]{text[listed.end_mark.index :]}"
    else:
        lines = text.splitlines(keepends=True)
        fresh = "".join(lines[: node.start_mark.line] + lines[_end(lines, node) :])
    if keep is not None:
        keep(TakenOut(_entries(listed)[place], text, fresh))
    save(path, fresh, KEY)
    return True


@changing
def put_back(path: Path, taken_out: TakenOut) -> bool:
    """Declare a desktop again that was taken out; false if one of its name is declared.

    A file that nobody changed since is as it was before; in another the desktop comes behind the others.
    """
    text = path.read_text()
    listed = _listed(path, text)
    if taken_out.desktop["name"] in _names(listed):
        return False
    save(path, taken_out.before if text == taken_out.after else _with(text, listed, taken_out.desktop), KEY)
    return True


def require_others(path: Path, name: str) -> None:
    """Raise `ConfigError` if a desktop is the only one that is declared."""
    _require_others(path, _names(_listed(path, path.read_text())), name)


def _require_others(path: Path, names: list[str], name: str) -> None:
    if names == [name]:
        remedy = f"destroy the workspace: ./inv workspace.destroy {path.name.split('.')[1]}"
        raise ConfigError("desktop", name, "is the only one of its workspace", remedy)


def _with(text: str, listed: Any, desktop: Mapping[str, Any]) -> str:
    """The text with a desktop behind the others."""
    written = yaml.safe_dump(dict(desktop), default_flow_style=True, sort_keys=False, width=1000).strip()
    if listed.flow_style:
        at = listed.end_mark.index - 1
        return f"{text[:at].rstrip()}{', ' if listed.value else ''}{written}{text[at:]}"
    lines = text.splitlines(keepends=True)
    last = listed.value[-1]
    dash = lines[last.start_mark.line].partition("-")[0]
    return inserted(lines, _end(lines, last), [f"{dash}- {written}\n"])


def _listed(path: Path, text: str) -> Any:
    listed = config_nodes(text).get(KEY)
    if not isinstance(listed, yaml.SequenceNode):
        raise ConfigError("file", str(path), f"has no list {KEY}", "mend it by hand; examples/ has some")
    return listed


def _entries(listed: Any) -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = yaml.safe_load(yaml.serialize(listed))
    return entries


def _names(listed: Any) -> list[str]:
    return [str(entry.get("name")) for entry in _entries(listed)]


def _end(lines: list[str], node: Any) -> int:
    """The line after an entry: a block's mark stands where the next thing begins, behind comments and blanks."""
    mark = node.end_mark
    ends_on_a_line_of_its_own = mark.line < len(lines) and lines[mark.line][: mark.column].strip()
    end = int(mark.line) + (1 if ends_on_a_line_of_its_own else 0)
    while end > node.start_mark.line + 1 and lines[end - 1].strip()[:1] in ("", "#"):
        end -= 1
    return end
