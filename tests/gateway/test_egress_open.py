"""`egress: open`: the internet without private ranges, what a site opens all the same, and a bound per desktop."""

from dataclasses import replace
from ipaddress import IPv4Network
from pathlib import Path

import pytest

from deskyard.gateway.config import render
from deskyard.model.site import Site
from deskyard.wire.gateway_settings import Settings
from tests.gateway.nets import Flow, Nets
from tests.gateway.test_firewall import D1, D2, HOST, METADATA, PRIVATE, PUBLIC, run_nets
from tests.unit.gateway.support import parsed

MANY = 60


def reached(nets: Nets, *addresses: str) -> dict[str, bool]:
    found = nets.passes([Flow("d1", "tcp", address, 80) for address in addresses], seconds=1.5)
    return {address: found[str(Flow("d1", "tcp", address, 80))] for address in addresses}


def test_site_opens_a_private_network_and_no_more(tmp_path: Path) -> None:
    with run_nets(parsed("open")) as nets:
        site = Site(egress_exceptions=(IPv4Network("10.99.0.0/24"),), egress_denied=(IPv4Network("198.51.100.0/24"),))
        nets.load(render.firewall(parsed("open")), tmp_path)
        everywhere = (PUBLIC, PRIVATE, METADATA, HOST)
        assert reached(nets, *everywhere) == {PUBLIC: True, PRIVATE: False, METADATA: False, HOST: False}
        nets.load(render.firewall(parsed("open", site=site)), tmp_path)
        assert reached(nets, *everywhere) == {PUBLIC: False, PRIVATE: True, METADATA: False, HOST: False}
        # A neighbour is no way round by the gateway, whatever a site opens.
        assert reached(nets, D2) == {D2: False}


def passed(nets: Nets, start: str) -> int:
    flows = [Flow(start, "tcp", PUBLIC, port) for port in (22, 53, 80, 443, 6080, 7681)]
    answers = [nets.passes(flows, seconds=1) for _ in range(MANY // len(flows))]
    return sum(sum(answer.values()) for answer in answers)


@pytest.fixture
def bounded() -> Settings:
    """The first desktop may open three connections in a second, the second a thousand."""
    settings = parsed("open")
    return replace(settings, egress_rules=replace(settings.egress_rules, rates={D1: 3, D2: 1000}))


def test_new_connections_are_bounded_by_the_tier(bounded: Settings, tmp_path: Path) -> None:
    with run_nets(bounded) as nets:
        nets.load(render.firewall(bounded), tmp_path)
        assert passed(nets, "research-2") == MANY
        assert passed(nets, "d1") < MANY
        weak = render.firewall(bounded).replace('\t\tiifname "workspace" jump rate\n', "")
        nets.load(weak, tmp_path)
        assert passed(nets, "d1") == MANY
