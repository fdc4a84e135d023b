"""Backups that a cluster makes of its machines: vzdump to a storage of content `backup`.

Read in pve-manager 14a22df3 (PVE/API2/VZDump.pm, PVE/API2/Backup.pm, PVE/VZDump.pm): who may, what is refused at once
and what the task refuses, when the archive gets its name and when its notes. In qemu-server e6352be6 (PVE/API2/Qemu.pm,
create_vm; PVE/QemuServer.pm, restore_vma_archive, restore_merge_config, restore_update_config_line): who may restore,
and what the restored configuration is. What is kept is a configuration and a size, no content. fakepve lists, notes and
deletes volumes. Where a Proxmox Backup Server differs, `backup_server.py` has it.
"""

import asyncio
import re
import shlex
import time
import uuid
from collections.abc import Awaitable, Callable
from typing import Any

from fakepve.model import FakeVm, PveError, TaskError
from fakepve.qemu import CREATE_ONLY, DRIVE_KEY, drives_of, with_mac

from tests.support.pve.cluster import Routes
from tests.support.pve.disks import bytes_of
from tests.support.pve.sdn import failed

Values = dict[str, Any]
# PVE/API2/Backup.pm, assert_param_permission_common.
ROOT_ONLY, MODIFY = ("tmpdir", "dumpdir", "script", "job-id"), ("bwlimit", "ionice", "performance")
VARIABLES = ("cluster", "guestname", "node", "vmid")


class BackupApi:
    """Part of the peer; `backup_faults` are what goes wrong with each backup.

    `read`: the disks cannot be read to their end. `notes`: no notes can be written. `cut`: the task dies before it has
    written them. `late`: the task fails with its archive made, as where a hook fails. `empty`: an archive of no size.
    `restore`: an archive that is damaged. `long`: the disks are read for as long as it is among them. Each archive is
    of `backup_bytes`; `archives` are the configurations in them.
    """

    backup_faults: set[str]
    backup_bytes: int
    archives: dict[str, Values]
    storages: dict[str, Values]
    allowed: Callable[[str, str, str], bool]
    _may_use_bridges: Callable[[str, Values], None]
    require: Callable[[str, str, str], None]
    task: Callable[..., Awaitable[str]]
    vm: Callable[[int], Any]
    vms: list[Any]
    need_quorum: Callable[[], None]
    _config_priv: Callable[[str], str]
    _check_access: Callable[..., None]
    _qm_perm: Callable[..., None]
    _qm_check_pool: Callable[[str | None], None]
    _qm_taken: Callable[[int], bool]
    _qm_lock: Callable[[Any, str | None], None]
    _qm_volume: Callable[[str], Values | None]
    _qm_alloc: Callable[..., tuple[str, str]]
    _qm_free: Callable[[str], None]
    _pool_join: Callable[[str, int], None]
    _parse_volname: Callable[[Values, str], tuple[str, int | None, str]]
    _active_store: Callable[[str, str], Values]
    _to_server: Callable[..., tuple[str, Values]]
    _unreadable: Callable[..., str]
    _say: Callable[[str, str], None]
    _extract_config: Callable[..., Awaitable[str]]

    def _routes_backups(self) -> Routes:
        return [
            ("POST", "/nodes/{node}/vzdump", self._vzdump),
            ("GET", "/nodes/{node}/vzdump/extractconfig", self._extract_config),
        ]

    async def _vzdump(self, values: Values, user: str) -> str:
        """POST /nodes/{node}/vzdump of one machine; a node that has it not says OK and does nothing."""
        node, vmid, storage = values["node"], int(values["vmid"]), str(values["storage"])
        for key in ROOT_ONLY:
            if key in values and user != "root@pam":
                raise failed(**{key: "Only root may set this option."})
        if any(key in values for key in MODIFY):
            self.require(user, "/", "Sys.Modify")
        if "prune-backups" in values:
            self.require(user, f"/storage/{storage}", "Datastore.Allocate")
        notes = str(values.get("notes-template", ""))
        if wrong := wrong_template(notes):
            raise failed(**{"notes-template": wrong})
        vm = self.vm(vmid)
        if vm is None or vm.node != node:
            return "OK"
        self.require(user, f"/storage/{storage}", "Datastore.AllocateSpace")

        async def body() -> str:
            return await self._back_up(vm, storage, notes, user, values)

        return await self.task(node, "vzdump", vmid, user, body, lock=False)

    async def _back_up(self, vm: Any, storage: str, notes: str, user: str, values: Values) -> str:
        store = self.storages.get(storage)
        if store is None:
            raise TaskError(f"storage '{storage}' does not exist")
        if "backup" not in store["content"].split(","):
            raise TaskError(f"could not get storage information for '{storage}': wrong content type")
        try:
            self._active_store(storage, vm.node)
        except PveError as error:
            raise TaskError(f"could not activate storage '{storage}': {error.message}") from error
        if not self.allowed(user, f"/vms/{vm.vmid}", "VM.Backup"):
            raise TaskError(f"403 Permission check failed (/vms/{vm.vmid}, VM.Backup)")
        if vm.lock or "read" in self.backup_faults:
            # The archive has the name of a temporary file until it is whole; that is deleted.
            raise TaskError("job errors")
        # A storage that keeps some prunes by itself after each, unless it is told not to (`remove`).
        own = [name for name, volume in store["volumes"].items() if volume.get("vmid") == vm.vmid]
        keep = store.get("keep-last")
        if keep and not int(values.get("remove", 1)) and len(own) >= keep:
            raise TaskError("job errors")
        self._say("vzdump", f"INFO: starting new backup job: {command_line(values)}")
        await self._read_disks(vm)
        moment = time.time()
        name, made = (self._to_server if store["type"] == "pbs" else self._to_file)(store, vm, moment)
        volume = {"content": "backup", "vmid": vm.vmid, "ctime": int(moment), **made}
        if "empty" in self.backup_faults:
            # A server says 1 of one that has no index yet (PBSPlugin.pm, list_volumes).
            volume["size"] = 1 if store["type"] == "pbs" else 0
        store["volumes"][name] = volume
        self.archives[f"{storage}:{name}"] = dict(vm.config)
        kept = name.removeprefix("backup/")
        place, target = ("Proxmox Backup Server", kept) if store["type"] == "pbs" else ("vzdump", f"/dump/{kept}")
        self._say("vzdump", f"INFO: creating {place} archive '{target}'")
        if "cut" in self.backup_faults:
            raise TaskError("interrupted by signal")
        if notes:
            self._say("vzdump", "INFO: adding notes to backup")
            if "notes" in self.backup_faults:
                self._say("vzdump", "WARN: unable to add notes - Input/output error")
            else:
                volume["notes"] = re.sub(r"\{\{vmid\}\}", str(vm.vmid), notes)
        for old in sorted(own)[: len(own) + 1 - keep] if keep and int(values.get("remove", 1)) else ():
            del store["volumes"][old]
        if "late" in self.backup_faults:
            raise TaskError("job errors")
        return "INFO:  50% (1.5 MiB of 3.0 MiB) in 1s\nINFO: 100% (3.0 MiB of 3.0 MiB) in 2s"

    async def _read_disks(self, vm: Any) -> None:
        """Locked, and by QEMU: for one that is off that is started, halted before its guest (VZDump/QemuServer.pm).

        Afterwards it is stopped again, unless somebody let its guest run meanwhile.
        """
        self._qm_lock(vm, "backup")
        was_off = vm.status != "running"
        if was_off:
            vm.status, vm.qmpstatus = "running", "prelaunch"
        while "long" in self.backup_faults:
            await asyncio.sleep(0.01)
        if was_off and vm.qmpstatus == "prelaunch":
            vm.status = vm.qmpstatus = "stopped"
        self._qm_lock(vm, None)

    async def _qm_create(self, values: Values, user: str) -> str:
        """POST /nodes/{node}/qemu with `archive`: a machine of a free id is restored; without, fakepve has it.

        With `force` it is restored over one that is there. A restore that fails takes nothing away: what is left has
        no more than `memory: 128`, and is in no pool if it was in none before (create_vm, restore_vma_archive).
        """
        if not values.get("archive"):
            made: str = await super()._qm_create(values, user)  # type: ignore[misc]
            return made
        node, vmid, pool, volume = values["node"], int(values["vmid"]), values.get("pool"), str(values["archive"])
        self.need_quorum()
        self._qm_check_pool(pool)
        if not any(
            self.allowed(user, path, "VM.Allocate") for path in (f"/vms/{vmid}", *([f"/pool/{pool}"] * bool(pool)))
        ):
            raise PveError(403, "Permission check failed")
        given = {key: value for key, value in values.items() if key not in (*CREATE_ONLY, "unique")}
        for key in sorted(given):
            if DRIVE_KEY.match(key):
                raise failed(**{key: "option conflicts with option 'archive'"})
        storage, name = volume.split(":", 1)
        kind, owner, _ = self._parse_volname(self.storages[storage], name)
        if kind != "backup":
            raise PveError(500, f"unable to use volume {volume} - content type needs to be 'backup'")
        self._check_access(user, storage, "backup", owner, volume)
        if "storage" in values:
            self.require(user, f"/storage/{values['storage']}", "Datastore.AllocateSpace")
        for key in sorted(set(given) - {"tags"}):
            self._qm_perm(user, vmid, pool, self._config_priv(key))
        if self._qm_taken(vmid) and not int(values.get("force", 0)):
            raise PveError(500, f"unable to restore VM {vmid} - VM {vmid} already exists on node '{node}'")
        vm = self._locked(vmid, node)

        async def body() -> None:
            self._qm_lock(vm, None)
            if wrong := self._unreadable(self.storages[storage], self.storages[storage]["volumes"].get(name)):
                self._say("qmrestore", wrong)
                raise TaskError(f"command 'proxmox-backup-client restore {name}' failed: exit code 255")
            for _, disk, _ in drives_of(vm.config, skip_cdrom=True):
                self._qm_free(disk)
            vm.config, vm.name = {"memory": "128"}, f"VM {vmid}"
            if volume not in self.archives or "restore" in self.backup_faults:
                if self.storages[storage]["type"] == "pbs":
                    self._say("qmrestore", "Error: Data blob has wrong CRC checksum.")
                    raise TaskError(
                        f"unable to restore VM {vmid} - command '/usr/bin/pbs-restore' failed: exit code 255"
                    )
                raise TaskError(f"unable to restore VM {vmid} - vma: restore failed - short vma extent")
            unique = bool(int(values.get("unique", 0)))
            vm.config = self._restored(vm, volume, values.get("storage"), unique=unique)
            vm.config |= {key: str(value) for key, value in given.items()}
            # PVE/QemuServer.pm, check_restore_permissions, of what is merged.
            try:
                self._may_use_bridges(user, vm.config)
            except PveError as error:
                raise TaskError(f"unable to restore VM {vmid} - {error}") from error
            vm.name = vm.config.get("name") or f"VM {vmid}"
            if pool:
                self._pool_join(pool, vmid)

        return await self.task(node, "qmrestore", vmid, user, body, vm=vm, lock=False)

    def _locked(self, vmid: int, node: str) -> Any:
        """The machine to be restored, locked before the task begins (PVE/AbstractConfig.pm, create_and_lock_config)."""
        vm = self.vm(vmid)
        if vm is None:
            vm = FakeVm(vmid, f"VM {vmid}", node=node)
            vm.config.pop("name", None)
            self.vms.append(vm)
        elif vm.node != node or vm.lock:
            reason = f"VM is locked ({vm.lock})" if vm.lock else f"VM {vmid} already exists on node '{vm.node}'"
            raise PveError(500, f"unable to restore VM {vmid} - {reason}")
        self._qm_lock(vm, "create")
        return vm

    def _restored(self, vm: Any, archive: str, storage: str | None, *, unique: bool) -> Values:
        """The configuration of an archive with disks of its own; `unique` changes addresses and the machine's UUID.

        The volumes of the disks say which archive they hold.
        """
        held = self.archives[archive]
        left = {key: value for key, value in held.items() if key not in ("lock", "parent", "pending")}
        config = {key: value for key, value in left.items() if not re.fullmatch(r"unused\d+", key)}
        for key, kept, options in drives_of(config, skip_cdrom=False):
            if ":" in kept:
                size = bytes_of(options.get("size", "4M"))
                disk, _ = self._qm_alloc(storage or kept.partition(":")[0], vm.vmid, None, size)
                (self._qm_volume(disk) or {})["archive"] = archive
                config[key] = ",".join(
                    [disk, *(f"{name}={value}" for name, value in options.items() if name != "format")]
                )
        if unique:
            for key in [key for key in config if re.fullmatch(r"net\d+", key)]:
                config[key] = with_mac(re.sub(r"=([0-9A-Fa-f]{2}:){5}[0-9A-Fa-f]{2}", "", str(config[key]), count=1))
            config |= {"smbios1": f"uuid={uuid.uuid4()}"} if "smbios1" in config else {}
        return config | ({"vmgenid": str(uuid.uuid4())} if "vmgenid" in config else {})

    def _to_file(self, store: Values, vm: Any, moment: float) -> tuple[str, Values]:
        form = f"backup/vzdump-qemu-{vm.vmid}-%Y_%m_%d-%H_%M_%S.vma.zst"
        names = (time.strftime(form, time.localtime(moment + later)) for later in range(3600))
        name = next(name for name in names if name not in store["volumes"])
        return name, {"format": "vma.zst", "size": self.backup_bytes}


def command_line(values: Values) -> str:
    """The call as vzdump writes it into its log (pve-guest-common, PVE/VZDump/Common.pm)."""
    options = (f"--{key} {shlex.quote(str(value))}" for key, value in values.items() if key != "vmid")
    return f"vzdump {values['vmid']} {' '.join(options)}"


def wrong_template(text: str) -> str:
    """Why notes cannot be made from this (PVE/VZDump.pm, verify_notes_template); empty if they can."""
    if "\n" in text:
        return "contains a line feed"
    odd = [found for found in re.findall(r"\\(.)", text) if found not in "n\\"]
    odd += [found for found in re.findall(r"\{\{([^\s{}]+)\}\}", text) if found not in VARIABLES]
    return f"found unknown: {', '.join(odd)}" if odd else ""
