"""The networks of a cluster: what is configured, and its coming into force on all nodes."""

from typing import Any

from deskyard.proxmox.client import Client
from deskyard.proxmox.task import finish

APPLY_SECONDS = 300.0


def vnets(client: Client) -> list[dict[str, Any]]:
    """The VNets, with what is configured of each and not in force yet."""
    rows: list[dict[str, Any]] = client.get("cluster/sdn/vnets", pending=True)
    return rows


def apply(client: Client) -> None:
    """Bring what is pending into force, what others have left pending too."""
    finish(client, client.put("cluster/sdn"), APPLY_SECONDS)
