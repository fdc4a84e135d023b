"""The host's own table in a real kernel: what workspaces may do on and through the host, and nothing else."""

import json
import re
import subprocess
from collections.abc import Iterator

import pytest

from deskyard.model.site import Site
from deskyard.plan.egress import denied_networks
from tests.gateway.nets import Flow
from tests.gateway.support import wait_for
from tests.hypervisor.lab import (
    HOST_OUTSIDE,
    HOST_PORTS,
    METADATA,
    OPENED,
    PRIVATE,
    PUBLIC,
    SITE,
    Lab,
    rendered,
    workspaces,
)

A, B, C = workspaces().values()
OWN, FOREIGN = str(A.uplink.host_address), str(B.uplink.host_address)
DOOR_A, DOOR_B = A.gateway.uplink_address, B.gateway.uplink_address
C1 = C.desktops[0].address

ALLOWED = {
    # What libvirt's dnsmasq answers a gateway, on its own bridge.
    Flow("gwa", "tcp", OWN, 53),
    Flow("gwa", "udp", OWN, 53),
    # NAT to outside, and what the site opens.
    Flow("gwa", "tcp", PUBLIC, 80),
    Flow("gwa", "udp", PUBLIC, 53),
    Flow("gwa", "tcp", OPENED, 80),
    # The host manages its gateways, and the administrator leads a port to one.
    *(Flow("host", "tcp", door, port) for door in (DOOR_A, DOOR_B) for port in (22, 443)),
    Flow("out", "tcp", HOST_OUTSIDE, 8443),
    # Nobody but workspaces is meant.
    *(Flow("out", "tcp", HOST_OUTSIDE, port) for port in HOST_PORTS),
    Flow("host", "tcp", PUBLIC, 80),
    Flow("host", "tcp", PRIVATE, 80),
    # Within a workspace the host has no say.
    Flow("da", "tcp", A.gateway.workspace_address, 22),
}
NEVER = {
    *(Flow("gwa", "tcp", OWN, port) for port in HOST_PORTS if port != 53),
    *(Flow("gwa", "tcp", address, port) for address in (FOREIGN, HOST_OUTSIDE) for port in HOST_PORTS),
    *(Flow("gwa", "udp", address, 53) for address in (FOREIGN, HOST_OUTSIDE)),
    Flow("gwa", "udp", OWN, 67),
    *(Flow("gwa", "tcp", DOOR_B, port) for port in (22, 443)),
    *(Flow("gwa", "tcp", address, 80) for address in (METADATA, PRIVATE)),
    Flow("gwa", "udp", PRIVATE, 53),
    Flow("gwa", "tcp", B.desktops[0].address, 22),
    *(Flow("db", "tcp", address, port) for address in (OWN, FOREIGN, HOST_OUTSIDE) for port in HOST_PORTS),
    *(Flow("db", "udp", address, 53) for address in (FOREIGN, HOST_OUTSIDE)),
    *(Flow("db", "tcp", address, 80) for address in (PUBLIC, METADATA, PRIVATE, OPENED)),
    *(Flow("db", "tcp", address, 22) for address in (DOOR_A, C1)),
    *(Flow("out", "tcp", address, port) for address in (DOOR_A, DOOR_B) for port in (22, 443)),
    Flow("out", "tcp", B.desktops[0].address, 22),
    Flow("host", "tcp", B.desktops[0].address, 22),
}
FLOWS = sorted(ALLOWED | NEVER, key=str)
EXPECTED = {str(flow): flow in ALLOWED for flow in FLOWS}


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with Lab() as built:
        wait_for("the cables", lambda: all(built.passes(sorted(ALLOWED, key=str), 0.5).values()))
        built.load(rendered())
        yield built


def test_allowed_flows_pass_and_all_others_are_refused(lab: Lab) -> None:
    found = lab.settled(FLOWS, EXPECTED)
    assert found == EXPECTED, lab.run("host", "nft", "list", "ruleset")


def test_without_the_table_every_flow_would_pass() -> None:
    with Lab() as bare:
        wanted = dict.fromkeys(EXPECTED, True)
        wait_for("the cables", lambda: all(bare.passes(sorted(ALLOWED, key=str), 0.5).values()))
        assert bare.settled(FLOWS, wanted) == wanted


def ipv6(lab: Lab) -> list[Flow]:
    """From machines of a workspace to the IPv6 addresses of the host's bridges."""
    nics = {"gwa": (A.uplink.bridge, "uplink"), "db": (B.network.bridge, "eth0")}
    wait_for("IPv6 addresses", lambda: all(lab.link_local(start, nic) for start, (_, nic) in nics.items()))
    wait_for("IPv6 addresses", lambda: all(lab.link_local("host", bridge) for bridge, _ in nics.values()))
    addresses = {start: f"{lab.link_local('host', bridge)}%{nic}" for start, (bridge, nic) in nics.items()}
    return [Flow(start, "tcp", address, port) for start, address in addresses.items() for port in (22, 53)]


def test_ipv6_of_the_bridges_is_refused(lab: Lab) -> None:
    flows = ipv6(lab)
    lab.load("delete table inet deskyard_host\n")
    try:
        wait_for("IPv6 without the table", lambda: all(lab.passes(flows, 1).values()))
    finally:
        lab.load(rendered())
    assert not any(lab.passes(flows, 1).values())


def test_forged_source_is_refused_on_the_uplink(lab: Lab) -> None:
    # The address of another gateway: DNS over UDP needs no answer to do harm, so a tap stands where the service is.
    lab.run("gwa", "ip", "address", "add", f"{DOOR_B}/32", "dev", "lo")
    lab.run("gwa", "ip", "route", "add", f"{OWN}/32", "dev", "uplink", "src", DOOR_B)
    try:
        assert not taken(lab, Flow("gwa", "udp", OWN, 53))
        lab.load(rendered().replace("fib saddr . iif oif missing jump refuse", ""))
        assert taken(lab, Flow("gwa", "udp", OWN, 53))
    finally:
        lab.load(rendered())
        lab.run("gwa", "ip", "route", "del", f"{OWN}/32", "dev", "uplink")
        lab.run("gwa", "ip", "address", "del", f"{DOOR_B}/32", "dev", "lo")


TAP = "table inet tap { chain input { type filter hook input priority 100; udp dport 53 counter; }; }"


def taken(lab: Lab, flow: Flow) -> bool:
    """Whether the host takes in what this flow sends, answered or not."""
    lab.load(TAP)
    lab.passes([flow], 0.5)
    listing = lab.run("host", "nft", "list", "table", "inet", "tap")
    lab.load("delete table inet tap")
    return "counter packets 0" not in listing


def test_host_answers_no_desktop_that_asks_for_its_mac(lab: Lab) -> None:
    def answered() -> bool:
        lab.run("db", "ip", "neighbour", "flush", "dev", "eth0", "to", f"{FOREIGN}/32")
        lab.passes([Flow("db", "udp", FOREIGN, 9)], 1.2)
        states = json.loads(lab.run("db", "ip", "-j", "neighbour", "show", "to", f"{FOREIGN}/32"))
        return any("lladdr" in state for state in states)

    lab.run("db", "ip", "route", "add", f"{FOREIGN}/32", "dev", "eth0")
    try:
        assert not answered()
        lab.load("delete table arp deskyard_host\n")
        wait_for("the answer without the table", answered)
    finally:
        lab.load(rendered())
        lab.run("db", "ip", "route", "del", f"{FOREIGN}/32", "dev", "eth0")


def test_loading_again_replaces_our_tables_whole_and_no_others(lab: Lab) -> None:
    before = lab.run("host", "nft", "-s", "list", "ruleset")
    lab.load("table inet theirs { chain input { type filter hook input priority 5; tcp dport 9 drop; }; }")
    lab.load("add rule inet deskyard_host output tcp dport 9 drop")
    lab.load(rendered())
    assert "table inet theirs" in lab.run("host", "nft", "list", "tables")
    lab.load("delete table inet theirs")
    assert lab.run("host", "nft", "-s", "list", "ruleset") == before


def test_rules_that_do_not_load_change_nothing(lab: Lab) -> None:
    before = lab.run("host", "nft", "-s", "list", "ruleset")
    with pytest.raises(AssertionError):
        lab.load(rendered().replace("goto routed_in", "goto nowhere"))
    assert lab.run("host", "nft", "-s", "list", "ruleset") == before


# Rules that stand behind each other are taken away together: each alone would be covered.
FROM_DESKTOPS = 'iifname "dyw*" oifname != "dyw*" jump refuse'
TO_DESKTOPS = 'iifname != "dyw*" oifname "dyw*" jump refuse'
ARP = ['iifname "dyw*" counter drop', 'oifname "dyw*" counter drop']
TO_DENIED = "ip daddr @denied jump refuse"
WEAKENED = {
    "host from desktops": (
        [*ARP, 'iifname "dyw*" jump refuse', 'oifname "dyw*" jump refuse\n\t}\n}'],
        Flow("db", "tcp", FOREIGN, 22),
    ),
    "host from gateways": (['iifname "dyu*" goto from_gateway'], Flow("gwa", "tcp", OWN, 22)),
    "names of another bridge": (["fib daddr . iif type local"], Flow("gwa", "udp", FOREIGN, 53)),
    "outside from desktops": ([*ARP, FROM_DESKTOPS, TO_DESKTOPS], Flow("db", "tcp", PUBLIC, 80)),
    "desktop from desktop": ([*ARP, 'iifname "dyw*" fib daddr oifname "dyw*" jump refuse'], Flow("db", "tcp", C1, 22)),
    "denied from gateways": ([TO_DENIED], Flow("gwa", "tcp", METADATA, 80)),
    "gateway from gateway": (['oifname "dyu*" jump refuse', TO_DENIED], Flow("gwa", "tcp", DOOR_B, 443)),
    "gateways from outside": (['oifname "dyu*" goto routed_in'], Flow("out", "tcp", DOOR_B, 443)),
    "what is led to a gateway": (["ct status dnat accept"], Flow("out", "tcp", HOST_OUTSIDE, 8443)),
    "what the site opens": (["ip daddr @exceptions accept"], Flow("gwa", "tcp", OPENED, 80)),
}


@pytest.mark.parametrize("weakness", WEAKENED)
def test_weakened_rules_are_caught(lab: Lab, weakness: str) -> None:
    removed, flow = WEAKENED[weakness]
    rules = weak = rendered()
    for rule in removed:
        assert weak.count(rule) == 1
        weak = weak.replace(rule, "\t}\n}" if rule.endswith("}") else "")
    lab.load(weak)
    try:
        assert lab.settled([flow], {str(flow): not EXPECTED[str(flow)]}) != {str(flow): EXPECTED[str(flow)]}
    finally:
        lab.load(rules)


def test_networks_of_the_site_are_all_in_the_rules() -> None:
    site = Site.check({"name": "s", "egress_denied": ["203.0.113.0/24"], "egress_exceptions": ["10.1.2.0/24"]}, "test")
    rules = rendered(site)
    assert all(network in rules for network in (*denied_networks(site), "10.1.2.0/24"))
    assert "203.0.113.0/24" not in rendered(SITE)


def test_rules_load_where_nothing_is_opened() -> None:
    rules = rendered(Site.check({"name": "s"}, "test"))
    subprocess.run(["unshare", "-n", "nft", "-f", "-"], input=rules, text=True, check=True, timeout=30)


def test_names_of_bridges_are_the_plans() -> None:
    names = set(re.findall(r'"(dy[a-z]+)\*"', rendered()))
    assert names == {network.bridge[:3] for network in (A.uplink, A.network)} == {"dyu", "dyw"}
