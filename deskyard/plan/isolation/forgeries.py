"""Frames that no honest desktop sends, each with the place where nobody may ever see it."""

import struct
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from ipaddress import IPv4Network
from typing import Literal

from deskyard.plan.isolation import frames
from deskyard.plan.isolation.frames import ARP, BROADCAST, IPV4, IPV6, REPLY, REQUEST
from deskyard.plan.proxmox.firewall import IPTABLES, NFTABLES
from deskyard.plan.workspace import DesktopPlan, WorkspacePlan

# A host number that the Plan gives to nobody: claiming it harms no live machine, and the same rule must refuse it.
CANARY_HOST = 5
FORGED_MAC = "52:54:00:fe:fe:fe"
LINK_LOCAL, UNIQUE_LOCAL, GLOBAL, ALL_NODES = "fe80::5054:ff:fefe:fefe", "fd5e::1", "2001:db8::1", "ff02::1"
METADATA_V6 = "fd00:ec2::254"
RELAY_6TO4 = "192.88.99.1"
# TEST-NET-2 (RFC 5737) stands for the internet: no private range, and nobody's.
PUBLIC = "198.51.100.10"
MULTICAST = {"mDNS": ("224.0.0.251", 5353), "LLMNR": ("224.0.0.252", 5355), "SSDP": ("239.255.255.250", 1900)}

KINDS = "gateway: chain forward: meta l4proto { tcp, udp } and echo requests alone"
ROUTES = "kernel: net.ipv4.conf.all.accept_source_route = 0"
FRAGMENTS = "kernel: connection tracking puts fragments together first"
BRIDGE = "kernel: a bridge forwards nothing to link-local groups"

Place = Literal["network", "outside"]
Maker = Callable[[bytes], bytes]


@dataclass(frozen=True)
class Forgery:
    """A frame and what it is; `network`: no other machine may see it, `outside`: nothing beyond the gateway may.

    `guards` are the rules that refuse it besides those against forged addresses, `passes_under` the programs on the
    nodes of a cluster that cannot be made to refuse it.
    """

    what: str
    threats: tuple[int, ...]
    place: Place
    make: Maker
    guards: tuple[str, ...] = ()
    passes_under: tuple[str, ...] = ()

    @property
    def to_all(self) -> bool:
        """Whether it is addressed to more than one machine."""
        return bool(self.make(b"")[0] & 1)


@dataclass(frozen=True)
class Forger:
    """A desktop that lies: its own addresses, its gateway's, and an address that is nobody's."""

    mac: str
    address: str
    gateway_mac: str
    gateway: str
    canary: str

    def all(self) -> list[Forgery]:
        """Every frame it tries; each maker is given the mark that its frame carries."""
        return [*self._arp(), *self._addresses(), *self._servers(), *self._ipv6(), *self._layer2(), *self._protocols()]

    def _arp(self) -> list[Forgery]:
        # The gateway's own address would cut off live desktops where nothing refuses it.
        mine, asked = (self.mac, self.canary), ("00:00:00:00:00:00", self.gateway)
        claims: list[tuple[str, str, int, tuple[str, str]]] = [
            ("ARP reply to all: a foreign address is mine", BROADCAST, REPLY, mine),
            ("ARP reply to the gateway: a foreign address is mine", self.gateway_mac, REPLY, mine),
            ("ARP request in a foreign name", BROADCAST, REQUEST, mine),
            ("ARP reply with a forged MAC", self.gateway_mac, REPLY, (FORGED_MAC, self.canary)),
        ]

        def message(operation: int, source: tuple[str, str]) -> Maker:
            return lambda mark: frames.arp(operation, source, asked, mark)

        return [self._near(what, (1,), message(op, source), to=to, kind=ARP) for what, to, op, source in claims]

    def _addresses(self) -> list[Forgery]:
        def datagram(source: str) -> Maker:
            return lambda mark: self._udp(source, self.gateway, 53, mark)

        return [
            self._near("IPv4 from a foreign address", (3,), datagram(self.canary)),
            self._near("IPv4 from the gateway's address", (3,), datagram(self.gateway)),
            self._near("IPv4 from the internet", (3,), datagram(PUBLIC)),
            self._near("IPv4 from a forged MAC", (2,), datagram(self.address), source=FORGED_MAC),
            self._near("ICMP redirect", (5,), self._redirect, to=BROADCAST),
            self._far("IPv4 from a foreign address to the internet", (3,), self.canary, self.mac),
            self._far("IPv4 from a forged MAC to the internet", (2,), self.address, FORGED_MAC),
        ]

    def _far(self, what: str, threats: tuple[int, ...], address: str, mac: str) -> Forgery:
        def make(mark: bytes) -> bytes:
            return frames.ethernet(self.gateway_mac, mac, IPV4, self._udp(address, PUBLIC, 9, mark))

        return Forgery(what, threats, "outside", make)

    def _servers(self) -> list[Forgery]:
        def offer(mark: bytes) -> bytes:
            lease = frames.dhcp_offer(self.address, self.canary, FORGED_MAC, mark)
            return frames.ipv4(self.address, "255.255.255.255", frames.UDP, lease)

        found = [self._near("DHCP offer", (4,), offer, to=BROADCAST)]
        for name, (group, port) in MULTICAST.items():
            low = struct.unpack(">I", bytes(map(int, group.split("."))))[0] & 0x7FFFFF
            mac = f"01:00:5e:{low >> 16:02x}:{low >> 8 & 255:02x}:{low & 255:02x}"
            found.append(self._near(f"{name} discovery", (8,), partial(self._udp, self.address, group, port), to=mac))
        everybody = partial(self._udp, self.address, "255.255.255.255", 9)
        return [*found, self._near("broadcast over IPv4", (8,), everybody, to=BROADCAST)]

    def _ipv6(self) -> list[Forgery]:
        nodes = "33:33:00:00:00:01"

        def six(what: str, threats: tuple[int, ...], payload: Maker, to: str = nodes) -> Forgery:
            return self._near(what, threats, payload, to=to, kind=IPV6)

        def to_gateway(source: str, target: str) -> Maker:
            return lambda mark: frames.udp6(source, target, (4000, 53), mark)

        return [
            six(
                "DHCPv6 advertisement", (4,), lambda mark: frames.udp6(LINK_LOCAL, ALL_NODES, (547, 546), b"\2" + mark)
            ),
            six("router advertisement", (5,), lambda mark: frames.router_advertisement(LINK_LOCAL, self.mac, mark)),
            six(
                "router advertisement with a resolver",
                (5,),
                lambda mark: frames.router_advertisement(LINK_LOCAL, self.mac, mark, resolver=LINK_LOCAL),
            ),
            six("neighbour redirect", (5,), lambda mark: frames.neighbour_redirect(LINK_LOCAL, GLOBAL, mark)),
            six("neighbour solicitation", (6,), lambda mark: frames.neighbour_solicitation(LINK_LOCAL, GLOBAL, mark)),
            six("IPv6 from a link-local address", (3, 6), to_gateway(LINK_LOCAL, "fe80::1"), self.gateway_mac),
            six("IPv6 from a unique local address", (3, 6), to_gateway(UNIQUE_LOCAL, "fd5e::2"), self.gateway_mac),
            six("IPv6 from a global address", (3, 6), to_gateway(GLOBAL, "2001:db8::2"), self.gateway_mac),
            six("IPv6 to the metadata service", (15,), to_gateway(UNIQUE_LOCAL, METADATA_V6), self.gateway_mac),
            six(
                "IPv6 with mapped IPv4 addresses",
                (6,),
                to_gateway("::ffff:10.0.0.1", "::ffff:10.0.0.2"),
                self.gateway_mac,
            ),
        ]

    def _layer2(self) -> list[Forgery]:
        def bare(mark: bytes) -> bytes:
            return frames.ethernet(BROADCAST, self.mac, frames.EXPERIMENTAL, mark)

        def inner(mark: bytes) -> bytes:
            return frames.ethernet(self.gateway_mac, self.mac, IPV4, self._udp(self.address, self.gateway, 53, mark))

        bridges, stations = "01:80:c2:00:00:00", "01:80:c2:00:00:0e"
        lldp = bytes([2, 7, 4]) + bytes(6)
        spanning = b"\x42\x42\x03" + bytes(35)
        return [
            Forgery("unknown protocol to all", (7,), "network", bare, passes_under=(IPTABLES,)),
            Forgery(
                "VLAN tag",
                (7,),
                "network",
                lambda mark: frames.tagged(inner(mark), (frames.VLAN, 7)),
                passes_under=(IPTABLES, NFTABLES),
            ),
            Forgery(
                "two VLAN tags",
                (7,),
                "network",
                lambda mark: frames.tagged(inner(mark), (frames.QINQ, 7), (frames.VLAN, 8)),
                passes_under=(IPTABLES,),
            ),
            Forgery(
                "spanning tree message",
                (11,),
                "network",
                # Its third field is a length, not a protocol: these are IEEE 802.3 frames.
                lambda mark: frames.ethernet(bridges, self.mac, len(spanning + mark), spanning + mark),
                passes_under=(IPTABLES,),
            ),
            Forgery(
                "LLDP",
                (11,),
                "network",
                lambda mark: frames.ethernet(stations, self.mac, frames.LLDP, lldp + mark),
                (BRIDGE,),
            ),
        ]

    def _protocols(self) -> list[Forgery]:
        def packet(protocol: int, payload: Maker, target: str = PUBLIC, **fields: bytes | int) -> Maker:
            return lambda mark: frames.ipv4(self.address, target, protocol, payload(mark), **fields)  # type: ignore[arg-type]

        def datagram(mark: bytes) -> bytes:
            return frames.udp(4000, 9, mark.ljust(24, b"\0"))

        def far(what: str, threats: tuple[int, ...], payload: Maker, guard: str = KINDS) -> Forgery:
            return Forgery(what, threats, "outside", self._near(what, threats, payload).make, (guard,))

        tunnelled = lambda mark: frames.udp6(GLOBAL, GLOBAL, (4000, 9), mark)  # noqa: E731
        # Source-routed and record-route: options that steer or trace, refused on the way out.
        route = bytes([131, 7, 4, *map(int, RELAY_6TO4.split(".")), 0])
        return [
            far("GRE", (10,), packet(frames.GRE, lambda mark: bytes(2) + b"\x08\x00" + mark)),
            far("SCTP", (10,), packet(frames.SCTP, lambda mark: bytes(12) + mark)),
            far("an unassigned protocol", (10,), packet(253, lambda mark: mark)),
            far(
                "IPv4 in IPv4",
                (10,),
                packet(frames.IN_IPV4, lambda mark: self._udp(self.address, self.gateway, 9, mark)),
            ),
            far("6to4", (6,), packet(frames.IN_IPV6, tunnelled, RELAY_6TO4)),
            far("a source route", (10,), packet(frames.UDP, datagram, options=route), ROUTES),
            far("a fragment without its start", (10,), packet(frames.UDP, datagram, fragment=64), FRAGMENTS),
            far(
                "a fragment without its end",
                (10,),
                packet(frames.UDP, datagram, fragment=frames.MORE_FRAGMENTS),
                FRAGMENTS,
            ),
        ]

    def _udp(self, source: str, target: str, port: int, mark: bytes) -> bytes:
        return frames.ipv4(source, target, frames.UDP, frames.udp(4000, port, mark))

    def _redirect(self, mark: bytes) -> bytes:
        """Says: what is for the internet goes to me; it quotes a packet, as it must."""
        quoted = self._udp(self.canary, PUBLIC, 9, mark)
        router = bytes(map(int, self.address.split(".")))
        return frames.ipv4(self.gateway, "255.255.255.255", frames.ICMP, frames.icmp(5, 1, router, quoted))

    def _near(
        self, what: str, threats: tuple[int, ...], payload: Maker, *, to: str = "", source: str = "", kind: int = IPV4
    ) -> Forgery:
        way = (to or self.gateway_mac, source or self.mac)
        return Forgery(what, threats, "network", lambda mark: frames.ethernet(*way, kind, payload(mark)))


def evasions(liar: Forger) -> list[Forgery]:
    """Frames that a filter may take for something that it does not look into."""

    def tagged(kind: int, payload: Maker) -> Maker:
        # VLAN 0 is a priority and no network: whoever takes it reads the rest as if it were untagged.
        return lambda mark: frames.tagged(
            frames.ethernet(BROADCAST, liar.mac, kind, payload(mark)), (frames.VLAN, frames.PRIORITY)
        )

    def datagram(mark: bytes) -> bytes:
        return frames.ipv4(liar.canary, "255.255.255.255", frames.UDP, frames.udp(4000, 9, mark))

    def claim(mark: bytes) -> bytes:
        return frames.arp(REPLY, (liar.mac, liar.canary), ("00:00:00:00:00:00", liar.gateway), mark)

    def question(source: str, mac: str) -> Maker:
        def make(mark: bytes) -> bytes:
            packet = frames.ipv4(source, "255.255.255.255", frames.UDP, frames.udp(68, 67, mark))
            return frames.ethernet(BROADCAST, mac, IPV4, packet)

        return make

    def failure(mark: bytes) -> bytes:
        # It quotes a packet, as it must, that nobody sent.
        quoted = frames.ipv4(liar.gateway, PUBLIC, frames.UDP, frames.udp(4000, 9, mark))
        packet = frames.ipv4(liar.canary, "255.255.255.255", frames.ICMP, frames.icmp(3, 1, bytes(4), quoted))
        return frames.ethernet(BROADCAST, liar.mac, IPV4, packet)

    def own_link_local(mark: bytes) -> bytes:
        packet = frames.udp6(frames.link_local(liar.mac), ALL_NODES, (4000, 9), mark)
        return frames.ethernet("33:33:00:00:00:01", liar.mac, IPV6, packet)

    advertisement = partial(frames.router_advertisement, LINK_LOCAL, liar.mac)
    both = (IPTABLES, NFTABLES)
    return [
        Forgery("DHCP question from a forged MAC", (2, 4), "network", question("0.0.0.0", FORGED_MAC)),
        Forgery("DHCP question from the gateway's address", (3, 4), "network", question(liar.gateway, liar.mac)),
        Forgery("IPv6 from its own link-local address", (6,), "network", own_link_local),
        Forgery("IPv4 behind a priority tag", (3, 7), "network", tagged(IPV4, datagram), passes_under=(IPTABLES,)),
        Forgery("ARP reply behind a priority tag", (1, 7), "network", tagged(ARP, claim), passes_under=both),
        Forgery(
            "router advertisement behind a priority tag",
            (5, 7),
            "network",
            tagged(IPV6, advertisement),
            passes_under=(IPTABLES,),
        ),
        Forgery("ICMP error from a foreign address", (3, 10), "network", failure, passes_under=(NFTABLES,)),
    ]


def forger(desktop: DesktopPlan, plan: WorkspacePlan) -> Forger:
    """This desktop as one that lies."""
    nobody = str(IPv4Network(plan.network.cidr)[CANARY_HOST])
    gateway = plan.gateway
    return Forger(desktop.mac, desktop.address, gateway.workspace_mac, gateway.workspace_address, nobody)


def forgeries(desktop: DesktopPlan, plan: WorkspacePlan) -> list[Forgery]:
    """List all frames that this desktop tries."""
    return [*forger(desktop, plan).all(), *evasions(forger(desktop, plan))]
