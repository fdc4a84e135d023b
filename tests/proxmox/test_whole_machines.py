"""A machine is made whole or begun again: the provider keeps one whose creation broke behind its clone."""

import pytest

from tests.proxmox.bench import DESKTOPS, NAME, Bench
from tests.proxmox.test_faults import ends_badly, ends_well

pytestmark = pytest.mark.sampled

REFUSED = "Permission check failed (/, Sys.Modify)"


def broken(bench: Bench, *machines: str) -> dict[str, int]:
    """Bring the workspace up while the first configuration of these machines is refused; answers their ids."""
    bench.empty()
    bench.rack.declare(NAME, *DESKTOPS)
    planned = bench.rack.plan(NAME).on_cluster
    assert planned is not None
    ids = {vm.owner.machine: vm.vm_id for vm in planned.machines() if vm.owner.machine in machines}
    for vm_id in ids.values():
        bench.rack.peer.fake.fail("PUT", f"/{vm_id}/config", 403, REFUSED, times=1)
    ends_badly(bench, REFUSED)
    return ids


def test_machines_whose_first_configuration_was_refused_are_made_again_with_their_first_boot(bench: Bench) -> None:
    ids = broken(bench, "gateway", "dev1")
    fake = bench.rack.peer.fake
    halves = {name: fake.vm(vm_id) for name, vm_id in ids.items()}
    assert {name: "sshkeys" in vm.config for name, vm in halves.items()} == {"gateway": False, "dev1": False}
    ends_well(bench, *DESKTOPS)
    for name, vm in bench.rack.machines(NAME).items():
        assert vm is not halves.get(name)
        assert {"sshkeys", "ipconfig0", "ciuser"} <= vm.config.keys()
        assert "cloudinit" in vm.config["ide2"]


def test_a_machine_that_is_half_made_goes_with_its_workspace(bench: Bench) -> None:
    broken(bench, "dev1")
    bench.run("destroy")
    bench.gone()
