"""On which node each machine of a workspace runs. Pure: capacity is given as data."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NoReturn

from deskyard.errors import ConfigError
from deskyard.model.proxmox import Cluster
from deskyard.plan.power import NoRoom
from deskyard.plan.proxmox.view import ClusterView, Owner, template_for, usable_nodes

# A linked clone grows: what a new one needs at once is a part of its size.
DISK_PART = 0.25


@dataclass(frozen=True)
class Need:
    """A machine that wants a place; `disk_gib` is what all its disks have."""

    owner: Owner
    image: str
    vcpus: int
    memory_mib: int
    disk_gib: int


@dataclass
class _Room:
    """The room that is left on a node while machines are placed."""

    name: str
    vcpus: int
    memory_mib: int
    used_vcpus: int
    used_memory_mib: int
    ours: int = 0
    images: set[str] = field(default_factory=set)

    def load(self, need: Need) -> float:
        """How full the node would be with this machine, by its scarcer good."""
        cpu = (self.used_vcpus + need.vcpus) / max(1, self.vcpus)
        return max(cpu, (self.used_memory_mib + need.memory_mib) / max(1, self.memory_mib))


@dataclass(frozen=True)
class Placed:
    """Machine -> node; and of what may do without, why there is no place."""

    nodes: dict[str, str]
    no_room: dict[str, str]


def place(site: str, cluster: Cluster, needs: Sequence[Need], view: ClusterView, spare: Sequence[Need] = ()) -> Placed:
    """Find a node for each machine. Those that exist stay where they are.

    Raises `ConfigError` if one finds no place, unless it is one of `spare`, which come last.
    """
    rooms = _rooms(cluster, view)
    disks = _Disks(cluster, view)
    placed: dict[str, str] = {}
    no_room: dict[str, str] = {}
    for need in (*needs, *spare):
        found = view.machine_of(need.owner)
        if found is not None:
            placed[need.owner.machine] = found.node
            if found.node in rooms:
                rooms[found.node].ours += 1
    for need in (*needs, *spare):
        if need.owner.machine in placed:
            continue
        try:
            room = _best(site, cluster, need, rooms or _none(site, cluster, view), disks, placed)
        except (ConfigError, NoRoom) as error:
            if need not in spare:
                raise
            no_room[need.owner.machine] = f"{error.reason}; {error.remedy}"
            continue
        placed[need.owner.machine] = room.name
        room.used_vcpus += need.vcpus
        room.used_memory_mib += need.memory_mib
        room.ours += 1
        disks.take(room.name, need)
    return Placed(placed, no_room)


def _rooms(cluster: Cluster, view: ClusterView) -> dict[str, _Room]:
    rooms = {node.name: _Room(node.name, node.vcpus, node.memory_mib, 0, 0) for node in usable_nodes(cluster, view)}
    for machine in view.machines:
        room = rooms.get(machine.node)
        if room is not None and not machine.template:
            room.used_vcpus += machine.vcpus
            room.used_memory_mib += machine.memory_mib
    for image in view.templates or {}:
        for room in rooms.values():
            if template_for(cluster, view, image, room.name) is not None:
                room.images.add(image)
    return rooms


def _none(site: str, cluster: Cluster, view: ClusterView) -> NoReturn:
    """Say that there is no node at all: for now, if those that the site may use are only off."""
    chosen = sorted(node.name for node in view.nodes if cluster.nodes.picks(node.name))
    if not chosen:
        reason, remedy = "the cluster has none of the nodes that the site may use", "mend `nodes`, see ./inv site.check"
        raise ConfigError(f"site {site}", None, reason, remedy)
    reason = f"no node that it may use is online: {', '.join(chosen)}"
    raise NoRoom(f"site {site}", None, reason, "start one of them, or look with ./inv site.check")


class _Disks:
    """Free space of the storage of disks, by node; a shared one is the same for all."""

    def __init__(self, cluster: Cluster, view: ClusterView) -> None:
        mine = [storage for storage in view.storages if storage.name == cluster.storages.disks]
        self._shared = any(storage.shared for storage in mine)
        self._free: dict[str, float] = {storage.node: float(storage.free_gib) for storage in mine}

    def fits(self, node: str, need: Need) -> bool:
        return self._free.get(node, 0.0) >= need.disk_gib * DISK_PART

    def take(self, node: str, need: Need) -> None:
        for name in self._free if self._shared else [node]:
            self._free[name] = self._free.get(name, 0.0) - need.disk_gib * DISK_PART


def _best(
    site: str, cluster: Cluster, need: Need, rooms: Mapping[str, _Room], disks: _Disks, placed: Mapping[str, str]
) -> _Room:
    candidates = list(rooms.values())
    if cluster.zone.kind == "simple" and placed:
        # A simple zone joins nothing: all machines of a workspace have to be on one node.
        candidates = [room for room in candidates if room.name in placed.values()]
        if not candidates:
            there = ", ".join(sorted(set(placed.values())))
            reason = f"{need.owner.workspace} is on {there}, which is not online, and its zone joins no other node"
            raise NoRoom(f"site {site}", None, reason, "start that node, or look with ./inv site.check")
    why = _Why(site, need, [room.name for room in candidates])
    candidates = why.kept([room for room in candidates if need.image in room.images], "template of the image")
    candidates = why.kept(
        [room for room in candidates if room.used_memory_mib + need.memory_mib <= room.memory_mib],
        f"{need.memory_mib} MiB of memory",
        for_now=True,
    )
    candidates = why.kept([room for room in candidates if need.vcpus <= room.vcpus], f"{need.vcpus} CPUs")
    candidates = why.kept(
        [room for room in candidates if disks.fits(room.name, need)], "space on its storage", for_now=True
    )
    spread = cluster.nodes.spread
    return min(candidates, key=lambda room: (room.ours if spread else 0, room.load(need), _lot(need, room.name)))


def _lot(need: Need, node: str) -> bytes:
    """Breaks ties, for each machine in another way: clients that plan at once do not all choose the same node."""
    return hashlib.sha256(f"{need.owner.tag}/{node}".encode()).digest()


@dataclass(frozen=True)
class _Why:
    """Says what was lacking where nothing is left."""

    site: str
    need: Need
    nodes: Sequence[str]

    def kept(self, rooms: list[_Room], lack: str, *, for_now: bool = False) -> list[_Room]:
        if rooms:
            return rooms
        owner = self.need.owner
        reason = (
            f"no node has {lack} for {owner.machine} of {owner.workspace} (asked: {', '.join(self.nodes) or 'none'})"
        )
        remedy = "choose a smaller tier, free some nodes, or look with ./inv site.check"
        if lack.startswith("template"):
            remedy = f"run ./inv image.publish {self.need.image} --site {self.site}"
        raise (NoRoom if for_now else ConfigError)(f"site {self.site}", None, reason, remedy)
