"""A cluster's answers against the Plan: as planned nothing is told, and each change is named as what it is."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest

from deskyard.plan.isolation.catalogue import probes
from deskyard.plan.isolation.cluster import SeenLayers, SeenVm, differences, rule_text
from deskyard.plan.isolation.probe import HostFacts
from deskyard.plan.proxmox.firewall import RulePlan
from deskyard.plan.proxmox.workspace import ClusterPlan, NicPlan, VmPlan
from tests.support.paper_cluster import PaperCluster, workspace

# What an API answers besides, and what must not matter.
DIGEST = {"digest": "0" * 40}


def planned(**changes: Any) -> ClusterPlan:
    return PaperCluster().plan(workspace("lab", "one", "two", **changes))[1]


@dataclass
class Live:
    """A cluster that is as planned, to be changed by hand."""

    plan: ClusterPlan

    def __post_init__(self) -> None:
        vnet, machines = self.plan.vnet, self.plan.machines()
        self.datacenter: dict[str, Any] = {"enable": 1764000000, **DIGEST}
        self.nodes: dict[str, dict[str, Any]] = {vm.node: {} for vm in machines}
        self.vnets: list[dict[str, Any]] = [
            {"vnet": vnet.name, "zone": vnet.zone, "tag": vnet.tag},
            {"vnet": "other", "zone": vnet.zone, "tag": 7, "state": "new"},
        ]
        self.configs = {vm.owner.machine: _config(vm) for vm in machines}
        self.waiting: dict[str, dict[str, Any]] = {}
        self.options = {vm.owner.machine: _options(vm) for vm in machines}
        self.rules = {vm.owner.machine: list(_rules(vm)) for vm in machines}
        self.ipsets = {vm.owner.machine: _ipsets(vm) for vm in machines}

    def findings(self) -> list[str]:
        """What is told of it as it is now."""
        machines = {
            name: SeenVm(
                config,
                {**config, **self.waiting.get(name, {})},
                self.options[name],
                _numbered(self.rules[name]),
                self.ipsets[name],
            )
            for name, config in self.configs.items()
        }
        return differences(self.plan, SeenLayers(self.datacenter, self.nodes, self.vnets, machines))

    def rule(self, machine: str, comment: str) -> dict[str, Any]:
        """The rule with this comment."""
        return next(rule for rule in self.rules[machine] if rule["comment"] == comment)


def _config(vm: VmPlan) -> dict[str, Any]:
    nics = {f"net{number}": _nic(nic) for number, nic in enumerate(vm.nics)}
    return {"name": vm.owner.vm_name, "cores": 2, "nameserver": "192.0.2.1", **nics, **DIGEST}


def _nic(nic: NicPlan) -> str:
    vlan = f",tag={nic.vlan}" if nic.vlan else ""
    return f"virtio={nic.mac.upper()},bridge={nic.bridge},firewall=1,rate=125{vlan}"


def _options(vm: VmPlan) -> dict[str, Any]:
    filters = {"macfilter": 1, "ipfilter": int(vm.firewall.ipfilter), "dhcp": 0}
    policies = {"policy_in": "DROP", "policy_out": "DROP", "log_level_in": "nolog"}
    return {"enable": 1, "ndp": 0, "radv": 0, **filters, **policies, **DIGEST}


def _rules(vm: VmPlan) -> Iterator[dict[str, Any]]:
    for rule in vm.firewall.rules:
        places = {name: getattr(rule, name) for name in ("iface", "source", "dest", "proto", "sport", "dport")}
        given = {name: value for name, value in places.items() if value is not None}
        about = {"type": rule.direction, "action": rule.action, "comment": rule.comment}
        yield {**about, **given, "enable": 1, "log": "nolog", **DIGEST}


def _ipsets(vm: VmPlan) -> dict[str, list[dict[str, Any]]]:
    own = vm.firewall.own.items()
    return {f"ipfilter-{nic}": [{"cidr": address, **DIGEST} for address in addresses] for nic, addresses in own}


def _numbered(rules: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{**rule, "pos": number} for number, rule in enumerate(rules)]


def _neighbours(plan: ClusterPlan) -> str:
    rule = next(rule for rule in plan.desktops["one"].firewall.rules if rule.comment == "neighbours")
    return f"out DROP dest {rule.dest} (neighbours)"


@pytest.fixture
def live() -> Live:
    return Live(planned())


@pytest.mark.parametrize(
    "changes",
    [{}, {"peers": "open"}, {"egress": "locked", "egress_allow": ["git.example.org:22"]}, {"egress": "none"}],
    ids=["closed", "peers", "locked", "none"],
)
def test_of_a_cluster_that_is_as_planned_nothing_is_told(changes: dict[str, Any]) -> None:
    assert Live(planned(**changes)).findings() == []


def test_what_means_the_same_is_no_difference(live: Live) -> None:
    rule = live.rule("one", "private")
    rule["dest"] = ",".join(reversed(rule["dest"].split(",")))
    live.rule("one", "the gateway")["comment"] = "renamed"
    live.ipsets["one"]["ipfilter-net0"][0]["cidr"] += "/32"
    live.configs["one"]["net0"] = live.configs["one"]["net0"].lower()
    live.rules["one"].insert(0, {"type": "in", "action": "ACCEPT", "enable": 0})
    # What nobody set is as it is set by itself.
    del live.options["one"]["macfilter"], live.options["one"]["radv"]
    assert live.findings() == []


def test_a_missing_rule_is_named(live: Live) -> None:
    live.rules["one"].remove(live.rule("one", "neighbours"))
    assert live.findings() == [f"cluster: one: {_neighbours(live.plan)}: is missing"]


def test_a_rule_that_is_switched_off_is_named(live: Live) -> None:
    live.rule("one", "neighbours")["enable"] = 0
    assert live.findings() == [f"cluster: one: {_neighbours(live.plan)}: is switched off"]


@pytest.mark.parametrize(
    ("row", "text"),
    [
        ({"type": "in", "action": "ACCEPT"}, "in ACCEPT"),
        ({"type": "in", "action": "ACCEPT", "macro": "SSH"}, "in ACCEPT macro SSH"),
        ({"type": "group", "action": "ours"}, "group ours"),
        (
            {"type": "out", "action": "ACCEPT", "dest": "+anywhere", "iface": "net0"},
            "out ACCEPT iface net0 dest +anywhere",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_an_added_rule_is_named(live: Live, row: dict[str, Any], text: str) -> None:
    live.rules["gateway"].insert(0, {**row, "enable": 1})
    assert live.findings() == [f"cluster: gateway: {text}: is not in the Plan"]


def test_a_rule_that_allows_more_is_another_one(live: Live) -> None:
    rule = live.rule("gateway", "management")
    wanted = rule_text(next(rule for rule in live.plan.gateway.firewall.rules if rule.comment == "management"))
    rule["source"] = "0.0.0.0/0"
    found = live.findings()
    assert found[0] == f"cluster: gateway: {wanted}: is missing"
    assert len(found) == 2
    assert "source 0.0.0.0/0" in found[1] and found[1].endswith(": is not in the Plan")


def test_a_rule_before_the_one_that_refuses_is_told(live: Live) -> None:
    """The first that fits decides: the same rules in another order let something else pass."""
    rules = live.rules["one"]
    rules.append(rules.pop(rules.index(live.rule("one", "neighbours"))))
    assert live.findings() == [f"cluster: one: {_neighbours(live.plan)}: is not at its place"]


def test_the_same_rule_twice_is_told(live: Live) -> None:
    live.rules["one"].append(live.rule("one", "neighbours"))
    assert [line.rpartition(": ")[2] for line in live.findings()] == ["is not in the Plan"]


@pytest.mark.parametrize(
    ("option", "value", "line"),
    [
        ("enable", 0, "option enable: is off"),
        ("enable", None, "option enable: is off"),
        ("macfilter", 0, "option macfilter: is off"),
        ("ipfilter", 0, "option ipfilter: is off"),
        ("ipfilter", None, "option ipfilter: is off"),
        ("dhcp", 1, "option dhcp: is on"),
        ("ndp", 1, "option ndp: is on"),
        ("ndp", None, "option ndp: is on"),
        ("radv", 1, "option radv: is on"),
        ("policy_in", "ACCEPT", "option policy_in DROP: is ACCEPT"),
        ("policy_out", "ACCEPT", "option policy_out DROP: is ACCEPT"),
        ("policy_out", None, "option policy_out DROP: is ACCEPT"),
    ],
)
def test_a_changed_option_is_named(live: Live, option: str, value: Any, line: str) -> None:
    live.options["two"][option] = value
    if value is None:
        del live.options["two"][option]
    assert live.findings() == [f"cluster: two: {line}"]


def _widened(live: Live) -> str:
    live.ipsets["one"]["ipfilter-net0"].append({"cidr": "0.0.0.0/0"})
    return "IP set ipfilter-net0: 0.0.0.0/0: is not in the Plan"


def _emptied(live: Live) -> str:
    address = live.ipsets["one"]["ipfilter-net0"].pop()["cidr"]
    return f"IP set ipfilter-net0: {address}: is missing"


def _excepted(live: Live) -> str:
    live.ipsets["one"]["ipfilter-net0"].append({"cidr": "192.0.2.7", "nomatch": 1})
    return "IP set ipfilter-net0: not 192.0.2.7: is not in the Plan"


def _removed(live: Live) -> str:
    del live.ipsets["one"]["ipfilter-net0"]
    return "IP set ipfilter-net0: is missing"


def _added(live: Live) -> str:
    live.ipsets["one"]["ipfilter-net1"] = []
    return "IP set ipfilter-net1: is not in the Plan"


@pytest.mark.parametrize("change", [_widened, _emptied, _excepted, _removed, _added])
def test_a_changed_set_of_own_addresses_is_named(live: Live, change: Callable[[Live], str]) -> None:
    line = change(live)
    assert live.findings() == [f"cluster: one: {line}"]


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        (",firewall=1", "", "NIC net0: firewall: is off"),
        (",firewall=1", ",firewall=0", "NIC net0: firewall: is off"),
        ("virtio=02", "virtio=06", "NIC net0: MAC"),
        ("virtio=02", "e1000=06", "NIC net0: MAC"),
        ("bridge=", "bridge=vmbr0x", "NIC net0: bridge"),
        (",rate", ",tag=7,rate", "NIC net0: VLAN none: is 7"),
        (",rate", ",trunks=2-9,rate", "NIC net0: trunks none: is 2-9"),
    ],
    ids=["no flag", "flag off", "MAC", "card and MAC", "bridge", "VLAN", "trunks"],
)
def test_a_changed_nic_is_named(live: Live, old: str, new: str, line: str) -> None:
    live.configs["one"]["net0"] = live.configs["one"]["net0"].replace(old, new)
    found = live.findings()
    assert len(found) == 1
    assert found[0].startswith(f"cluster: one: {line}")


def test_another_card_with_the_same_address_is_no_difference(live: Live) -> None:
    live.configs["one"]["net0"] = live.configs["one"]["net0"].replace("virtio=", "e1000=")
    assert live.findings() == []


def test_an_added_and_a_missing_nic_are_named(live: Live) -> None:
    live.configs["one"]["net1"] = "virtio=BC:24:11:00:00:01,bridge=vmbr0"
    del live.configs["gateway"]["net1"]
    assert live.findings() == ["cluster: gateway: NIC net1: is missing", "cluster: one: NIC net1: is not in the Plan"]


def test_a_nic_that_waits_for_the_next_start_is_named(live: Live) -> None:
    live.waiting["one"] = {"net1": "virtio=BC:24:11:00:00:01,bridge=vmbr0"}
    assert live.findings() == ["cluster: one: NIC net1: is not in the Plan, from its next start on"]


def test_a_switch_above_the_machines_is_named(live: Live) -> None:
    node = live.plan.gateway.node
    live.datacenter.update(enable=0, ebtables=0)
    live.nodes[node]["enable"] = 0
    assert live.findings() == [
        "cluster: datacenter: firewall: is off",
        "cluster: datacenter: ebtables, the filter of MAC addresses: is off",
        f"cluster: node {node}: firewall: is off",
    ]


def test_a_vnet_that_isolates_or_is_elsewhere_is_named(live: Live) -> None:
    row, name = live.vnets[0], live.plan.vnet.name
    row["isolate-ports"] = 1
    cut_off = "isolate-ports: is set, and cuts desktops off from a gateway on their node"
    assert live.findings() == [f"cluster: VNet {name}: {cut_off}"]
    row.update({"isolate-ports": 0, "tag": 3})
    assert "with tag 3" in live.findings()[0]
    row.update({"tag": str(live.plan.vnet.tag), "state": "changed", "pending": {"alias": "deleted"}})
    assert live.findings() == [f"cluster: VNet {name}: has changes that are not applied"]
    live.vnets.clear()
    assert live.findings() == [f"cluster: VNet {name}: is missing"]


def test_a_machine_that_is_gone_is_named(live: Live) -> None:
    del live.configs["two"]
    assert live.findings() == [f"cluster: two: machine {live.plan.desktops['two'].vm_id}: is missing"]


def test_every_rule_of_every_machine_is_missed_if_it_goes(live: Live) -> None:
    """No rule of the Plan is one that the comparison would not notice."""
    for name, rules in live.rules.items():
        for number in range(len(rules)):
            gone = rules.pop(number)
            found = live.findings()
            assert len(found) == 1, gone
            assert f"({gone['comment']}): is missing" in found[0]
            rules.insert(number, gone)
        assert len(rules) > 3, name


def test_probes_on_a_cluster_name_guards_that_the_comparison_tells_of() -> None:
    """What stops a probe is told in the words in which it is missed, and nothing of libvirt is promised."""
    plan, on_cluster = PaperCluster().plan(workspace("lab", "one", "two"))
    found = probes(plan, HostFacts(("198.18.0.7",)), "dyv00000000")
    guards = {guard for probe in found for guard in probe.guards}
    assert {guard.partition(":")[0] for guard in guards} == {"gateway", "cluster", "kernel"}
    weak = Live(on_cluster)
    for machine in ("gateway", "one", "two"):
        weak.rules[machine].clear()
        weak.ipsets[machine].clear()
        weak.options[machine].update(macfilter=0)
    lines = weak.findings()
    for guard in guards:
        if guard.startswith("cluster: "):
            assert any(all(part in line for part in guard.split(": ")[1:]) for line in lines), guard


def test_the_door_of_a_cluster_is_at_the_gateways_own_address() -> None:
    plan, _ = PaperCluster().plan(workspace("lab", "one"))
    doors = [probe for probe in probes(plan, HostFacts(), "dyv00000000") if probe.id == "here: the door of lab"]
    assert [(probe.action["address"], probe.action["port"]) for probe in doors] == [(plan.gateway.uplink_address, 443)]


def test_rules_are_told_with_all_their_places() -> None:
    rule = RulePlan("in", "ACCEPT", "why", "net0", "10.0.0.1", "10.0.0.0/25", "tcp", "1", "22")
    assert rule_text(rule) == "in ACCEPT iface net0 source 10.0.0.1 dest 10.0.0.0/25 proto tcp sport 1 dport 22 (why)"
    assert rule_text(replace(rule, iface=None, sport=None)).startswith("in ACCEPT source 10.0.0.1 ")
