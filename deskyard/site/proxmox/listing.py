"""The list of a cluster's machines as they are now.

`cluster/resources` has names, sizes, states and the flag of templates from the last round of pvestatd: a new machine
lacks them for up to ten seconds, and one with an id that was used before shows the other machine's (observed on 8.4.21
and 9.2.11). Each node's own list is read from the configurations, but knows no pools.
"""

from collections.abc import Mapping
from typing import Any

from deskyard.errors import SiteError
from deskyard.site.proxmox.client import Client
from deskyard.site.proxmox.each import ask_each

# A machine that is just made is nobody's yet: it has neither pool nor tags.
BEING_MADE = frozenset({"clone", "create"})
# What the node's list calls otherwise.
_RENAMED = {"cpus": "maxcpu"}
_LIVE = ("name", "status", "qmpstatus", "maxmem", "maxdisk", "tags", "lock")


def resources(client: Client, *, full: bool = False) -> list[dict[str, Any]]:
    """The rows of `cluster/resources`, virtual machines as the nodes that are up know them.

    `full`: with `qmpstatus`, for which a node asks each machine that runs, some seconds at most (`vmstatus` of
    qemu-server 8.3.12 and 9.2.6, PVE/QemuServer.pm). A machine without it is being made, or its node does not answer.
    """
    # Of all types: the rows of nodes say which are not to be asked.
    rows: list[dict[str, Any]] = client.get("cluster/resources")
    down = {row.get("node") for row in rows if row.get("type") == "node" and row.get("status") != "online"}
    nodes = sorted({str(row["node"]) for row in rows if row.get("type") == "qemu"} - down)
    lists = ask_each(nodes, lambda node: _on_node(client, node, full=full))
    live = {(node, row["vmid"]): row for node, found in lists for row in found}
    return [_merged(row, live.get((str(row.get("node")), row.get("vmid")))) for row in rows]


def nodes_up(client: Client) -> list[str]:
    """The nodes that are online."""
    rows = client.get("cluster/resources", type="node")
    return [str(row["node"]) for row in rows if row.get("status") == "online"]


def _on_node(client: Client, node: str, *, full: bool) -> list[dict[str, Any]]:
    try:
        found: list[dict[str, Any]] = client.get(f"nodes/{node}/qemu", **({"full": 1} if full else {}))
    except SiteError:
        # It has just gone: the cluster's list is all there is.
        return []
    return found


def _merged(row: dict[str, Any], live: Mapping[str, Any] | None) -> dict[str, Any]:
    if live is None or row.get("type") != "qemu" or row.get("lock") in BEING_MADE:
        return row
    fresh = {_RENAMED.get(key, key): live[key] for key in (*_LIVE, *_RENAMED) if live.get(key) is not None}
    return {**row, **fresh, "template": int(live.get("template") or 0)}
