"""Who may send what to whom by the rules at each machine, both ways; and what leaks as soon as one is gone."""

from dataclasses import replace
from typing import Any

import pytest

from deskyard.model.site import Site
from deskyard.plan.proxmox.workspace import ClusterPlan
from deskyard.plan.workspace import WorkspacePlan
from tests.support.paper_cluster import PaperCluster, rack, workspace
from tests.support.rule_walk import passes

PUBLIC, METADATA, LAN = "93.184.216.34", "169.254.169.254", "10.255.255.1"


def plans(directory: str = "", **changes: Any) -> tuple[WorkspacePlan, ClusterPlan]:
    """A workspace with two desktops; with `directory` its gateway orders its certificate there."""
    site = rack()
    if directory:
        acme = {"directory": directory, "email": "ops@example.org"}
        site = Site.check({**site.model_dump(exclude_none=True, mode="json"), "certificate": {"acme": acme}}, "test")
    return PaperCluster().plan(workspace("lab", "one", "two", **changes), site)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, {"gateway": True, "neighbour": False, PUBLIC: True, METADATA: False, LAN: False}),
        ({"peers": "open"}, {"gateway": True, "neighbour": True, PUBLIC: True, METADATA: False, LAN: False}),
        ({"egress": "locked"}, {"gateway": True, "neighbour": False, PUBLIC: False, METADATA: False, LAN: False}),
        ({"egress": "none"}, {"gateway": True, "neighbour": False, PUBLIC: False, METADATA: False, LAN: False}),
    ],
    ids=["closed", "peers", "locked", "none"],
)
def test_a_desktop_sends_where_its_workspace_lets_it_and_nowhere_else(
    changes: dict[str, Any], expected: dict[str, bool]
) -> None:
    plan, on_cluster = plans(**changes)
    first, two = plan.desktops
    firewall = on_cluster.desktops["one"].firewall
    where = {"gateway": plan.network.gateway_address, "neighbour": two.address}
    found = {name: passes(firewall, "out", first.address, where.get(name, name)) for name in expected}
    assert found == expected


def test_a_desktop_is_reached_by_its_gateway_alone_and_sends_from_its_address_alone() -> None:
    plan, on_cluster = plans()
    first, two = plan.desktops
    firewall = on_cluster.desktops["one"].firewall
    assert passes(firewall, "in", plan.network.gateway_address, first.address, 6080)
    for stranger in (two.address, PUBLIC, LAN, plan.gateway.uplink_address):
        assert not passes(firewall, "in", stranger, first.address, 6080)
    assert not passes(firewall, "out", two.address, plan.network.gateway_address)


def test_the_gateway_opens_its_door_to_all_and_ssh_to_operators() -> None:
    plan, on_cluster = plans()
    firewall, door = on_cluster.gateway.firewall, plan.gateway.uplink_address
    assert passes(firewall, "in", PUBLIC, door, 443)
    assert passes(firewall, "in", "198.18.0.9", door, 22)
    assert not passes(firewall, "in", PUBLIC, door, 22)
    assert not passes(firewall, "in", PUBLIC, door, 8700)
    assert not passes(firewall, "in", "198.18.0.9", plan.desktops[0].address, 443)
    assert passes(firewall, "out", door, "198.18.0.2", 53)
    assert passes(firewall, "out", door, PUBLIC, 443)
    # The hypervisors are in the site's own network.
    assert not passes(firewall, "out", door, "198.18.0.7", 8006)
    assert not passes(firewall, "out", PUBLIC, PUBLIC, 443)


@pytest.mark.parametrize("egress", ["open", "locked", "none"])
def test_a_gateway_that_orders_its_certificate_is_asked_on_port_80_and_reaches_its_server(egress: str) -> None:
    plan, on_cluster = plans("https://acme.example.org/directory", egress=egress)
    firewall, door = on_cluster.gateway.firewall, plan.gateway.uplink_address
    assert passes(firewall, "in", PUBLIC, door, 80)
    assert passes(firewall, "out", door, PUBLIC, 443)
    assert passes(firewall, "out", door, PUBLIC, 25) == (egress != "none")
    for closed in (LAN, METADATA, "198.18.0.7"):
        assert not passes(firewall, "out", door, closed, 443)


def test_a_server_of_certificates_that_is_known_by_its_address_may_be_private() -> None:
    plan, on_cluster = plans(f"https://{LAN}:14000/dir", egress="none")
    firewall, door = on_cluster.gateway.firewall, plan.gateway.uplink_address
    assert passes(firewall, "out", door, LAN, 14000)
    assert not passes(firewall, "out", door, LAN, 443)
    assert not passes(firewall, "out", door, PUBLIC, 14000)


def test_a_gateway_with_a_certificate_of_the_site_is_not_asked_on_port_80() -> None:
    plan, on_cluster = plans(egress="none")
    firewall, door = on_cluster.gateway.firewall, plan.gateway.uplink_address
    assert not passes(firewall, "in", PUBLIC, door, 80)
    assert not passes(firewall, "out", door, PUBLIC, 443)


def test_without_the_rule_about_neighbours_desktops_leak() -> None:
    plan, on_cluster = plans()
    first, two = plan.desktops
    whole = on_cluster.desktops["one"].firewall
    weak = replace(whole, rules=tuple(rule for rule in whole.rules if rule.comment not in ("neighbours", "private")))
    assert not passes(whole, "out", first.address, two.address)
    assert passes(weak, "out", first.address, two.address)


def test_own_addresses_are_bound_by_the_set_and_by_each_rule() -> None:
    """Either alone holds under two of the three programs; the old nftables know only the rules."""
    plan, on_cluster = plans()
    whole, lie = on_cluster.desktops["one"].firewall, plan.desktops[1].address
    loose = tuple(replace(rule, source=None) if rule.action == "ACCEPT" else rule for rule in whole.rules)
    for firewall in (whole, replace(whole, own={}, ipfilter=False)):
        assert not passes(firewall, "out", lie, plan.network.gateway_address)
    assert passes(replace(whole, own={}, ipfilter=False, rules=loose), "out", lie, plan.network.gateway_address)
    with pytest.raises(AssertionError, match="depends on the program"):
        passes(replace(whole, rules=loose), "out", lie, plan.network.gateway_address)
