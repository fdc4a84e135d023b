"""A desktop on the peer that runs, with a storage for its backups, and what is in it and in copies of it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from deskyard.life.backup import backup
from deskyard.plan.backup import READ_NONCE
from deskyard.plan.proxmox.view import trial_pool_of
from tests.proxmox.rack import SITE, Rack
from tests.proxmox.started_gateway import start
from tests.support.pve import Client, Peer

NAME, TARGET, STORAGE = "lab", "lab/dev1", "safe"
TRIAL, RESTORE = "dev1-trial.", "dev1-restore."
# As the stack's machines have them (stacks/proxmox/machine.py, _disk and _initialization; kinds/home.py).
DISK = "local-lvm:4,discard=on,iops_rd=500"
SEED = "local-lvm:cloudinit"
HOME = "local-lvm:2,discard=on,serial=home,backup=1,iops_rd=500"
DISKS = ("scsi0", "scsi1")


class Desk:
    """The desktop, and what was written into it."""

    def __init__(self, rack: Rack) -> None:
        self.rack, self.fake = rack, rack.peer.fake
        self.written: list[tuple[str, str]] = []
        # What the desktop and a copy of it hold, what they say of their file systems, and what is done when asked.
        self.held, self.looks = "", "mount / ext4 rw\n"
        self.asked: Callable[[], Any] = lambda: None
        self._says = ""

    def __call__(self, vm: str, command: str, values: dict[str, Any]) -> Any:
        """What its agent answers to a program, and what that of a restored machine does."""
        if command == "exec" and "input-data" in values:
            self.written.append((values["command"][-1], values["input-data"]))
            self.held = values["input-data"]
            return {"pid": 7}
        if command == "exec":
            self.asked()
            self._says = self.held if values["command"] == READ_NONCE else self.looks
            return {"pid": 8}
        answer = {"exited": 1, "exitcode": 0, "out-data": self._says if str(values.get("pid")) == "8" else ""}
        return answer if command == "exec-status" else None

    @property
    def vm(self) -> Any:
        """What the peer holds of it."""
        return self.rack.machines(NAME)["dev1"]

    @property
    def volumes(self) -> dict[str, Any]:
        """What lies in the storage."""
        found: dict[str, Any] = self.fake.storages[STORAGE]["volumes"]
        return found

    @property
    def holds(self) -> str | None:
        """The archive that both its disks were restored from; None of disks that it always had."""
        volumes = (str(self.vm.config[disk]).partition(",")[0] for disk in DISKS)
        (held,) = {(self.fake._qm_volume(volume) or {}).get("archive") for volume in volumes}
        return held

    def ids(self) -> list[str]:
        """The backups that are listed."""
        return [row["id"] for row in backup.listing(TARGET)["backups"]]

    def copies(self, kind: str = TRIAL) -> list[Any]:
        """The machines that hold a backup."""
        return [vm for vm in self.fake.vms if vm.name.startswith(kind)]

    def config(self) -> dict[str, Any]:
        """Its configuration without the names of its volumes, which are chosen by the cluster."""
        found = dict(self.vm.config)
        for disk in DISKS:
            volume, _, options = found[disk].partition(",")
            found[disk] = f"{volume.partition(':')[0]},{options}"
        return found

    @contextmanager
    def wrong(self, fault: str) -> Iterator[None]:
        """Let backups go wrong."""
        self.fake.backup_faults.add(fault)
        try:
            yield
        finally:
            self.fake.backup_faults.clear()


@contextmanager
def desk_on(peer: Peer, root: Client, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    """With the rights of the table of privileges and no other."""
    peer.fake.storages[STORAGE] = {**peer.fake.storages["shared"], "content": "backup", "volumes": {}}
    rack = Rack(peer, root, folder, monkeypatch)
    rack.site(storages={"backups": STORAGE})
    rack._grant()
    rack.declare(NAME, "dev1")
    declared = rack.plan(NAME)
    assert declared.on_cluster is not None
    start(rack, declared.on_cluster.desktops["dev1"], scsi0=DISK, scsi1=HOME, ide2=SEED, protection="1")
    peer.fake.answerer = desk = Desk(rack)
    peer.fake.calls.clear()
    yield desk
    peer.fake.answerer = None


@contextmanager
def desk_with_trials(folder: Path) -> Iterator[tuple[Desk, pytest.MonkeyPatch]]:
    """A desk on a cluster of its own, which has the pool in which backups are tried out."""
    with (
        pytest.MonkeyPatch.context() as monkeypatch,
        Peer(folder, nodes=2) as peer,
        peer.client() as root,
        desk_on(peer, root, folder, monkeypatch) as desk,
    ):
        root.ask("POST", "/pools", poolid=trial_pool_of(SITE))
        yield desk, monkeypatch
