"""The Plan of the way out: addresses for names with a port, exceptions, rates."""

from ipaddress import IPv4Address, IPv4Network
from typing import Any

import pytest

from deskyard.errors import ConfigError
from deskyard.model.site import Site
from deskyard.model.tier import TIERS, Tier
from deskyard.model.workspace import Workspace
from deskyard.plan.egress import DENIED_NETWORKS
from deskyard.plan.workspace import WorkspacePlan, plan_workspace
from deskyard.wire.egress_rules import EgressRules


def planned(*allow: str, site: Site | None = None, **keys: Any) -> WorkspacePlan:
    values = {"name": "demo", "network": "10.80.1.0/24", "egress": "locked", "egress_allow": list(allow), **keys}
    values.setdefault("desktops", [{"name": "desk"}])
    return plan_workspace(Workspace.check(values, "test"), site or Site(), "kvm")


def rules(plan: WorkspacePlan) -> EgressRules:
    return plan.gateway.settings.egress_rules


def test_names_with_a_port_get_addresses_that_nothing_else_has() -> None:
    names = [f"git{number}.example.org:22" for number in range(120)]
    plan = planned(*names, "docs.example.org", "*.example.net", "web.example.org:443")
    addresses = [IPv4Address(forward.address) for forward in rules(plan).forwards]
    assert len(set(addresses)) == 120
    for address in addresses:
        assert address in IPv4Network("10.80.1.0/24")
        assert address not in IPv4Network(plan.network.cidr)
        assert address not in IPv4Network(plan.uplink.cidr)


def test_one_more_than_there_are_addresses_is_refused() -> None:
    with pytest.raises(ConfigError, match="addresses for 120"):
        planned(*[f"git{number}.example.org:22" for number in range(121)])


def test_a_name_has_one_address_for_all_its_ports_and_keeps_it() -> None:
    (alone,) = rules(planned("git.example.org:22", "git.example.org:9418", "git.example.org")).forwards
    assert alone.ports == (22, 9418)
    among = {
        forward.name: forward.address
        for forward in rules(planned("a.org:22", "git.example.org:22", "z.org:22")).forwards
    }
    assert among["git.example.org"] == alone.address


def test_rates_are_the_tiers() -> None:
    site = Site(tiers={"slow": Tier(vcpus=1, memory_mib=2048, disk_gib=20, connections_per_second=7)})
    plan = planned(site=site, desktops=[{"name": "a"}, {"name": "b", "tier": "slow"}])
    found = rules(plan).rates
    wanted = {"a": TIERS["free"].connections_per_second, "b": 7}
    assert {desktop.name: found[desktop.address] for desktop in plan.desktops} == wanted


def test_site_adds_to_what_is_denied_and_opens_what_it_names() -> None:
    site = Site(egress_denied=(IPv4Network("203.0.113.0/24"),), egress_exceptions=(IPv4Network("10.9.0.0/16"),))
    plan = planned(site=site)
    assert plan.gateway.settings.denied_networks == (*DENIED_NETWORKS, "203.0.113.0/24")
    assert rules(plan).exceptions == ("10.9.0.0/16",)


@pytest.mark.parametrize(
    "network", ["0.0.0.0/0", "169.254.0.0/16", "169.254.169.254", "127.0.0.0/8", "100.64.0.0/10", "239.1.1.0/24"]
)
def test_site_cannot_open_what_no_desktop_may_ever_reach(network: str) -> None:
    with pytest.raises(ConfigError, match="no desktop may ever reach"):
        Site.check({"name": "local", "egress_exceptions": [network]}, "local.yaml")


def test_site_cannot_open_the_workspaces_own_network() -> None:
    with pytest.raises(ConfigError, match="network of workspace demo"):
        planned(site=Site(egress_exceptions=(IPv4Network("10.0.0.0/8"),)))
