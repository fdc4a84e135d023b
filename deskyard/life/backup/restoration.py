"""Proves backups by booting them, and takes desktops back to them."""

import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from deskyard.engine.backend import Guest
from deskyard.errors import DeskyardError, SiteError
from deskyard.host.lock import alone
from deskyard.host.progress import say, step
from deskyard.life import power
from deskyard.life.backup import backup
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
    backups = machine.machines.backups(machine.domain)
    present, repository = backup.present_of(machine.plan, machine.name)
    found = plan.find(name, present, target)
    expected = plan.nonces(found, present)
    if not expected:
        reason = "was made while the desktop was off, and nothing was written into that before"
        raise SiteError("backup", found.id, reason, f"./inv desktop.start {target} and make another")
    with alone(f"verify-{machine.domain}", at_once=True), backups.room("verify", found.used) as folder:
        repository.prepare()
        try:
            disks = _restored(repository, found, folder)
            with step("boot what was restored"), backups.scratch(disks) as guest:
                _prove(guest, found, expected)
        except DeskyardError:
            if found.verified is not None:
                repository.tag(plan.with_verdict(found, None))
            raise
        proved = plan.with_verdict(found, int(time.time()))
        repository.tag(proved)
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
                        _prove(guest, found, plan.nonces(found, present))
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


def _prove(guest: Guest, found: Backup, expected: set[str]) -> None:
    """It booted: is it what was kept, and whole?"""
    nonce = guest.nonce()
    if expected and nonce not in expected:
        reason = f"what was restored holds the nonce {nonce[:40]!r}, which is not of this backup"
        raise SiteError("backup", found.id, reason, "take another backup")
    faults = guest.faults()
    if faults:
        raise SiteError(
            "backup", found.id, f"its file systems are not well: {'; '.join(faults)}", "take another backup"
        )


def _require_no_memory(state: str, target: str) -> None:
    if state not in ("running", "stopped"):
        reason = f"is {state}: its memory belongs to the disks that it has now"
        raise SiteError("desktop", target, reason, f"./inv desktop.resume {target}, or desktop.stop --force")
