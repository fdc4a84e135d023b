"""Backups that a cluster makes of its machines: vzdump to a storage of content `backup`.

Read in pve-manager 14a22df3 (PVE/API2/VZDump.pm, PVE/API2/Backup.pm, PVE/VZDump.pm): who may, what is refused at once
and what the task refuses, when the archive gets its name and when its notes. What is kept is a name and a size, no
content. fakepve lists, notes and deletes volumes.
"""

import re
import time
from collections.abc import Awaitable, Callable
from typing import Any

from fakepve.model import TaskError

from tests.support.pve.cluster import Routes
from tests.support.pve.sdn import failed

Values = dict[str, Any]
# PVE/API2/Backup.pm, assert_param_permission_common.
ROOT_ONLY, MODIFY = ("tmpdir", "dumpdir", "script", "job-id"), ("bwlimit", "ionice", "performance")
VARIABLES = ("cluster", "guestname", "node", "vmid")


class BackupApi:
    """Part of the peer; `backup_faults` are what goes wrong with each backup.

    `read`: the disks cannot be read to their end. `notes`: no notes can be written. `late`: the task fails with its
    archive made, as where a hook fails. `empty`: an archive of no size. Each archive is of `backup_bytes`.
    """

    backup_faults: set[str]
    backup_bytes: int
    storages: dict[str, Values]
    allowed: Callable[[str, str, str], bool]
    require: Callable[[str, str, str], None]
    task: Callable[..., Awaitable[str]]
    vm: Callable[[int], Any]

    def _routes_backups(self) -> Routes:
        return [("POST", "/nodes/{node}/vzdump", self._vzdump)]

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
            return self._back_up(vm, storage, notes, user, values)

        return await self.task(node, "vzdump", vmid, user, body, lock=False)

    def _back_up(self, vm: Any, storage: str, notes: str, user: str, values: Values) -> str:
        store = self.storages.get(storage)
        if store is None:
            raise TaskError(f"storage '{storage}' does not exist")
        if "backup" not in store["content"].split(","):
            raise TaskError(f"could not get storage information for '{storage}': wrong content type")
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
        moment = time.time()
        names = (self._archive(vm.vmid, moment + later) for later in range(3600))
        name = next(name for name in names if name not in store["volumes"])
        size = 0 if "empty" in self.backup_faults else self.backup_bytes
        volume = {"content": "backup", "format": "vma.zst", "size": size, "vmid": vm.vmid, "ctime": int(moment)}
        store["volumes"][name] = volume
        if notes and "notes" not in self.backup_faults:
            volume["notes"] = re.sub(r"\{\{vmid\}\}", str(vm.vmid), notes)
        for old in sorted(own)[: len(own) + 1 - keep] if keep and int(values.get("remove", 1)) else ():
            del store["volumes"][old]
        if "late" in self.backup_faults:
            raise TaskError("job errors")
        return "INFO:  50% (1.5 MiB of 3.0 MiB) in 1s\nINFO: 100% (3.0 MiB of 3.0 MiB) in 2s"

    @staticmethod
    def _archive(vmid: int, moment: float) -> str:
        return time.strftime(f"backup/vzdump-qemu-{vmid}-%Y_%m_%d-%H_%M_%S.vma.zst", time.localtime(moment))


def wrong_template(text: str) -> str:
    """Why notes cannot be made from this (PVE/VZDump.pm, verify_notes_template); empty if they can."""
    if "\n" in text:
        return "contains a line feed"
    odd = [found for found in re.findall(r"\\(.)", text) if found not in "n\\"]
    odd += [found for found in re.findall(r"\{\{([^\s{}]+)\}\}", text) if found not in VARIABLES]
    return f"found unknown: {', '.join(odd)}" if odd else ""
