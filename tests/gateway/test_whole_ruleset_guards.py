"""Where two rules refuse the same packet, each does it alone: whoever takes one away opens nothing."""

import itertools
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from deskyard.gateway.config import render
from deskyard.wire.gateway_settings import EGRESS, Settings
from tests.gateway.nft_walk import Packet, Ruleset
from tests.gateway.test_whole_ruleset import ALLOW, PUBLIC, ROUTER, STATES, differences, loaded
from tests.unit.gateway.support import parsed

FILTERS = ("input", "forward", "output")


def gateway(egress: Any, folder: Path) -> tuple[Settings, Ruleset]:
    """Settings of a workspace, and the rules that the kernel has of them."""
    settings = parsed(egress, ALLOW if egress == "locked" else ())
    return settings, loaded(render.firewall(settings, ROUTER), settings, folder)


@pytest.mark.parametrize("egress", EGRESS)
def test_what_no_rule_accepts_is_refused_by_policy(egress: Any, tmp_path: Path) -> None:
    _, rules = gateway(egress, tmp_path)
    assert {(hook, accepts) for hook in FILTERS for _, accepts in rules.bases[hook]} == {
        (hook, False) for hook in FILTERS
    }


@pytest.mark.parametrize("egress", EGRESS)
def test_what_no_rule_accepts_is_refused_without_the_policy_too(egress: Any, tmp_path: Path) -> None:
    settings, rules = gateway(egress, tmp_path)
    rules.bases = {hook: [(chain, True) for chain, _ in chains] for hook, chains in rules.bases.items()}
    assert list(itertools.islice(differences(rules, settings), 10)) == []


@pytest.mark.parametrize("egress", EGRESS)
def test_ipv6_passes_no_hook_whatever_the_state_of_its_connection(egress: Any, tmp_path: Path) -> None:
    _, rules = gateway(egress, tmp_path)
    ways = {"input": ("uplink", ""), "forward": ("workspace", "uplink"), "output": ("", "uplink")}
    for (hook, (iif, oif)), state in itertools.product(ways.items(), ("new", *STATES)):
        packet = Packet(iif, oif, dport=443, state=state, family="ipv6")
        assert not rules.passes(hook, packet), (hook, packet)


def passing_by(settings: Settings) -> Iterator[Packet]:
    """What comes to the gateway and is for elsewhere."""
    first = settings.desktops[0]
    for daddr, state in itertools.product((*PUBLIC, settings.host_address, first.address), ("new", "established")):
        yield Packet("workspace", "", first.mac, first.address, daddr, dport=443, state=state)
        yield Packet("uplink", "", "", settings.host_address, daddr, dport=443, state=state)


@pytest.mark.parametrize("egress", [egress for egress in EGRESS if egress != "open"])
def test_what_is_for_elsewhere_is_refused_before_it_is_routed(egress: Any, tmp_path: Path) -> None:
    settings, rules = gateway(egress, tmp_path)
    assert not [packet for packet in passing_by(settings) if rules.passes("prerouting", packet)]
    for packet, own in itertools.product(passing_by(settings), (settings.uplink_address, settings.workspace_address)):
        assert rules.passes("prerouting", replace(packet, daddr=own)), packet


@pytest.mark.parametrize("egress", EGRESS)
def test_ports_of_dhcp_open_no_other_port(egress: Any, tmp_path: Path) -> None:
    settings, rules = gateway(egress, tmp_path)
    first, own = settings.desktops[0], settings.workspace_address
    asks = Packet("workspace", "", first.mac, first.address, own, proto="udp", sport=68, dport=67)
    answers = Packet("", "workspace", "", own, first.address, proto="udp", sport=67, dport=68)
    for hook, packet in (("input", asks), ("output", answers)):
        assert rules.passes(hook, packet)
        assert not rules.passes(hook, replace(packet, dport=9999))
        assert not rules.passes(hook, replace(packet, sport=9999))


@pytest.mark.parametrize("egress", EGRESS)
def test_operators_begin_connections_and_do_not_go_on_with_unknown_ones(egress: Any, tmp_path: Path) -> None:
    settings, rules = gateway(egress, tmp_path)
    packet = Packet("uplink", "", "", settings.host_address, settings.uplink_address, dport=22)
    assert rules.passes("input", packet)
    assert not rules.passes("input", replace(packet, state="untracked"))
