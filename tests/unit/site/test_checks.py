"""Each check on facts of a good cluster, and on the same facts with one thing wrong."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from deskyard.model.site import Site
from deskyard.site.finding import report
from deskyard.site.proxmox.doctor.doctor import judge
from deskyard.site.proxmox.doctor.facts import Facts, NodeFacts
from deskyard.site.proxmox.doctor.privileges import needed
from deskyard.site.proxmox.estate import read_estate
from tests.unit.site.stub import site_values

GIB = 1024**3
NODES = ("pve1", "pve2")


def site(**cluster: Any) -> Site:
    return Site.check(site_values("https://192.0.2.2:8006", **cluster), "site.yaml")


def network(number: int, **bridge: Any) -> tuple[dict[str, Any], ...]:
    return (
        {"iface": "vmbr0", "type": "bridge", "active": 1, "cidr": f"192.0.2.{1 + number}/24", "gateway": "192.0.2.1"}
        | bridge,
        {"iface": "eno2", "type": "eth", "active": 1, "cidr": f"198.51.100.{number}/24", "mtu": "9000"},
    )


def storage(name: str, kind: str, content: str, **more: Any) -> dict[str, Any]:
    space = {"active": 1, "shared": 0, "total": 100 * GIB, "avail": 80 * GIB}
    return {"storage": name, "type": kind, "content": content, **space, **more}


STORAGES = (storage("local", "dir", "iso,import"), storage("local-lvm", "lvmthin", "images,rootdir"))
RESOURCES: tuple[dict[str, Any], ...] = tuple(
    {"type": "node", "node": node, "status": "online", "maxcpu": 16, "maxmem": 64 * GIB} for node in NODES
)
RELOADED = {"type": "srvreload", "id": "networking", "status": "OK"}
ZONE = {"zone": "deskyard", "type": "vxlan", "peers": "198.51.100.1,198.51.100.2", "mtu": 1450}


def facts(resources: tuple[dict[str, Any], ...] = RESOURCES, **changes: Any) -> Facts:
    cluster = site().proxmox
    assert cluster is not None
    permissions = {path: dict.fromkeys(reasons, 1) for path, reasons in needed(cluster, (9, 0)).items()}
    good = Facts(
        version="9.0.10",
        token="deskyard@pve!site",
        ahead=0.4,
        permissions=permissions,
        status=({"type": "cluster", "quorate": 1}, *({"type": "node", "name": node, "online": 1} for node in NODES)),
        resources=resources,
        estate=read_estate(resources, cluster),
        options={},
        firewall={"enable": 1},
        zones=(ZONE,),
        vnets=(),
        nodes={node: NodeFacts(network(n), STORAGES, {}, RELOADED, ahead=0.1 * n) for n, node in enumerate(NODES, 1)},
    )
    return replace(good, **changes)


def wrong(facts: Facts, where: Site | None = None) -> dict[str, str]:
    return {finding.name: finding.state for finding in judge(facts, where or site()) if finding.state != "ok"}


def on_pve2(**changes: Any) -> Facts:
    good = facts()
    return replace(good, nodes={**good.nodes, "pve2": replace(good.nodes["pve2"], **changes)})


def nftables(version: str) -> Facts:
    packages = {"proxmox-firewall": version, "pve-firewall": "6.0.4"} if version else {}
    good = facts()
    changed = {name: replace(n, firewall={"nftables": 1}, packages=packages) for name, n in good.nodes.items()}
    return replace(good, nodes=changed)


def machine(vmid: int, **more: Any) -> dict[str, Any]:
    return {"type": "qemu", "node": "pve1", "vmid": vmid, "maxmem": GIB, **more}


def test_good_cluster_has_only_good_findings() -> None:
    findings = judge(facts(), site())
    assert wrong(facts()) == {}
    assert len({finding.name for finding in findings}) == len(findings) >= 20
    assert report(findings).endswith(f"0 error, 0 warning, {len(findings)} ok")


BAD: dict[str, tuple[Callable[[], Facts], dict[str, str]]] = {
    "old": (
        lambda: facts(version="8.3.5"),
        {"version": "error", "token_privileges": "error", "token_surplus": "warning"},
    ),
    "no version": (
        lambda: facts(version="x"),
        {"version": "error", "token_privileges": "error", "token_surplus": "warning"},
    ),
    "lacking privilege": (lambda: facts(permissions=_without("/pool", "VM.Clone")), {"token_privileges": "error"}),
    "surplus": (lambda: facts(permissions=_with("/", "Sys.Modify")), {"token_surplus": "warning"}),
    "no quorum": (lambda: facts(status=({"type": "cluster", "quorate": 0},)), {"quorum": "error"}),
    "clock": (lambda: facts(ahead=-60.0), {"clock": "warning"}),
    "node clock": (lambda: on_pve2(ahead=30.0), {"node_clocks": "warning"}),
    "network not reloaded": (
        lambda: on_pve2(reload=RELOADED | {"status": "command 'ifreload -a' failed: exit code 1"}),
        {"network_reload": "error"},
    ),
    "network applied while the node was away": (
        lambda: on_pve2(zones=({"zone": "deskyard", "status": "pending"},)),
        {"network_reload": "error"},
    ),
    "storage is off": (
        lambda: on_pve2(storage=(STORAGES[0], STORAGES[1] | {"active": 0})),
        {"storage_disks": "error"},
    ),
    "no import": (
        lambda: on_pve2(storage=(STORAGES[0] | {"content": "iso"}, STORAGES[1])),
        {"storage_images": "error"},
    ),
    "nothing but backups": (
        lambda: on_pve2(storage=(STORAGES[0] | {"type": "pbs", "content": "backup"}, STORAGES[1])),
        {"storage_images": "error"},
    ),
    "images without files": (
        lambda: on_pve2(storage=(STORAGES[0] | {"type": "esxi", "content": "import"}, STORAGES[1])),
        {"storage_images": "error"},
    ),
    "somebody's plugin": (lambda: on_pve2(storage=(STORAGES[0] | {"type": "linstor"}, STORAGES[1])), {}),
    "thick": (lambda: on_pve2(storage=(STORAGES[0], STORAGES[1] | {"type": "lvm"})), {"linked_clones": "error"}),
    "full": (lambda: on_pve2(storage=(STORAGES[0], STORAGES[1] | {"avail": GIB})), {"disk_space": "warning"}),
    "no SDN": (lambda: facts(zones=(), refused={"cluster/sdn/zones": "501 not implemented"}), {"zone": "error"}),
    "no zone": (lambda: facts(zones=()), {"zone": "error"}),
    "zone of another kind": (lambda: facts(zones=(ZONE | {"type": "simple"},)), {"zone": "error"}),
    "peers": (lambda: facts(zones=(ZONE | {"peers": "198.51.100.1"},)), {"zone": "error"}),
    "zone mtu": (lambda: facts(zones=(ZONE | {"mtu": 1500},)), {"zone": "error"}),
    "zone on one node": (lambda: facts(zones=(ZONE | {"nodes": "pve1"},)), {"zone": "error"}),
    "zone not applied": (lambda: facts(zones=(ZONE | {"state": "changed"},)), {"zone": "error"}),
    "others' zone waits": (
        lambda: facts(zones=(ZONE, {"zone": "other", "state": "new"})),
        {"pending_changes": "warning"},
    ),
    "others' VNet waits": (
        lambda: facts(vnets=({"vnet": "x", "state": "new", "pending": {"zone": "other"}},)),
        {"pending_changes": "warning"},
    ),
    "no bridge": (lambda: on_pve2(network=network(2, iface="vmbr1")), {"uplink": "error"}),
    "bridge is down": (lambda: on_pve2(network=network(2, active=None)), {"uplink": "error"}),
    "node in the range": (lambda: on_pve2(network=network(2, cidr="192.0.2.20/24")), {"uplink": "error"}),
    "other router": (lambda: on_pve2(network=network(2, gateway="192.0.2.254")), {}),
    "no peer": (lambda: on_pve2(network=network(2)[:1]), {"vxlan_peers": "error"}),
    "small packets": (
        lambda: on_pve2(network=(network(2)[0], network(2)[1] | {"mtu": "1499"})),
        {"vxlan_mtu": "error"},
    ),
    "firewall is off": (lambda: facts(firewall={}), {"firewall": "error"}),
    "two firewalls": (lambda: on_pve2(firewall={"nftables": 1}), {"firewall_backend": "warning"}),
    "no filter of frames": (lambda: facts(firewall={"enable": 1, "ebtables": 0}), {"firewall_frames": "error"}),
    "old nftables": (lambda: nftables("1.1.2"), {"firewall_backend": "warning"}),
    "nftables of 8.4": (lambda: nftables("0.7.1"), {"firewall_backend": "warning"}),
    "nftables of no version": (lambda: nftables(""), {"firewall_backend": "warning"}),
    "new nftables": (lambda: nftables("1.2.0-1"), {}),
    "foreign id": (lambda: facts((*RESOURCES, machine(20_100))), {"vm_ids": "warning"}),
    "tags": (lambda: facts(options={"user-tag-access": {"user-allow": "list"}}), {"tags": "error"}),
    "no memory": (
        lambda: facts((*RESOURCES, *(machine(100 + n, node=node, maxmem=63 * GIB) for n, node in enumerate(NODES)))),
        {"memory": "warning"},
    ),
    "unread": (lambda: facts(refused={"nodes/pve1/time": "403"}), {"unread": "warning"}),
}


def _without(path: str, name: str) -> dict[str, dict[str, object]]:
    held = {key: dict(value) for key, value in facts().permissions.items()}
    del held[path][name]
    return held


def _with(path: str, name: str) -> dict[str, dict[str, object]]:
    held = {key: dict(value) for key, value in facts().permissions.items()}
    held[path][name] = 1
    return held


@pytest.mark.parametrize("name", BAD)
def test_one_thing_wrong_is_exactly_one_finding_with_its_remedy(name: str) -> None:
    make, expected = BAD[name]
    found = make()
    assert wrong(found) == expected
    for finding in judge(found, site()):
        assert (finding.state == "ok") == (finding.mend == "") == (finding.why == "")


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"nodes": {"only": ["pve1", "pve9"]}}, {"nodes": "error"}),
        ({"nodes": {"exclude": ["pve9"]}}, {"nodes": "error"}),
        ({"quotas": {"vcpus": 1000}}, {"quotas": "warning"}),
        ({"uplink": {**site_values("")["proxmox"]["uplink"], "router": "192.0.2.254"}}, {"uplink": "warning"}),
        ({"storages": {"templates": "local"}}, {"linked_clones": "error", "token_privileges": "error"}),
    ],
    ids=["unknown node", "unknown exclusion", "quota", "router", "templates elsewhere"],
)
def test_declaration_that_does_not_fit_the_cluster_is_named(changes: dict[str, Any], expected: dict[str, str]) -> None:
    where = site(**changes)
    assert where.proxmox is not None
    found = replace(facts(), estate=read_estate(RESOURCES, where.proxmox))
    assert wrong(found, where) == expected


def test_node_that_is_down_is_a_warning_and_no_node_an_error() -> None:
    cluster = site().proxmox
    assert cluster is not None
    down = (RESOURCES[0], RESOURCES[1] | {"status": "offline"})
    good = facts(down)
    assert wrong(replace(good, nodes={"pve1": good.nodes["pve1"]})) == {"nodes": "warning"}
    none = tuple(row | {"status": "offline"} for row in RESOURCES)
    assert wrong(facts(none, nodes={}))["nodes"] == "error"


def test_our_machines_and_templates_are_no_foreign_ones() -> None:
    tags = "deskyard-image;digest-0123456789abcdef;image-desktop;made-1"
    ours = (machine(20_000, template=1, tags=tags), machine(20_001, pool="deskyard.rack.research"))
    assert wrong(facts((*RESOURCES, *ours))) == {}


@pytest.mark.parametrize(
    ("bridge", "mtu", "expected"),
    [("vmbr0", 1500, {}), ("vmbr9", 1500, {"zone_bridge": "error"}), ("vmbr0", 9000, {"zone_bridge": "error"})],
    ids=["there", "absent", "small"],
)
def test_bridge_of_a_vlan_zone_is_looked_for(bridge: str, mtu: int, expected: dict[str, str]) -> None:
    where = site(zone={"kind": "vlan", "bridge": bridge, "mtu": mtu, "first_tag": 100, "last_tag": 199})
    row = {"zone": "deskyard", "type": "vlan", "bridge": bridge, "mtu": mtu, "bridge-disable-mac-learning": 1}
    assert wrong(facts(zones=(row,)), where) == expected


def test_a_vlan_zone_that_learns_addresses_is_told_with_the_command_and_another_cannot_be_told_not_to() -> None:
    where = site(zone={"kind": "vlan", "bridge": "vmbr0", "mtu": 1500, "first_tag": 100, "last_tag": 199})
    row = {"zone": "deskyard", "type": "vlan", "bridge": "vmbr0", "mtu": 1500}
    found = {finding.name: finding for finding in judge(facts(zones=(row,)), where)}
    assert found["zone_learning"].state == "warning"
    assert "pvesh set /cluster/sdn/zones/deskyard --bridge-disable-mac-learning 1" in found["zone_learning"].mend
    assert (
        "--bridge-disable-mac-learning 1"
        in {finding.name: finding for finding in judge(facts(zones=()), where)}["zone"].mend
    )
    assert (
        "bridges of a vxlan zone learn:"
        in {finding.name: finding.what for finding in judge(facts(), site())}["zone_learning"]
    )


@pytest.mark.parametrize(
    ("seen", "start"),
    [
        (lambda: on_pve2(packages={"pve-firewall": "5.1.2"}), "pve-firewall 5.1.2 on every node; frames behind a VLAN"),
        (lambda: facts(), "pve-firewall of a version that was not told on every node"),
        (lambda: nftables("1.2.3"), "proxmox-firewall 1.2.3 on every node; errors of ICMP pass"),
        (lambda: nftables("1.1.2"), "proxmox-firewall 1.1.2 on every node: before 1.2.0 its filter of addresses"),
    ],
    ids=["iptables", "no version", "nftables", "old nftables"],
)
def test_the_program_that_compiles_rules_is_told_with_what_it_lets_pass(seen: Callable[[], Facts], start: str) -> None:
    found = {finding.name: finding.what for finding in judge(seen(), site())}
    assert found["firewall_backend"].startswith(start)


def own_tier(**sizes: Any) -> Site:
    tier = {"vcpus": 2, "memory_mib": 4096, "disk_gib": 20, **sizes}
    return Site.check({**site_values("https://192.0.2.2:8006"), "tiers": {"own": tier}}, "site.yaml")


@pytest.mark.parametrize(
    ("sizes", "said"),
    [
        ({"vcpus": 17}, "no node has the 17 CPUs and 4096 MiB of tier own"),
        ({"memory_mib": 65 * 1024}, "no node has the 2 CPUs and 66560 MiB of tier own"),
        ({"home_gib": 30, "cpu_percent": 50, "network_mib_per_second": 3, "disk_iops": 500}, None),
    ],
)
def test_caps_of_a_tier_that_a_cluster_cannot_hold_are_named(sizes: dict[str, int], said: str | None) -> None:
    found = [finding for finding in judge(facts(), own_tier(**sizes)) if finding.name == "caps"]
    assert [finding.what for finding in found if finding.state == "warning"] == ([said] if said else [])
    assert "the API lets nobody try" in found[-1].what


def test_node_must_have_both_processors_and_memory_of_a_tier() -> None:
    rows = tuple({**row, **more} for row, more in zip(RESOURCES, ({"maxcpu": 1}, {"maxmem": GIB}), strict=True))
    found = [finding.what for finding in judge(facts(rows), own_tier()) if finding.name == "caps"]
    assert found[0] == "no node has the 2 CPUs and 4096 MiB of tier own"
