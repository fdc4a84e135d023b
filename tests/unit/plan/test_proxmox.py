"""Ids, tags, addresses and places on a cluster: each for one alone, kept by who has it, whoever plans at once."""

import random
import re
from collections import Counter
from dataclasses import replace
from ipaddress import IPv4Address
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deskyard.errors import ConfigError
from deskyard.plan.power import NoRoom
from deskyard.plan.proxmox.claims import uplink_address, vnet_name
from deskyard.plan.proxmox.view import ClusterView, Owner, SeenMachine, read_view
from deskyard.plan.proxmox.workspace import ClusterPlan, plan_on_cluster
from tests.support.paper_cluster import PaperCluster, RefusedError, rack, workspace

LABELS = st.from_regex(r"[a-z]([a-z0-9-]{0,20}[a-z0-9])?", fullmatch=True).filter(lambda name: name != "gateway")
TRIES = 12


def unique(plans: list[ClusterPlan]) -> None:
    """Nothing that must be of one alone is of two."""
    machines = [machine for plan in plans for machine in plan.machines()]
    for values in (
        [machine.vm_id for machine in machines],
        [nic.mac for machine in machines for nic in machine.nics],
        [plan.gateway.nics[0].config for plan in plans],
        [plan.vnet.name for plan in plans],
        [plan.vnet.tag for plan in plans],
        [plan.pool for plan in plans],
    ):
        assert [value for value, times in Counter(values).items() if times > 1] == []


def test_a_thousand_workspaces_and_five_thousand_desktops_share_nothing() -> None:
    seed = random.randrange(10_000)
    cluster = PaperCluster(nodes=32, memory_gib=16_384, vcpus=512, free_gib=1_000_000)
    site = rack()
    plans = []
    for number in range(1000):
        declared = workspace(f"w{seed}-{number}", *(f"d{n}" for n in range(5)))
        plans.append(_made(cluster, declared, site))
    unique(plans)
    nodes = Counter(machine.node for plan in plans for machine in plan.machines())
    assert len(nodes) == 32, seed


def _made(cluster: PaperCluster, declared: Any, site: Any) -> ClusterPlan:
    _, plan = cluster.plan(declared, site)
    cluster.make(plan)
    return plan


@settings(max_examples=25, deadline=None)
@given(
    st.lists(LABELS, min_size=32, max_size=32, unique=True),
    st.randoms(use_true_random=False),
    st.integers(80, 200),
)
def test_thirty_two_clients_that_plan_at_once_end_with_different_things(
    names: list[str], order: random.Random, ids: int
) -> None:
    cluster = PaperCluster()
    # Narrow ranges, so that they do collide.
    site = rack(
        vm_ids={"first": 1000, "last": 1000 + ids},
        zone={"kind": "vxlan", "peers": ["192.0.2.1"], "first_tag": 500, "last_tag": 531},
    )
    declared = {name: workspace(name) for name in names}
    views: dict[str, ClusterView] = dict.fromkeys(names, cluster.view())
    done: dict[str, ClusterPlan] = {}
    tries: Counter[str] = Counter()
    while len(done) < len(names):
        name = order.choice([name for name in names if name not in done])
        _, plan = plan_on_cluster(declared[name], site, views[name])
        tries[name] += 1
        try:
            cluster.make(plan)
            done[name] = plan
        except RefusedError:
            views[name] = cluster.view()
    unique(list(done.values()))
    assert len(cluster.machines) == 64
    assert len(cluster.vnets) == 32
    # One at a time, a loser wins with its next view; so nobody needs more than a few.
    assert max(tries.values()) <= TRIES


@settings(max_examples=50, deadline=None)
@given(st.lists(LABELS, min_size=2, max_size=12, unique=True), st.data())
def test_owners_keep_what_they_have_whatever_comes_and_goes(names: list[str], data: st.DataObject) -> None:
    cluster, site = PaperCluster(), rack()
    first = {name: _made(cluster, workspace(name, "a", "b"), site) for name in names}
    gone = data.draw(st.sampled_from(names))
    for machine in first[gone].machines():
        del cluster.machines[machine.vm_id]
    del cluster.vnets[first[gone].vnet.name]
    for name in names:
        if name == gone:
            continue
        _, again = cluster.plan(workspace(name, "a", "b", "c"), site)
        assert again.vnet == first[name].vnet
        assert again.gateway == first[name].gateway
        assert {key: again.desktops[key].vm_id for key in ("a", "b")} == {
            key: machine.vm_id for key, machine in first[name].desktops.items()
        }


def test_a_name_leads_to_the_same_things_every_time() -> None:
    first, other = (PaperCluster().plan(workspace("research", "a", "b"))[1] for _ in range(2))
    assert first == other


@given(st.integers(1, 16_777_215))
def test_names_of_vnets_are_short_start_with_a_letter_and_stand_for_one_tag(tag: int) -> None:
    assert re.fullmatch(r"[a-z][a-z0-9]{1,7}", vnet_name(tag))
    assert int(vnet_name(tag).removeprefix("dy"), 36) == tag


def test_the_address_of_a_gateway_follows_from_its_id() -> None:
    site = rack()
    plan, on_cluster = PaperCluster().plan(workspace("research"), site)
    address = IPv4Address(plan.gateway.uplink_address)
    assert site.cluster.uplink.first <= address <= site.cluster.uplink.last
    assert uplink_address(site.cluster, on_cluster.gateway.vm_id) == address
    assert plan.gateway.url == "https://research.desks.example.org"
    assert (plan.gateway.port, plan.gateway.settings.host_address) == (443, "198.18.0.1")


def test_a_clone_without_tags_yet_and_a_renamed_machine_are_still_their_owners() -> None:
    cluster = PaperCluster()
    _, plan = cluster.plan(workspace("research", "a"))
    cluster.make(plan)
    machine = plan.desktops["a"]
    seen = cluster.machines[machine.vm_id]
    for changed in (replace(seen, tags=()), replace(seen, name="mine", pool="")):
        cluster.machines[machine.vm_id] = changed
        assert cluster.plan(workspace("research", "a"))[1].desktops["a"].vm_id == machine.vm_id
    cluster.machines[machine.vm_id] = replace(seen, tags=(), pool="other")
    assert cluster.plan(workspace("research", "a"))[1].desktops["a"].vm_id != machine.vm_id


def test_machines_of_other_workspaces_and_sites_are_never_taken_for_ours() -> None:
    seen = SeenMachine(5, "pve1", "a.research", "deskyard.rack.research", (), True, False, 1, 1, 1)
    view = ClusterView(machines=(seen,))
    assert view.machine_of(Owner("rack", "research", "a")) == seen
    for site, name, machine in (("rack", "research", "b"), ("rack", "researc", "a"), ("other", "research", "a")):
        assert view.machine_of(Owner(site, name, machine)) is None
        assert (name == "research" and site == "rack") == (view.machines_of(site, name) == [seen])


def test_machines_go_where_there_is_room_and_stay_there() -> None:
    cluster = PaperCluster(nodes=4, memory_gib=12)
    site = rack(nodes={"exclude": ["pve2"]})
    _, plan = cluster.plan(workspace("research", "a", "b", "c", "d"), site)
    used = Counter(machine.node for machine in plan.desktops.values())
    assert "pve2" not in used
    assert max(used.values()) <= 2
    cluster.make(plan)
    _, again = cluster.plan(workspace("research", "a", "b", "c", "d"), site)
    assert {m.vm_id: m.node for m in again.machines()} == {m.vm_id: m.node for m in plan.machines()}


def test_desktops_are_spread_only_if_the_site_asks() -> None:
    cluster = PaperCluster(nodes=4)
    # Three nodes are nearly full, so that room alone would choose the fourth for all.
    for number in (1, 2, 3):
        cluster.machines[90 + number] = SeenMachine(
            90 + number, f"pve{number}", "other", "", (), True, False, 60, 400 * 1024, 10
        )
    declared = workspace("research", "a", "b", "c")
    together = {m.node for m in cluster.plan(declared)[1].machines()}
    apart = {m.node for m in cluster.plan(declared, rack(nodes={"spread": True}))[1].machines()}
    assert (len(together), len(apart)) == (1, 4)


def test_all_machines_of_a_workspace_in_a_simple_zone_are_on_one_node() -> None:
    site = rack(zone={"kind": "simple"}, nodes={"spread": True})
    _, plan = PaperCluster(nodes=5).plan(workspace("research", "a", "b", "c"), site)
    assert len({machine.node for machine in plan.machines()}) == 1
    assert plan.vnet.tag is None


@pytest.mark.parametrize(
    ("cluster", "changes", "error", "reason"),
    [
        # Others may go, and leave room; nothing else passes.
        (PaperCluster(memory_gib=3), {}, NoRoom, "no node has 4096 MiB of memory"),
        (PaperCluster(free_gib=2), {}, NoRoom, "no node has space on its storage"),
        (PaperCluster(vcpus=1), {}, ConfigError, "no node has 2 CPUs"),
        (PaperCluster(), {"nodes": {"only": ["elsewhere"]}}, ConfigError, "has none of the nodes"),
        (PaperCluster(), {"vm_ids": {"first": 200, "last": 200}}, ConfigError, "nothing free"),
        (PaperCluster(), {"quotas": {"desktops": 1}}, ConfigError, "would be 2"),
        (PaperCluster(), {"quotas": {"vcpus": 4}}, ConfigError, "would be 5"),
        (PaperCluster(), {"quotas": {"memory_gib": 8}}, ConfigError, "would be 9"),
        (PaperCluster(), {"quotas": {"disk_gib": 63}}, ConfigError, "would be 64"),
        (PaperCluster(), {"quotas": {"each_workspace": {"desktops": 1}}}, ConfigError, "workspace research asks for 2"),
        (PaperCluster(), {"quotas": {"each_workspace": {"memory_gib": 8}}}, ConfigError, "each_workspace.memory_gib"),
    ],
)
def test_what_finds_no_place_is_refused_with_the_reason(
    cluster: PaperCluster, changes: dict[str, Any], error: type[Exception], reason: str
) -> None:
    with pytest.raises(error, match=reason):
        cluster.plan(workspace("research", "a", "b"), rack(**changes))


def _without(view: ClusterView, *off: str) -> ClusterView:
    return replace(view, nodes=tuple(replace(node, online=node.name not in off) for node in view.nodes))


def test_nodes_that_are_off_are_waited_for_rather_than_missed() -> None:
    cluster, declared = PaperCluster(nodes=2), workspace("research", "a")
    names = [node.name for node in cluster.view().nodes]
    with pytest.raises(NoRoom, match=f"no node that it may use is online: {', '.join(names)}"):
        plan_on_cluster(declared, rack(), _without(cluster.view(), *names))
    # With one that runs there is no need of the other.
    _, plan = plan_on_cluster(declared, rack(), _without(cluster.view(), names[0]))
    assert {machine.node for machine in plan.machines()} == {names[1]}


def test_node_to_which_a_simple_zone_binds_a_workspace_is_waited_for_while_it_is_off() -> None:
    cluster, site = PaperCluster(nodes=2), rack(zone={"kind": "simple"})
    there = _made(cluster, workspace("research", "a"), site).gateway.node
    with pytest.raises(NoRoom, match=f"research is on {there}, which is not online"):
        plan_on_cluster(workspace("research", "a", "b"), site, _without(cluster.view(), there))


def test_quotas_count_what_others_have_and_nothing_of_oneself_twice() -> None:
    cluster, site = PaperCluster(), rack(quotas={"desktops": 3})
    _, plan = cluster.plan(workspace("one", "a", "b"), site)
    cluster.make(plan)
    cluster.plan(workspace("one", "a", "b", "c"), site)
    with pytest.raises(ConfigError, match="would be 4"):
        cluster.plan(workspace("two", "a", "b"), site)


def test_quotas_of_each_workspace_leave_others_out() -> None:
    cluster, site = PaperCluster(), rack(quotas={"each_workspace": {"desktops": 2}})
    _, plan = cluster.plan(workspace("one", "a", "b"), site)
    cluster.make(plan)
    cluster.plan(workspace("two", "a", "b"), site)
    with pytest.raises(ConfigError, match="workspace two asks for 3"):
        cluster.plan(workspace("two", "a", "b", "c"), site)


def test_a_view_is_read_from_the_answers_of_the_cluster() -> None:
    rows: list[dict[str, Any]] = [
        {"type": "node", "node": "pve1", "status": "online", "maxcpu": 8, "maxmem": 8 * 1024**3},
        {"type": "node", "node": "pve2", "status": "offline"},
        {
            "type": "qemu",
            "vmid": 100,
            "node": "pve1",
            "name": "t",
            "template": 1,
            "status": "stopped",
            "tags": "a;b",
            "maxcpu": 2,
            "maxmem": 1024**3,
            "maxdisk": 2 * 1024**3,
        },
        {"type": "storage", "storage": "local-lvm", "node": "pve1", "maxdisk": 10 * 1024**3, "disk": 1024**3},
        {"type": "sdn", "sdn": "x", "node": "pve1"},
    ]
    vnets: list[dict[str, Any]] = [
        {"vnet": "dy1", "zone": "z", "tag": "7", "alias": "who"},
        {"vnet": "dy2", "state": "new", "pending": {"zone": "z", "tag": 8}},
        {"vnet": "simple", "zone": "s"},
        {"vnet": "dy3", "state": "deleted", "zone": "z", "tag": 9, "alias": "who", "pending": {}},
    ]
    view = read_view(rows, vnets, {})
    assert [(node.name, node.online) for node in view.nodes] == [("pve1", True), ("pve2", False)]
    assert [(m.vm_id, m.template, m.tags, m.memory_mib, m.disk_gib) for m in view.machines] == [
        (100, True, ("a", "b"), 1024, 2)
    ]
    assert [(storage.name, storage.free_gib, storage.shared) for storage in view.storages] == [("local-lvm", 9, False)]
    assert [(vnet.name, vnet.zone, vnet.tag, vnet.alias, vnet.leaving) for vnet in view.vnets] == [
        ("dy1", "z", 7, "who", False),
        ("dy2", "z", 8, "", False),
        ("simple", "s", None, "", False),
        ("dy3", "z", 9, "who", True),
    ]
