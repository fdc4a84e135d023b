"""Proves backups by booting them, and takes desktops back to them."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

from deskyard.engine.backend import archive_of
from deskyard.errors import SiteError
from deskyard.host.lock import alone
from deskyard.host.progress import say, step
from deskyard.life import power
from deskyard.life.backup import archived, backup
from deskyard.life.backup.proof import judge, provable, prove
from deskyard.life.backup.repository import Repository
from deskyard.plan import backup as plan
from deskyard.plan.backup import Backup
from deskyard.plan.power import Power
from deskyard.workspace import readiness


def verify(target: str, name: str = "latest") -> dict[str, Any]:
    """Restore a backup into a machine without any NIC, boot it, and read back the nonce: then it counts.

    Raises `SiteError` for one that is not what it says; it counts no more then.
    """
    machine = power.opened(target)
    archive = archive_of(machine.plan.site, machine.plan.name)
    if archive is not None:
        with alone(f"verify-{machine.domain}", at_once=True):
            return archived.verify(archive, machine.name, name, target)
    backups = machine.machines.backups(machine.domain)
    present, repository = backup.present_of(machine.plan, machine.name)
    found = plan.find(name, present, target)
    expected = provable(found, present, target)
    with alone(f"verify-{machine.domain}", at_once=True), backups.room("verify", found.used) as folder:
        repository.prepare()

        def attempt() -> None:
            disks = _restored(repository, found, folder)
            with step("boot what was restored"), backups.scratch(disks) as guest:
                prove(guest, found, expected)

        proved = judge(found, repository.tag, attempt)
    return {"desktop": target, "backup": asdict(proved)}


def restore(target: str, name: str, *, force: bool = False, wait: bool = True) -> dict[str, Any]:
    """Take a desktop back to a backup; what it holds now is kept until the restored one has booted, then it is gone."""
    machine = power.opened(target)
    machines, domain = machine.machines, machine.domain
    backups = machines.backups(domain)
    with machine.alone(at_once=True):
        present, repository = backup.present_of(machine.plan, machine.name)
        found = plan.find(name, present, target)
        runs = machines.desired()[domain] is Power.RUNNING
        _require_no_memory(machines.states()[domain]["state"], target)
        with backups.room("restore", 2 * found.used) as folder:
            repository.prepare()
            disks = _restored(repository, found, folder)
            machines.shut_down(domain, force=force)
            try:
                with step("boot what was restored"), backups.swap(disks):
                    machines.start(domain)
                    with backups.guest() as guest:
                        prove(guest, found, plan.nonces(found, present))
            except BaseException:
                say("    what it held before is put back")
                if runs:
                    machines.start(domain)
                raise
        if not runs:
            machines.shut_down(domain, force=False)
    machine.say_what_is_old()
    if runs and wait:
        readiness.wait(machine.plan, desktops=[machine.plan.desktop(machine.name)])
    return machine.state()


def _restored(repository: Repository, found: Backup, folder: Path) -> dict[str, Path]:
    restored = {}
    for disk in found.disks:
        with step(f"restore {disk.target}"):
            restored[disk.target] = repository.restore(disk, folder)
    return restored


def _require_no_memory(state: str, target: str) -> None:
    if state not in ("running", "stopped"):
        reason = f"is {state}: its memory belongs to the disks that it has now"
        raise SiteError("desktop", target, reason, f"./inv desktop.resume {target}, or desktop.stop --force")
