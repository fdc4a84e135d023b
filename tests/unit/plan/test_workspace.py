"""The Plan of a workspace: whole, stable, and never wider than declared."""

import json
from dataclasses import replace
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any

import pytest

from deskyard.errors import ConfigError
from deskyard.model.site import Site
from deskyard.model.tier import TIERS, Tier
from deskyard.model.workspace import Workspace
from deskyard.plan.egress import DENIED_NETWORKS
from deskyard.plan.workspace import HTTPS, Accelerator, WorkspacePlan, plan_workspace
from tests.support.paper_cluster import PaperCluster, workspace

GOLDEN = Path(__file__).parent / "golden"


def planned(*desktops: dict[str, Any], accelerator: Accelerator = "kvm", **keys: Any) -> WorkspacePlan:
    values = {"name": "demo", "network": "10.80.1.0/24", **keys, "desktops": list(desktops) or [{"name": "desk"}]}
    return plan_workspace(Workspace.check(values, "test"), Site(), accelerator)


def test_the_whole_plan_of_a_small_workspace_is_the_golden_one() -> None:
    plan = planned({"name": "desk"}, {"name": "lab", "tier": "pro"})
    assert json.loads(json.dumps(plan.as_dict())) == json.loads((GOLDEN / "two_desktops.json").read_text())


def test_addresses_lie_in_their_halves_and_differ() -> None:
    plan = planned(*[{"name": f"d{number}"} for number in range(100)])
    addresses = [ip_address(desktop.address) for desktop in plan.desktops]
    assert len(set(addresses)) == 100
    assert all(address in ip_network(plan.network.cidr) for address in addresses)
    assert not ip_network(plan.network.cidr).overlaps(ip_network(plan.uplink.cidr))
    assert ip_address(plan.gateway.uplink_address) in ip_network(plan.uplink.cidr)


def test_a_desktop_keeps_its_address_and_mac_when_others_come_and_go() -> None:
    alone = planned({"name": "desk"}).desktop("desk")
    among = planned({"name": "aaa"}, {"name": "desk"}, {"name": "zzz"}).desktop("desk")
    assert (alone.address, alone.mac) == (among.address, among.mac)


def test_a_given_host_number_wins() -> None:
    assert planned({"name": "desk", "host_number": 42}).desktop("desk").address == "10.80.1.42"


def test_macs_of_two_workspaces_differ_for_the_same_desktop_name() -> None:
    other = planned({"name": "desk"}, name="other", network="10.80.2.0/24")
    assert planned({"name": "desk"}).desktop("desk").mac != other.desktop("desk").mac


def test_gateway_behind_this_machine_has_no_address_of_its_own_whatever_its_port() -> None:
    led = planned({"name": "desk"}).gateway
    assert not replace(led, port=HTTPS).has_own_address
    plan, _ = PaperCluster().plan(workspace("demo", "desk"))
    assert replace(plan.gateway, port=8443).has_own_address


@pytest.mark.parametrize("tier", TIERS)
def test_hardware_is_the_tiers(tier: str) -> None:
    machine = planned({"name": "desk", "tier": tier}).desktop("desk").machine
    caps = TIERS[tier]
    assert (machine.vcpus, machine.memory_mib, machine.disk_gib) == (caps.vcpus, caps.memory_mib, caps.disk_gib)


def test_an_emulated_machine_has_one_cpu() -> None:
    assert planned({"name": "desk", "tier": "max"}, accelerator="tcg").desktop("desk").machine.vcpus == 1


def test_an_unknown_tier_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ConfigError) as caught:
        planned({"name": "a"}, {"name": "b", "tier": "huge"})
    assert caught.value.field == "desktops[1].tier"
    assert "free, pro, max" in caught.value.remedy


def test_a_site_may_define_a_tier() -> None:
    site = Site(tiers={"tiny": Tier(vcpus=1, memory_mib=1024, disk_gib=10)})
    values = {"name": "demo", "network": "10.80.1.0/24", "desktops": [{"name": "desk", "tier": "tiny"}]}
    plan = plan_workspace(Workspace.check(values, "test"), site, "kvm")
    assert plan.desktops[0].machine.memory_mib == 1024


def test_private_metadata_and_own_ranges_are_denied_to_desktops() -> None:
    plan = planned({"name": "desk"})
    denied = [ip_network(network) for network in DENIED_NETWORKS]
    forbidden = ["169.254.169.254", "100.100.100.200", "168.63.129.16", "192.168.1.1", "127.0.0.1", "224.0.0.1"]
    for address in [*forbidden, plan.uplink.host_address or "", plan.gateway.uplink_address]:
        assert any(ip_address(address) in network for network in denied), address


def test_settings_of_the_gateway_hold_no_secret_and_all_desktops() -> None:
    plan = planned({"name": "desk"}, {"name": "lab"})
    settings = plan.gateway.settings
    assert [desktop.name for desktop in settings.desktops] == ["desk", "lab"]
    assert "key" not in json.dumps(plan.as_dict()).lower()


def test_bridge_names_fit_the_kernels_limit() -> None:
    plan = planned({"name": "desk"}, name="a" * 32)
    assert len(plan.network.bridge) <= 15
    assert len(plan.uplink.bridge) <= 15
    assert plan.network.bridge != plan.uplink.bridge


def test_desktop_has_its_own_image_else_that_of_the_workspace() -> None:
    plain = planned({"name": "a"}, {"name": "b", "image": "mine"})
    assert {name: machine.image for name, machine in plain.machines().items()} == {
        "gateway": "gateway",
        "a": "desktop",
        "b": "mine",
    }
    all_of_them = planned({"name": "a"}, {"name": "b", "image": "desktop"}, image="mine")
    assert [desktop.machine.image for desktop in all_of_them.desktops] == ["mine", "desktop"]


@pytest.mark.parametrize(
    ("workspace", "desktop", "field"),
    [({}, {"image": "gateway"}, "desktops[0].image"), ({"image": "gateway"}, {}, "image")],
    ids=["desktop", "workspace"],
)
def test_gateways_image_is_no_desktops(workspace: dict[str, Any], desktop: dict[str, str], field: str) -> None:
    with pytest.raises(ConfigError) as caught:
        planned({"name": "a", **desktop}, **workspace)
    assert caught.value.field == field
