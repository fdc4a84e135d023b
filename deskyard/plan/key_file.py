"""The file in which a desktop has its keys: where it lies, and its lines, good for systemd and for a shell alike."""

from collections.abc import Mapping

from deskyard.errors import ConfigError
from deskyard.plan.account import AGENT

PATH = "/etc/deskyard/keys.env"
# May read the file.
GROUP = AGENT
SUFFIX = "_API_KEY"
MAX_CHARACTERS = 4096
HEAD = "# Written by Deskyard at each workspace.up; what is changed here does not stay.\n"


def variable(name: str) -> str:
    """The variable of a key: ANTHROPIC_API_KEY for `anthropic`. Each name has its own, and none is PATH."""
    return name.upper().replace("-", "_") + SUFFIX


def key_name(variable: str) -> str:
    """The name of the key that a variable holds."""
    return variable.removesuffix(SUFFIX).lower().replace("_", "-")


def line(name: str, value: str) -> str:
    """The assignment of a key's variable."""
    return f"{variable(name)}='{value}'\n"


def text(values: Mapping[str, str]) -> str | None:
    """The whole file; None, and so no file, without keys."""
    return HEAD + "".join(line(name, values[name]) for name in sorted(values)) if values else None


def check(name: str, value: str) -> str:
    """The value, if the file can hold it so that a shell and systemd read the same; else a `ConfigError`."""
    if not value:
        raise ConfigError(f"keys.{name}", None, "is empty", "give its value on standard input")
    if len(value) > MAX_CHARACTERS:
        reason = f"is longer than {MAX_CHARACTERS} characters"
        raise ConfigError(f"keys.{name}", None, reason, "give one key, and nothing else")
    # systemd and shells differ in what they make of a backslash, and of what is not ASCII.
    if not all("!" <= letter <= "~" and letter not in "'\\" for letter in value):
        reason = "holds a space, a quote ('), a backslash, or what is not printable ASCII"
        raise ConfigError(f"keys.{name}", None, reason, "give the key alone, without quotes and line breaks")
    return value
