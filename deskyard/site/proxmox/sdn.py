"""The networks of a cluster: what is configured, and its coming into force on every node.

`PUT cluster/sdn` commits the configuration and has each node reload its network by a task of its own. The task that it
answers with ends OK whatever becomes of those, and then nothing is pending any more (pve-network,
PVE/API2/Network/SDN.pm): that a node's network is what was committed is said by the node's own last reload alone.
"""

import contextlib
from collections.abc import Iterable, Mapping
from typing import Any

from deskyard.errors import SiteError
from deskyard.site.proxmox.client import Client
from deskyard.site.proxmox.each import ask_each
from deskyard.site.proxmox.estate import Row, read_estate
from deskyard.site.proxmox.task import finish, wait_task

APPLY_SECONDS = 300.0
# PVE/API2/Network.pm, reload_network_config; services are reloaded by tasks of the same kind with another id.
RELOAD, RELOADED = "srvreload", "networking"
RELOADS: Mapping[str, object] = {"source": "all", "typefilter": RELOAD, "limit": 20}
# As `ifreload` of a node ends that runs there already, for somebody who applies at the same time
# (ifupdown2/lib/status.py, STATUS_ALREADY_RUNNING). Proxmox VE keeps none of them waiting.
BESIDE = "exit code 89"
ROUNDS = 8


def vnets(client: Client) -> list[dict[str, Any]]:
    """The VNets, with what is configured of each and not in force yet."""
    rows: list[dict[str, Any]] = client.get("cluster/sdn/vnets", pending=True)
    return rows


def apply(client: Client) -> None:
    """Bring what is pending into force, what others have left pending too; again where somebody else just did so.

    Raises `SiteError` with the nodes that did not take it, each with the end of its log.
    """
    for _ in range(ROUNDS):
        failed = _applied(client)
        if not failed:
            return
        if not all(BESIDE in why for why in failed.values()):
            break
        ask_each(failed, lambda node: _await_reloads(client, node))
    reason = "\n".join(f"{node}: {why}" for node, why in failed.items())
    remedy = "mend what it names, try `ifreload -a` there, then run the command again; proxmox.nodes can exclude it"
    raise SiteError("network", ", ".join(failed), f"was not reloaded\n{reason}", remedy)


def _applied(client: Client) -> dict[str, str]:
    """The nodes that did not take what was committed, and why."""
    nodes = _nodes(client)
    before = {node: _upid(row) for node, row in ask_each(nodes, lambda node: last_reload(client, node))}
    finish(client, client.put("cluster/sdn"), APPLY_SECONDS)
    found = ask_each(nodes, lambda node: _failure(client, node, before[node]))
    return {node: reason for node, reason in found if reason}


def _await_reloads(client: Client, node: str) -> None:
    """Wait until a node reloads its network for nobody; how that goes is looked at by whoever began it."""
    for row in _of_network(client.get(f"nodes/{node}/tasks", **RELOADS)):
        if not row.get("endtime"):
            with contextlib.suppress(SiteError):
                wait_task(client, _upid(row) or "", APPLY_SECONDS)


def in_force(client: Client, zone: str, vnet: str) -> bool:
    """Whether every node of the site that is up runs with this VNet, as far as its last reload and its zone tell."""
    return all(ran for _, ran in ask_each(_nodes(client), lambda node: _runs(client, node, zone, vnet)))


def last_reload(client: Client, node: str) -> Row | None:
    """The last reload of a node's network; None if its task log holds none."""
    return latest(client.get(f"nodes/{node}/tasks", **RELOADS))


def latest(rows: Iterable[Row]) -> Row | None:
    """The last reload of the network among tasks of a node."""
    return max(_of_network(rows), key=lambda row: int(row.get("starttime") or 0), default=None)


def _of_network(rows: Iterable[Row]) -> list[Row]:
    return [row for row in rows if row.get("type") == RELOAD and row.get("id") == RELOADED]


def failed_with(reload: Row | None) -> str | None:
    """Why a reload failed; None for one that went well or still runs, and where nothing is known of any."""
    status = "" if reload is None else str(reload.get("status") or "")
    fine = status in ("", "OK", "RUNNING", "running") or status.startswith("WARNINGS")
    return None if fine else status


def _failure(client: Client, node: str, before: str | None) -> str | None:
    """Why a node did not take what was committed, waiting for it if need be."""
    upid = _upid(last_reload(client, node))
    if upid is None or upid == before:
        return "its reload was not begun: is the node up, and can the others reach it?"
    try:
        wait_task(client, upid, APPLY_SECONDS)
    except SiteError as error:
        return error.reason
    return None


def _runs(client: Client, node: str, zone: str, vnet: str) -> bool:
    if failed_with(last_reload(client, node)) is not None:
        return False
    content = client.get(f"nodes/{node}/sdn/zones/{zone}/content")
    return all(row.get("status") == "available" for row in content if row.get("vnet") == vnet)


def _nodes(client: Client) -> tuple[str, ...]:
    return read_estate(client.get("cluster/resources", type="node"), client.cluster).usable()


def _upid(reload: Mapping[str, Any] | None) -> str | None:
    return None if reload is None else str(reload["upid"])
