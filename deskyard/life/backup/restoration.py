"""Proves backups by booting them, and takes desktops back to them."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from deskyard.host.progress import say, step
from deskyard.life import power
from deskyard.life.backup.proof import judge, provable, prove
from deskyard.life.backup.vault import vault_of
from deskyard.life.power import Machine
from deskyard.plan import backup as plan
from deskyard.plan.backup import Backup
from deskyard.plan.power import Power
from deskyard.workspace import readiness, turn


def verify(target: str, name: str = "latest") -> dict[str, Any]:
    """Restore a backup into a machine without any NIC, boot it, and read back the nonce: then it counts.

    Raises `SiteError` for one that is not what it says; it counts no more then.
    """
    return {"desktop": target, "backup": asdict(prove_backup(power.opened(target), name))}


def prove_backup(machine: Machine, name: str) -> Backup:
    """The same for a machine; the backup as it is known then."""
    vault = vault_of(machine.plan.site, machine.plan.name)
    present = vault.present(machine.name)
    found = _found(name, present, machine.target)
    expected = provable(found, present, machine.target)
    # Whether there is room says nothing of a backup.
    with turn.of_trial(machine.domain), vault.trial(machine, found) as boot:

        def attempt() -> None:
            with step("boot what was restored"), boot() as guest:
                prove(guest, found, expected)

        return judge(found, vault.note, attempt)


def settle(machine: Machine) -> None:
    """Bring a restore of a desktop that broke off to its end; raises `SiteError` if somebody has to choose.

    A backup would else hold a disk of then beside one of now, or but one of two contents.
    """
    with machine.alone(at_once=True):
        vault_of(machine.plan.site, machine.plan.name).mend(machine)


def restore(target: str, name: str, *, force: bool = False, wait: bool = True) -> dict[str, Any]:
    """Take a desktop back to a backup; what it holds now is kept until the restored one has booted, then it is gone."""
    machine = power.opened(target)
    machines, domain = machine.machines, machine.domain
    vault = vault_of(machine.plan.site, machine.plan.name)
    with machine.alone(at_once=True), machine.shown():
        present = vault.present(machine.name)
        found = _found(name, present, target)
        vault.mend(machine)
        runs = machines.desired()[domain] is Power.RUNNING
        machine.require_no_memory()
        with vault.staged(machine, found) as staged:
            machines.shut_down(domain, force=force)
            try:
                with step("boot what was restored"), staged.swap():
                    machines.start(domain)
                    with staged.guest() as guest:
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


def would_restore(target: str, name: str) -> dict[str, Any]:
    """The outcome that `restore` would have; raises `SiteError` for a desktop whose memory is kept. Touches nothing."""
    machine = power.opened(target)
    vault = vault_of(machine.plan.site, machine.plan.name)
    found = _found(name, vault.present(machine.name), target)
    machine.require_no_memory()
    snapshots = [snapshot.name for snapshot in machine.machines.snapshots(machine.domain)]
    runs = machine.machines.desired()[machine.domain] is Power.RUNNING
    return {**machine.state(), "backup": asdict(found), "snapshots": snapshots, "would_run": runs}


def _found(name: str, present: Sequence[Backup], target: str) -> Backup:
    """The backup of that id, or the newest of which nothing is lost: that there is a newer one is said."""
    found = plan.find(name, present, target)
    if newer := [each.id for each in present[present.index(found) :] if each.damaged and name == "latest"]:
        say(f"    {', '.join(newer)} is damaged, says its server: {found.id} is the newest that is not")
    return found
