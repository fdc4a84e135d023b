"""Makes backups of desktops and lists them."""

from dataclasses import asdict
from typing import Any

from deskyard.declaration import declaration
from deskyard.life import power
from deskyard.life.backup.shown import line
from deskyard.life.backup.vault import vault_of


def run(target: str) -> dict[str, Any]:
    """Make a backup of a desktop: of all its disks as of one moment, while it runs or is off.

    It is listed once every byte is kept; it counts once it is verified.
    """
    machine = power.opened(target)
    return vault_of(machine.plan.site, machine.plan.name).make(machine, target)


def listing(target: str) -> dict[str, Any]:
    """The whole backups of a desktop, the oldest first; of one that is gone, too."""
    name, desktop = power.names(target)
    workspace = declaration.read(name).plan
    vault = vault_of(workspace.site, workspace.name)
    kept = [asdict(backup) for backup in vault.present(desktop)]
    return {"desktop": target, "location": vault.location, "backups": kept}


def survivors(name: str) -> list[str]:
    """Of each desktop that a workspace declares: which backup stays, or that there is none."""
    workspace = declaration.read_workspace(name)
    return vault_of(workspace.site, name).survivors([desktop.name for desktop in workspace.persistent()])


def text(found: dict[str, Any]) -> str:
    """The backups of a desktop, a line for each."""
    return "\n".join(line(row) for row in found["backups"]) or f"{found['desktop']} has no backups"
