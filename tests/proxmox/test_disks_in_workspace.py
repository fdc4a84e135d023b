"""The disks of desktops with the real engine and the real plugin: exchanged, and as an earlier version made them."""

from dataclasses import replace
from typing import Any

import pytest

from deskyard.plan.image.source import ImageSource
from deskyard.plan.proxmox import workspace as cluster_plan
from deskyard.plan.proxmox.view import trial_pool_of
from deskyard.plan.proxmox.workspace import VmPlan
from deskyard.site.files import read_site
from deskyard.site.proxmox.machines import ClusterMachines
from tests.proxmox.bench import NAME, Bench
from tests.proxmox.rack import SITE, changed, watched

pytestmark = pytest.mark.sampled


def test_an_exchanged_system_is_no_drift_and_goes_with_its_workspace(bench: Bench) -> None:
    bench.up()
    rack = bench.rack
    plan, site = rack.plan(NAME).plan, read_site(SITE)
    domain = plan.desktop("dev1").machine.domain
    machines = ClusterMachines(plan, site)
    disk = machines.system(domain)
    assert disk.image() == machines.images()[domain] == "desktop-desktop0digest"
    disk.stage(ImageSource("desktop", "desktop0digest", ""), plan.desktop("dev1").machine.disk_gib)
    machines.shut_down(domain, force=True)
    disk.swap()
    machines.start(domain)
    assert disk.has_kept()
    assert changed(rack.declare(NAME, "dev1", "dev2").preview()) == []
    machines.shut_down(domain, force=True)
    disk.swap_back()
    machines.start(domain)
    assert changed(rack.declare(NAME, "dev1", "dev2").preview()) == []
    assert (disk.image(), disk.has_kept()) == ("desktop-desktop0digest", False)
    # What lies beside it goes with the desktop, too; the pool of carriers is the site's.
    bench.run("destroy")
    rack.root.ask("DELETE", f"/pools/{trial_pool_of(SITE)}")
    bench.gone()


def test_a_workspace_of_before_has_nothing_to_change_and_grows_as_before(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.empty()
    rack = bench.rack
    made = cluster_plan._Maker._vm

    def of_before(maker: Any, name: str, machine: Any, *rest: Any) -> VmPlan:
        return made(maker, name, replace(machine, home_gib=None), *rest)

    with monkeypatch.context() as earlier:
        earlier.setattr(cluster_plan._Maker, "_vm", of_before)
        rack.up(NAME, "dev1")
    stack = rack.declare(NAME, "dev1")
    with watched(rack.peer) as calls:
        assert changed(stack.preview()) == []
    assert [call for call in calls if call.writes] == []
    # One that comes now has one; the other stays without.
    rack.up(NAME, "dev1:pro", "dev2")
    assert {name: "scsi1" in vm.config for name, vm in rack.machines(NAME).items()} == {
        "gateway": False,
        "dev1": False,
        "dev2": True,
    }
    assert "size=40G" in rack.machines(NAME)["dev1"].config["scsi0"]
    assert changed(stack.preview()) == []
    bench.run("destroy")
    bench.gone()
