"""Lets old backups go."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from deskyard.declaration import declaration
from deskyard.host.progress import say
from deskyard.life import power
from deskyard.life.backup import shown
from deskyard.life.backup.vault import vault_of
from deskyard.plan import backup as plan
from deskyard.workspace import turn


def prune(target: str, counts: Sequence[int], *, really: bool = False) -> dict[str, Any]:
    """Delete a desktop's backups that are not kept, and half ones, if `really`; `counts` are those of `KEEP`.

    The last that is verified stays whatever they say.
    """
    policy = dict(zip(plan.KEEP, counts, strict=True))
    plan.kept(policy)
    name, desktop = power.names(target)
    workspace = declaration.read(name).plan
    # A backup that is being made would be taken for a half one.
    with turn.of(workspace, desktop, at_once=True):
        found = vault_of(workspace.site, workspace.name).outdated(desktop, policy)
        if really:
            found.drop()
        elif found.doomed or found.half:
            say("    nothing was deleted: add --yes to do it")
    kept = [entry for entry in found.present if entry not in found.doomed]
    rows = {"removed": [asdict(entry) for entry in found.doomed], "kept": [asdict(entry) for entry in kept]}
    return {"desktop": target, "done": really, "half": found.half, **rows}


def text(found: dict[str, Any]) -> str:
    """The backups that go and those that stay, a line for each."""
    verb = "removed" if found["done"] else "would go"
    lines = [f"kept      {shown.line(row)}" for row in found["kept"]]
    lines += [f"{verb:8}  {shown.line(row)}" for row in found["removed"]]
    if found["half"]:
        lines.append(f"{verb:8}  {found['half']} disk(s) of backups that were interrupted")
    return "\n".join(lines) or f"{found['desktop']} has no backups"
