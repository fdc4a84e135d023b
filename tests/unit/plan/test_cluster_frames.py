"""What a desktop on a cluster may send to its neighbour and its gateway, frame by frame, under each firewall program.

The second half is yesterday's firewall: every attack that it let by still gets by in this walk.
"""

from dataclasses import replace

import pytest

from deskyard.plan.isolation.frames import link_local
from deskyard.plan.proxmox.firewall import ALL_ELSE, NO_DHCP, FirewallPlan
from tests.support.paper_cluster import PaperCluster, workspace
from tests.support.rule_walk import Compiler, Frame, Guest, Options, arrives, enters, leaves

PLAN, ON_CLUSTER = PaperCluster().plan(workspace("lab", "one", "two"))
FIRST, TWO = (Guest(desktop.mac, ON_CLUSTER.desktops[desktop.name].firewall) for desktop in PLAN.desktops)
GATEWAY = Guest(PLAN.gateway.workspace_mac, ON_CLUSTER.gateway.firewall, "net1")
OWN, NEXT = (desktop.address for desktop in PLAN.desktops)
ROUTER, PUBLIC = PLAN.network.gateway_address, "93.184.216.34"
NOBODY, EVERYBODY = "0.0.0.0", "255.255.255.255"
LINK_LOCAL, ALL_NODES = "fe80::5054:ff:fe00:1", "ff02::1"
ALL, NONE = frozenset(Compiler), frozenset[Compiler]()
IPTABLES = frozenset({Compiler.IPTABLES})
NFT = ALL - IPTABLES


def datagram(source: str, dest: str, sport: int = 40000, dport: int = 53, **more: object) -> Frame:
    """UDP from the desktop `one`."""
    frame = Frame(FIRST.mac, source=source, dest=dest, proto="udp", sport=sport, dport=dport)
    return replace(frame, **more)  # type: ignore[arg-type]


def claim(address: str, **more: object) -> Frame:
    """ARP: this address is mine."""
    return replace(Frame(FIRST.mac, "arp", source=address, claimed=FIRST.mac), **more)  # type: ignore[arg-type]


def six(source: str, dest: str = ALL_NODES, **more: object) -> Frame:
    """IPv6 from the desktop `one`."""
    return replace(Frame(FIRST.mac, "ipv6", source=source, dest=dest, proto="udp"), **more)  # type: ignore[arg-type]


# What `one` sends, and under which programs its neighbour sees it.
ATTACKS: dict[str, tuple[Frame, frozenset[Compiler]]] = {
    "TCP": (Frame(FIRST.mac, source=OWN, dest=NEXT, dport=6080), NONE),
    "UDP": (datagram(OWN, NEXT), NONE),
    "UDP from the gateway's address": (datagram(ROUTER, NEXT), NONE),
    "UDP from a neighbour's address": (datagram(NEXT, ROUTER), NONE),
    "UDP from a public address": (datagram(PUBLIC, NEXT), NONE),
    "UDP with the neighbour's MAC address": (datagram(OWN, ROUTER, mac=TWO.mac), NONE),
    "UDP with the gateway's MAC address": (datagram(ROUTER, NEXT, mac=GATEWAY.mac), NONE),
    "a DHCP question with the neighbour's MAC address": (
        datagram(NOBODY, EVERYBODY, 68, 67, mac=TWO.mac),
        NONE,
    ),
    "a DHCP question": (datagram(NOBODY, EVERYBODY, 68, 67), NONE),
    "a DHCP answer": (datagram(OWN, NEXT, 67, 68), NONE),
    "a DHCP answer from the gateway's address": (datagram(ROUTER, NEXT, 67, 68), NONE),
    "a DHCP question from the gateway's address": (datagram(ROUTER, NEXT, 68, 67), NONE),
    "ARP with the gateway's address": (claim(ROUTER), NONE),
    "ARP with the neighbour's address": (claim(NEXT), NONE),
    "ARP with a foreign MAC address": (claim(OWN, mac=TWO.mac), NONE),
    "ARP with its own address": (claim(OWN), ALL),
    "ARP that puts its address at another MAC": (claim(OWN, claimed=TWO.mac), IPTABLES),
    "IPv6 from its link-local address": (six(link_local(FIRST.mac)), NONE),
    "IPv6 from a global address": (six("2001:db8::1"), NONE),
    "a router advertisement": (six(LINK_LOCAL, proto="icmpv6", icmp=134), NONE),
    "a neighbour solicitation": (six(LINK_LOCAL, proto="icmpv6", icmp=135), NONE),
    "a DHCPv6 question": (six(LINK_LOCAL, sport=546, dport=547), NONE),
    "an ICMP redirect": (Frame(FIRST.mac, source=ROUTER, dest=NEXT, proto="icmp", icmp=5), NONE),
    # Known reach: docs/cluster-isolation.md says whom it can hurt.
    "an ICMP error from the gateway's address": (
        Frame(FIRST.mac, source=ROUTER, dest=NEXT, proto="icmp", icmp=3, sport=0, dport=0),
        NFT,
    ),
    "an ICMP error with the neighbour's MAC address": (
        Frame(TWO.mac, source=ROUTER, dest=NEXT, proto="icmp", icmp=11, sport=0, dport=0),
        NFT,
    ),
    "an IPv6 error": (six(LINK_LOCAL, proto="icmpv6", icmp=2), NFT),
    "what fits an open connection, with the neighbour's MAC address": (
        datagram(OWN, ROUTER, mac=TWO.mac, established=True),
        ALL,
    ),
    "UDP behind a VLAN tag, from the gateway's address": (datagram(ROUTER, NEXT, tagged=True), IPTABLES),
    "UDP behind a VLAN tag, from its own address": (datagram(OWN, NEXT, tagged=True), IPTABLES),
    "ARP behind a VLAN tag, with the gateway's address": (claim(ROUTER, tagged=True), ALL),
    "a router advertisement behind a VLAN tag": (six(LINK_LOCAL, proto="icmpv6", icmp=134, tagged=True), IPTABLES),
    "a VLAN tag with the neighbour's MAC address": (datagram(OWN, ROUTER, mac=TWO.mac, tagged=True), NONE),
    "another protocol than IP": (Frame(FIRST.mac, "other"), IPTABLES),
    "another protocol with the neighbour's MAC address": (Frame(TWO.mac, "other"), NONE),
}


def reached(sender: Guest, receiver: Guest, frame: Frame) -> frozenset[Compiler]:
    """The programs under which a frame arrives."""
    return frozenset(compiler for compiler in Compiler if arrives(sender, receiver, frame, compiler))


@pytest.mark.parametrize("name", ATTACKS)
def test_a_desktop_sends_its_neighbour_nothing_but_what_is_known(name: str) -> None:
    frame, reach = ATTACKS[name]
    assert reached(FIRST, TWO, frame) == reach


@pytest.mark.parametrize("name", ATTACKS)
def test_the_neighbour_sends_it_nothing_else_either(name: str) -> None:
    """The same frames the other way round: the two have different addresses, and the same rules."""
    frame, reach = ATTACKS[name]
    swap = {FIRST.mac: TWO.mac, TWO.mac: FIRST.mac, OWN: NEXT, NEXT: OWN}
    fields = {key: swap.get(getattr(frame, key), getattr(frame, key)) for key in ("mac", "source", "dest", "claimed")}
    assert reached(TWO, FIRST, replace(frame, **fields)) == reach


def test_a_desktop_and_its_gateway_reach_each_other_on_one_node_and_on_two() -> None:
    asked, answer = datagram(OWN, ROUTER), Frame(GATEWAY.mac, source=ROUTER, dest=OWN, dport=6080)
    for compiler in Compiler:
        assert arrives(FIRST, GATEWAY, asked, compiler)
        assert arrives(GATEWAY, FIRST, answer, compiler)
        assert arrives(GATEWAY, FIRST, Frame(GATEWAY.mac, "arp", source=ROUTER, claimed=GATEWAY.mac), compiler)


def test_with_isolated_ports_a_desktop_on_its_gateways_node_has_no_gateway() -> None:
    """The VNet's option is for every port; so was the network that Deskyard declared until now."""
    asked = datagram(OWN, ROUTER)
    assert not any(arrives(FIRST, GATEWAY, asked, compiler, isolated=True) for compiler in Compiler)


def test_the_gateway_hears_a_desktop_from_its_own_address_alone() -> None:
    for source in (NEXT, ROUTER, PUBLIC, NOBODY):
        assert reached(FIRST, GATEWAY, datagram(source, ROUTER)) == NONE
    # Its own question in its own name is a datagram like others, and harms nobody.
    assert reached(FIRST, GATEWAY, datagram(OWN, ROUTER, 68, 67)) == IPTABLES


def test_open_peers_talk_and_mislead_nobody_with_leases() -> None:
    plan, on_cluster = PaperCluster().plan(workspace("lab", "one", "two", peers="open"))
    first, two = (Guest(desktop.mac, on_cluster.desktops[desktop.name].firewall) for desktop in plan.desktops)
    assert reached(first, two, datagram(OWN, NEXT)) == ALL
    for sport, dport in ((67, 68), (68, 67)):
        assert reached(first, two, datagram(OWN, NEXT, sport, dport)) == NONE
    assert reached(first, two, datagram(ROUTER, NEXT)) == NONE


def test_a_desktop_takes_no_packet_that_is_meant_for_another() -> None:
    """Who was made the owner of a neighbour's MAC address by a bridge does not get its packets for that."""
    meant_for_two = Frame(GATEWAY.mac, source=ROUTER, dest=NEXT, dport=6080)
    for compiler in Compiler:
        assert leaves(GATEWAY, meant_for_two, compiler)
        assert not enters(FIRST, meant_for_two, compiler)


def test_the_gateway_sends_desktops_nothing_from_other_addresses_but_answers() -> None:
    for established in (False, True):
        answer = Frame(GATEWAY.mac, source=PUBLIC, dest=OWN, established=established)
        assert reached(GATEWAY, FIRST, answer) == (ALL if established else NONE)


def test_every_rule_that_accepts_names_an_ipv4_address_of_its_machine() -> None:
    """A rule without an address is compiled for IPv6 too; one without its own accepts what others forge."""
    for vm in ON_CLUSTER.machines():
        for rule in vm.firewall.rules:
            named = rule.source if rule.direction == "out" else rule.dest or rule.source
            assert rule.action == "DROP" or (named and ":" not in named), rule


def yesterday(firewall: FirewallPlan, own: str) -> FirewallPlan:
    """The firewall before: no rule names its own address, and what no rule names is left to options and policy."""
    kept = (rule for rule in firewall.rules if rule not in (*NO_DHCP, *ALL_ELSE))
    rules = (
        replace(
            rule,
            source=None if rule.source == own else rule.source,
            dest=None if rule.direction == "in" and rule.dest == own else rule.dest,
        )
        for rule in kept
    )
    return replace(firewall, rules=tuple(rules))


@pytest.mark.parametrize(
    ("name", "programs"),
    [
        ("a DHCP question with the neighbour's MAC address", IPTABLES),
        ("a DHCP question from the gateway's address", ALL - {Compiler.NFT}),
    ],
)
def test_a_dhcp_question_got_by_with_any_address(name: str, programs: frozenset[Compiler]) -> None:
    """It left before the look at its MAC address, so the VNet learnt the neighbour's at the attacker's port."""
    weak = Guest(FIRST.mac, yesterday(FIRST.firewall, OWN), options=Options(dhcp=True))
    frame, _ = ATTACKS[name]
    assert {compiler for compiler in Compiler if leaves(weak, frame, compiler)} == programs
    assert not any(leaves(FIRST, frame, compiler) for compiler in Compiler)


def test_the_old_nftables_let_a_desktop_send_to_its_gateway_and_beyond_from_any_address() -> None:
    weak = Guest(FIRST.mac, yesterday(FIRST.firewall, OWN))
    for source, dest in ((NEXT, ROUTER), (PUBLIC, ROUTER), (NEXT, PUBLIC)):
        left = {compiler for compiler in Compiler if leaves(weak, datagram(source, dest), compiler)}
        assert left == {Compiler.NFT_OLD}


def test_a_rule_without_an_address_let_ipv6_out() -> None:
    weak = Guest(FIRST.mac, yesterday(FIRST.firewall, OWN))
    frame = six(link_local(FIRST.mac), "2001:db8::1")
    assert {compiler for compiler in Compiler if leaves(weak, frame, compiler)} == {Compiler.IPTABLES, Compiler.NFT_OLD}
    assert not any(leaves(FIRST, frame, compiler) for compiler in Compiler)


def test_the_policy_let_errors_of_icmp_by_where_nothing_else_was_allowed() -> None:
    plan, on_cluster = PaperCluster().plan(workspace("lab", "one", egress="none"))
    first, vm = plan.desktops[0], on_cluster.desktops["one"]
    strict, weak = Guest(first.mac, vm.firewall), Guest(first.mac, yesterday(vm.firewall, first.address))
    error = Frame(first.mac, source=first.address, dest=PUBLIC, proto="icmp", icmp=11, sport=0, dport=0)
    assert leaves(weak, error, Compiler.IPTABLES)
    assert not leaves(strict, error, Compiler.IPTABLES)


def test_a_packet_for_a_neighbour_was_taken() -> None:
    weak = Guest(FIRST.mac, yesterday(FIRST.firewall, OWN))
    assert all(enters(weak, Frame(GATEWAY.mac, source=ROUTER, dest=NEXT), compiler) for compiler in Compiler)
