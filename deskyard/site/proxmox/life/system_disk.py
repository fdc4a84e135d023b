"""The system disk of a desktop of a cluster: one of another image takes its place, and the one of before is kept.

Read in qemu-server e6352be6 (PVE/API2/Qemu.pm: clone_vm, move_vm_disk, update_vm_api; PVE/QemuServer.pm:
vmconfig_apply_pending, vmconfig_register_unused_drive, write_vm_config, destroy_vm) and pve-storage 0c56bad8
(rename_volume). Not run on a real cluster.

The new disk is that of a linked clone of the image's template, made while the desktop runs and moved to it as an unused
one: nothing is copied. Then a single write of its configuration, while it is off, exchanges the two and says in the
tags which image is in force. Proxmox VE keeps the one that was there as unused: there is a disk to start from at each
moment, and to go back is such a write again. `protection` forbids none of it, and stays. What is not needed any more
leaves with a machine that is removed, since a protected one lets none of its unused disks be deleted.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from deskyard.errors import SiteError
from deskyard.plan.image.source import ImageSource
from deskyard.plan.proxmox.backup_note import Keeper
from deskyard.plan.proxmox.placement import DISK_PART
from deskyard.plan.proxmox.system_tag import Systems, volume_name
from deskyard.plan.proxmox.view import SeenMachine, tags_of
from deskyard.site.proxmox import listing, templates
from deskyard.site.proxmox.client import ApiError, Client, quoted
from deskyard.site.proxmox.kinds.drive import drive_of, options_of, volume_of
from deskyard.site.proxmox.life import carrier
from deskyard.site.proxmox.life.carrier import WORK_SECONDS
from deskyard.site.proxmox.life.copies import RESTORE, copies
from deskyard.site.proxmox.life.power import CHANGED, WRITES, MachinePower
from deskyard.site.proxmox.life.record import this_host
from deskyard.site.proxmox.machine import DISK, vm_path

# Where the disk waits that comes next. Proxmox VE gives what leaves its place the lowest free key (add_unused_volume).
STAGED = "unused255"


class ClusterSystemDisk:
    """The system disk of one desktop."""

    def __init__(self, client: Client, owner: Keeper, desktop: str, machine: SeenMachine) -> None:
        self._client, self._owner, self._desktop, self._machine = client, owner, desktop, machine
        self._path = vm_path(machine.node, machine.vm_id)
        self._coming = ""

    def image(self) -> str | None:
        """The image that it started from, as NAME-DIGEST; None if its tags do not tell."""
        return self._systems().image

    def require_exchangeable(self) -> None:
        """Raise `SiteError` while its configuration is another's: an operator's, a restore's, or locked by a task."""
        self._require_settled()
        # One that keeps its memory is locked, too: that is said by its state.
        lock = self._config().get("lock")
        if lock not in (None, "suspended"):
            reason = f"is locked by a task of the cluster: {lock}"
            raise SiteError("machine", self._name, reason, "run it again once that task has ended")

    def stage(self, image: ImageSource, size_gib: int) -> None:
        """Make a disk of an image beside it; raises `SiteError` for what would break off on the way."""
        node, wanted = self._machine.node, f"{image.name}-{image.digest}"
        published = templates.find(listing.resources(self._client), self._client.cluster, image.name, image.digest)
        if node not in published:
            remedy = f"run ./inv image.publish {image.name} --site {self._owner.site}"
            raise SiteError("image", wanted, f"has no template that {node} could clone", remedy)
        self._require_settled()
        self._require_room(size_gib)
        self._write(lambda config, systems: (replace(systems, busy=this_host(), until=_end()), {}))
        self._clear()
        bringer = carrier.new_carrier(self._client, self._owner, self._desktop, node)
        bringer.make_clone(self._node_of(published[node]), published[node], size_gib)
        carrier.move(self._client, node, bringer.vm_id, DISK, self._machine.vm_id, STAGED)
        bringer.remove()
        self._coming = wanted

    def swap(self) -> None:
        """Let the staged disk take its place, and keep it; the machine is off."""
        self._require_off()

        def exchanged(config: Mapping[str, Any], systems: Systems) -> tuple[Systems, dict[str, str]]:
            if STAGED not in config:
                raise SiteError("machine", self._name, "has no disk that waits", "run desktop.upgrade again")
            now = str(config[DISK])
            kept = replace(systems, kept=volume_name(volume_of(now)), kept_image=systems.image, image=self._coming)
            return kept, {DISK: drive_of(volume_of(str(config[STAGED])), options_of(now))}

        self._write(exchanged)

    def swap_back(self) -> None:
        """Let the kept disk take its place again; what was there is to go, and the machine is off."""
        self._require_off()

        def exchanged(config: Mapping[str, Any], systems: Systems) -> tuple[Systems, dict[str, str]]:
            now, kept = str(config[DISK]), _unused(config).get(systems.kept or "")
            if kept is None:
                raise SiteError("machine", self._name, "has no system of before any more", "see its unused disks")
            spare = (*systems.spare, volume_name(volume_of(now)))
            back = replace(systems, kept=None, kept_image=None, image=systems.kept_image, spare=spare)
            return back, {DISK: drive_of(volume_of(str(config[kept])), options_of(now))}

        self._write(exchanged)

    def has_kept(self) -> bool:
        """Whether the disk of before is kept, and another one is in its place."""
        config = self._config()
        return Systems.of(tags_of(config)).kept in _unused(config)

    def forget(self) -> None:
        """Delete what lies beside it, staged or kept; who exchanged it last has then ended."""
        self._require_settled()
        self._clear()
        # What is to go is named before it goes: the next disk may get the name of one that has gone.
        self._write(lambda _, systems: (_spared(systems), {}))
        left = self._left()
        if left:
            taker = carrier.new_carrier(self._client, self._owner, self._desktop, self._machine.node)
            taker.make_empty()
            for number, key in enumerate(left):
                carrier.move(self._client, taker.node, self._machine.vm_id, key, taker.vm_id, f"unused{number}")
            taker.remove()
        self._write(lambda _, systems: (replace(systems, spare=(), busy="", until=0), {}))

    @property
    def _name(self) -> str:
        return f"{self._machine.vm_id} on {self._machine.node}"

    def _config(self) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self._client.get(f"{self._path}/config")
        return found

    def _systems(self) -> Systems:
        return Systems.of(tags_of(self._config()))

    def _left(self) -> list[str]:
        """The keys of the unused disks that are to go."""
        config = self._config()
        spare = Systems.of(tags_of(config)).spare
        named = {key for name, key in _unused(config).items() if name in spare}
        return sorted(named | ({STAGED} & config.keys()))

    def _write(self, change: Callable[[Mapping[str, Any], Systems], tuple[Systems, dict[str, str]]]) -> None:
        """Write what follows from the configuration, with its tags, in one step; nothing if nothing follows."""
        tags: tuple[str, ...] = ()
        drives: dict[str, str] = {}
        for _ in range(WRITES):
            config = self._config()
            held = tags_of(config)
            if drives and _is_so(config, drives) and set(tags) == set(held):
                # The answer alone was lost.
                return
            systems, drives = change(config, Systems.of(held))
            tags = systems.among(held)
            if not drives and set(tags) == set(held):
                return
            try:
                self._client.put(f"{self._path}/config", **drives, tags=";".join(tags), digest=config["digest"])
            except ApiError as error:
                if CHANGED not in error.reason:
                    raise
            else:
                return
        reason = f"somebody else changed its configuration {WRITES} times in a row"
        raise SiteError("machine", self._name, reason, "run the command again")

    def _clear(self) -> None:
        """Remove the machines that a task which was killed has left with disks of it."""
        carrier.wait_for_tasks(self._client, self._machine.node)
        for found in carrier.carriers(self._client, self._owner, self._desktop):
            found.require_nobody_else()
            found.remove()

    def _require_settled(self) -> None:
        """Raise `SiteError` while another operator's machine is at it, or a restore of it broke off."""
        systems = self._systems()
        if systems.busy not in ("", this_host()) and systems.until > time.time():
            reason = "another operator's machine has exchanged its system, or is at it"
            moment = time.strftime("%H:%M", time.gmtime(systems.until))
            raise SiteError("desktop", self._desktop, reason, f"run it there, or here after {moment} UTC")
        if copies(self._client, self._owner, self._desktop, RESTORE):
            again = f"{self._owner.workspace}/{self._desktop}"
            raise SiteError("desktop", self._desktop, "a restore of it broke off", f"run backup.restore {again} again")

    def _require_off(self) -> None:
        """A disk that is used would be torn out of the machine (vmconfig_update_disk)."""
        if (state := MachinePower(self._client, self._machine.node, self._machine.vm_id).state()) != "stopped":
            raise SiteError("machine", self._name, f"is {state}: its disk stays", "stop it first")

    def _require_room(self, size_gib: int) -> None:
        """A linked clone grows: it needs a part of its size, as a new machine does."""
        storage = self._client.cluster.storages.disks
        status = self._client.get(f"nodes/{self._machine.node}/storage/{quoted(storage)}/status")
        free, needed = int(status.get("avail") or 0) >> 20, int(size_gib * 1024 * DISK_PART)
        if free < needed:
            reason = f"{free} MiB are free on {self._machine.node}; another system disk needs {needed}"
            raise SiteError("storage", storage, reason, "delete backups or disks that lie there, or add space")

    def _node_of(self, template: int) -> str:
        rows = self._client.get("cluster/resources", type="vm")
        return next(str(row["node"]) for row in rows if row.get("vmid") == template)


def _spared(systems: Systems) -> Systems:
    """The kept disk is one that is to go."""
    spare = (systems.kept,) if systems.kept else ()
    return replace(systems, kept=None, kept_image=None, spare=(*systems.spare, *spare))


def _unused(config: Mapping[str, Any]) -> dict[str, str]:
    """The names of the unused disks, with their keys; the one that comes next is not among them."""
    found = {key: volume_name(volume_of(str(value))) for key, value in config.items() if key.startswith("unused")}
    return {name: key for key, name in found.items() if key != STAGED}


def _is_so(config: Mapping[str, Any], drives: Mapping[str, str]) -> bool:
    return all(volume_of(str(config.get(disk, ""))) == volume_of(drive) for disk, drive in drives.items())


def _end() -> int:
    return int(time.time()) + WORK_SECONDS
