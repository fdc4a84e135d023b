"""Makes backups of desktops and lists them."""

import secrets
import sys
import time
from dataclasses import asdict, replace
from typing import Any

from deskyard.declaration import declaration
from deskyard.engine.backend import archive_of
from deskyard.errors import DeskyardError
from deskyard.host.progress import say, step
from deskyard.life import power
from deskyard.life.backup import archived
from deskyard.life.backup.repository import Repository, repository_of
from deskyard.life.backup.shown import known_nonce, line
from deskyard.life.moment import minute
from deskyard.plan import backup as plan
from deskyard.plan.backup import Backup
from deskyard.plan.workspace import WorkspacePlan


def run(target: str) -> dict[str, Any]:
    """Make a backup of a desktop: of all its disks as of one moment, while it runs or is off.

    It is listed once every byte is kept; it counts once it is verified.
    """
    machine = power.opened(target)
    archive = archive_of(machine.plan.site, machine.plan.name)
    if archive is not None:
        return archived.run(machine, archive, target)
    backups = machine.machines.backups(machine.domain)
    repository = repository_of(machine.plan.site, machine.plan.name)
    with machine.alone(at_once=True):
        repository.require_room(0)
        if repository.prepare():
            _show_key(repository)
        present = plan.backups(repository.snapshots(), machine.name)
        nonce, made = secrets.token_hex(16), int(time.time())
        name = plan.free_name(made, present)
        wanted = Backup(name, machine.name, made, running=True, nonce=nonce)
        with backups.moment(nonce) as moment:
            if moment.running:
                say(f"    its file systems stood still for {moment.frozen_seconds:.2f} s")
            else:
                wanted = replace(wanted, running=False, nonce=known_nonce(present, target))
            repository.require_room(sum(source.used for source in moment.sources))
            for source in moment.sources:
                with step(f"read {source.target}"):
                    disk, added = repository.keep(source, machine.name, name)
                wanted = replace(wanted, disks=(*wanted.disks, disk), added=wanted.added + added)
        repository.finish(wanted)
    done = {"desktop": target, "frozen_seconds": round(moment.frozen_seconds, 3), "backup": asdict(wanted)}
    return {**done, "location": repository.location}


def listing(target: str) -> dict[str, Any]:
    """The whole backups of a desktop, the oldest first; of one that is gone, too."""
    name, desktop = power.names(target)
    workspace = declaration.read(name).plan
    archive = archive_of(workspace.site, workspace.name)
    if archive is not None:
        kept = [asdict(backup) for backup in archive.present(desktop)]
        return {"desktop": target, "location": archive.location, "backups": kept}
    found, repository = present_of(workspace, desktop)
    return {"desktop": target, "location": repository.location, "backups": [asdict(backup) for backup in found]}


def present_of(workspace: WorkspacePlan, desktop: str) -> tuple[list[Backup], Repository]:
    """The whole backups of a desktop, and the repository that holds them."""
    repository = repository_of(workspace.site, workspace.name)
    return plan.backups(repository.snapshots(), desktop), repository


def survivors(name: str) -> list[str]:
    """Of each desktop that a workspace declares: its newest verified backup, which stays, or that there is none."""
    workspace = declaration.read_workspace(name)
    archive = archive_of(workspace.site, name)
    if archive is not None:
        return archived.survivors(archive, [desktop.name for desktop in workspace.persistent()])
    repository = repository_of(workspace.site, name)
    try:
        snapshots = repository.snapshots()
    except DeskyardError as error:
        return [f"its backups cannot be looked at: {error.reason.splitlines()[0]}"]
    lines = []
    for desktop in workspace.persistent():
        proved = plan.proved(plan.backups(snapshots, desktop.name))
        what = "no verified backup"
        if proved:
            what = f"a verified backup of {minute(proved[-1].made)} stays, in {repository.location}"
        lines.append(f"{desktop.name}: {what}")
    return lines


def text(found: dict[str, Any]) -> str:
    """The backups of a desktop, a line for each."""
    return "\n".join(line(row) for row in found["backups"]) or f"{found['desktop']} has no backups"


def _show_key(repository: Repository) -> None:
    """Once, and only to a person: a log would keep it."""
    say(f"    the key of this workspace's backups is {repository.key}: without it they cannot be read")
    if sys.stderr.isatty():
        say(f"    keep a copy in your safe, it is not shown again: {repository.key.read_text()}")
    else:
        say("    keep a copy of that file in your safe")
