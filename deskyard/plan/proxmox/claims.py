"""Which ids, tags and addresses of a cluster a workspace takes. Pure, and the same for the same names.

Each is a number that Proxmox VE itself gives to one only: the id of a machine, or the name of a VNet. What has no such
guard of its own is worked out from one that has: the address of a gateway from its machine's id, the tag of a VNet from
its name. So two operators who plan at once may want the same, but only one gets it; the other looks and plans again.
"""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import IPv4Address

from deskyard.errors import ConfigError
from deskyard.model.proxmox import Cluster
from deskyard.plan.proxmox.view import ClusterView, Owner, pool_of
from deskyard.plan.workspace import GATEWAY

DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
VNET_PREFIX = "dy"


@dataclass(frozen=True)
class Claims:
    """The claims of a workspace: ids by machine, the gateway's address, its VNet with its tag."""

    vm_ids: Mapping[str, int]
    uplink_address: str
    vnet: str
    tag: int


def claim(site: str, cluster: Cluster, workspace: str, desktops: Iterable[str], view: ClusterView) -> Claims:
    """Keep what the workspace has, and choose the rest among what is free; raises `ConfigError` if nothing is."""
    taken = {machine.vm_id for machine in view.machines}
    vm_ids: dict[str, int] = {}
    for machine in (GATEWAY, *sorted(desktops)):
        owner = Owner(site, workspace, machine)
        owned = view.machine_of(owner)
        ids = _gateway_ids(cluster) if machine == GATEWAY else _desktop_ids(cluster)
        if owned is not None and (machine != GATEWAY or owned.vm_id in ids):
            vm_ids[machine] = owned.vm_id
            continue
        chosen = _free(ids, taken, owner.tag)
        if chosen is None:
            field = "proxmox.uplink" if machine == GATEWAY else "proxmox.vm_ids"
            reason = f"has nothing free for {machine} of {workspace}: all {len(ids)} are taken"
            raise ConfigError(f"site {site}: {field}", None, reason, "widen first..last, or destroy a workspace")
        vm_ids[machine] = chosen
        taken.add(chosen)
    vnet, tag = _vnet(site, cluster, workspace, view)
    return Claims(vm_ids, str(uplink_address(cluster, vm_ids[GATEWAY])), vnet, tag)


def trial_id(site: str, cluster: Cluster, name: str, view: ClusterView) -> int:
    """Choose an id for a machine in which a backup is tried out; raises `ConfigError` if none is free."""
    ids = _desktop_ids(cluster)
    chosen = _free(ids, {machine.vm_id for machine in view.machines}, name)
    if chosen is None:
        reason = f"has nothing free to try a backup out: all {len(ids)} are taken"
        raise ConfigError(f"site {site}: proxmox.vm_ids", None, reason, "widen first..last, or destroy a workspace")
    return chosen


def uplink_address(cluster: Cluster, vm_id: int) -> IPv4Address:
    """The address of the gateway with this id: the last id has the first address."""
    return cluster.uplink.first + (cluster.vm_ids.last - vm_id)


def vnet_name(tag: int) -> str:
    """The VNet with this tag: a letter first, at most eight characters, another for each tag."""
    text = ""
    while tag:
        tag, digit = divmod(tag, len(DIGITS))
        text = DIGITS[digit] + text
    return f"{VNET_PREFIX}{text or '0'}"


def _gateway_ids(cluster: Cluster) -> range:
    """As many of the last ids as there are addresses, but no more than half: templates take the first."""
    ids, uplink = cluster.vm_ids, cluster.uplink
    addresses = int(uplink.last) - int(uplink.first) + 1
    return range(ids.last - min(addresses, (ids.last - ids.first + 1) // 2) + 1, ids.last + 1)


def _desktop_ids(cluster: Cluster) -> range:
    return range(cluster.vm_ids.first, _gateway_ids(cluster).start)


def own_vnet(site: str, workspace: str, view: ClusterView) -> str | None:
    """The VNet of a workspace: the one that its machines are on, or without any the one that was made for it.

    Its alias alone proves nothing: administrators may write there what they like.
    """
    # Machines count by their NICs alone: where nobody asked for those, all of the cluster need not be looked through.
    own = {machine.vm_id for machine in view.machines_of(site, workspace)} if view.wires else set()
    named = [
        vnet.name for vnet in view.vnets if vnet.alias == pool_of(site, workspace) and tag_of(vnet.name) is not None
    ]
    gateway = view.machine_of(Owner(site, workspace, GATEWAY))
    gateways = view.wires.get(gateway.vm_id, ()) if gateway else ()
    others = [bridge for vm_id in sorted(own) for bridge in view.wires.get(vm_id, ())]
    wired = [bridge for bridge in (*gateways, *others) if tag_of(bridge) is not None]
    both = [name for name in wired if name in named]
    alone = [name for name in named if not view.on_network(name)]
    return next(iter([*both, *wired, *alone]), None)


def _vnet(site: str, cluster: Cluster, workspace: str, view: ClusterView) -> tuple[str, int]:
    zone, alias = cluster.zone, pool_of(site, workspace)
    tags = range(zone.first_tag, zone.last_tag + 1)
    names = {vnet_name(tag): tag for vnet in view.vnets if (tag := _tag_in(vnet.name, tags)) is not None}
    own = own_vnet(site, workspace, view)
    if own is not None:
        seen = next((vnet for vnet in view.vnets if vnet.name == own), None)
        in_use = bool(view.on_network(own))
        if seen is not None and seen.zone != zone.name and in_use:
            reason = f"workspace {workspace} has its machines on {own} in zone {seen.zone}; moving would cut them off"
            remedy = f"write {seen.zone!r} again, or destroy the workspace first"
            raise ConfigError(f"site {site}: proxmox.zone.name", zone.name, reason, remedy)
        tag = tag_of(own)
        if tag is not None and (in_use or (seen is not None and seen.zone == zone.name and tag in tags)):
            return own, tag
    # A tag is used once in the whole cluster, whatever the zone: zones may share wires.
    taken = {vnet.tag for vnet in view.vnets if vnet.tag is not None} | set(names.values())
    chosen = _free(tags, taken, alias)
    if chosen is None:
        reason = f"has no free tag for {workspace}: all {len(tags)} are taken"
        raise ConfigError(f"site {site}: proxmox.zone", None, reason, "widen first_tag..last_tag")
    return vnet_name(chosen), chosen


@lru_cache(maxsize=4096)
def tag_of(name: str) -> int | None:
    """The tag that the name of a VNet stands for; None if it is no name of ours."""
    if not name.startswith(VNET_PREFIX):
        return None
    try:
        tag = int(name.removeprefix(VNET_PREFIX), len(DIGITS))
    except ValueError:
        return None
    return tag if tag > 0 and vnet_name(tag) == name else None


def _tag_in(name: str, tags: range) -> int | None:
    tag = tag_of(name)
    return tag if tag is not None and tag in tags else None


def _free(numbers: range, taken: set[int], name: str) -> int | None:
    """The first free number from one that the name chooses."""
    if not numbers:
        return None
    start = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big") % len(numbers)
    return next(
        (n for probe in range(len(numbers)) if (n := numbers[(start + probe) % len(numbers)]) not in taken), None
    )
