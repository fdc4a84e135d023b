"""desktop.*: what the owner gives to a desktop."""

import getpass
import sys
from typing import Any

from invoke import Collection, Context

from deskyard.run import keys as owner_keys
from deskyard.tasks.front import command, show


@command(
    name="set-key",
    help={
        "workspace": "name of the workspace",
        "key": "name of the key: anthropic, openai, openrouter, any DNS label",
        "json": "print JSON",
    },
)
def set_key(_: Context, workspace: str, key: str, json: bool = False) -> None:
    """Encrypt a key, read from standard input, into the stack file; `workspace.up` brings it to its desktops."""
    value = getpass.getpass(f"Value of {key}: ") if sys.stdin.isatty() else sys.stdin.read()
    done = owner_keys.set_key(workspace, key, value.strip())
    named = ", ".join(done["desktops"])
    hint = f"./inv workspace.up {workspace} brings it to {named}" if named else "no desktop names it yet"
    show(done, as_json=json, text=f"{key}  {done['fingerprint']}\n{hint}")


@command(help={"target": "WORKSPACE/DESKTOP", "json": "print JSON"})
def keys(_: Context, target: str, json: bool = False) -> None:
    """List a desktop's keys by name and fingerprint, and whether it has them; never a value."""
    found = owner_keys.listing(target)
    show(found, as_json=json, text=_text(found))


def _text(found: dict[str, Any]) -> str:
    lines = [f"{row['name']}  {row['variable']}  {row['fingerprint'] or '-'}  {row['state']}" for row in found["keys"]]
    if not found["guarded"]:
        lines.append(f"{found['file']} has another owner or mode than it must have")
    if not found["in_step"]:
        lines.append(f"./inv workspace.up {found['workspace']} mends it")
    return "\n".join(lines) or "no keys"


ns = Collection("desktop")
for one in (set_key, keys):
    ns.add_task(one)
