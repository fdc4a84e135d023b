"""Checks of a cluster's network: zone, uplink, MTU. Each check is a pure function."""

from collections.abc import Iterator, Mapping
from ipaddress import IPv4Address, IPv4Interface
from typing import Any

from deskyard.model.proxmox import Cluster
from deskyard.model.site import Site
from deskyard.site.finding import Finding, error, ok, warning
from deskyard.site.proxmox import sdn
from deskyard.site.proxmox.doctor.facts import Facts
from deskyard.site.proxmox.estate import Row

VXLAN_BYTES = 50
DEFAULT_MTU = 1500
NO_LEARNING = "bridge-disable-mac-learning"
BRIDGES = ("bridge", "OVSBridge")


def zone(facts: Facts, site: Site) -> Iterator[Finding]:
    """The SDN zone is there, applied, and as the site declares it."""
    cluster = site.cluster
    refused = facts.refused.get("cluster/sdn/zones")
    if refused is not None:
        mend = "apt install libpve-network-perl, or give the token SDN.Audit on /sdn"
        yield error("zone", f"SDN cannot be read: {refused}", "workspaces are VNets of an SDN zone", mend)
        return
    wanted = cluster.zone
    row = next((row for row in facts.zones if row.get("zone") == wanted.name), None)
    if row is None:
        why = "workspaces are VNets of this zone"
        yield error("zone", f"there is no zone {wanted.name}", why, _make_zone(cluster))
        return
    if row.get("state"):
        why = "nodes run with the configuration that was applied last"
        yield error("zone", f"zone {wanted.name} is {row['state']} and not applied", why, "pvesh set /cluster/sdn")
        return
    differences = list(_differences(row, cluster, facts))
    if differences:
        why = "the Plan is worked out from what the site declares"
        yield error("zone", f"zone {wanted.name}: {'; '.join(differences)}", why, _set_zone(cluster, row))
    else:
        yield ok("zone", f"zone {wanted.name} is {wanted.kind}, as declared")


def _differences(row: Row, cluster: Cluster, facts: Facts) -> Iterator[str]:
    wanted = cluster.zone
    if row.get("type") != wanted.kind:
        yield f"kind is {row.get('type')}, declared is {wanted.kind}"
        return
    if wanted.kind == "vxlan":
        peers = set(str(row.get("peers") or "").replace(",", " ").split())
        if peers != set(map(str, wanted.peers)):
            yield f"peers are {', '.join(sorted(peers)) or 'none'}, declared are {', '.join(map(str, wanted.peers))}"
    if wanted.kind == "vlan" and row.get("bridge") != wanted.bridge:
        yield f"bridge is {row.get('bridge')}, declared is {wanted.bridge}"
    if int(row.get("mtu") or 0) != wanted.mtu:
        yield f"mtu is {row.get('mtu') or 'not set'}, declared is {wanted.mtu}"
    limited = set(str(row.get("nodes") or "").replace(",", " ").split())
    lacking = sorted(set(facts.nodes) - limited) if limited else []
    if lacking:
        yield f"it is not on {', '.join(lacking)}"


def learning(facts: Facts, site: Site) -> Iterator[Finding]:
    """Whether the bridges of the zone believe where a MAC address is: only a VLAN zone can be told not to."""
    wanted = site.cluster.zone
    row: Row = next((row for row in facts.zones if row.get("zone") == wanted.name), {})
    if not row or row.get("type") != wanted.kind:
        return
    what = "a desktop can take a neighbour's MAC address, and read what its gateway sends on open connections"
    if wanted.kind != "vlan":
        yield ok("zone_learning", f"bridges of a {wanted.kind} zone learn: {what} (docs/cluster-isolation.md)")
    elif int(row.get(NO_LEARNING) or 0):
        yield ok("zone_learning", f"bridges of zone {wanted.name} learn no addresses from machines")
    else:
        mend = f"pvesh set /cluster/sdn/zones/{wanted.name} --{NO_LEARNING} 1 && pvesh set /cluster/sdn"
        remedy = f"{mend}   # machines that run take it at their next start"
        yield warning("zone_learning", f"bridges of zone {wanted.name} learn addresses from machines", what, remedy)


def pending(facts: Facts, site: Site) -> Iterator[Finding]:
    """Nobody else's changes wait: applying ours would apply theirs."""
    ours = site.cluster.zone.name
    waiting = [f"zone {row.get('zone')}" for row in facts.zones if row.get("state") and row.get("zone") != ours]
    waiting += [f"VNet {row.get('vnet')}" for row in facts.vnets if row.get("state") and _zone_of(row) != ours]
    if waiting:
        why = "making a workspace applies the whole network configuration, theirs too"
        mend = "ask whose they are, then: pvesh set /cluster/sdn   # or take them back in Datacenter > SDN"
        yield warning("pending_changes", f"changes of others wait: {', '.join(waiting[:8])}", why, mend)
    else:
        yield ok("pending_changes", "no changes of others wait to be applied")


def reload(facts: Facts, site: Site) -> Iterator[Finding]:
    """Every node runs the network that was applied: that nothing is pending says only that it was committed."""
    ours = site.cluster.zone.name
    failed = {name: why for name, node in facts.nodes.items() if (why := sdn.failed_with(node.reload)) is not None}
    for name, node in facts.nodes.items():
        if any(row.get("zone") == ours and row.get("status") == "pending" for row in node.zones):
            failed.setdefault(name, "it lacks what was applied last")
    if failed:
        what = "; ".join(f"{name}: {why}" for name, why in list(failed.items())[:8])
        why = "VNets count as applied there and have no bridge: machines on them do not start"
        mend = f"on {', '.join(list(failed)[:8])}: ifreload -a   # mend what it names, then: pvesh set /cluster/sdn"
        yield error("network_reload", f"the last reload of the network failed on {what}", why, mend)
    else:
        yield ok("network_reload", "every node reloaded its network the last time it was applied")


def uplink(facts: Facts, site: Site) -> Iterator[Finding]:
    """The gateways' bridge is on every node, and its addresses are not taken by nodes."""
    wanted = site.cluster.uplink
    bridges = _bridges(facts, wanted.bridge)
    lacking = _lacking(bridges)
    if lacking:
        mend = f"make it in Node > Network, or correct proxmox.uplink.bridge; lacking on: {', '.join(lacking)}"
        what = f"bridge {wanted.bridge} is not there or not active on {', '.join(lacking[:8])}"
        yield error("uplink", what, "gateways on these nodes cannot be reached", mend)
        return
    inside = [
        f"{name} ({address})"
        for name, node in facts.nodes.items()
        for address in _addresses(node.network)
        if wanted.first <= address <= wanted.last
    ]
    routers = {str(row["gateway"]) for row in bridges.values() if row.get("gateway")}
    if inside:
        what = f"addresses of nodes lie in the gateways' range: {', '.join(inside[:8])}"
        mend = "choose another first and last in proxmox.uplink"
        yield error("uplink", what, "a gateway would take the address of a node", mend)
    elif not wanted.vlan and routers and str(wanted.router) not in routers:
        what = (
            f"the nodes' own router on {wanted.bridge} is {', '.join(sorted(routers))}, the gateways' {wanted.router}"
        )
        mend = "correct proxmox.uplink.router, or set proxmox.uplink.vlan"
        yield warning("uplink", what, "without a router nothing behind the gateways reaches the internet", mend)
    else:
        yield ok("uplink", f"bridge {wanted.bridge} is on every node")


def trunk(facts: Facts, site: Site) -> Iterator[Finding]:
    """The bridge that carries the tags of a VLAN zone is on every node, and takes its packets."""
    wanted = site.cluster.zone
    if wanted.kind != "vlan":
        return
    bridges = _bridges(facts, str(wanted.bridge))
    lacking = _lacking(bridges)
    small = [name for name, row in bridges.items() if int(row.get("mtu") or DEFAULT_MTU) < wanted.mtu]
    if lacking:
        mend = "make it in Node > Network (VLAN aware), or correct proxmox.zone.bridge"
        what = f"bridge {wanted.bridge} is not there or not active on {', '.join(lacking[:8])}"
        yield error("zone_bridge", what, "desktops there would be cut off from their gateway", mend)
    elif small:
        mend = f"raise the MTU of {wanted.bridge} to {wanted.mtu}, or lower proxmox.zone.mtu"
        what = f"bridge {wanted.bridge} carries less than {wanted.mtu} bytes on {', '.join(small[:8])}"
        yield error("zone_bridge", what, "large packets vanish: connections open, then hang", mend)
    else:
        yield ok("zone_bridge", f"bridge {wanted.bridge} is on every node")


def mtu(facts: Facts, site: Site) -> Iterator[Finding]:
    """VXLAN has room for its header, and every node takes part in it."""
    wanted = site.cluster.zone
    if wanted.kind != "vxlan":
        return
    strangers, small = [], []
    for name, node in facts.nodes.items():
        carriers = [row for row in node.network if set(_addresses([row])) & set(wanted.peers)]
        if not carriers:
            strangers.append(name)
        size = min((int(row.get("mtu") or DEFAULT_MTU) for row in carriers), default=DEFAULT_MTU)
        if size < wanted.mtu + VXLAN_BYTES:
            small.append(f"{name} ({size})")
    if strangers:
        what = f"no address of {', '.join(strangers[:8])} is among the zone's peers"
        mend = "add an address of each node to proxmox.zone.peers, and to the zone"
        yield error("vxlan_peers", what, "desktops there would not reach their gateway on another node", mend)
    else:
        yield ok("vxlan_peers", "every node is a peer of the zone")
    if small:
        what = f"the network between nodes carries less than {wanted.mtu + VXLAN_BYTES} bytes: {', '.join(small[:8])}"
        mend = f"raise the interface's MTU, or lower proxmox.zone.mtu ({VXLAN_BYTES} bytes less than the smallest)"
        yield error("vxlan_mtu", what, "large packets vanish: connections open, then hang", mend)
    else:
        yield ok("vxlan_mtu", f"the network between nodes carries {wanted.mtu} bytes and VXLAN's header")


def _make_zone(cluster: Cluster) -> str:
    wanted = cluster.zone
    command = f"pvesh create /cluster/sdn/zones --zone {wanted.name} --type {wanted.kind} --mtu {wanted.mtu}"
    return f"{command}{_options(cluster)} && pvesh set /cluster/sdn"


def _set_zone(cluster: Cluster, row: Row) -> str:
    wanted = cluster.zone
    if row.get("type") != wanted.kind:
        return f"pvesh delete /cluster/sdn/zones/{wanted.name} && {_make_zone(cluster)}"
    command = f"pvesh set /cluster/sdn/zones/{wanted.name} --mtu {wanted.mtu}{_options(cluster)}"
    everywhere = " --delete nodes" if row.get("nodes") else ""
    return f"{command}{everywhere} && pvesh set /cluster/sdn"


def _options(cluster: Cluster) -> str:
    wanted = cluster.zone
    if wanted.kind == "vxlan":
        return f" --peers {','.join(map(str, wanted.peers))}"
    return f" --bridge {wanted.bridge} --{NO_LEARNING} 1" if wanted.kind == "vlan" else ""


def _zone_of(row: Row) -> str:
    waiting: Any = row.get("pending") or {}
    return str(row.get("zone") or waiting.get("zone") or "")


def _bridges(facts: Facts, name: str) -> dict[str, Row]:
    """Read what each node says of its interface of this name; nothing if it has none."""
    return {
        node: next((row for row in said.network if row.get("iface") == name), {}) for node, said in facts.nodes.items()
    }


def _lacking(bridges: Mapping[str, Row]) -> list[str]:
    """The nodes on which it is no bridge, or not active."""
    return [node for node, row in bridges.items() if row.get("type") not in BRIDGES or not row.get("active")]


def _addresses(network: Any) -> list[IPv4Address]:
    found = []
    for row in network:
        text = str(row.get("cidr") or row.get("address") or "")
        try:
            found.append(IPv4Interface(text).ip)
        except ValueError:
            continue
    return found
