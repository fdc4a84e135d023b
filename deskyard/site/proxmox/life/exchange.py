"""Takes a desktop of a cluster back to a backup: that is restored beside it, and its disk takes the desktop's place.

Read in qemu-server e6352be6 (PVE/API2/Qemu.pm: move_vm_disk, update_vm_api, resize_vm; PVE/QemuServer.pm:
vmconfig_apply_pending, vmconfig_register_unused_drive, write_vm_config) and pve-storage 0c56bad8 (rename_volume,
volume_has_feature). Not run on a real cluster.

The desktop stays the machine that it is: its id, addresses, UUID, tags, rules and sizes are those of now. The restored
disk is moved to it as an unused one while it runs. Then a single write of its configuration exchanges the two: Proxmox
VE keeps the one that was there as unused, so at each moment the desktop has a disk to start from. That one goes only
when the desktop has booted with the other and was found well. `protection` forbids none of it, and stays.

How far it has come is seen in the two configurations. What these cannot tell is in the description of the copy: which
disk was there before, under which key the restored one came, and that the desktop was found well with it.
"""

import contextlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from deskyard.errors import SiteError
from deskyard.host.progress import say
from deskyard.host.vm.tried_guest import TriedGuest
from deskyard.plan.backup import Backup
from deskyard.plan.power import Power
from deskyard.plan.proxmox.backup_note import Keeper
from deskyard.plan.proxmox.view import SeenMachine, tags_of
from deskyard.site.proxmox.client import ApiError, Client
from deskyard.site.proxmox.kinds.disk_size import size_of
from deskyard.site.proxmox.life import copies
from deskyard.site.proxmox.life.copies import RESTORE, Copy, answering
from deskyard.site.proxmox.life.power import MachinePower
from deskyard.site.proxmox.life.record import ABSENT, this_host
from deskyard.site.proxmox.life.snapshots import MachineSnapshots
from deskyard.site.proxmox.machine import DISK, vm_path
from deskyard.site.proxmox.task import finish, running, wait_task

MOVE = "qmmove"
MOVE_SECONDS = 600.0
# Of a configuration (PVE/QemuServer/Drive.pm).
MOST_UNUSED = 256
_DISK = re.compile(r"(ide|sata|scsi|virtio|efidisk|tpmstate)\d+")
# What follows from the volume, and is not to be set.
_OF_VOLUME = ("size=", "format=", "file=")


@dataclass(frozen=True)
class Journal:
    """The copy's record of an exchange: by whom and until when, the drive of before, where the restored one went."""

    until: int
    host: str
    old: str
    key: str
    new: str = ""
    proved: str = ""

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> "Journal":
        """The one in a configuration."""
        words = copies.words_of(config)
        rest = {name: words.get(name, "") for name in ("host", "old", "key", "new", "proved")}
        return cls(copies.until_of(config), **rest)


class Exchange:
    """A desktop, and the copy beside it that holds the disk which is to take the place of its own."""

    def __init__(self, copy: Copy, vm_id: int) -> None:
        self._copy, self._client, self._vm_id = copy, copy.client, vm_id
        self._path, self._power = vm_path(copy.node, vm_id), MachinePower(copy.client, copy.node, vm_id)

    @contextlib.contextmanager
    def swap(self) -> Iterator[None]:
        """Give the desktop the restored disk while it is off; if the block fails, it is off and has its own again."""
        journal = self._journal()
        try:
            self._set(_drive(journal.new, journal.old))
            yield
            self._write(replace(journal, proved="1"))
        except BaseException:
            self._back(journal)
            raise

    @contextlib.contextmanager
    def guest(self) -> Iterator[TriedGuest]:
        """The guest of the desktop, once it has booted."""
        yield TriedGuest(answering(self._client, self._copy.node, self._vm_id).execute)

    def move_in(self) -> None:
        """Let the desktop have the restored disk, no smaller than its own, as one that it does not use."""
        config, journal = self._copy.config(), self._journal()
        if disks(config) != [DISK]:
            reason = f"has the disks {', '.join(disks(config)) or 'none'}, and the desktop has {DISK}"
            raise SiteError("backup", journal.key, reason, "restore it by the cluster, to a free id: docs/proxmox.md")
        if size_of(str(config[DISK])) < size_of(journal.old):
            size = size_of(journal.old)
            finish(self._client, self._client.put(f"{self._copy.path}/resize", disk=DISK, size=size))
        self._move(self._copy.vm_id, DISK, self._vm_id, journal.key)
        self._write(replace(journal, new=str(self._desktop()[journal.key])))

    def mend(self) -> None:
        """Bring one that broke off to its end: a desktop that is well with the restored disk keeps it."""
        self._wait_for_moves()
        journal = self._journal()
        if self._has_old(journal):
            say("    a restore that broke off is taken back: the desktop has kept what it held")
        else:
            well = bool(journal.proved) or self._is_well()
            end = "is finished: the desktop is well" if well else "is taken back: the desktop is not well with it"
            say(f"    a restore that broke off {end}")
            if well:
                self._write(replace(journal, proved="1"))
            else:
                self._back(journal)
            if self._power.desired() is Power.RUNNING:
                self._power.let_run()
            else:
                self._power.shut_down()
        self.settle()

    def settle(self) -> None:
        """Take away what the desktop does not use of the two disks, and the copy; it keeps the one that it has."""
        self._wait_for_moves()
        try:
            config = self._copy.config()
        except ApiError as error:
            if ABSENT.search(error.reason):
                # Nothing was restored.
                return
            raise
        if self._copy.mark not in tags_of(config):
            return
        journal, mine = Journal.of(config), self._desktop()
        spare = _unused(mine)
        if self._has_old(journal):
            left = [key for key, volume in spare.items() if volume == journal.new]
            left += [key for key in spare if key == journal.key and not journal.new]
        elif journal.proved:
            left = [key for key, volume in spare.items() if volume == _volume(journal.old)]
        else:
            reason = "has the restored disk, and nobody has seen whether it is well"
            raise SiteError("machine", self._vm_id, reason, "run backup.restore again: it looks, and ends this one")
        for key in left:
            self._move(self._vm_id, key, self._copy.vm_id, free_key(self._copy.config()))
        self._copy.remove()

    def _is_well(self) -> bool:
        try:
            self._power.let_run()
            with self.guest() as guest:
                return not guest.faults()
        except SiteError as error:
            say(f"    {error.reason.splitlines()[0]}")
            return False

    def _back(self, journal: Journal) -> None:
        self._power.pull_plug()
        if not self._has_old(journal):
            self._set(journal.old)

    def _has_old(self, journal: Journal) -> bool:
        return _volume(str(self._desktop().get(DISK, ""))) == _volume(journal.old)

    def _set(self, drive: str) -> None:
        config = self._desktop()
        self._client.put(f"{self._path}/config", **{DISK: _drive(_volume(drive), drive)}, digest=config["digest"])

    def _move(self, source: int, key: str, target: int, target_key: str) -> None:
        to = {"target-vmid": target, "target-disk": target_key}
        upid = self._client.post(f"{vm_path(self._copy.node, source)}/move_disk", disk=key, **to)
        wait_task(self._client, upid, MOVE_SECONDS)

    def _wait_for_moves(self) -> None:
        """A task goes on although who began it has died."""
        for upid in running(self._client, self._copy.node, kind=MOVE):
            with contextlib.suppress(SiteError):
                wait_task(self._client, upid, MOVE_SECONDS)

    def _desktop(self) -> dict[str, Any]:
        found: dict[str, Any] = self._client.get(f"{self._path}/config")
        return found

    def _journal(self) -> Journal:
        return Journal.of(self._copy.config())

    def _write(self, journal: Journal) -> None:
        self._client.put(f"{self._copy.path}/config", description=copies.written(asdict(journal)))


@contextlib.contextmanager
def staged(client: Client, owner: Keeper, machine: SeenMachine, backup: Backup) -> Iterator[Exchange]:
    """The desktop and its backup, restored beside it; what is not used of both is gone with the block."""
    config = _exchangeable(client, machine)
    storage = copies.require_room(client, machine, machine.node)
    copy = copies.new_copy(client, owner, backup.desktop, RESTORE, machine.node)
    exchange = Exchange(copy, machine.vm_id)
    journal = Journal(copies.latest_end(), this_host(), str(config[DISK]), free_key(config))
    try:
        copy.make(machine, backup, storage, copies.written(asdict(journal)))
        exchange.move_in()
        yield exchange
    except BaseException:
        with contextlib.suppress(SiteError):
            exchange.settle()
        raise
    exchange.settle()


def mend(client: Client, owner: Keeper, machine: SeenMachine, desktop: str) -> None:
    """Bring restores of a desktop that broke off to their end; raises `SiteError` while another host is at one."""
    for copy in copies.copies(client, owner, desktop, RESTORE):
        copies.require_nobody_else(copy)
        Exchange(copy, machine.vm_id).mend()


def disks(config: Mapping[str, Any]) -> list[str]:
    """The disks in a configuration that hold something of their own."""
    return sorted(key for key in config if _DISK.fullmatch(key) and "media=cdrom" not in str(config[key]))


def free_key(config: Mapping[str, Any]) -> str:
    """A key under which a machine may have one more disk that it does not use."""
    return next(key for number in range(MOST_UNUSED) if (key := f"unused{number}") not in config)


def _exchangeable(client: Client, machine: SeenMachine) -> Mapping[str, Any]:
    """The configuration of a desktop whose disk can be exchanged; raises `SiteError` if it cannot."""
    name = f"{machine.vm_id} on {machine.node}"
    config: Mapping[str, Any] = client.get(f"{vm_path(machine.node, machine.vm_id)}/config")
    if disks(config) != [DISK]:
        reason = f"has the disks {', '.join(disks(config)) or 'none'}; only {DISK} alone is exchanged"
        raise SiteError("machine", name, reason, "restore it by the cluster, to a free id: docs/proxmox.md says how")
    if found := MachineSnapshots(client, machine.node, machine.vm_id).listed():
        reason = f"has snapshots, which lie in the disk that would go: {', '.join(shot.name for shot in found)}"
        raise SiteError("machine", name, reason, "delete them: ./inv snapshot.delete")
    return config


def _unused(config: Mapping[str, Any]) -> dict[str, str]:
    return {key: str(value) for key, value in config.items() if re.fullmatch(r"unused\d+", key)}


def _volume(drive: str) -> str:
    return drive.partition(",")[0].removeprefix("file=")


def _drive(volume: str, like: str) -> str:
    """The drive of a volume, with the options of another one."""
    return ",".join([volume, *(part for part in like.split(",")[1:] if not part.startswith(_OF_VOLUME))])
