"""What a node's firewall does with a frame: a walk through what three programs compile of one machine's rules.

What they do is read from their sources, of which nothing is copied: pve-firewall's `PVE/Firewall.pm` makes rules of
iptables and ebtables, proxmox-firewall's `firewall.rs`, `rule.rs` and `proxmox-firewall.nft` rules of nftables. Where
a frame passes for a reason that surprises, the reason stands beside the line that lets it.
"""

from dataclasses import dataclass
from enum import Enum
from ipaddress import ip_address, ip_network
from typing import Literal

from deskyard.plan.isolation.frames import link_local
from deskyard.plan.proxmox.firewall import FirewallPlan, RulePlan

DHCP = {("udp", 68, 67): "out", ("udp", 67, 68): "in", ("udp", 546, 547): "out", ("udp", 547, 546): "in"}
# Types of ICMP that say that something went wrong on the way. With iptables a policy accepts some before it drops (of
# type 3 the code 4 alone: a packet was too large); nftables accepts more, before anything else.
LATE = {"ipv4": (3, 11), "ipv6": (1, 2, 3)}
EARLY = {"ipv4": (3, 4, 11), "ipv6": (1, 2, 3, 4)}
NEIGHBOURS, ROUTER, REDIRECT = (133, 135, 136), 134, 137


class Compiler(Enum):
    """The program that makes kernel rules of a machine's rules."""

    IPTABLES = "pve-firewall"
    NFT_OLD = "proxmox-firewall before 1.2.0"
    NFT = "proxmox-firewall since 1.2.0"


@dataclass(frozen=True)
class Options:
    """A machine's own options, as the Plan sets them."""

    dhcp: bool = False
    ndp: bool = False
    radv: bool = False
    macfilter: bool = True


PLANNED = Options()


@dataclass(frozen=True)
class Guest:
    """A machine's NIC on a VNet, and its firewall."""

    mac: str
    firewall: FirewallPlan
    nic: str = "net0"
    options: Options = PLANNED

    def own(self, version: int) -> tuple[str, ...] | None:
        """The addresses that its set holds, or None where it has no set."""
        if self.nic not in self.firewall.own and not self.firewall.ipfilter:
            return None
        given = self.firewall.own.get(self.nic, ())
        return tuple(network for network in given if ip_network(network, strict=False).version == version)


@dataclass(frozen=True)
class Frame:
    """What is looked at of a frame. Of ARP `source` is the address that is claimed, and `claimed` its MAC address."""

    mac: str
    kind: Literal["ipv4", "ipv6", "arp", "other"] = "ipv4"
    source: str = ""
    dest: str = ""
    proto: str = "tcp"
    sport: int = 40000
    dport: int = 80
    icmp: int | None = None
    claimed: str = ""
    tagged: bool = False
    # It fits a connection that the node has seen both ways, whoever sends it.
    established: bool = False


def arrives(sender: Guest, receiver: Guest, frame: Frame, compiler: Compiler, *, isolated: bool = False) -> bool:
    """Whether a frame reaches another machine's NIC on the same VNet and node."""
    # pve-network, Zones/Plugin.pm, tap_plug: the VNet's option is for each port, and no two of those exchange frames.
    return not isolated and leaves(sender, frame, compiler) and enters(receiver, frame, compiler)


def leaves(guest: Guest, frame: Frame, compiler: Compiler) -> bool:
    """Whether a frame gets from its machine onto the VNet."""
    return _iptables_out(guest, frame) if compiler is Compiler.IPTABLES else _nft_out(guest, frame, compiler)


def enters(guest: Guest, frame: Frame, compiler: Compiler) -> bool:
    """Whether a frame gets from the VNet into a machine."""
    return _iptables_in(guest, frame) if compiler is Compiler.IPTABLES else _nft_in(guest, frame)


def _iptables_out(guest: Guest, frame: Frame) -> bool:
    if frame.tagged or frame.kind in ("arp", "other"):
        return _ebtables_out(guest, frame)
    # PVEFW-FORWARD begins with what is established; ebtables has accepted all of IPv4 and IPv6 by then.
    if frame.established:
        return True
    if guest.options.dhcp and _dhcp(frame) == "out":
        return True
    if guest.options.macfilter and frame.mac != guest.mac:
        return False
    if frame.kind == "ipv6" and frame.icmp == ROUTER and not guest.options.radv:
        return False
    if not _may_send(guest, frame):
        return False
    if frame.kind == "ipv6" and guest.options.ndp and frame.icmp in NEIGHBOURS:
        return True
    return _rules(guest, "out", frame, late=True)


def _ebtables_out(guest: Guest, frame: Frame) -> bool:
    """What is no plain IP meets ebtables alone: tags are not looked through (bridge-nf-filter-vlan-tagged is 0)."""
    if guest.options.macfilter and frame.mac != guest.mac:
        return False
    own = guest.own(4)
    if own and frame.kind == "arp" and not frame.tagged:
        return frame.source in own
    return True


def _iptables_in(guest: Guest, frame: Frame) -> bool:
    # There is no chain of ebtables towards a machine.
    if frame.tagged or frame.kind in ("arp", "other") or frame.established:
        return True
    if guest.options.dhcp and _dhcp(frame) == "in":
        return True
    if frame.kind == "ipv6" and guest.options.ndp and frame.icmp in (*NEIGHBOURS, ROUTER):
        return True
    return _rules(guest, "in", frame, late=True)


def _nft_out(guest: Guest, frame: Frame, compiler: Compiler) -> bool:
    # `vm-out` jumps to allow-icmp before it knows the machine: neither MAC nor source is looked at. That jump asks for
    # the protocol in the frame's header, where a tagged frame has its tag; all below asks for what the tag leads to.
    if _error(frame, EARLY) and not frame.tagged:
        return True
    if frame.established and frame.kind != "arp":
        return True
    if frame.kind == "other":
        return False  # it belongs to no connection, and no rule accepts it
    own = guest.own(4)
    if guest.firewall.ipfilter and own is not None:
        # Before 1.2.0 an address had to be outside of the set and inside of the set of exceptions: none is.
        if compiler is Compiler.NFT and frame.kind != "arp" and not _may_send(guest, frame, with_link_local=False):
            return False
        if frame.kind == "arp" and not frame.tagged and frame.source not in own:
            return False
    claimed = frame.claimed if frame.kind == "arp" and not frame.tagged else guest.mac
    if guest.options.macfilter and (frame.mac != guest.mac or claimed != guest.mac):
        return False
    if _dhcp(frame) == "out":
        return guest.options.dhcp
    if frame.kind == "ipv6" and frame.icmp in NEIGHBOURS:
        return guest.options.ndp
    if frame.kind == "ipv6" and frame.icmp in (ROUTER, REDIRECT):
        return guest.options.radv
    return frame.kind == "arp" or _rules(guest, "out", frame)


def _nft_in(guest: Guest, frame: Frame) -> bool:
    if _error(frame, EARLY) and not frame.tagged:
        return True
    if frame.kind == "arp" or frame.established:
        return True
    if frame.kind == "other":
        return False
    if _dhcp(frame) == "in":
        return guest.options.dhcp
    if frame.kind == "ipv6" and frame.icmp in (*NEIGHBOURS, ROUTER, REDIRECT):
        return guest.options.ndp
    return _rules(guest, "in", frame)


def _rules(guest: Guest, direction: str, frame: Frame, *, late: bool = False) -> bool:
    """The first rule that fits; then the policy, DROP, which with iptables comes after errors of ICMP."""
    for rule in guest.firewall.rules:
        if rule.direction == direction and _fits(rule, frame, guest.nic):
            return rule.action == "ACCEPT"
    return late and _error(frame, LATE)


def _error(frame: Frame, types: dict[str, tuple[int, ...]]) -> bool:
    return frame.icmp in types.get(frame.kind, ())


def _dhcp(frame: Frame) -> str:
    return DHCP.get((frame.proto, frame.sport, frame.dport), "") if frame.kind in ("ipv4", "ipv6") else ""


def _may_send(guest: Guest, frame: Frame, *, with_link_local: bool = True) -> bool:
    """The set of own addresses; pve-firewall adds the link-local address that follows from the MAC address."""
    own = guest.own(4 if frame.kind == "ipv4" else 6)
    if own is None:
        return True
    extra = (link_local(guest.mac),) if with_link_local and frame.kind == "ipv6" else ()
    return any(ip_address(frame.source) in ip_network(network, strict=False) for network in (*own, *extra))


def _fits(rule: RulePlan, frame: Frame, nic: str) -> bool:
    places = ((rule.source, frame.source), (rule.dest, frame.dest))
    ports = ((rule.sport, frame.sport), (rule.dport, frame.dport))
    return (
        rule.iface in (None, nic)
        and rule.proto in (None, frame.proto)
        and all(wanted is None or _port(given, wanted) for wanted, given in ports)
        and all(wanted is None or _within(given, wanted) for wanted, given in places)
    )


def _port(port: int, wanted: str) -> bool:
    first, _, last = wanted.partition(":")
    return int(first) <= port <= int(last or first)


def _within(address: str, networks: str) -> bool:
    return any(ip_address(address) in ip_network(word, strict=False) for word in networks.split(","))


def passes(firewall: FirewallPlan, direction: str, source: str, dest: str, port: int = 80, nic: str = "net0") -> bool:
    """Whether a machine may send, or is reached by, a new TCP connection, under each of the programs."""
    guest = Guest("02:00:00:00:00:01", firewall, nic)
    frame = Frame(guest.mac, source=source, dest=dest, dport=port)
    walk = leaves if direction == "out" else enters
    found = {walk(guest, frame, compiler) for compiler in Compiler}
    if len(found) > 1:
        raise AssertionError(f"{direction} {source} -> {dest}:{port} depends on the program that compiles the rules")
    return found.pop()
