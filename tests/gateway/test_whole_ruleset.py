"""The whole ruleset against the Plan: what the kernel accepts is what the settings allow, packet by packet.

The expectation knows nothing of the template: it says in its own words who may talk to whom.
"""

import itertools
import json
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path
from typing import Any

import pytest

from deskyard.gateway.config import render
from deskyard.model.site import Site
from deskyard.wire.computer import HALT_PORT
from deskyard.wire.gateway_settings import EGRESS, Settings
from deskyard.wire.gateway_settings import parse as parse_settings
from deskyard.wire.routes import ROUTES
from tests.gateway.nft_walk import Packet, Ruleset, kernel_listing, parse
from tests.unit.gateway.support import document, parsed

ROUTER = "nobody"  # an account that every machine has
ALLOW = ("allowed.test", "*.suffix.test", "git.test:22", "git.test:9418")
STRANGER, HOST_MAC = "52:54:00:66:66:66", "52:54:00:77:77:77"
PUBLIC = ("93.184.216.34", "8.8.8.8")
SITE = Site(egress_exceptions=(IPv4Network("10.7.0.0/16"),), egress_denied=(IPv4Network("93.184.0.0/16"),))
Service = dict[str, Any]
# Where something listens, here or at a neighbour's, and where nothing does.
PORTS = (22, 53, 67, 80, 443, 8006, 8700, 9418, 9999, HALT_PORT, *(route.port for route in ROUTES.values()))
TCP: list[Service] = [{"proto": "tcp", "dport": port} for port in PORTS]
UDP: list[Service] = [{"proto": "udp", "dport": port} for port in (53, 67, 68, 443, 9999)]
ANSWERS: list[Service] = [{"proto": kind, "sport": 53, "dport": 40000} for kind in ("udp", "tcp")]
DHCP = [{"proto": "udp", "sport": 68, "dport": 67}, {"proto": "udp", "sport": 67, "dport": 68}]
ICMP: list[Service] = [
    {"proto": "icmp", "icmp": kind} for kind in ("echo-request", "echo-reply", "redirect", "router-advertisement")
]
SERVICES: list[Service] = [*TCP, *UDP, *ANSWERS, *DHCP, *ICMP, {"proto": "esp"}]
STATES = ("established", "related", "invalid", "untracked")
ASKED: list[tuple[Service, str]] = [
    *((service, "new") for service in SERVICES),
    *itertools.product((TCP[1], TCP[4], TCP[-1], UDP[0], ANSWERS[0], ICMP[0]), STATES),
]


def loaded(text: str, settings: Settings, folder: Path) -> Ruleset:
    """The rules as the kernel took them."""
    own = frozenset({settings.uplink_address, settings.workspace_address, "127.0.0.1"})
    return parse(kernel_listing(text, folder), own)


def may(hook: str, packet: Packet, settings: Settings) -> bool:
    """What the Plan says of a packet."""
    if packet.user == ROUTER and settings.egress == "locked":
        return _routed(packet, settings)
    if "lo" in (packet.iif, packet.oif):
        return hook != "forward"
    if packet.family != "ipv4":
        return False
    if packet.state == "invalid" and hook != "output":
        return False
    if packet.state in ("established", "related"):
        return hook != "forward" or settings.egress == "open"
    return {"input": _in, "forward": _through, "output": _out}[hook](packet, settings)


def _in(packet: Packet, settings: Settings) -> bool:
    service = (packet.proto, packet.dport)
    if packet.iif == "uplink" and packet.daddr == settings.uplink_address and packet.state == "new":
        return service == ("tcp", 443) or (service == ("tcp", 22) and packet.saddr == settings.host_address)
    if packet.iif != "workspace":
        return False
    if service == ("udp", 67) and packet.sport == 68:
        inside = _within(packet.saddr, str(settings.workspace_network)) or packet.saddr == "0.0.0.0"
        return inside and packet.daddr in ("255.255.255.255", settings.workspace_address)
    # Questions over UDP are not tracked, so that they fill no table.
    asks = service == ("udp", 53) or (service == ("tcp", 53) and packet.state == "new")
    asks = asks and packet.daddr == settings.workspace_address
    if settings.egress == "locked" and packet.state == "new" and packet.proto == "tcp":
        ways = {
            (forward.address, port) for forward in settings.egress_rules.forwards for port in (80, 443, *forward.ports)
        }
        ways |= {(settings.workspace_address, 80), (settings.workspace_address, 443)}
        asks = asks or (packet.daddr, packet.dport) in ways
    return asks and (packet.mac, packet.saddr) in _desktops(settings)


def _routed(packet: Packet, settings: Settings) -> bool:
    """What the router of a locked workspace may do: ask the host for names, connect to public addresses."""
    if packet.state in ("established", "related"):
        return True
    if packet.oif != "uplink" or packet.family != "ipv4" or packet.proto not in ("tcp", "udp"):
        return False
    if packet.daddr == settings.host_address:
        return packet.dport == 53
    ports = {80, 443, *(port for forward in settings.egress_rules.forwards for port in forward.ports)}
    public = not _inside(packet.daddr, settings)
    return public and packet.proto == "tcp" and packet.dport in ports and packet.state == "new"


def _inside(address: str, settings: Settings) -> bool:
    """Whether an address is one where nobody may go, the site's exceptions left out."""
    if _within(address, str(settings.uplink_network)):
        return True
    excepted = any(_within(address, network) for network in settings.egress_rules.exceptions)
    return not excepted and any(_within(address, network) for network in settings.denied_networks)


def _through(packet: Packet, settings: Settings) -> bool:
    if settings.egress != "open" or (packet.iif, packet.oif, packet.state) != ("workspace", "uplink", "new"):
        return False
    if _inside(packet.daddr, settings):
        return False
    asked = packet.proto in ("tcp", "udp") or packet.icmp == "echo-request"
    return asked and (packet.mac, packet.saddr) in _desktops(settings)


def _out(packet: Packet, settings: Settings) -> bool:
    service = (packet.proto, packet.dport)
    if packet.oif == "uplink":
        return settings.egress == "open" and packet.daddr == settings.host_address and packet.dport == 53
    inside = _within(packet.daddr, str(settings.workspace_network))
    if (packet.proto, packet.sport) == ("udp", 53) and packet.saddr == settings.workspace_address and inside:
        return True
    reached = {desktop.address: (22, HALT_PORT, *desktop.routes.values()) for desktop in settings.desktops}
    if packet.proto == "tcp":
        return packet.state == "new" and packet.dport in reached.get(packet.daddr, ())
    if packet.icmp == "echo-request":
        return inside
    return service == ("udp", 68) and packet.sport == 67 and packet.saddr == settings.workspace_address


@cache
def _within(address: str, network: str) -> bool:
    return IPv4Address(address) in IPv4Network(network)


def _desktops(settings: Settings) -> set[tuple[str, str]]:
    return {(desktop.mac, desktop.address) for desktop in settings.desktops}


def packets(settings: Settings) -> Iterator[tuple[str, Packet]]:
    """Every kind of packet at every hook, with addresses at the edges of every network the rules could know."""
    first, second = settings.desktops[:2]
    unknown = str(settings.workspace_network.broadcast_address - 1)
    senders = [
        *((desktop.mac, desktop.address) for desktop in (first, second)),
        (second.mac, first.address),
        *((mac, address) for mac in (first.mac, STRANGER) for address in (unknown, "0.0.0.0", PUBLIC[0])),
        (STRANGER, first.address),
        *((HOST_MAC, address) for address in (settings.host_address, settings.uplink_address, *PUBLIC)),
    ]
    own = [settings.uplink_address, settings.workspace_address]
    near = [
        *own,
        *(forward.address for forward in settings.egress_rules.forwards),
        settings.host_address,
        first.address,
        second.address,
        unknown,
        "255.255.255.255",
        PUBLIC[0],
    ]
    ways: dict[str, list[tuple[str, str]]] = {
        "input": [("lo", ""), ("uplink", ""), ("workspace", "")],
        "forward": list(itertools.product(("uplink", "workspace"), ("uplink", "workspace"))),
        "output": [("", "lo"), ("", "uplink"), ("", "workspace")],
    }
    for hook, pairs in ways.items():
        sent = senders if hook != "output" else [("", address) for address in (*own, first.address)]
        for way, sender, daddr, (service, state) in itertools.product(pairs, sent, near, ASKED):
            yield hook, _packet(way, sender, daddr, service, state)
        yield from (
            (hook, _packet(way, sent[0], near[0], service, "new", family="ipv6"))
            for way in pairs
            for service in SERVICES
        )
    # The way out knows many networks: both ends of each.
    for daddr in (*_edges(settings), *PUBLIC, settings.host_address):
        for service in SERVICES:
            yield "forward", _packet(("workspace", "uplink"), senders[0], daddr, service, "new")
            yield "output", _packet(("", "uplink"), ("", own[0]), daddr, service, "new")
            for oif in ("lo", "uplink", "workspace"):
                packet = _packet(("", oif), ("", own[0]), daddr, service, "new")
                yield "output", replace(packet, user=ROUTER)
    for daddr, (service, state) in itertools.product((PUBLIC[0], settings.host_address), ASKED):
        yield "output", replace(_packet(("", "uplink"), ("", own[0]), daddr, service, state), user=ROUTER)


def _packet(
    way: tuple[str, str], sender: tuple[str, str], daddr: str, service: dict[str, Any], state: str, family: str = "ipv4"
) -> Packet:
    return Packet(way[0], way[1], sender[0], sender[1], daddr, state=state, family=family, **service)


def _edges(settings: Settings) -> Iterator[str]:
    for text in (
        *settings.denied_networks,
        *settings.egress_rules.exceptions,
        str(settings.uplink_network),
        str(settings.workspace_network),
    ):
        network = IPv4Network(text)
        yield from (str(network.network_address), str(network.broadcast_address))


def differences(rules: Ruleset, settings: Settings) -> Iterator[str]:
    for hook, packet in packets(settings):
        passes = rules.passes(hook, packet)
        if passes != may(hook, packet, settings):
            yield f"{hook}: {'passes' if passes else 'is refused'}: {packet}"


@pytest.mark.parametrize("site", [Site(), SITE], ids=["plain", "exceptions"])
@pytest.mark.parametrize("egress", EGRESS)
def test_rules_accept_what_the_plan_allows_and_nothing_else(egress: Any, site: Site, tmp_path: Path) -> None:
    settings = parsed(egress, ALLOW if egress == "locked" else (), site)
    found = differences(loaded(render.firewall(settings, ROUTER), settings, tmp_path), settings)
    assert list(itertools.islice(found, 10)) == []


@pytest.mark.parametrize("egress", ["open", "locked"])
def test_exceptions_that_no_plan_would_make_do_not_open_the_gateways_own_networks(egress: Any, tmp_path: Path) -> None:
    made = document(egress, ALLOW if egress == "locked" else ())
    made["egress_rules"]["exceptions"] = ["10.0.0.0/8"]
    settings = parse_settings(json.dumps(made))
    found = differences(loaded(render.firewall(settings, ROUTER), settings, tmp_path), settings)
    assert list(itertools.islice(found, 10)) == []


def test_walk_meets_packets_that_are_allowed_at_every_hook() -> None:
    """Without this, the walk could pass on zero packets."""
    settings = parsed("open")
    allowed = {hook for hook, packet in packets(settings) if may(hook, packet, settings)}
    assert allowed == {"input", "forward", "output"}


@pytest.mark.parametrize("weak", ["ip daddr @denied jump refuse", "ether saddr . ip saddr @desktops ", "ct state new "])
def test_weakened_rules_are_seen(weak: str, tmp_path: Path) -> None:
    settings = parsed("open")
    text = render.firewall(settings)
    assert weak in text
    assert next(differences(loaded(text.replace(weak, ""), settings, tmp_path), settings))
