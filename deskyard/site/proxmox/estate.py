"""Nodes and storages, as the list of a cluster's resources tells of them. Pure: the list is given as data."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from deskyard.errors import SiteError
from deskyard.model.proxmox import Cluster

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Estate:
    """Nodes of a cluster by name, and the storages that are one for all nodes."""

    online: tuple[str, ...]
    offline: tuple[str, ...]
    chosen: tuple[str, ...]
    shared: frozenset[str]

    def usable(self) -> tuple[str, ...]:
        """The nodes that the site chooses and that are up; raises `SiteError` if there is none."""
        found = tuple(node for node in self.chosen if node in self.online)
        if not found:
            reason = f"no chosen node is up (chosen: {', '.join(self.chosen) or 'none'})"
            raise SiteError("proxmox.nodes", None, reason, "look at the nodes with ./inv site.check")
        return found


def read_estate(resources: Iterable[Row], cluster: Cluster) -> Estate:
    """Nodes and storages in the answer of `cluster/resources`."""
    rows = list(resources)
    nodes = {str(row["node"]): row.get("status") == "online" for row in rows if row.get("type") == "node"}
    return Estate(
        online=tuple(sorted(name for name, up in nodes.items() if up)),
        offline=tuple(sorted(name for name, up in nodes.items() if not up)),
        # A node that is named but not there is chosen all the same, to be told of.
        chosen=tuple(sorted(name for name in {*nodes, *cluster.nodes.only} if cluster.nodes.picks(name))),
        shared=frozenset(
            str(row["storage"]) for row in rows if row.get("type") == "storage" and int(row.get("shared") or 0)
        ),
    )
