"""A view of a cluster, and what of it belongs to whom. Pure: the facts are given as data."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from deskyard.model.proxmox import Cluster

MIB, GIB = 1024**2, 1024**3
# How the pools of all sites begin: those of workspaces, of templates, and of backups that are tried out.
WORKSPACE_POOLS, IMAGE_POOLS, TRIAL_POOLS = "deskyard.", "deskyard-images.", "deskyard-trials."


@dataclass(frozen=True)
class Owner:
    """Whom a machine belongs to: a machine of a workspace of a site."""

    site: str
    workspace: str
    machine: str

    @property
    def pool(self) -> str:
        """The pool of the workspace."""
        return pool_of(self.site, self.workspace)

    @property
    def vm_name(self) -> str:
        """Name of the machine in the cluster; cloud-init makes its first part the host name."""
        return f"{self.machine}.{self.workspace}"

    @property
    def tag(self) -> str:
        """The tag that says so even if the machine was renamed or taken out of its pool."""
        return f"{self.pool}.{self.machine}"


@dataclass(frozen=True)
class SeenMachine:
    """A machine or template of the cluster."""

    vm_id: int
    node: str
    name: str
    pool: str
    tags: tuple[str, ...]
    running: bool
    template: bool
    vcpus: int
    memory_mib: int
    disk_gib: int
    container: bool = False


@dataclass(frozen=True)
class SeenNode:
    """A node with what it has in all."""

    name: str
    online: bool
    vcpus: int
    memory_mib: int


@dataclass(frozen=True)
class SeenStorage:
    """A storage as one node sees it."""

    node: str
    name: str
    shared: bool
    free_gib: int


@dataclass(frozen=True)
class SeenVnet:
    """A virtual network. One that is `leaving` is removed, which is not in force yet.

    `alias` says for whom it was made, until somebody writes something else: it is free text for administrators.
    """

    name: str
    zone: str
    tag: int | None
    alias: str
    leaving: bool = False


@dataclass(frozen=True)
class ClusterView:
    """The cluster at one moment. It may be stale: Proxmox VE refuses an id that is taken, and one looks again."""

    nodes: tuple[SeenNode, ...] = ()
    machines: tuple[SeenMachine, ...] = ()
    storages: tuple[SeenStorage, ...] = ()
    vnets: tuple[SeenVnet, ...] = ()
    # Image -> node on which its template lies -> id of the template.
    templates: Mapping[str, Mapping[str, int]] | None = None
    # Id -> bridges of its NICs, in their order; of those machines alone that were asked for it.
    wires: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    # Ids of machines that have run without a volume of /home, among those that were asked.
    homeless: frozenset[int] = frozenset()

    @cached_property
    def _marks(self) -> dict[str, SeenMachine]:
        """Machines by each of their tags, and by pool and name: a fresh clone has no tags of its own yet."""
        named = {f"{machine.pool}/{machine.name}": machine for machine in self.machines if machine.pool}
        return named | {tag: machine for machine in self.machines for tag in machine.tags}

    def machine_of(self, owner: Owner) -> SeenMachine | None:
        """The machine that belongs to `owner`: it carries its tag, or lies in its pool under its name."""
        return self._marks.get(owner.tag) or self._marks.get(f"{owner.pool}/{owner.vm_name}")

    def machines_of(self, site: str, workspace: str) -> list[SeenMachine]:
        """List the machines that belong to a workspace."""
        pool = pool_of(site, workspace)
        start = f"{pool}."
        return [machine for machine in self.machines if machine.pool == pool or _begins(machine.tags, start)]

    def on_network(self, vnet: str) -> set[int]:
        """Ids of the machines with a NIC on a VNet, among those that were asked for theirs."""
        return {vm_id for vm_id, bridges in self.wires.items() if vnet in bridges}

    def of_site(self, site: str) -> list[SeenMachine]:
        """List the machines that belong to some workspace of a site."""
        start = pool_of(site, "")
        return [machine for machine in self.machines if machine.pool.startswith(start) or _begins(machine.tags, start)]


def pool_of(site: str, workspace: str) -> str:
    """The pool that holds a workspace's machines, and what its VNet is called besides its short name."""
    return f"{WORKSPACE_POOLS}{site}.{workspace}"


def image_pool_of(site: str) -> str:
    """The pool that holds the templates of a site."""
    return f"{IMAGE_POOLS}{site}"


def trial_pool_of(site: str) -> str:
    """The pool of the machines in which a site tries out backups: they belong to no workspace."""
    return f"{TRIAL_POOLS}{site}"


def tags_of(row: Mapping[str, Any]) -> tuple[str, ...]:
    """The tags of a machine in its configuration or its row of `cluster/resources`."""
    return tuple(part for part in str(row.get("tags") or "").replace(",", ";").split(";") if part)


def _begins(texts: tuple[str, ...], start: str) -> bool:
    # A plain loop: a plan asks this of each machine of the cluster.
    for text in texts:  # noqa: SIM110
        if text.startswith(start):
            return True
    return False


def read_view(
    resources: Iterable[Mapping[str, Any]],
    vnets: Iterable[Mapping[str, Any]],
    templates: Mapping[str, Mapping[str, int]],
) -> ClusterView:
    """The view in the answers of `cluster/resources` and `cluster/sdn/vnets`."""
    rows = list(resources)
    return ClusterView(
        nodes=tuple(_node(row) for row in rows if row.get("type") == "node"),
        machines=tuple(_machine(row) for row in rows if row.get("type") in ("qemu", "lxc")),
        storages=tuple(_storage(row) for row in rows if row.get("type") == "storage"),
        vnets=tuple(_vnet(row) for row in vnets),
        templates=templates,
    )


def usable_nodes(cluster: Cluster, view: ClusterView) -> list[SeenNode]:
    """The nodes that are up and that the site lets run desktops."""
    nodes = sorted(view.nodes, key=lambda node: node.name)
    return [node for node in nodes if node.online and cluster.nodes.picks(node.name)]


def template_for(cluster: Cluster, view: ClusterView, image: str, node: str) -> tuple[str, int] | None:
    """Node and id of the template that `node` clones: its own, or any if their storage is shared."""
    found = (view.templates or {}).get(image, {})
    if node in found:
        return node, found[node]
    if found and any(storage.shared for storage in view.storages if storage.name == cluster.storages.of_templates):
        first = min(found)
        return first, found[first]
    return None


def _node(row: Mapping[str, Any]) -> SeenNode:
    online = row.get("status") == "online"
    return SeenNode(str(row["node"]), online, int(row.get("maxcpu") or 0), int(row.get("maxmem") or 0) // MIB)


def _machine(row: Mapping[str, Any]) -> SeenMachine:
    return SeenMachine(
        vm_id=int(row["vmid"]),
        node=str(row.get("node", "")),
        name=str(row.get("name", "")),
        pool=str(row.get("pool") or ""),
        tags=tags_of(row),
        running=row.get("status") == "running",
        template=bool(int(row.get("template") or 0)),
        vcpus=int(row.get("maxcpu") or 0),
        memory_mib=int(row.get("maxmem") or 0) // MIB,
        disk_gib=int(row.get("maxdisk") or 0) // GIB,
        container=row.get("type") == "lxc",
    )


def _storage(row: Mapping[str, Any]) -> SeenStorage:
    free = max(0, int(row.get("maxdisk") or 0) - int(row.get("disk") or 0)) // GIB
    return SeenStorage(str(row.get("node", "")), str(row["storage"]), bool(int(row.get("shared") or 0)), free)


def _vnet(row: Mapping[str, Any]) -> SeenVnet:
    # A change that is not applied yet stands below `pending`.
    merged = {**row, **{key: value for key, value in (row.get("pending") or {}).items() if value != "deleted"}}
    tag = merged.get("tag")
    return SeenVnet(
        name=str(row["vnet"]),
        zone=str(merged.get("zone") or ""),
        tag=None if tag in (None, "") else int(str(tag)),
        alias=str(merged.get("alias") or ""),
        leaving=row.get("state") == "deleted",
    )
