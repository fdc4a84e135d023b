"""desktop.*: what the owner gives to a desktop."""

import getpass
import sys
from typing import Any

from invoke import Collection, Context

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
    from deskyard.desktop import keys as owner_keys

    value = getpass.getpass(f"Value of {key}: ") if sys.stdin.isatty() else sys.stdin.read()
    done = owner_keys.set_key(workspace, key, value.strip())
    named = ", ".join(done["desktops"])
    hint = f"./inv workspace.up {workspace} brings it to {named}" if named else "no desktop names it yet"
    show(done, as_json=json, text=f"{key}  {done['fingerprint']}\n{hint}")


@command(help={"target": "WORKSPACE/DESKTOP", "json": "print JSON"})
def keys(_: Context, target: str, json: bool = False) -> None:
    """List a desktop's keys by name and fingerprint, and whether it has them; never a value."""
    from deskyard.desktop import keys as owner_keys

    found = owner_keys.listing(target)
    show(found, as_json=json, text=_text(found))


@command(
    help={
        "target": "WORKSPACE, or WORKSPACE/DESKTOP",
        "dry_run": "say per file what would be done; touches nothing",
        "again": "run first-boot once more",
        "overwrite": "put files over what was changed on the desktop, and keep that beside as FILE.deskyard-kept",
        "json": "print JSON",
    }
)
def customise(
    _: Context, target: str, dry_run: bool = False, again: bool = False, overwrite: bool = False, json: bool = False
) -> None:
    """Bring desktops their owner's files, environment and scripts, without reinstalling; keeps what they changed."""
    from deskyard.desktop import customise as owner_customise
    from deskyard.desktop.customise_delivery import How

    found = owner_customise.customise(target, How(dry_run, again, overwrite))
    show(found, as_json=json, text=_customised(found))


def _customised(found: dict[str, Any]) -> str:
    lines = []
    for one in found["desktops"]:
        lines.append(f"{one['desktop']}  {one['unchanged']} unchanged")
        for file in one["files"]:
            why = f"  ({file['reason']})" if file["reason"] else ""
            lines.append(f"  {file['state']:>11}  {file['path']}{why}")
        if one["environment"] != "unchanged":
            lines.append(f"  {one['environment']:>11}  the environment")
        lines += [f"  {script['state']:>11}  {script['script']} of the {script['of']}" for script in one["scripts"]]
    return "\n".join(lines) or "nothing customises a desktop"


def _text(found: dict[str, Any]) -> str:
    lines = [f"{row['name']}  {row['variable']}  {row['fingerprint'] or '-'}  {row['state']}" for row in found["keys"]]
    if not found["guarded"]:
        lines.append(f"{found['file']} has another owner or mode than it must have")
    if not found["in_step"]:
        lines.append(f"./inv workspace.up {found['workspace']} mends it")
    return "\n".join(lines) or "no keys"


ns = Collection("desktop")
for one in (set_key, keys, customise):
    ns.add_task(one)
