"""Snapshots of machines: what is kept of each, what comes back, and where their memory lies.

Read in qemu-server 8.4.10 (PVE/API2/Qemu.pm, PVE/QemuConfig.pm) and pve-guest-common 5.2.2 (PVE/AbstractConfig.pm), and
held against its real services: docs/proxmox.md. fakepve leaves a machine off whose memory came back, takes no room for
memory, and has no `feature`.
"""

import re
import time
import uuid
from collections.abc import Awaitable, Callable
from typing import Any

from fakepve.model import TaskError
from fakepve.qemu import drives_of

from tests.support.pve.cluster import Routes

Values = dict[str, Any]
MIB = 1024**2
# Beside twice the memory, so that it can be written while the machine goes on (__snapshot_save_vmstate).
DRIVER_STATE_MIB = 500
OF_SNAPSHOT = ("snapstate", "snaptime", "vmstate", "description", "runningmachine", "runningcpu")


class SnapshotApi:
    """Part of the peer; `came_back` says which machines went on from a snapshot's memory, and of when that was.

    `rollback_refusal` is why a storage goes back to no snapshot (volume_rollback_is_possible).
    """

    came_back: dict[int, int]
    rollback_refusal: str
    require: Callable[[str, str, str], None]
    need_quorum: Callable[[], None]
    task: Callable[..., Awaitable[str]]
    find: Callable[[str, int], Any]
    vm: Callable[[int], Any]
    missing_disks: Callable[[Any], list[str]]
    _qm_lock: Callable[[Any, str | None], None]
    _qm_alloc: Callable[..., tuple[str, str]]
    _qm_free: Callable[[str], None]
    _qm_can_snapshot: Callable[[Values], bool]

    def _routes_snapshots(self) -> Routes:
        return [("GET", "/nodes/{node}/qemu/{vmid}/feature", self._feature)]

    async def _feature(self, values: Values, _: str) -> Values:
        """GET .../feature: whether each disk is where snapshots are kept (vm_feature, has_feature)."""
        config = self.find(values["node"], values["vmid"]).config
        return {"hasFeature": int(self._qm_can_snapshot(config)), "nodes": [values["node"]]}

    async def _qm_snapshot(self, values: Values, user: str) -> str:
        """POST .../snapshot: the memory of one that runs lies where its first disk does (find_vmstate_storage)."""
        vm, name = self.find(values["node"], values["vmid"]), values["snapname"]
        exists = name in vm.snapshots
        upid: str = await super()._qm_snapshot(values, user)  # type: ignore[misc]
        if not exists and (snapshot := vm.snapshots.get(name, {})).get("vmstate"):
            volumes = [volume for _, volume, _ in drives_of(vm.config, skip_cdrom=True)]
            storage = volumes[0].partition(":")[0] if volumes else "local"
            size = 2 * int(str(vm.config.get("memory", 512))) + DRIVER_STATE_MIB
            snapshot["vmstate"], _ = self._qm_alloc(storage, vm.vmid, "raw", size * MIB)
            snapshot.update(runningmachine="pc-i440fx-9.2+pve1", runningcpu="kvm64")
        return upid

    async def _qm_rollback(self, values: Values, user: str) -> str:
        """POST .../snapshot/{snapname}/rollback: stops the machine, then its disks and configuration come back.

        With memory it goes on; without it is off, unless `start` is asked for.
        """
        vm, name = self.find(values["node"], values["vmid"]), values["snapname"]
        starts = str(values.get("start", "0")) == "1"
        if starts:
            self.require(user, f"/vms/{vm.vmid}", "VM.PowerMgmt")
        self.need_quorum()

        async def body() -> None:
            snapshot = self._found(vm, name)
            if self.rollback_refusal:
                raise TaskError(self.rollback_refusal)
            if snapshot.get("snapstate"):
                raise TaskError(f"unable to rollback to incomplete snapshot (snapstate = {snapshot['snapstate']})")
            if vm.lock:
                raise TaskError(f"VM is locked ({vm.lock})")
            self._qm_lock(vm, "rollback")
            vm.status = vm.qmpstatus = "stopped"
            vm.config, vm.pending = _config_of(vm, snapshot, name), {}
            self._qm_lock(vm, None)
            if not snapshot.get("vmstate") and not starts:
                return
            if missing := self.missing_disks(vm):
                raise TaskError(f"volume '{missing[0]}' does not exist")
            vm.status = vm.qmpstatus = "running"
            vm.started_at = time.time()
            if snapshot.get("vmstate"):
                self.came_back[vm.vmid] = int(snapshot["snaptime"])

        return await self.task(vm.node, "qmrollback", vm.vmid, user, body, vm=vm, lock=False)

    async def _qm_snapshot_delete(self, values: Values, user: str) -> str:
        """DELETE .../snapshot/{snapname}: its memory's volume goes.

        One whose disks were never kept goes with `force` alone.
        """
        vm, name = self.find(values["node"], values["vmid"]), values["snapname"]
        snapshot = vm.snapshots.get(name, {})
        if snapshot.get("snapstate") == "prepare" and str(values.get("force", "0")) != "1":

            async def body() -> None:
                self._qm_lock(vm, "snapshot-delete")
                raise TaskError(f"qemu-img: Could not delete snapshot '{name}': snapshot not found")

            return await self.task(vm.node, "qmdelsnapshot", vm.vmid, user, body)
        upid: str = await super()._qm_snapshot_delete(values, user)  # type: ignore[misc]
        if name not in vm.snapshots and snapshot.get("vmstate"):
            self._qm_free(snapshot["vmstate"])
        return upid

    async def _qm_destroy(self, values: Values, user: str) -> str:
        """DELETE /nodes/{node}/qemu/{vmid}: the memory of its snapshots goes with it (PVE::QemuServer, destroy_vm)."""
        vm = self.find(values["node"], values["vmid"])
        memory = [snapshot["vmstate"] for snapshot in vm.snapshots.values() if snapshot.get("vmstate")]
        upid: str = await super()._qm_destroy(values, user)  # type: ignore[misc]
        if self.vm(vm.vmid) is None:
            for volume in memory:
                self._qm_free(volume)
        return upid

    @staticmethod
    def _found(vm: Any, name: str) -> Values:
        if vm.template:
            raise TaskError("you can't rollback if vm is a template")
        if name not in vm.snapshots:
            raise TaskError(f"snapshot '{name}' does not exist")
        found: Values = vm.snapshots[name]
        return found


def _config_of(vm: Any, snapshot: Values, name: str) -> Values:
    """What a machine's configuration is after it went back: description and unused disks are those of now."""
    kept = {key: value for key, value in vm.config.items() if key == "description" or re.fullmatch(r"unused\d+", key)}
    then = {key: value for key, value in snapshot.items() if key not in OF_SNAPSHOT}
    there = {volume for _, volume, _ in drives_of(then, skip_cdrom=True)}
    for _, volume, _ in drives_of(vm.config, skip_cdrom=True):
        if volume not in there:
            # A disk that was added since is kept beside it (__snapshot_rollback_get_unused).
            kept[next(f"unused{number}" for number in range(256) if f"unused{number}" not in kept)] = volume
    # Every guest is to know that it is another generation of itself (__snapshot_rollback_hook).
    generation = {"vmgenid": str(uuid.uuid4())} if "vmgenid" in then else {}
    return {**kept, **then, **generation, "parent": name}
