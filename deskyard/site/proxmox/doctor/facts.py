"""Fetches what an examination looks at: read-only calls, their answers as they came."""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from deskyard.site.proxmox import listing, sdn
from deskyard.site.proxmox.client import ApiError, Client
from deskyard.site.proxmox.each import ask_each
from deskyard.site.proxmox.estate import Estate, Row, read_estate


@dataclass(frozen=True)
class NodeFacts:
    """The facts that a node says of itself."""

    network: tuple[Row, ...] = ()
    storage: tuple[Row, ...] = ()
    firewall: Row = field(default_factory=dict)
    # The last reload of its network; nothing if its task log holds none.
    reload: Row | None = None
    # Its zones, as it has them: `pending` is one of which it lacks what was applied last.
    zones: tuple[Row, ...] = ()
    # Seconds by which the node's clock is ahead of this machine's; nothing if it did not say.
    ahead: float | None = None
    # Of Proxmox VE's own programs, as far as the node tells: name -> installed version.
    packages: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Facts:
    """A cluster at one moment. `refused` holds what could not be read: path -> why."""

    version: str
    token: str
    ahead: float | None
    permissions: Mapping[str, Mapping[str, object]]
    status: tuple[Row, ...]
    resources: tuple[Row, ...]
    estate: Estate
    options: Row
    firewall: Row
    zones: tuple[Row, ...]
    vnets: tuple[Row, ...]
    nodes: Mapping[str, NodeFacts]
    refused: Mapping[str, str] = field(default_factory=dict)

    @property
    def release(self) -> tuple[int, int]:
        """The version as numbers; (0, 0) if it is none."""
        parts = self.version.split(".")
        if len(parts) < 2 or not (parts[0].isdecimal() and parts[1].isdecimal()):
            return 0, 0
        return int(parts[0]), int(parts[1])


def gather(client: Client, clock: Callable[[], float] = time.time) -> Facts:
    """Ask for everything; raises `ApiError` only if the API does not answer at all."""
    refused: dict[str, str] = {}

    def ask(path: str, default: Any, **params: object) -> Any:
        try:
            return client.get(path, **params) or default
        except ApiError as error:
            refused[path] = error.reason
            return default

    version = client.call("GET", "version", {})
    ahead = None if version.date is None else version.date - clock()
    try:
        resources = tuple(listing.resources(client))
    except ApiError as error:
        refused["cluster/resources"], resources = error.reason, ()
    estate = read_estate(resources, client.cluster)

    def node(name: str) -> NodeFacts:
        said = ask(f"nodes/{name}/time", {}).get("time")
        return NodeFacts(
            ahead=None if said is None else float(said) - clock(),
            network=tuple(ask(f"nodes/{name}/network", ())),
            storage=tuple(ask(f"nodes/{name}/storage", ())),
            firewall=ask(f"nodes/{name}/firewall/options", {}),
            zones=tuple(ask(f"nodes/{name}/sdn/zones", ())),
            reload=sdn.latest(ask(f"nodes/{name}/tasks", (), **sdn.RELOADS)),
            packages=_installed(ask(f"nodes/{name}/apt/versions", ())),
        )

    names = [name for name in estate.chosen if name in estate.online]
    nodes = dict(ask_each(names, node))
    return Facts(
        version=str(version.data.get("version", "")),
        token=client.token.id,
        ahead=ahead,
        permissions=ask("access/permissions", {}),
        status=tuple(ask("cluster/status", ())),
        resources=resources,
        estate=estate,
        options=ask("cluster/options", {}),
        firewall=ask("cluster/firewall/options", {}),
        zones=tuple(ask("cluster/sdn/zones", (), pending=True)),
        vnets=tuple(ask("cluster/sdn/vnets", (), pending=True)),
        nodes=nodes,
        refused=refused,
    )


def _installed(rows: Iterable[Row]) -> dict[str, str]:
    """`Version` is what apt would install; what is installed stands in `OldVersion` (PVE/API2/APT.pm)."""
    return {str(row["Package"]): str(row["OldVersion"]) for row in rows if row.get("OldVersion")}
