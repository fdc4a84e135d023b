"""Disks that go from machine to machine, and one that takes the place of another.

Read in qemu-server e6352be6: PVE/API2/Qemu.pm (move_vm_disk with `target-vmid`, update_vm_api), PVE/QemuServer.pm
(vmconfig_apply_pending, vmconfig_hotplug_pending, vmconfig_update_disk, vmconfig_register_unused_drive,
write_vm_config); in pve-guest-common 4a8f6cbf: PVE/AbstractConfig.pm (add_unused_volume); in pve-storage 0c56bad8:
rename_volume of each plugin. `protection` forbids to take a disk out or to delete one, not to move or exchange it.
"""

import re
from collections.abc import Awaitable, Callable
from typing import Any

from fakepve.model import PveError, TaskError
from fakepve.qemu import DRIVE_KEY, boot_order, drives_of, is_cdrom, split_drive, volume_ref

from tests.support.pve.cluster import Routes
from tests.support.pve.sdn import failed

Values = dict[str, Any]
UNUSED = re.compile(r"unused(\d+)")


class MovedDiskApi:
    """Part of the peer. What a volume holds goes with it, under whatever name."""

    storages: dict[str, Values]
    need_quorum: Callable[[], None]
    require: Callable[[str, str, str], None]
    task: Callable[..., Awaitable[str]]
    find: Callable[[str, int], Any]
    vm: Callable[[int], Any]
    _qm_volume: Callable[[str], Values | None]
    _qm_free_name: Callable[..., str]
    _volume_name: Callable[..., tuple[str, str]]
    _qm_free: Callable[[str], None]
    _qm_check_protection: Callable[[Any, str], None]
    _check_lock: Callable[[Any], None]

    def _routes_moved_disks(self) -> Routes:
        return [("POST", "/nodes/{node}/qemu/{vmid}/move_disk", self._move_disk)]

    async def _apply_config(self, vm: Any, user: str, changes: Values) -> None:
        """PUT and POST .../config: a disk whose place another one takes, or that is taken out, stays as unused.

        One that is used is not among those. Only what is wrong is refused before any disk is made.
        """
        if changes.get("digest") not in (None, "", vm.digest()):
            raise PveError(500, "checksum mismatch (file change by other user?)")
        gone = [key for key in str(changes.get("delete") or "").split(",") if key in vm.config]
        for key in [key for key in gone if DRIVE_KEY.match(key)]:
            self._qm_check_protection(vm, f"can't remove drive '{key}'")
        for key in [key for key in gone if UNUSED.fullmatch(key)]:
            self._qm_check_protection(vm, f"can't remove unused disk '{vm.config[key]}'")
            self._qm_free(str(vm.config[key]))
        touched = [key for key in (*changes, *gone) if DRIVE_KEY.match(key) and key in vm.config]
        before = {key: split_drive(vm.config[key])[0] for key in touched}
        await super()._apply_config(vm, user, changes)  # type: ignore[misc]
        _hotplug(vm)
        used = {volume for _, volume, _ in drives_of(vm.config)}
        for key, volume in before.items():
            known = self._qm_volume(volume)
            if known is not None and known.get("vmid") == vm.vmid and volume not in used and _is_disk(key, volume):
                _add_unused(vm.config, volume)
        for key in [key for key in vm.config if UNUSED.fullmatch(key) and vm.config[key] in used]:
            del vm.config[key]

    async def _move_disk(self, values: Values, user: str) -> str:
        """POST .../move_disk to another machine of the node; to another storage it is not asked for."""
        key, to = str(values["disk"]), values.get("target-vmid")
        source, target_key = self.find(values["node"], values["vmid"]), str(values.get("target-disk") or key)
        self.require(user, f"/vms/{source.vmid}", "VM.Config.Disk")
        if to is None or values.get("storage"):
            raise PveError(501, "the peer moves disks to machines alone")
        self.require(user, f"/vms/{to}", "VM.Config.Disk")
        if int(to) == source.vmid:
            raise failed(**{"target-vmid": "must be different than source VMID to reassign disk"})
        self._check_move(source, key, int(to), target_key)
        volume = split_drive(source.config[key])[0]
        self.require(user, f"/storage/{volume_ref(volume)[0]}", "Datastore.AllocateSpace")

        async def body() -> None:
            self.need_quorum()
            try:
                target = self._check_move(source, key, int(to), target_key)
            except PveError as error:
                raise TaskError(str(error)) from error
            renamed = self._rename(volume, target.vmid)
            _, _, options = source.config.pop(key).partition(",")
            order = str(source.config.get("boot", ""))
            left = [device for device in order.removeprefix("order=").split(";") if device != key]
            if order.startswith("order="):
                source.config["boot"] = f"order={';'.join(left)}"
            elif not order:
                source.config["boot"] = boot_order(source.config) or "order="
            unused = UNUSED.fullmatch(target_key) or not options
            target.config[target_key] = renamed if unused else f"{renamed},{options}"

        what = f"{source.vmid}-{key}>{to}-{target_key}"
        return await self.task(source.node, "qmmove", what, user, body)

    def _check_move(self, source: Any, key: str, to: int, target_key: str) -> Any:
        """What is checked before the task, and again in it: the machine that gets the disk."""
        target = self.vm(to)
        if target is None:
            raise PveError(500, f"could not find target VM {to}")
        if target.node != source.node:
            raise PveError(500, f"Both VMs need to be on the same node ({source.node} != {target.node})")
        for vm in (source, target):
            self._check_lock(vm)
            if vm.template:
                raise PveError(500, "Can't move disks from or to template VMs")
        if key not in source.config:
            raise PveError(500, f"Disk '{key}' for VM '{source.vmid}' does not exist")
        if target_key in target.config:
            raise PveError(500, f"Target disk key '{target_key}' is already in use for VM '{to}'")
        volume, options = split_drive(source.config[key])
        if is_cdrom(volume, options):
            raise PveError(500, "CD drive contents can't be moved to another VM")
        if any(volume == held for shot in source.snapshots.values() for _, held, _ in drives_of(shot)):
            raise PveError(500, "Can't move disk used by a snapshot to another VM")
        if source.status == "running" and not UNUSED.fullmatch(key):
            raise PveError(500, "Cannot move disk to another VM while the source VM is running - detach first")
        return target

    def _rename(self, volume: str, vmid: int) -> str:
        """PVE::Storage::rename_volume: the next free name of the machine, in the same storage, on the same base."""
        sid, name = volume_ref(volume)
        store = self.storages[sid]
        known = store["volumes"].pop(name)
        base = name.rpartition("/")[0].rpartition("/")[0] if known.get("base") else ""
        free, _ = self._volume_name(store, vmid, known["format"], self._qm_free_name(sid, vmid, known["format"]))
        renamed = f"{base}/{free}" if base else free
        store["volumes"][renamed] = {**known, "vmid": vmid}
        return f"{sid}:{renamed}"


def _hotplug(vm: Any) -> None:
    """Disks of SCSI come, change their caps and go while a machine runs: the one that it started from, too."""
    for key in [key for key in vm.pending if re.fullmatch(r"scsi\d+|unused\d+", key)]:
        value = vm.pending.pop(key)
        if value is None:
            vm.config.pop(key, None)
        else:
            vm.config[key] = value


def _add_unused(config: Values, volume: str) -> None:
    """The lowest free key; none where it is unused already."""
    there = {key: value for key, value in config.items() if UNUSED.fullmatch(key)}
    if volume not in there.values():
        config[next(f"unused{number}" for number in range(256) if f"unused{number}" not in there)] = volume


def _is_disk(key: str, volume: str) -> bool:
    return DRIVE_KEY.match(key) is not None and "cloudinit" not in volume
