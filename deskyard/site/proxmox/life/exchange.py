"""Takes a desktop of a cluster back to a backup: that is restored beside it, and its disks take the desktop's places.

Read in qemu-server e6352be6 (PVE/API2/Qemu.pm: move_vm_disk, update_vm_api, resize_vm; PVE/QemuServer.pm:
vmconfig_apply_pending, vmconfig_register_unused_drive, write_vm_config) and pve-storage 0c56bad8 (rename_volume,
volume_has_feature). Not run on a real cluster.

The desktop stays the machine that it is: its id, addresses, UUID, tags, rules and sizes are those of now. The restored
disks are moved to it as unused ones while it runs. Then a single write of its configuration exchanges them all: Proxmox
VE keeps those that were there as unused, so at each moment the desktop has disks of one moment to start from. Those go
only when the desktop has booted with the others and was found well. `protection` forbids none of it, and stays.

How far it has come is seen in the two configurations. What these cannot tell is in the description of the copy: which
disks were there before, under which keys the restored ones came, and that the desktop was found well with them.
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
from deskyard.plan.proxmox.system_tag import Systems
from deskyard.plan.proxmox.view import SeenMachine, tags_of
from deskyard.site.proxmox.client import ApiError, Client
from deskyard.site.proxmox.kinds.disk_size import size_of
from deskyard.site.proxmox.kinds.drive import drive_of, options_of, volume_of
from deskyard.site.proxmox.life import carrier, copies
from deskyard.site.proxmox.life.carrier import MOVE, MOVE_SECONDS
from deskyard.site.proxmox.life.copies import RESTORE, Copy, answering
from deskyard.site.proxmox.life.home import HOME_DISK, has_home
from deskyard.site.proxmox.life.power import MachinePower
from deskyard.site.proxmox.life.record import ABSENT, this_host
from deskyard.site.proxmox.life.snapshots import MachineSnapshots
from deskyard.site.proxmox.machine import DISK, vm_path
from deskyard.site.proxmox.task import finish, running, wait_task

# Of a configuration (PVE/QemuServer/Drive.pm).
MOST_UNUSED = 256
_DISK = re.compile(r"(ide|sata|scsi|virtio|efidisk|tpmstate)\d+")
# All that a desktop may have; one of before has the first alone.
_EXCHANGED = (DISK, HOME_DISK)


@dataclass(frozen=True)
class Swapped:
    """One disk of an exchange: the drive of before, under which key the restored one comes, and its volume then."""

    old: str
    key: str
    new: str = ""


@dataclass(frozen=True)
class Journal:
    """The copy's record of an exchange: by whom and until when, its disks, and that the desktop is well with them."""

    until: int
    host: str
    disks: Mapping[str, Swapped]
    # The image of its system; of the restored one nobody knows it.
    system: str = ""
    proved: str = ""

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> "Journal":
        """The one in a configuration."""
        words = copies.words_of(config)
        found = {
            disk: Swapped(*(words.get(f"{name}{_mark(disk)}", "") for name in ("old", "key", "new")))
            for disk in _EXCHANGED
            if f"old{_mark(disk)}" in words
        }
        rest = (words.get(name, "") for name in ("system", "proved"))
        return cls(copies.until_of(config), words.get("host", ""), found, *rest)

    def words(self) -> dict[str, object]:
        """As the copy has it."""
        held = {
            f"{name}{_mark(disk)}": value
            for disk, swapped in self.disks.items()
            for name, value in asdict(swapped).items()
        }
        return {"until": self.until, "host": self.host, **held, "system": self.system, "proved": self.proved}

    def with_new(self, disk: str, volume: str) -> "Journal":
        """The journal once the restored disk has come."""
        return replace(self, disks={**self.disks, disk: replace(self.disks[disk], new=volume)})


class Exchange:
    """A desktop, and the copy beside it that holds the disks which are to take the places of its own."""

    def __init__(self, copy: Copy, vm_id: int) -> None:
        self._copy, self._client, self._vm_id = copy, copy.client, vm_id
        self._path, self._power = vm_path(copy.node, vm_id), MachinePower(copy.client, copy.node, vm_id)

    @contextlib.contextmanager
    def swap(self) -> Iterator[None]:
        """Give the desktop the restored disks while it is off; if the block fails, it is off and has its own again."""
        journal = self._journal()
        try:
            drives = {disk: drive_of(swapped.new, options_of(swapped.old)) for disk, swapped in journal.disks.items()}
            self._set(drives, None)
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
        """Let the desktop have the restored disks, no smaller than its own, as such that it does not use."""
        config, journal = self._copy.config(), self._journal()
        if disks(config) != sorted(journal.disks):
            have, there = ", ".join(disks(config)) or "none", ", ".join(sorted(journal.disks))
            reason = f"has the disks {have}, and the desktop has {there}"
            raise SiteError(
                "backup", self._copy.name, reason, "restore it by the cluster, to a free id: docs/proxmox.md"
            )
        for disk, swapped in journal.disks.items():
            if size_of(str(config[disk])) < (size := size_of(swapped.old)):
                finish(self._client, self._client.put(f"{self._copy.path}/resize", disk=disk, size=size))
            self._move(self._copy.vm_id, disk, self._vm_id, swapped.key)
            journal = journal.with_new(disk, str(self._desktop()[swapped.key]))
            self._write(journal)

    def mend(self) -> None:
        """Bring one that broke off to its end: a desktop that is well with the restored disks keeps them."""
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
        """Take away what the desktop does not use of all the disks, and the copy; it keeps those that it has."""
        self._wait_for_moves()
        try:
            config = self._copy.config()
        except ApiError as error:
            if ABSENT.search(error.reason):
                # Nothing was made.
                return
            raise
        if self._copy.mark not in tags_of(config):
            # Nothing was restored: the desktop has its own disks.
            self._copy.remove()
            return
        journal, mine = Journal.of(config), self._desktop()
        spare = _unused(mine)
        all_swapped = journal.disks.values()
        if self._has_old(journal):
            left = [key for key, volume in spare.items() if volume in {swapped.new for swapped in all_swapped}]
            left += [swapped.key for swapped in all_swapped if swapped.key in spare and not swapped.new]
        elif journal.proved:
            left = [
                key for key, volume in spare.items() if volume in {volume_of(swapped.old) for swapped in all_swapped}
            ]
        else:
            reason = "has the restored disks, and nobody has seen whether it is well"
            raise SiteError("machine", self._vm_id, reason, "run backup.restore again: it looks, and ends this one")
        for key in left:
            self._move(self._vm_id, key, self._copy.vm_id, next(free_keys(self._copy.config())))
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
            drives = {
                disk: drive_of(volume_of(swapped.old), options_of(swapped.old))
                for disk, swapped in journal.disks.items()
            }
            self._set(drives, journal.system or None)

    def _has_old(self, journal: Journal) -> bool:
        """Whether all are those of before: they change in one write."""
        config = self._desktop()
        return all(
            volume_of(str(config.get(disk, ""))) == volume_of(swapped.old) for disk, swapped in journal.disks.items()
        )

    def _set(self, drives: Mapping[str, str], image: str | None) -> None:
        # A disk that is used would be torn out of the machine (vmconfig_update_disk).
        if (state := self._power.state()) != "stopped":
            reason = f"is {state}: its disks stay"
            raise SiteError("machine", self._power.name, reason, "see who starts it, then run it again")
        config = self._desktop()
        held = tags_of(config)
        tags = ";".join(replace(Systems.of(held), image=image).among(held))
        self._client.put(f"{self._path}/config", **drives, tags=tags, digest=config["digest"])

    def _move(self, source: int, key: str, target: int, target_key: str) -> None:
        carrier.move(self._client, self._copy.node, source, key, target, target_key)

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
        self._client.put(f"{self._copy.path}/config", description=copies.written(journal.words()))


@contextlib.contextmanager
def staged(client: Client, owner: Keeper, machine: SeenMachine, backup: Backup) -> Iterator[Exchange]:
    """The desktop and its backup, restored beside it; what is not used of both is gone with the block."""
    config = _exchangeable(client, machine)
    storage = copies.require_room(client, machine, machine.node)
    copy = copies.new_copy(client, owner, backup.desktop, RESTORE, machine.node)
    exchange = Exchange(copy, machine.vm_id)
    swapped = map(Swapped, (str(config[disk]) for disk in disks(config)), free_keys(config))
    exchanged, system = dict(zip(disks(config), swapped, strict=True)), Systems.of(tags_of(config)).image or ""
    journal = Journal(copies.latest_end(), this_host(), exchanged, system)
    try:
        copy.make(machine, backup, storage, copies.written(journal.words()))
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


def free_keys(config: Mapping[str, Any]) -> Iterator[str]:
    """The keys under which a machine may have further disks that it does not use."""
    return (key for number in range(MOST_UNUSED) if (key := f"unused{number}") not in config)


def _exchangeable(client: Client, machine: SeenMachine) -> Mapping[str, Any]:
    """The configuration of a desktop whose disks can be exchanged; raises `SiteError` if they cannot."""
    name = f"{machine.vm_id} on {machine.node}"
    config: Mapping[str, Any] = client.get(f"{vm_path(machine.node, machine.vm_id)}/config")
    if disks(config) != [DISK] and (disks(config) != [DISK, HOME_DISK] or not has_home(config)):
        reason = f"has the disks {', '.join(disks(config)) or 'none'}; only {DISK} and a volume of /home are exchanged"
        raise SiteError("machine", name, reason, "restore it by the cluster, to a free id: docs/proxmox.md says how")
    if found := MachineSnapshots(client, machine.node, machine.vm_id).listed():
        reason = f"has snapshots, which lie in the disks that would go: {', '.join(shot.name for shot in found)}"
        raise SiteError("machine", name, reason, "delete them: ./inv snapshot.delete")
    return config


def _unused(config: Mapping[str, Any]) -> dict[str, str]:
    return {key: str(value) for key, value in config.items() if re.fullmatch(r"unused\d+", key)}


def _mark(disk: str) -> str:
    """Tell the words of a disk from those of others: the system's had none when it was the only one."""
    return "" if disk == DISK else f"-{disk}"
