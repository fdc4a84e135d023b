"""The page of an Ansible role: purpose, variables with their defaults and an example, from its argument_specs."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from deskyard.errors import ConfigError
from deskyard.model.base import parse_yaml

NAME, SPECS = "README.md", "meta/argument_specs.yml"
ROLES = "ansible/roles"
# What else in the tree belongs to a role: folder -> what it holds.
BESIDE = {
    "tests/infra": "what holds on every machine with it, also in images and live workspaces",
    "tests/molecule": "what only hosts that are thrown away can take",
    "ansible/molecule": "its scenarios",
}


def pages(tree: Path) -> dict[Path, str]:
    """The page of each role by its path."""
    return {folder / NAME: page(folder, tree) for folder in sorted((tree / ROLES).iterdir()) if folder.is_dir()}


def differing(tree: Path) -> dict[Path, str]:
    """The pages that are not there or not as they follow from their role, and the text that they have to have."""
    return {path: text for path, text in pages(tree).items() if not path.is_file() or path.read_text() != text}


def write(tree: Path) -> list[Path]:
    """Write those that differ; answers which."""
    found = differing(tree)
    for path, text in found.items():
        path.write_text(text)
    return list(found)


def require(tree: Path) -> None:
    """Raise `ConfigError` naming a page that differs."""
    for path in differing(tree):
        reason = "does not follow from the role's argument_specs"
        raise ConfigError("role page", str(path.relative_to(tree)), reason, "run ./inv check.roles --write")


def page(folder: Path, tree: Path) -> str:
    """The text of one role's page."""
    entries = parse_yaml((folder / SPECS).read_text())["argument_specs"]
    spec = entries["main"]
    options: dict[str, dict[str, Any]] = spec.get("options") or {}
    lines = [f"# {folder.name}", "", f"{spec['short_description']}."]
    for paragraph in _paragraphs(spec.get("description")):
        lines += ["", paragraph]
    lines += ["", *_variables(options), "## Example", "", *_example(folder.name, options)]
    for name in sorted(entries.keys() - {"main"}):
        lines += ["", *_part(name, entries[name])]
    beside = [
        (f"{place}/{folder.name}/", what) for place, what in BESIDE.items() if (tree / place / folder.name).is_dir()
    ]
    if beside:
        lines += ["", "## Tests", "", *(f"- `{path}`: {what}" for path, what in beside)]
    return "\n".join([*lines, "", f"<!-- From {SPECS}: ./inv check.roles --write -->", ""])


def _part(name: str, spec: dict[str, Any]) -> Iterator[str]:
    """Tasks that other roles include with `tasks_from`."""
    yield from (f"## Tasks for other roles: `{name}`", "", f"{spec['short_description']}.", "")
    yield from list(_table(spec.get("options") or {}))[:-1]


def _paragraphs(text: str | list[str] | None) -> Iterator[str]:
    for part in [text] if isinstance(text, str) else text or []:
        yield " ".join(part.split())


def _variables(options: dict[str, dict[str, Any]]) -> Iterator[str]:
    if options:
        yield from ("## Variables", "", *_table(options))


def _table(options: dict[str, dict[str, Any]]) -> Iterator[str]:
    yield from ("| variable | default | what it is |", "| --- | --- | --- |")
    for name, option in options.items():
        about = " ".join(_paragraphs(option.get("description")))
        choices = f" One of: {', '.join(f'`{choice}`' for choice in option['choices'])}." if "choices" in option else ""
        default = "required" if option.get("required") else _shown(option.get("default"), option)
        yield f"| `{name}` | {default} | {_cell(about + choices)} |"
    yield ""


def _shown(value: Any, option: dict[str, Any]) -> str:
    if value is None and "default" not in option:
        return ""
    return f"`{_cell(value if isinstance(value, str) and value else json.dumps(value))}`"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _example(role: str, options: dict[str, dict[str, Any]]) -> list[str]:
    """A play with what has to be said, else with the first variable at its default."""
    required = [name for name, option in options.items() if option.get("required")]
    plain = [name for name, option in options.items() if option.get("default") not in (None, "", [], {})]
    chosen = required or plain[:1]
    play: dict[str, Any] = {"hosts": "all", "become": True, "roles": [{"role": role}]}
    if chosen:
        play["roles"][0]["vars"] = {name: _value(options[name]) for name in chosen}
    return ["```yaml", yaml.safe_dump([play], sort_keys=False).rstrip("\n"), "```"]


def _value(option: dict[str, Any]) -> Any:
    if "default" in option:
        return option["default"]
    return option["choices"][0] if "choices" in option else f"<{option.get('type', 'str')}>"
