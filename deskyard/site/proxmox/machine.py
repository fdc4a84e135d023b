"""Machines of ours, template or clone, and where the API has them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from deskyard.site.proxmox.client import ApiError, Client

# A linked clone has its disk where its template has it.
DISK = "scsi0"
CPU = "x86-64-v2-AES"
OS_TYPE = "l26"


def vm_path(node: str, vm_id: int) -> str:
    """Where the API has a machine."""
    return f"nodes/{node}/qemu/{vm_id}"


@dataclass(frozen=True)
class ClusterMachine:
    """A machine where it is now: what is asked of it, or moves it, goes to its path in the API."""

    client: Client
    node: str
    vm_id: int

    @property
    def name(self) -> str:
        """The machine, for errors."""
        return f"{self.vm_id} on {self.node}"

    @property
    def _path(self) -> str:
        return vm_path(self.node, self.vm_id)


def runs(status: Mapping[str, Any]) -> bool:
    """Whether `status/current` is that of a machine that runs.

    For the backup of one that is off its QEMU is started and reads the disks; the guest is not (qemu-server e6352be6,
    PVE/VZDump/QemuServer.pm, enforce_vm_running_for_backup).
    """
    is_read_only = status.get("qmpstatus") == "prelaunch" and status.get("lock") == "backup"
    return status.get("status") == "running" and not is_read_only


def is_running(client: Client, node: str, vm_id: int) -> bool:
    """Whether a machine runs by its own status: the cluster's list learns of a start some seconds later."""
    return runs(client.get(f"{vm_path(node, vm_id)}/status/current"))


def node_of(client: Client, vm_id: int) -> str | None:
    """The node that has this machine now; None if the cluster has no such machine."""
    for row in client.get("cluster/resources", type="vm"):
        if row.get("vmid") == vm_id:
            return str(row["node"])
    return None


def ensure_pool(client: Client, pool: str, comment: str) -> None:
    """Make a pool through which the token reaches machines, if it is not there."""

    def there() -> bool:
        return any(row.get("poolid") == pool for row in client.get("pools"))

    if there():
        return
    try:
        client.post("pools", poolid=pool, comment=comment)
    except ApiError:
        # Another one may have been faster, or the answer alone was lost.
        if not there():
            raise
