"""Tasks of a desktop's life on a real hypervisor, of which one participant is killed at a step: what is left, and how
the next run ends it.

What is called here runs inside `own_hypervisor`. The tasks and what stands in for a guest that answers are those of
`tests/unit/life/test_faults.py`; machines, disks, snapshots and backups are real.
"""

import contextlib
import shutil
from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import libvirt
import pytest

from deskyard.errors import SiteError
from deskyard.host.deadline import Deadline
from deskyard.life import journal, power, snapshot
from deskyard.life.backup import backup, restoration
from deskyard.life.backup.repository import Repository
from deskyard.plan import backup as backup_plan
from deskyard.plan.image.source import ImageSource
from deskyard.plan.names import seat_domain
from deskyard.plan.power import Power
from deskyard.plan.snapshot import Snapshot
from deskyard.site.libvirt import daemon, documents, storage
from deskyard.site.libvirt.backup import content, freeze, trial
from deskyard.site.libvirt.machines import LibvirtMachines
from deskyard.site.libvirt.warm.disposables import LibvirtDisposables
from deskyard.workspace import readiness
from deskyard.workspace.seats import Seats
from tests.provider import left, witness
from tests.provider.strikes import FOLDER, NOBODY, Steps, Strike, note, strike, watch
from tests.unit.life import test_faults
from tests.unit.life.machines import DEV1, GATEWAY
from tests.unit.life.restic import use_restic
from tests.unit.life.test_faults import TARGET
from tests.unit.workspace.disposables import declared

# A disk is so small that all of it is read in a moment.
DISK_BYTES = 64 << 20
THEN = "then"
# The machine whose QEMU is struck, where it is not that of the desktop.
MACHINES = {"pool": seat_domain("lab", "s1")}


class Machines(LibvirtMachines):
    """The real machines; the gateway is one that is wanted to run."""

    def desired(self) -> dict[str, Power]:
        """Of those that are there, and of the gateway."""
        return {GATEWAY: Power.RUNNING, **super().desired()}

    def host_key(self, domain: str) -> str:
        """Nobody is asked for it."""
        return "the key"


class Life(test_faults.Life):
    """Workspace `lab` with its desktop dev1, which is real."""

    def __init__(self, patch: pytest.MonkeyPatch, strike: Strike = NOBODY) -> None:
        self.plan, self.steps_taken = witness.plan(), Steps(strike)
        self.machines = Machines(self.plan)  # type: ignore[assignment]
        self.repository = Repository("lab", str(FOLDER / "repository"), FOLDER / "key")  # type: ignore[assignment]
        self.disposables = LibvirtDisposables("lab")  # type: ignore[assignment]
        self.seats = Seats("local", "lab", self.disposables)
        patch.setattr(test_faults, "PLAN", self.plan)
        patch.setattr(test_faults, "SEATS", seats())
        self._stand_ins(patch)
        images = {"desktop": _image("0e3")}
        self.kept = replace(declared(1), plan=self.plan, images=images)
        self.declared = self.kept
        patch.setattr(
            readiness, "wait", lambda _, *, desktops: [await_life(found.machine.domain) for found in desktops]
        )
        patch.setattr(freeze, "hold", lambda _machine, _nonce, work: work() or 0.0)
        patch.setattr(trial, "answering", lambda machine: await_life(machine.name()))
        patch.setattr(restoration, "prove", lambda *_: None)
        patch.setattr(Repository, "require_room", lambda *_: None)
        use_restic(patch)
        watch(patch, self.steps_taken)


def seats() -> Any:
    """Workspace `lab` with two seats, each as small as its desktop."""
    images = {name: _image("01d") for name in ("desktop", "gateway")}
    found = declared(2, 2, images=images)
    size = witness.plan().desktop("dev1").machine
    small = {name: getattr(size, name) for name in ("vcpus", "memory_mib", "disk_gib", "home_gib")}
    places = tuple(replace(seat, machine=replace(seat.machine, **small)) for seat in found.plan.seats)
    return replace(found, plan=replace(found.plan, seats=places, accelerator=witness.plan().accelerator))


def _image(digest: str) -> ImageSource:
    return ImageSource("witness", digest, str(FOLDER / f"{digest}.qcow2"))


def await_life(domain: str) -> Any:
    """Wait until the guest has written on; raises `SiteError` if its machine ends."""
    begun = len(witness.said(domain))

    def decided() -> bool:
        with daemon.machine(domain) as machine:
            return not machine.isActive() or len(witness.said(domain)) > begun + 3

    assert Deadline(witness.SECONDS).wait_for(decided, witness.PAUSE), witness.said(domain)[-3:]
    if len(witness.said(domain)) <= begun + 3:
        raise SiteError("machine", domain, "ended", "see its console")
    return SimpleNamespace(nonce=lambda: "", faults=list)


@contextlib.contextmanager
def living(strike: Strike = NOBODY) -> Iterator[Life]:
    """The product, for a guest of one sector and disks of a moment."""
    with witness.adapted(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(documents, "GIB", DISK_BYTES)
        yield Life(patch, strike)


def begin() -> None:
    """Make the desktop, let it write, and make a first backup of it."""
    FOLDER.mkdir()
    witness.image(FOLDER, "0e3")
    with living():
        made = witness.make("dev1", witness.image(FOLDER, "01d"))
        await_life(DEV1)
        left.note_begin(made)
        backup.run(TARGET)


def attempt(name: str, strike: Strike) -> tuple[list[str], str]:
    """Run a task; the steps that it came to, and what it ended with, if not well."""
    with living(strike) as life:
        note("begun", witness.last(DEV1))
        # A victim may not be there from the drawn step on: then nobody is struck.
        note("struck", witness.last(DEV1))
        try:
            TASKS[name](life)
        except Exception as error:
            return life.steps_taken.names, f"{type(error).__name__}: {error}"
        return life.steps_taken.names, ""


def end(name: str) -> None:
    """Run it again as somebody would, after whatever broke off; then nothing is lost, half, or nobody's."""
    with living() as life:
        machine = power.Machine(life.plan, "dev1", life.machines)  # type: ignore[arg-type]
        left.backups_hold(life.repository.snapshots())
        if life.machines.states()[DEV1]["state"] == "running":
            # A guest that does not run yet hears no button.
            await_life(DEV1)
        if journal.Journal(machine).read() is None:
            power.start(TARGET)
            left.kept_holds(name)
        for found in life.machines.snapshots(DEV1):
            snapshot.delete(TARGET, found.name)
        if name == "pool":
            test_faults.release_claimed(life)
        TASKS[name](life)
        settled(life, name)


def settled(life: Life, name: str) -> None:
    """It runs as wanted, with all that its guest kept; nothing is left of what broke off, and nothing drifts."""
    assert life.machines.states()[DEV1]["state"] == "running"
    assert life.machines.desired()[DEV1] is Power.RUNNING
    await_life(DEV1)
    power.stop(TARGET)
    left.content_holds(name)
    left.backups_hold(life.repository.snapshots())
    left.nothing_is_left(life.machines.system(DEV1).has_kept())
    power.start(TARGET)


def take_wanted_otherwise(now: Power) -> None:
    """Take a snapshot of the desktop at a time at which it is not wanted to be what it is wanted to be from then on."""
    with living():
        if now is Power.RUNNING:
            power.stop(TARGET)
        snapshot.create(TARGET, Snapshot(THEN))
        _move(now)


def go_back(strike: Strike) -> list[str]:
    """Bring the desktop back to that snapshot, and be struck; the steps that it came to."""
    with living() as life:
        _move(life.machines.desired()[DEV1])
    with living(strike) as life:
        with contextlib.suppress(libvirt.libvirtError, SiteError):
            snapshot.restore(TARGET, THEN)
        return life.steps_taken.names


def wanted() -> tuple[Power, str]:
    """The power that the desktop is wanted to have, and how it is."""
    with living() as life:
        return life.machines.desired()[DEV1], life.machines.states()[DEV1]["state"]


def forget_and_start() -> None:
    """Delete that snapshot, and let the desktop run."""
    with living():
        snapshot.delete(TARGET, THEN)
        power.start(TARGET)


def _move(wanted: Power) -> None:
    (power.start if wanted is Power.RUNNING else power.stop)(TARGET)


def leave_saved_memory(copy: bool) -> None:
    """Leave, in two calls around a new libvirtd, what one killed at the end of a save does: memory on disk, and the
    process that has it as well."""
    file, kept = left.SAVES / f"{DEV1}.save", FOLDER / "memory"
    with witness.adapted(), daemon.machine(DEV1) as machine:
        if copy:
            machine.managedSave(libvirt.VIR_DOMAIN_SAVE_RUNNING)
            shutil.copyfile(file, kept)
            machine.create()
            machine.suspend()
            shutil.copyfile(kept, file)
            strike(Strike("libvirtd"))
        else:
            assert machine.isActive() and machine.hasManagedSaveImage()


def go_on_and_restart() -> list[tuple[str, int]]:
    """Let it go on from its pause, and off and on again; what its guest said since."""
    begun = len(witness.said(DEV1))
    with living():
        power.start(TARGET)
        power.stop(TARGET)
        power.start(TARGET)
    return witness.said(DEV1)[begun:]


def _restore(life: Any) -> None:
    """Back to the first backup; what an interrupted one has kept is put back before, as its remedy says."""
    for _ in range(3):
        try:
            restoration.restore(TARGET, first(life))
            return
        except SiteError as error:
            if "a restore was interrupted" not in error.reason:
                raise
        # It has gone on meanwhile, or been started again.
        await_life(DEV1)
        power.stop(TARGET)
        with daemon.machine(DEV1) as machine:
            for disk in content.disks(machine):
                kept = disk.path.with_suffix(f".{storage.RESTORING[1]}.qcow2")
                if kept.exists():
                    shutil.move(kept, disk.path)
        power.start(TARGET)


def _pool(life: Any) -> None:
    try:
        test_faults.TASKS["pool"](life)
    finally:
        life.declared = life.kept


def first(life: Any) -> str:
    """The first backup, which was made at the beginning."""
    return backup_plan.backups(life.repository.snapshots(), "dev1")[0].id


TASKS = test_faults.TASKS | {"restore": _restore, "pool": _pool}
