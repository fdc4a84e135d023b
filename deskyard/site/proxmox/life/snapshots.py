"""Snapshots of machines of a cluster.

Read in qemu-server 8.4.10 (PVE/API2/Qemu.pm: snapshot_list, snapshot, rollback, delsnapshot, vm_feature;
PVE/QemuConfig.pm), pve-guest-common 5.2.2 (PVE/AbstractConfig.pm: snapshot_create, snapshot_rollback, snapshot_delete)
and pve-storage 8.3.8 (volume_rollback_is_possible). Each wants a machine that is not locked; one whose memory is on
disk is. `protection` and being a linked clone are in the way of none. Firewall rules are in a file of their own, which
no rollback touches.
"""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from deskyard.errors import SiteError
from deskyard.plan.snapshot import Snapshot, oldest_first
from deskyard.site.proxmox.client import quoted
from deskyard.site.proxmox.life.power import MachinePower
from deskyard.site.proxmox.machine import DISK, ClusterMachine, is_running
from deskyard.site.proxmox.task import wait_task

# The machine as it is now, in the list of its snapshots: its parent is the snapshot that it goes on from.
NOW = "current"
# Beside twice the memory, so that it can be written while the machine goes on.
DRIVER_STATE = 500 << 20
# ZFS and chains of volumes go back to the newest alone (pve-storage, ZFSPoolPlugin.pm).
NOT_NEWEST = "is not most recent snapshot"


class MachineSnapshots(ClusterMachine):
    """The snapshots of one machine."""

    def listed(self) -> list[Snapshot]:
        """The snapshots, the oldest first; those that were interrupted are among them, so that they can be deleted."""
        rows = self._rows()
        here = next((row.get("parent") for row in rows if row["name"] == NOW), None)
        return oldest_first([_seen(row, current=row["name"] == here) for row in rows if row["name"] != NOW])

    def take(self, wanted: Snapshot) -> None:
        """Take a snapshot: of disk and memory while the machine runs, of the disk alone while it is off.

        Raises `SiteError` where a disk is on a storage that keeps no snapshots, such as a raw file in a folder: the
        cluster says so before anything is begun (vm_feature), and its task would say no more than that.
        """
        status = self._unlocked("no snapshot can be taken of it")
        if status.get("qmpstatus") == "io-error":
            reason = "is io-error: no snapshot can be taken of it"
            raise SiteError("machine", self.name, reason, "make room on its storage, then start it")
        if not self.client.get(f"{self._path}/feature", feature="snapshot").get("hasFeature"):
            reason = "has a disk whose storage keeps no snapshots"
            remedy = "move the disk to LVM-thin, ZFS, Ceph or a qcow2 file: proxmox.storages.disks in the site's file"
            raise SiteError("machine", self.name, reason, remedy)
        given = {"description": wanted.description} if wanted.description else {}
        memory = status.get("status") == "running"
        if memory:
            self._require_room(status)
        upid = self.client.post(self._path + "/snapshot", snapname=wanted.name, vmstate=memory, **given)
        wait_task(self.client, upid)

    def restore(self, name: str) -> bool:
        """Bring disk, memory and configuration back to what they were; whether the machine runs from its memory.

        The configuration is that of then: tags, start with the node, cores, memory, NICs. The description and the
        firewall's rules stay as they are, and so does what the machine is wanted to be. Without memory it is off.
        """
        self._unlocked("it cannot go back")
        state = self._row(name).get("snapstate")
        if state:
            reason = f"was interrupted ({state}), and nothing can go back to it"
            raise SiteError("snapshot", name, reason, "delete it: ./inv snapshot.delete")
        power = MachinePower(self.client, self.node, self.vm_id)
        wish = power.hold_wish()
        try:
            wait_task(self.client, self.client.post(f"{self._path}/snapshot/{quoted(name)}/rollback"))
        except SiteError as error:
            # The configuration of then may be back although its memory is not; the first error is the one to show.
            with suppress(SiteError):
                power.want(wish)
            if NOT_NEWEST not in error.reason:
                raise
            reason = f"{self.name} has newer ones, and its storage goes back to the newest alone"
            raise SiteError("snapshot", name, reason, "delete those that were taken after it") from error
        power.want(wish)
        return is_running(self.client, self.node, self.vm_id)

    def delete(self, name: str) -> None:
        """Delete a snapshot; those that were taken after it stay whole.

        What is left of an interrupted one goes although its disk may have none of it (`force`).
        """
        self._unlocked("no snapshot of it can be deleted")
        given = {"force": True} if self._row(name).get("snapstate") else {}
        wait_task(self.client, self.client.delete(f"{self._path}/snapshot/{quoted(name)}", **given))

    def _require_room(self, status: Mapping[str, Any]) -> None:
        """Memory lies where the first disk does, and takes twice its size at first (__snapshot_save_vmstate)."""
        storage = str(self.client.get(f"{self._path}/config").get(DISK, "")).partition(":")[0]
        if not storage:
            return
        free = int(self.client.get(f"nodes/{self.node}/storage/{quoted(storage)}/status").get("avail") or 0)
        needed = 2 * int(status.get("maxmem") or 0) + DRIVER_STATE
        if free < needed:
            reason = f"{free >> 20} MiB are free on {self.node}; a snapshot of its memory takes {needed >> 20}"
            remedy = "delete snapshots, add space, or stop the desktop first: one of a disk alone takes no memory"
            raise SiteError("storage", storage, reason, remedy)

    def _unlocked(self, so: str) -> Mapping[str, Any]:
        """How the machine is; raises `SiteError` while it is locked (PVE::AbstractConfig, check_lock)."""
        status: Mapping[str, Any] = self.client.get(f"{self._path}/status/current")
        lock = status.get("lock")
        if lock == "suspended":
            raise SiteError("machine", self.name, f"is saved: {so}", "start it, or pull its plug, first")
        if lock:
            remedy = f"wait until that has ended; if nothing goes on any more, on {self.node}: qm unlock {self.vm_id}"
            raise SiteError("machine", self.name, f"is locked ({lock}): {so}", remedy)
        return status

    def _row(self, name: str) -> Mapping[str, Any]:
        for row in self._rows():
            if row["name"] == name and name != NOW:
                return row
        raise SiteError("snapshot", name, f"{self.name} has no such snapshot", "list those that are there")

    def _rows(self) -> list[Mapping[str, Any]]:
        return list(self.client.get(f"{self._path}/snapshot"))


def _seen(row: Mapping[str, Any], *, current: bool) -> Snapshot:
    seen = Snapshot(
        name=str(row["name"]),
        memory=bool(int(row.get("vmstate") or 0)),
        made=int(row.get("snaptime") or 0),
        parent=row.get("parent"),
        current=current,
        interrupted=bool(row.get("snapstate")),
    )
    return seen.described(str(row.get("description") or ""))
