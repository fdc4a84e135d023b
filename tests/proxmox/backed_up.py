"""A desktop on the peer that runs, with a storage for its backups, and what is in it and in copies of it."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from deskyard.life.backup import backup
from deskyard.plan.backup import READ_NONCE
from deskyard.plan.proxmox.view import trial_pool_of
from tests.proxmox.rack import SITE, Rack
from tests.proxmox.started_gateway import start
from tests.support.pve import Client, Peer
from tests.support.pve.calls import Call
from tests.support.pve.fake import storage_of

NAME, TARGET, STORAGE = "lab", "lab/dev1", "safe"
# The storage of the backups: a folder that all nodes share, or a Proxmox Backup Server.
FOLDER, SERVER = "folder", "server"
STORES: dict[str, Callable[[], dict[str, Any]]] = {
    FOLDER: lambda: storage_of("nfs", "backup", path="/mnt/pve/safe", shared=1, server="192.0.2.9"),
    SERVER: lambda: storage_of("pbs", "backup", shared=1, server="192.0.2.10", datastore="desks"),
}
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
    def store(self) -> dict[str, Any]:
        """The storage of its backups."""
        found: dict[str, Any] = self.fake.storages[STORAGE]
        return found

    @property
    def on_server(self) -> bool:
        """Whether that is a Proxmox Backup Server."""
        return bool(self.store["type"] == "pbs")

    def keep_foreign(self, **more: Any) -> dict[str, Any]:
        """A backup of the same machine that somebody else has made, in the storage."""
        files = f"backup/vzdump-qemu-{self.vm.vmid}-2026_01_01-00_00_00.vma.zst"
        name = f"backup/vm/{self.vm.vmid}/2026-01-01T00:00:00Z" if self.on_server else files
        kept = {"content": "backup", "format": "pbs-vm" if self.on_server else "vma.zst", "size": 9, "ctime": 1}
        self.volumes[name] = kept | {"vmid": self.vm.vmid, "notes": "of the admin"} | more
        return self.volumes[name]  # type: ignore[no-any-return]

    def published(self) -> list[Call]:
        """Its calls; the name of a volume takes slashes, which the schema's paths do not tell (Content.pm)."""

        def path(found: re.Match[str]) -> str:
            return f"{found[1]}{quote(found[2], safe=':')}"

        return [replace(call, path=re.sub(r"(/content/)(.+)", path, call.path)) for call in self.fake.calls]

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
def desk_on(
    peer: Peer, root: Client, folder: Path, monkeypatch: pytest.MonkeyPatch, kind: str = FOLDER
) -> Iterator[Desk]:
    """With the rights of the table of privileges and no other."""
    peer.fake.storages[STORAGE] = STORES[kind]()
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
