"""The whole resource graph of a small workspace on a cluster, and what must never be in it."""

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from deskyard.errors import ConfigError
from deskyard.plan.proxmox.workspace import ClusterPlan, plan_on_cluster
from deskyard.plan.workspace import WorkspacePlan
from stacks.proxmox import ClusterWorkspace, ClusterWorkspaceArgs
from tests.components.conftest import Recorder, run
from tests.support.paper_cluster import PaperCluster, rack, workspace

GOLDEN = Path(__file__).parent / "golden" / "two_desktops_on_a_cluster.json"
KEY = "ssh-ed25519 AAAAKEY deskyard-rack"
VM, POWER = "proxmoxve:index/vmLegacy:VmLegacy", "deskyard:proxmox:Power"


def drawn(recorder: Recorder, **changes: Any) -> tuple[WorkspacePlan, ClusterPlan]:
    """Declare a workspace with two desktops of two tiers, one with caps of its own."""
    site = rack(operator_group="operators")
    fast: dict[str, Any] = {
        "vcpus": 2,
        "memory_mib": 4096,
        "disk_gib": 20,
        "disk_iops": 500,
        "network_mib_per_second": 50,
    }
    fast["disk_burst"] = {"iops": 2000}
    site = type(site).check({**site.model_dump(mode="json"), "tiers": {"fast": fast}}, "rack.yaml")
    desktops = [{"name": "dev1"}, {"name": "dev2", "tier": "fast"}]
    plan, on_cluster = PaperCluster().plan(workspace("lab", desktops=desktops, **changes), site)
    run(lambda: ClusterWorkspace("lab", ClusterWorkspaceArgs(plan, on_cluster, KEY, "desks.example.org")))
    return plan, on_cluster


def test_graph_is_as_agreed(recorder: Recorder) -> None:
    drawn(recorder)
    found = sorted(recorder.graph, key=lambda resource: (resource["type"], resource["name"]))
    if os.environ.get("UPDATE_GOLDEN"):
        GOLDEN.write_text(json.dumps(found, indent=2, sort_keys=True) + "\n")
    assert found == json.loads(GOLDEN.read_text())


def test_every_machine_is_a_linked_clone_that_stands_still_and_is_tried_once(recorder: Recorder) -> None:
    drawn(recorder)
    machines = of_type(recorder, VM)
    assert len(machines) == 3
    for inputs in machines.values():
        assert (inputs["started"], inputs["clone"]["full"], inputs["clone"]["retries"]) == (False, False, 1)
        assert (inputs["memory"]["floating"], inputs["rebootAfterUpdate"]) == (0, False)
        assert all(nic["firewall"] for nic in inputs["networkDevices"])


def test_machines_never_exceed_their_tier(recorder: Recorder) -> None:
    plan, _ = drawn(recorder)
    machines = of_type(recorder, VM)
    for desktop in plan.desktops:
        found, wanted = machines[f"lab-desktop-{desktop.name}-machine"], desktop.machine
        assert (found["cpu"]["cores"], found["cpu"]["limit"]) == (wanted.vcpus, wanted.vcpus)
        assert found["memory"]["dedicated"] == wanted.memory_mib
        assert [disk["size"] for disk in found["disks"]] == [wanted.disk_gib]
    fast = machines["lab-desktop-dev2-machine"]
    # Its disk's caps are not the provider's: that would take out the volume of /home where it changes one.
    assert "speed" not in fast["disks"][0]
    power = of_type(recorder, POWER)["lab-desktop-dev2-power"]
    assert (power["disk_iops"], power["disk_burst_iops"], power.get("disk_mib_per_second")) == (500, 2000, None)
    assert fast["networkDevices"][0]["rateLimit"] == 50


def test_each_desktop_is_cloned_from_the_template_of_its_own_image(recorder: Recorder) -> None:
    view = PaperCluster().view()
    templates = {**(view.templates or {}), "mine": {"pve2": 777}}
    declared = workspace("lab", desktops=[{"name": "dev1"}, {"name": "dev2", "image": "mine"}])
    plan, on_cluster = plan_on_cluster(declared, rack(), replace(view, templates=templates))
    run(lambda: ClusterWorkspace("lab", ClusterWorkspaceArgs(plan, on_cluster, KEY, "desks.example.org")))
    clones = {name: inputs["clone"] for name, inputs in of_type(recorder, VM).items()}
    assert (clones["lab-desktop-dev2-machine"]["vmId"], clones["lab-desktop-dev2-machine"]["nodeName"]) == (777, "pve2")
    assert clones["lab-desktop-dev1-machine"]["vmId"] in (view.templates or {})["desktop"].values()


def test_image_that_is_not_published_is_refused_with_the_command_that_does_it() -> None:
    declared = workspace("lab", desktops=[{"name": "dev1", "image": "mine"}])
    with pytest.raises(ConfigError) as caught:
        PaperCluster().plan(declared)
    assert caught.value.remedy == "run ./inv image.publish mine --site rack"


def test_no_desktop_is_on_the_uplink(recorder: Recorder) -> None:
    _, on_cluster = drawn(recorder)
    nics = {name: [nic["bridge"] for nic in inputs["networkDevices"]] for name, inputs in of_type(recorder, VM).items()}
    assert nics.pop("lab-gateway-machine") == ["vmbr0", on_cluster.vnet.name]
    assert set(map(tuple, nics.values())) == {(on_cluster.vnet.name,)}


def test_every_machine_has_a_firewall_that_drops_what_no_rule_names(recorder: Recorder) -> None:
    plan, _ = drawn(recorder)
    options = of_type(recorder, "proxmoxve:firewall/optionsLegacy:OptionsLegacy").values()
    assert len(options) == 3
    assert {(o["enabled"], o["inputPolicy"], o["outputPolicy"], o["macfilter"]) for o in options} == {
        (True, "DROP", "DROP", True)
    }
    own = of_type(recorder, "proxmoxve:firewall/ipsetLegacy:IpsetLegacy")
    for desktop in plan.desktops:
        inputs = own[f"lab-desktop-{desktop.name}-own-net0"]
        assert (inputs["name"], [member["name"] for member in inputs["cidrs"]]) == ("ipfilter-net0", [desktop.address])


@pytest.mark.parametrize(("peers", "closed"), [("closed", True), ("open", False)])
def test_neighbours_are_refused_by_rules_and_no_port_is_isolated(recorder: Recorder, peers: str, closed: bool) -> None:
    """Isolated ports would cut a desktop off from a gateway on its node; rules hold within a node and across nodes."""
    plan, _ = drawn(recorder, peers=peers)
    vnet = of_type(recorder, "proxmoxve:sdn/vnet:Vnet")["lab-vnet"]
    assert vnet["isolatePorts"] is False
    rules = of_type(recorder, "proxmoxve:firewall/rulesLegacy:RulesLegacy")["lab-desktop-dev1-rules"]["rules"]
    between = [
        (rule["type"], rule["action"]) for rule in rules if plan.network.cidr in (rule.get("source"), rule.get("dest"))
    ]
    assert between == ([("out", "DROP")] if closed else [("in", "ACCEPT"), ("out", "ACCEPT")])


def test_every_machine_has_a_fixed_address_and_nothing_lets_dhcp_pass(recorder: Recorder) -> None:
    """A rule that lets DHCP pass would come before the look at a frame's MAC address."""
    plan, _ = drawn(recorder)
    machines = of_type(recorder, VM)
    for desktop in plan.desktops:
        seed = machines[f"lab-desktop-{desktop.name}-machine"]["initialization"]
        address = f"{desktop.address}/{plan.network.cidr.partition('/')[2]}"
        assert seed["ipConfigs"] == [{"ipv4": {"address": address, "gateway": plan.network.gateway_address}}]
        assert seed["dns"] == {"servers": [plan.network.gateway_address]}
    options = of_type(recorder, "proxmoxve:firewall/optionsLegacy:OptionsLegacy").values()
    assert {(o["dhcp"], o["ndp"], o["radv"]) for o in options} == {(False, False, False)}


def test_no_secret_is_declared(recorder: Recorder) -> None:
    drawn(recorder)
    text = json.dumps(recorder.graph)
    assert "PRIVATE KEY" not in text
    assert not {"apiToken", "password", "cipassword"} & set(text.replace('"', " ").split())


def of_type(recorder: Recorder, kind: str) -> dict[str, dict[str, Any]]:
    """Inputs by name."""
    return {resource["name"]: resource["inputs"] for resource in recorder.graph if resource["type"] == kind}
