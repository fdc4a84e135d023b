"""Edits the allow-list in a declaration and nothing else: every other line stays as it was written."""

from pathlib import Path
from typing import Any

import yaml

from deskyard.declaration.declaration import PROJECT, check_content
from deskyard.errors import ConfigError
from deskyard.model.base import load_yaml
from deskyard.model.egress import normal_entry

KEY = f"{PROJECT}:egress_allow"
BESIDE = f"{PROJECT}:egress"


def declare(path: Path, entry: str) -> bool:
    """Add an entry; false if it was there."""
    text = path.read_text()
    config = _config(text)
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
        fresh = _inserted(lines, last + 1, [f"{dash}- {_quoted(entry)}\n"])
    else:
        mark = config[BESIDE].start_mark
        indent = lines[mark.line].partition(PROJECT)[0]
        fresh = _inserted(lines, mark.line + 1, [f"{indent}{KEY}:\n", f"{indent}  - {_quoted(entry)}\n"])
    _save(path, fresh)
    return True


def undeclare(path: Path, entry: str) -> bool:
    """Take an entry out; false if it was not there."""
    text = path.read_text()
    listed = _config(text).get(KEY)
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
            gone.add(next(number for number, line in enumerate(lines) if line.lstrip().startswith(f"{KEY}:")))
        fresh = "".join(line for number, line in enumerate(lines) if number not in gone)
    _save(path, fresh)
    return True


def _config(text: str) -> dict[str, Any]:
    """The nodes of the configuration by key, which know where they stand."""
    root: Any = yaml.compose(text, yaml.SafeLoader)
    config = next(value for key, value in root.value if key.value == "config")
    return {key.value: value for key, value in config.value}


def _entries(listed: Any) -> list[str]:
    return [normal_entry(item.value) for item in listed.value]


def _quoted(entry: str) -> str:
    """A star would be an alias."""
    return f'"{entry}"' if entry.startswith("*") else entry


def _inserted(lines: list[str], at: int, fresh: list[str]) -> str:
    before = "".join(lines[:at])
    return before + ("" if before.endswith("\n") else "\n") + "".join(fresh) + "".join(lines[at:])


def _save(path: Path, text: str) -> None:
    """Write it in one step, after making sure that only the list differs and that the whole is a declaration."""
    fresh = path.with_name(f".{path.name}.new")
    fresh.write_text(text)
    try:
        after = load_yaml(fresh)
        if _without_list(load_yaml(path)) != _without_list(after):
            raise ConfigError("file", str(path), "cannot be edited without changing more", f"edit {KEY} by hand")
        check_content(path.name.split(".")[1], after, path.name)
        fresh.chmod(path.stat().st_mode & 0o777)
        fresh.replace(path)
    finally:
        fresh.unlink(missing_ok=True)


def _without_list(content: Any) -> Any:
    return {**content, "config": {key: value for key, value in content["config"].items() if key != KEY}}
