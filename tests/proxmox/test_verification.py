"""What `workspace.verify` asks of a cluster where the real engine made a workspace, as made and changed by hand."""

from deskyard.site.proxmox.client import connect
from deskyard.site.proxmox.underlay import ClusterUnderlay
from tests.proxmox.bench import DESKTOPS, NAME, Bench
from tests.proxmox.rack import Rack


def findings(rack: Rack) -> list[str]:
    """What is not as planned, asked with the token of the site."""
    declared = rack.plan(NAME)
    assert declared.on_cluster is not None
    return ClusterUnderlay(declared.on_cluster, connect(declared.site)).findings()


def test_a_workspace_that_was_just_made_is_as_planned_and_each_change_by_hand_is_named(bench: Bench) -> None:
    bench.up()
    rack = bench.rack
    assert findings(rack) == []
    path = rack.node_path(NAME, "dev1")
    plan = rack.plan(NAME).on_cluster
    assert plan is not None
    rules = plan.desktops["dev1"].firewall.rules
    rule = next(rule for rule in rules if rule.comment == "neighbours")
    rack.root.ask("DELETE", f"{path}/firewall/rules/{rules.index(rule)}")
    rack.root.ask("POST", f"{path}/firewall/ipset/ipfilter-net0", cidr="192.0.2.0/24")
    rack.root.ask("PUT", f"{path}/config", net1="virtio,bridge=vmbr0")
    rack.root.put(f"{path}/firewall/options", data={"policy_out": "ACCEPT", "macfilter": "0"})
    assert findings(rack) == [
        "cluster: dev1: option macfilter: is off",
        "cluster: dev1: option policy_out DROP: is ACCEPT",
        f"cluster: dev1: out DROP dest {rule.dest} (neighbours): is missing",
        "cluster: dev1: IP set ipfilter-net0: 192.0.2.0/24: is not in the Plan",
        "cluster: dev1: NIC net1: is not in the Plan, from its next start on",
    ]
    rack.up(NAME, *DESKTOPS)
    assert findings(rack) == []
