"""The whole resource graph of a small workspace, and what must never be in it."""

import json
import os
from pathlib import Path
from typing import Any

import pulumi
import pytest

from deskyard.model.site import Site
from deskyard.model.tier import DiskBurst, Tier
from deskyard.model.workspace import Workspace as Declaration
from deskyard.plan.workspace import WorkspacePlan, plan_workspace
from deskyard.site.libvirt.kinds import resources
from stacks.libvirt import ImageSource, Workspace, WorkspaceArgs
from tests.components.conftest import Recorder, run

GOLDEN = Path(__file__).parent / "golden" / "two_desktops.json"
KEY = "ssh-ed25519 AAAAKEY deskyard-local"


@pytest.fixture
def plan() -> WorkspacePlan:
    """A workspace with two desktops of two tiers."""
    desktops = [{"name": "dev1"}, {"name": "dev2", "tier": "pro"}]
    declaration = Declaration.check({"name": "lab", "network": "10.80.7.0/24", "desktops": desktops}, "test")
    return plan_workspace(declaration, Site(), "kvm")


@pytest.fixture
def graph(recorder: Recorder, plan: WorkspacePlan) -> Recorder:
    """All resources of that workspace."""
    images = {name: ImageSource(name, f"{name}-digest", f"/images/{name}.qcow2") for name in ("gateway", "desktop")}
    run(lambda: Workspace("lab", WorkspaceArgs(plan, images, KEY, "localhost")))
    return recorder


def test_graph_is_as_agreed(graph: Recorder) -> None:
    found = sorted(graph.graph, key=lambda resource: (resource["type"], resource["name"]))
    if os.environ.get("UPDATE_GOLDEN"):
        GOLDEN.parent.mkdir(exist_ok=True)
        GOLDEN.write_text(json.dumps(found, indent=2, sort_keys=True) + "\n")
    assert found == json.loads(GOLDEN.read_text())


def test_desktops_have_one_nic_isolated_and_bound_to_their_address(graph: Recorder, plan: WorkspacePlan) -> None:
    domains = graph.of_type("Domain")
    for desktop in plan.desktops:
        nics = domains[f"lab-desktop-{desktop.name}-machine"]["interfaces"]
        assert nics == [
            {
                "mac": desktop.mac,
                "network": plan.network.name,
                "filter": f"{plan.network.name}-desktop",
                "address": desktop.address,
                "isolated": True,
            }
        ]


def test_no_desktop_is_on_the_uplink(graph: Recorder, plan: WorkspacePlan) -> None:
    on_uplink = [name for name, nics in _nics(graph).items() if plan.uplink.name in {nic["network"] for nic in nics}]
    assert on_uplink == ["lab-gateway-machine"]


def test_every_nic_has_a_filter_and_an_address(graph: Recorder) -> None:
    nics = [nic for nics in _nics(graph).values() for nic in nics]
    assert len(nics) == 4
    assert all(nic["filter"] and nic["address"] for nic in nics)


def test_host_has_no_address_on_the_network_of_the_desktops(graph: Recorder) -> None:
    assert "host_address" not in graph.of_type("Network")["lab-workspace"]


def test_seeds_hold_no_secret(graph: Recorder) -> None:
    text = json.dumps(graph.of_type("Seed"))
    assert "PRIVATE KEY" not in text
    assert "password" not in text.replace("ssh_pwauth", "")


def test_machines_never_exceed_their_tier(graph: Recorder, plan: WorkspacePlan) -> None:
    tiers = Site().all_tiers()
    domains, disks = graph.of_type("Domain"), graph.of_type("Volume")
    for desktop in plan.desktops:
        tier = tiers[desktop.tier]
        machine = domains[f"lab-desktop-{desktop.name}-machine"]
        assert (machine["vcpus"], machine["memory_mib"]) == (tier.vcpus, tier.memory_mib)
        assert disks[f"lab-desktop-{desktop.name}-disk"]["size_gib"] == tier.disk_gib
        assert disks[f"lab-desktop-{desktop.name}-home"]["size_gib"] == tier.home_gib


def test_each_desktop_has_home_on_a_volume_of_its_own_that_begins_blank(graph: Recorder) -> None:
    homes = {name: volume for name, volume in graph.of_type("Volume").items() if "image" not in volume}
    assert set(homes) == {"lab-desktop-dev1-home", "lab-desktop-dev2-home"}
    domains = graph.of_type("Domain")
    assert len({domains[f"lab-desktop-{name}-machine"]["home"] for name in ("dev1", "dev2")}) == 2
    assert "home" not in domains["lab-gateway-machine"]


def test_desktop_has_the_caps_of_its_tier_and_the_gateway_none(recorder: Recorder) -> None:
    network = {"network_mib_per_second": 7, "cpu_percent": 50}
    disk = {"disk_iops": 500, "disk_mib_per_second": 20, "disk_burst": DiskBurst(mib_per_second=80, seconds=30)}
    capped = Tier(vcpus=2, memory_mib=4096, disk_gib=20, **disk, **network)
    site = Site(tiers={"capped": capped})
    values = {"network": "10.80.7.0/24", "desktops": [{"name": "dev1", "tier": "capped"}, {"name": "dev2"}]}
    plan = plan_workspace(Declaration.check({"name": "lab", **values}, "test"), site, "kvm")
    images = {name: ImageSource(name, f"{name}-digest", f"/images/{name}.qcow2") for name in ("gateway", "desktop")}
    run(lambda: Workspace("lab", WorkspaceArgs(plan, images, KEY, "localhost")))
    caps = {
        name: (domain.get("disk_iops"), domain.get("disk_mib_per_second"))
        for name, domain in recorder.of_type("Domain").items()
    }
    assert caps == {
        "lab-gateway-machine": (None, None),
        "lab-desktop-dev1-machine": (capped.disk_iops, capped.disk_mib_per_second),
        "lab-desktop-dev2-machine": (None, None),
    }
    domains = recorder.of_type("Domain")
    bursts = {
        name: {cap: value for cap, value in domain.items() if cap.startswith("disk_burst")}
        for name, domain in domains.items()
    }
    assert bursts == {
        "lab-gateway-machine": {},
        "lab-desktop-dev1-machine": {"disk_burst_mib_per_second": 80, "disk_burst_seconds": 30},
        "lab-desktop-dev2-machine": {},
    }
    assert {name: domain.get("cpu_percent") for name, domain in domains.items()} == {
        "lab-gateway-machine": None,
        "lab-desktop-dev1-machine": 50,
        "lab-desktop-dev2-machine": None,
    }
    nics = {name: domain["interfaces"][0] for name, domain in domains.items()}
    assert nics["lab-desktop-dev1-machine"]["mib_per_second"] == 7
    # Nothing is said of what is not capped: machines of before stay as they are.
    assert "mib_per_second" not in nics["lab-desktop-dev2-machine"]


def test_each_desktops_disk_is_made_from_its_own_image(recorder: Recorder) -> None:
    values = {"network": "10.80.7.0/24", "desktops": [{"name": "dev1"}, {"name": "dev2", "image": "mine"}]}
    plan = plan_workspace(Declaration.check({"name": "lab", **values}, "test"), Site(), "kvm")
    names = ("gateway", "desktop", "mine")
    images = {name: ImageSource(name, f"{name}-digest", f"/images/{name}.qcow2") for name in names}
    run(lambda: Workspace("lab", WorkspaceArgs(plan, images, KEY, "localhost")))
    volumes = {name: volume for name, volume in recorder.of_type("Volume").items() if not name.endswith("-home")}
    disks = {name: (volume["image"], volume["digest"], volume["source"]) for name, volume in volumes.items()}
    assert disks == {
        "lab-gateway-disk": ("gateway", "gateway-digest", "/images/gateway.qcow2"),
        "lab-desktop-dev1-disk": ("desktop", "desktop-digest", "/images/desktop.qcow2"),
        "lab-desktop-dev2-disk": ("mine", "mine-digest", "/images/mine.qcow2"),
    }


def test_desktops_disk_follows_no_other_image_and_the_gateways_does(
    recorder: Recorder, plan: WorkspacePlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: dict[str, pulumi.ResourceOptions] = {}
    make = resources.Volume.__init__

    def noted(self: resources.Volume, resource_name: str, **values: Any) -> None:
        seen[resource_name] = values["opts"]
        make(self, resource_name, **values)

    monkeypatch.setattr(resources.Volume, "__init__", noted)
    images = {name: ImageSource(name, f"{name}-digest", f"/images/{name}.qcow2") for name in ("gateway", "desktop")}
    run(lambda: Workspace("lab", WorkspaceArgs(plan, images, KEY, "localhost")))
    ignored = {name: (bool(opts.protect), set(opts.ignore_changes or [])) for name, opts in seen.items()}
    kept = (True, {"image", "digest", "source"})
    assert ignored.pop("lab-gateway-disk") == (False, set())
    disks = (f"lab-desktop-{desktop}-{disk}" for desktop in ("dev1", "dev2") for disk in ("disk", "home"))
    assert ignored == dict.fromkeys(disks, kept)


def _nics(graph: Recorder) -> dict[str, list[dict[str, Any]]]:
    return {name: inputs["interfaces"] for name, inputs in graph.of_type("Domain").items()}


def test_desktop_with_a_template_goes_on_from_it_as_itself_and_the_others_boot(
    recorder: Recorder, plan: WorkspacePlan
) -> None:
    images = {name: ImageSource(name, f"{name}-digest", f"/images/{name}.qcow2") for name in ("gateway", "desktop")}
    templates = {"dev1": "template-desktop-ab12"}
    run(lambda: Workspace("lab", WorkspaceArgs(plan, images, KEY, "localhost", templates=templates)))
    disks = {name: volume.get("template") for name, volume in recorder.of_type("Volume").items()}
    assert disks == {
        "lab-gateway-disk": None,
        "lab-desktop-dev1-disk": "template-desktop-ab12.system.qcow2",
        "lab-desktop-dev1-home": "template-desktop-ab12.home.qcow2",
        "lab-desktop-dev2-disk": None,
        "lab-desktop-dev2-home": None,
    }
    warm = {name: domain.get("warm") for name, domain in recorder.of_type("Domain").items() if domain.get("warm")}
    own = {
        "hostname": "dev1",
        "instance": "deskyard-lab.dev1",
        "manager": "deskyard",
        "keys": [KEY],
        "nic": "workspace",
    }
    assert warm == {"lab-desktop-dev1-machine": {"template": "template-desktop-ab12", **own}}
