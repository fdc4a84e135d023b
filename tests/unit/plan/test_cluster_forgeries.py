"""What `workspace.verify` calls known reach on a cluster is what the walk through the nodes' rules lets by, no more."""

import struct
from collections.abc import Sequence
from ipaddress import IPv4Address, IPv6Address

import pytest

from deskyard.isolation.probing import Verdict
from deskyard.plan.isolation import frames
from deskyard.plan.isolation.catalogue import probes
from deskyard.plan.isolation.forgeries import BRIDGE, Forgery, forgeries
from deskyard.plan.isolation.probe import HostFacts, Probe
from deskyard.plan.proxmox.firewall import IPTABLES, NFTABLES
from tests.support.paper_cluster import PaperCluster, workspace
from tests.support.rule_walk import Compiler, Frame, Guest, arrives

PLAN, ON_CLUSTER = PaperCluster().plan(workspace("lab", "one", "two"))
OTHER, _ = PaperCluster().plan(workspace("more", "three"))
FIRST, TWO = (Guest(desktop.mac, ON_CLUSTER.desktops[desktop.name].firewall) for desktop in PLAN.desktops)
GATEWAY = Guest(PLAN.gateway.workspace_mac, ON_CLUSTER.gateway.firewall, "net1")
PROGRAMS = {Compiler.IPTABLES: IPTABLES, Compiler.NFT_OLD: NFTABLES, Compiler.NFT: NFTABLES}
PROTOCOLS = {frames.UDP: "udp", frames.TCP: "tcp", frames.ICMP: "icmp", frames.ICMPV6: "icmpv6"}
FORGED = {forgery.what: forgery for forgery in forgeries(PLAN.desktops[0], PLAN) if forgery.place == "network"}


def read(frame: bytes) -> Frame:
    """What the walk looks at, of the bytes that would be on the wire. A tag is looked through, as the kernel does."""
    mac, kind, rest = frame[6:12].hex(":"), struct.unpack(">H", frame[12:14])[0], frame[14:]
    tagged = kind in (frames.VLAN, frames.QINQ)
    if tagged:
        kind, rest = struct.unpack(">H", rest[2:4])[0], rest[4:]
    if kind == frames.ARP:
        return Frame(mac, "arp", source=str(IPv4Address(rest[14:18])), claimed=rest[8:14].hex(":"), tagged=tagged)
    if kind == frames.IPV4:
        source, dest, protocol, body = rest[12:16], rest[16:20], rest[9], rest[4 * (rest[0] & 15) :]
        return _packet(mac, tagged, str(IPv4Address(source)), str(IPv4Address(dest)), protocol, body)
    if kind == frames.IPV6:
        source, dest, protocol, body = rest[8:24], rest[24:40], rest[6], rest[40:]
        return _packet(mac, tagged, str(IPv6Address(source)), str(IPv6Address(dest)), protocol, body)
    return Frame(mac, "other", tagged=tagged)


def _packet(mac: str, tagged: bool, source: str, dest: str, protocol: int, body: bytes) -> Frame:
    name = PROTOCOLS.get(protocol, str(protocol))
    ports = struct.unpack(">HH", body[:4]) if name in ("udp", "tcp") else (0, 0)
    icmp = body[0] if name.startswith("icmp") else None
    return Frame(
        mac, "ipv6" if ":" in source else "ipv4", source, dest, name, ports[0], ports[1], icmp=icmp, tagged=tagged
    )


def gets_by(forgery: Forgery) -> set[str]:
    """The programs under which it reaches the gateway, or a neighbour if it is for all."""
    receivers: Sequence[Guest] = (GATEWAY, TWO) if forgery.to_all else (GATEWAY,)
    frame = read(forgery.make(b"mark"))
    return {PROGRAMS[c] for c in Compiler for receiver in receivers if arrives(FIRST, receiver, frame, c)}


@pytest.mark.parametrize("what", FORGED)
def test_known_reach_is_what_gets_by(what: str) -> None:
    forgery = FORGED[what]
    # The bridge itself forwards nothing to these groups.
    assert set(forgery.passes_under) == (set() if BRIDGE in forgery.guards else gets_by(forgery))


def sent(*programs: str, against: bool = False) -> dict[str, Probe]:
    facts = HostFacts(("198.18.0.7",), programs=programs)
    found = probes(PLAN, facts, "dyv00000000", OTHER if against else None)
    return {probe.id.removeprefix("lab/one: "): probe for probe in found if probe.start == "lab/one"}


@pytest.mark.parametrize("program", [IPTABLES, NFTABLES])
def test_known_reach_is_told_and_no_failure_and_all_else_must_be_refused(program: str) -> None:
    for forgery in FORGED.values():
        if not forgery.to_all:
            continue
        probe = sent(program)[f"{forgery.what} -> its neighbours"]
        assert probe.expected == ("known" if program in forgery.passes_under else "refused")
        seen = Verdict(probe, "sent", probe.witnesses)
        assert seen.ok == (program in forgery.passes_under)
        assert not Verdict(probe, "not sent: silent", ()).ok


def test_on_libvirt_nothing_is_known_reach() -> None:
    assert {probe.expected for probe in sent().values() if probe.topic == "spoofing"} == {"refused"}


def test_no_frame_may_reach_another_workspace_whatever_gets_by_within_one() -> None:
    found = sent(IPTABLES, NFTABLES, against=True)
    for forgery in FORGED.values():
        if forgery.to_all and forgery.passes_under:
            probe = found[f"{forgery.what} -> other workspaces"]
            assert probe.expected == "refused"
            assert all(place.startswith("more/") for place in probe.witnesses)
            assert not any(place.startswith("more/") for place in found[f"{forgery.what} -> its neighbours"].witnesses)
