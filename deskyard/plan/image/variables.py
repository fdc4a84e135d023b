"""The variables of an image's roles: of its base, of the images it starts from, and its own."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from deskyard.errors import ConfigError
from deskyard.model.base import parse_yaml
from deskyard.model.image import AnyImage, Image
from deskyard.plan.account import AGENT, MANAGER
from deskyard.wire.computer import HALT_PORT
from deskyard.wire.routes import COMPUTER, DESKTOP, TERMINAL

Documented = Mapping[str, Mapping[str, Any]]

# Where a browser is; roles that open one have a variable `<role>_browser`.
BROWSERS = {"chromium": "/usr/bin/chromium", "chrome": "/usr/bin/google-chrome"}
# What the Plan, the gateway and the programs that are sent into a desktop rely on, whatever image it has.
FIXED: dict[str, str | int] = {
    **dict.fromkeys(("agent_user_name", "agent_openclaw_user", "desktop_session_user"), AGENT),
    **dict.fromkeys(("vnc_server_user", "web_terminal_user", "computer_use_user"), AGENT),
    "guest_base_management_user": MANAGER,
    "vnc_server_websocket_port": DESKTOP.port,
    "web_terminal_port": TERMINAL.port,
    "computer_use_port": COMPUTER.port,
    "computer_use_halt_port": HALT_PORT,
}
# Choices that a role has and no image can.
REFUSED = {
    "vnc_server_kind": {
        "kasmvnc": "speaks a protocol of its own: the gateway's viewer cannot drive it, and the gateway, which lets "
        "through what viewers may send, would cut its messages in other places than it does",
    }
}


def documented(folders: Iterable[Path]) -> dict[str, dict[str, Any]]:
    """Read what roles document about their variables."""
    found: dict[str, dict[str, Any]] = {}
    for folder in folders:
        path = folder / "meta/argument_specs.yml"
        specs = parse_yaml(path.read_text()) if path.is_file() else None
        found.update(specs["argument_specs"]["main"].get("options", {}) if specs else {})
    return found


def variables_of(chain: Sequence[AnyImage], options: Documented) -> dict[str, Any]:
    """The variables of the first image of an ancestry for its roles, as `options` documents them."""
    given: dict[str, Any] = {}
    for image in reversed(chain):
        given.update({**image.base.variables, **image.variables} if isinstance(image, Image) else image.variables)
    browser = BROWSERS.get(given.get("browser_kind", ""))
    opening = {name: browser for name in options if name.endswith("_browser") and browser}
    return {name: value for name, value in {**opening, **given}.items() if name in options}


def check_variables(chain: Sequence[AnyImage], options: Documented) -> None:
    """Raise `ConfigError` if a variable of the first image of an ancestry cannot be."""
    for name, value in chain[0].variables.items():
        _check(name, value, options)
    root = chain[-1]
    assert isinstance(root, Image)
    given = variables_of(chain, options)
    for name, values in (*REFUSED.items(), *root.base.refused.items()):
        chosen = given.get(name, options.get(name, {}).get("default"))
        if name in options and isinstance(chosen, str) and chosen in values:
            others = [choice for choice in options[name].get("choices", ()) if choice not in values]
            remedy = f"write one of: {', '.join(others)}" if others else "write another value"
            raise ConfigError(f"variables.{name}", chosen, values[chosen], remedy)


def _check(name: str, value: Any, options: Documented) -> None:
    field = f"variables.{name}"
    if name not in options:
        reason = "is a variable of none of the image's roles"
        raise ConfigError(field, value, reason, "see meta/argument_specs.yml of the role, and name the role in roles")
    if name in FIXED and value != FIXED[name]:
        reason = f"is relied on by all that reaches a desktop, and has to be {FIXED[name]}"
        raise ConfigError(field, value, reason, "leave it out")
    choices = options[name].get("choices")
    if choices and value not in choices:
        raise ConfigError(field, value, "is not one of the role's choices", f"write one of: {', '.join(choices)}")


def packages_of(values: Mapping[str, Any], role: str, given: Mapping[str, Any]) -> set[str]:
    """The packages of the distribution that a role with these defaults installs when it is told so.

    A role with a `<role>_kind` has packages of each kind; a kind with a repository takes them from its vendor.
    """
    chosen = {**values, **given}
    found = set(chosen.get(f"{role}_packages", ()))
    kind = chosen.get(f"{role}_kind")
    if kind and f"{role}_{kind}_repository" not in values:
        found.update(chosen.get(f"{role}_{kind}_packages", ()))
    return found
