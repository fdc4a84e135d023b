"""The secrets in a stack file, written and read by Pulumi's engine over pipes: never on a command line or shown."""

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from deskyard.declaration.declaration import PROJECT
from deskyard.errors import ConfigError, SiteError
from deskyard.host.command import Result
from deskyard.plan import key_file

if TYPE_CHECKING:
    from deskyard.engine.stack import WorkspaceStack

KEYS = f"{PROJECT}:keys"


def read_keys(stack: "WorkspaceStack", names: Sequence[str]) -> dict[str, str]:
    """The values of these keys; raises `ConfigError` for one that no file of a desktop can hold."""
    if not names:
        return {}
    answer = _done(stack, stack.engine("config", "get", KEYS, "--json"), "do not open")
    try:
        found = json.loads(answer.stdout)["objectValue"]
    except (ValueError, KeyError):
        # Its own error would show the text.
        raise SiteError("keys", stack.name, "Pulumi answered nothing understood", "set them again") from None
    return {name: key_file.check(name, str(found[name])) for name in names}


def write_key(stack: "WorkspaceStack", name: str, value: str) -> None:
    """Encrypt a key into the stack file; everything else in it stays as it is."""
    key_file.check(name, value)
    stack.check_passphrase()
    _done(stack, stack.engine("config", "set", "--secret", "--path", f"{KEYS}.{name}", stdin=value), "were not written")


def _done(stack: "WorkspaceStack", answer: Result, failure: str) -> Result:
    if answer.code != 0:
        reason = f"{failure}: {answer.stderr.strip()[-500:]}"
        raise ConfigError("keys", stack.name, reason, "mend the cause above, or set them again")
    return answer
