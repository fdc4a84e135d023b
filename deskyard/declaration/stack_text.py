"""The text of a stack file, edited in one place; the whole is checked before it takes the old one's."""

import functools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

import yaml

from deskyard.declaration.declaration import check_content, whole_key
from deskyard.errors import ConfigError
from deskyard.host.lock import alone
from deskyard.model.base import load_yaml

P = ParamSpec("P")
T = TypeVar("T")


def changing(edit: Callable[Concatenate[Path, P], T]) -> Callable[Concatenate[Path, P], T]:
    """Let only one edit of a stack file go on at a time: a shell and Mission Control may both want one."""

    @functools.wraps(edit)
    def guarded(path: Path, /, *args: P.args, **named: P.kwargs) -> T:
        with alone(f"declaration-{path.name}"):
            return edit(path, *args, **named)

    return guarded


def config_nodes(text: str) -> dict[str, Any]:
    """The nodes of the configuration by whole keys, which know where they stand."""
    root: Any = yaml.compose(text, yaml.SafeLoader)
    config = next(value for key, value in root.value if key.value == "config")
    return {whole_key(key.value): value for key, value in config.value}


def inserted(lines: list[str], at: int, fresh: list[str]) -> str:
    """The text with lines put in before line number `at`, counted from 0."""
    before = "".join(lines[:at])
    return before + ("" if not before or before.endswith("\n") else "\n") + "".join(fresh) + "".join(lines[at:])


def save(path: Path, text: str, key: str) -> None:
    """Write it in one step, after making sure that only `key` differs and that the whole is a declaration."""
    fresh = path.with_name(f".{path.name}.new")
    fresh.write_text(text)
    try:
        after = load_yaml(fresh)
        if _without(key, load_yaml(path)) != _without(key, after):
            raise ConfigError("file", str(path), "cannot be edited without changing more", f"edit {key} by hand")
        check_content(path.name.split(".")[1], after, path.name)
        before = path.stat()
        if os.geteuid() == 0:
            os.chown(fresh, before.st_uid, before.st_gid, follow_symlinks=False)
        fresh.chmod(before.st_mode & 0o777)
        fresh.replace(path)
    finally:
        fresh.unlink(missing_ok=True)


def _without(key: str, content: Any) -> Any:
    return {**content, "config": {name: value for name, value in content["config"].items() if whole_key(name) != key}}
