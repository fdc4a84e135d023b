"""The list of a cluster's machines, with what it does not show of young ones yet.

Proxmox VE fills name, sizes and the flag of a template in by the next round of pvestatd, which takes up to ten seconds
(observed on 8.4.21); tags and pool are there once the machine is made.
"""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from deskyard.errors import SiteError
from deskyard.plan.cluster import MIB, tags_of
from deskyard.proxmox.client import Client
from deskyard.proxmox.machine import vm_path
from deskyard.proxmox.templates import DRAFT, OURS

AT_ONCE = 8
# A machine that is just made is nobody's yet: it has neither pool nor tags.
BEING_MADE = frozenset({"clone", "create"})


def resources(client: Client, **params: object) -> list[dict[str, Any]]:
    """The rows of `cluster/resources`; a machine that is not yet shown whole is asked for its own configuration."""
    rows: list[dict[str, Any]] = client.get("cluster/resources", **params)
    young = [row for row in rows if _is_young(row)]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        found = dict(zip((row["vmid"] for row in young), pool.map(lambda row: _shown(client, row), young), strict=True))
    return [{**row, **found.get(row.get("vmid"), {})} for row in rows]


def _is_young(row: Mapping[str, Any]) -> bool:
    """Whether the row lacks what its machine has; a template of ours may be one already that is not flagged yet."""
    if row.get("type") != "qemu" or row.get("lock") in BEING_MADE:
        return False
    tags = tags_of(row)
    return not row.get("name") or (OURS in tags and DRAFT not in tags and not int(row.get("template") or 0))


def _shown(client: Client, row: Mapping[str, Any]) -> dict[str, Any]:
    """What the list will show of it: only what the list lacks today."""
    try:
        config = client.get(f"{vm_path(str(row['node']), int(row['vmid']))}/config")
    except SiteError:
        # It is gone again, or its node is away: the list is all there is.
        return {}
    told: dict[str, Any] = {
        "name": config.get("name"),
        "maxcpu": int(config.get("cores") or 1) * int(config.get("sockets") or 1),
        "maxmem": int(str(config.get("memory") or 0)) * MIB,
    }
    lacking = {key: value for key, value in told.items() if value and not row.get(key)}
    return {**lacking, "template": int(config.get("template") or 0)}
