"""Lets old backups go."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from deskyard.declaration import declaration
from deskyard.engine.backend import archive_of
from deskyard.host.progress import say, step
from deskyard.life import power
from deskyard.life.backup import archived, backup, shown
from deskyard.life.backup.repository import Repository
from deskyard.plan import backup as plan
from deskyard.plan.backup import Backup
from deskyard.workspace import turn


def prune(target: str, counts: Sequence[int], *, really: bool = False) -> dict[str, Any]:
    """What is not kept of a desktop's backups, and half ones; they go only if `really`. `counts` are those of `KEEP`.

    The last that is verified stays whatever they say.
    """
    policy = dict(zip(plan.KEEP, counts, strict=True))
    plan.kept(policy)
    name, desktop = power.names(target)
    workspace = declaration.read(name).plan
    # A backup that is being made would be taken for a half one.
    with turn.of(workspace, desktop, at_once=True):
        archive = archive_of(workspace.site, workspace.name)
        if archive is not None:
            present, doomed, half = archived.prune(archive, desktop, policy)
            if really:
                with step("delete what is not kept"):
                    archive.drop([*doomed, *half])
            return _done(target, present, doomed, len(half), really=really)
        present, repository = backup.present_of(workspace, desktop)
        outdated = repository.outdated(desktop, policy) if present else []
        doomed = plan.spared([entry for entry in present if entry.manifest in outdated], present)
        left = plan.leftovers(repository.snapshots(), desktop)
        if really:
            _drop(repository, doomed, left)
    return _done(target, present, doomed, len(left), really=really)


def _done(
    target: str, present: Sequence[Backup], doomed: Sequence[Backup], half: int, *, really: bool
) -> dict[str, Any]:
    if not really and (doomed or half):
        say("    nothing was deleted: add --yes to do it")
    kept = [entry for entry in present if entry not in doomed]
    rows = {"removed": [asdict(entry) for entry in doomed], "kept": [asdict(entry) for entry in kept]}
    return {"desktop": target, "done": really, "half": half, **rows}


def _drop(repository: Repository, doomed: Sequence[Backup], left: Sequence[str]) -> None:
    repository.prepare()
    # Manifests first: what is half gone is no backup.
    repository.forget([entry.manifest for entry in doomed])
    repository.forget([*(disk.snapshot for entry in doomed for disk in entry.disks), *left])
    with step("delete what nothing holds any more"):
        repository.prune()


def text(found: dict[str, Any]) -> str:
    """What goes and what stays, a line for each."""
    verb = "removed" if found["done"] else "would go"
    lines = [f"kept      {shown.line(row)}" for row in found["kept"]]
    lines += [f"{verb:8}  {shown.line(row)}" for row in found["removed"]]
    if found["half"]:
        lines.append(f"{verb:8}  {found['half']} disk(s) of backups that were interrupted")
    return "\n".join(lines) or f"{found['desktop']} has no backups"
