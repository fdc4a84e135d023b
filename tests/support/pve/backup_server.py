"""Storages of type `pbs`: a Proxmox Backup Server, as the cluster shows it. No files, and nothing else but backups.

Read in pve-storage 0c56bad8 (PVE/Storage/PBSPlugin.pm: print_volid, parse_volname, list_volumes, activate_storage,
pbs_open_encryption_key, free_image, update_volume_attribute), qemu-server e6352be6 (PVE/VZDump/QemuServer.pm,
archive_pbs; PVE/QemuServer.pm, restore_proxmox_backup_archive), pve-manager 14a22df3 (PVE/VZDump.pm, exec_backup_task;
PVE/API2/VZDump.pm, extractconfig), pve-common f665029 (PVE/Cmd.pm: the last line of a program is what a call says of
it) and proxmox-backup 4940514b (src/api2/admin/datastore.rs: list_snapshots, delete_snapshot;
pbs-datastore/src/manifest.rs, check_fingerprint; src/backup/hierarchy.rs; src/api2/backup/mod.rs).
"""

import re
import time
from collections.abc import Callable, Mapping
from typing import Any

from fakepve.model import PveError, TaskError
from fakepve.qemu import drives_of

from tests.support.pve.disks import bytes_of

Values = dict[str, Any]
NAME = re.compile(r"backup/(vm|ct|host)/([^\s_/]+)/(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ)")
# What a list of volumes says of this type alone.
SHOWN = ("subtype", "verification", "encrypted")


class BackupServerApi:
    """Part of the peer; what such a storage is, beside its options, is in these words of `storages`.

    `unreachable`: nobody answers at the server. `key`: the fingerprint of the key file on the nodes; `encryption-key`:
    the one that the storage is configured with. `keeps`: the server's account may not prune. `full`: it is.
    """

    storages: dict[str, Values]
    tasklog: list[Values]
    archives: dict[str, Values]
    require: Callable[[str, str, str], None]
    allowed: Callable[[str, str, str], bool]
    _check_access: Callable[..., None]
    _check_enabled: Callable[[str, str], Values]
    _volume_target: Callable[[Values], tuple[Any, ...]]

    def _active_store(self, name: str, node: str) -> Values:
        store = self._check_enabled(name, node)
        if store["type"] == "pbs" and store.get("unreachable"):
            raise PveError(500, f"{name}: {_silent(store)}")
        active: Values = super()._active_store(name, node)  # type: ignore[misc]
        return active

    def _parse_volname(self, store: Values, volname: str) -> tuple[str, int | None, str]:
        if store["type"] != "pbs":
            parsed: tuple[str, int | None, str] = super()._parse_volname(store, volname)  # type: ignore[misc]
            return parsed
        found = NAME.fullmatch(volname)
        if found is None:
            raise PveError(500, f"unable to parse PBS volume name '{volname}'")
        return "backup", int(found[2]) if found[2].isdecimal() else None, f"pbs-{found[1]}"

    def _item(self, name: str, volname: str, volume: Values) -> Values:
        item: Values = super()._item(name, volname, volume)  # type: ignore[misc]
        if self.storages[name]["type"] == "pbs":
            # `protected` is there if it is; of notes there is the first line (list_snapshots, `comment`).
            item |= {key: volume[key] for key in SHOWN if key in volume}
            item |= {"notes": str(volume["notes"]).partition("\n")[0]} if "notes" in volume else {}
            item = {key: value for key, value in item.items() if key != "protected" or value}
        return item

    async def _content_put(self, values: Values, user: str) -> None:
        storage, name, volid, store, kind, owner, _ = self._volume_target(values)
        if store["type"] != "pbs":
            await super()._content_put(values, user)  # type: ignore[misc]
            return
        self._check_access(user, storage, kind, owner, volid)
        if store.get("unreachable"):
            raise PveError(500, f"proxmox-backup-client failed: Error: {_silent(store)}")
        if name not in store["volumes"]:
            raise PveError(500, "proxmox-backup-client failed: Error: unable to load blob")
        store["volumes"][name] |= {key: values[key] for key in ("notes", "protected") if key in values}

    async def _content_delete(self, values: Values, user: str) -> Any:
        *_, store, _, _, _ = self._volume_target(values)
        return await (self._forget(values, user) if store["type"] == "pbs" else super()._content_delete(values, user))  # type: ignore[misc]

    async def _forget(self, values: Values, user: str) -> str:
        """DELETE .../content/{volume}: `forget`; its room is free once the server has collected its garbage."""
        storage, name, volid, store, _, owner, _ = self._volume_target(values)
        self.require(user, f"/storage/{storage}", "Datastore.AllocateSpace")
        self.require(user, f"/vms/{owner}", "VM.Backup")

        async def body() -> str:
            if wrong := self._kept_from_going(store, store["volumes"].get(name)):
                raise TaskError(f"proxmox-backup-client failed: Error: {wrong}")
            del store["volumes"][name]
            return f"Removed volume '{volid}'"

        upid: str = await self.task(values["node"], "imgdel", f"{owner}@{storage}", user, body, lock=False)  # type: ignore[attr-defined]
        return upid

    @staticmethod
    def _kept_from_going(store: Values, volume: Values | None) -> str:
        if store.get("unreachable"):
            return _silent(store)
        if store.get("keeps"):
            return "permission check failed - missing Datastore.Modify|Datastore.Prune on /datastore/desks"
        if volume is None:
            return "unable to load blob"
        return "cannot remove protected snapshot" if volume.get("protected") else ""

    async def _extract_config(self, values: Values, user: str) -> str:
        """GET /nodes/{node}/vzdump/extractconfig: the configuration in a backup, without a task."""
        storage, name, volume, store, kind, owner, _ = self._volume_target(values)
        self._check_access(user, storage, kind, owner, volume)
        if wrong := self._unreadable(store, store["volumes"].get(name)):
            raise PveError(500, wrong if wrong.startswith("encryption") else f"proxmox-backup-client failed: {wrong}")
        return "".join(f"{key}: {value}\n" for key, value in self.archives[volume].items())

    @staticmethod
    def _unreadable(store: Values, volume: Values | None) -> str:
        """Why nothing of a backup can be read: the keys are looked at before any byte of its disks."""
        if store["type"] != "pbs":
            return ""
        if store.get("unreachable"):
            return f"Error: {_silent(store)}"
        configured, key = store.get("encryption-key"), store.get("key")
        if configured and not key:
            return _no_key_file(configured)
        made_with = (volume or {}).get("encrypted")
        if not made_with or key == made_with:
            return ""
        if key:
            return f"Error: wrong key - manifest's key {made_with} does not match provided key {key}"
        return f"Error: missing key - manifest was created with key {made_with}"

    def _say(self, kind: str, line: str) -> None:
        """A line in the log of the task of this kind that runs."""
        running = next(task for task in reversed(self.tasklog) if task["type"] == kind and task["status"] == "running")
        running["log"].append(line)

    def _to_server(self, store: Values, vm: Any, moment: float) -> tuple[str, Values]:
        """The name and the volume of a new backup; `compress` is for files, and means nothing here.

        Raises `TaskError` for a server that takes none: then it keeps nothing of it. `size` is that of all disks.
        """
        configured, key = store.get("encryption-key"), store.get("key")
        if configured and not key:
            self._fail(vm, _no_key_file(configured))
        if store.get("full"):
            self._fail(vm, "backup write data failed: command error: write_data upload error: No space left on device")
        last = max((name for name in store["volumes"] if name.startswith(f"backup/vm/{vm.vmid}/")), default="")
        # The server refuses one that is no later than the last; a real one takes longer than a second.
        form = f"backup/vm/{vm.vmid}/%Y-%m-%dT%H:%M:%SZ"
        names = (time.strftime(form, time.gmtime(moment + later)) for later in range(3600))
        drives = drives_of(vm.config, skip_cdrom=True)
        size = sum(bytes_of(options["size"]) for _, volume, options in drives if "cloudinit" not in volume)
        encrypted = {"encrypted": key} if key else {}
        return next(name for name in names if name > last), {
            "format": "pbs-vm",
            "subtype": "qemu",
            "size": size,
            **encrypted,
        }

    def _fail(self, vm: Any, why: str) -> None:
        self._say("vzdump", f"ERROR: Backup of VM {vm.vmid} failed - {why}")
        raise TaskError("job errors")


def _silent(store: Mapping[str, Any]) -> str:
    return f"error fetching datastores - 500 Can't connect to {store['server']}:8007 (Connection refused)"


def _no_key_file(configured: str) -> str:
    return f"encryption configured ('{configured}') but no encryption key file found!"
