"""What a machine of a cluster is wanted to be, in its tags and in the Plan."""

import re
from dataclasses import replace

import pytest

from deskyard.plan.power import Power
from deskyard.plan.proxmox.power_tag import POWER_TAGS, power_of, with_power
from deskyard.plan.proxmox.view import IMAGE_POOLS, WORKSPACE_POOLS, Owner
from deskyard.plan.proxmox.workspace import VmPlan
from deskyard.site.proxmox import templates
from tests.support.paper_cluster import PaperCluster, workspace

OWN = ("deskyard", "deskyard-home.10", "deskyard.rack.lab.dev1")


def planned(cluster: PaperCluster) -> VmPlan:
    """The desktop `dev1` of the workspace `lab`."""
    return cluster.plan(workspace("lab", "dev1"))[1].desktops["dev1"]


def tagged(cluster: PaperCluster, *tags: str) -> None:
    """Give it other tags."""
    vm_id = planned(cluster).vm_id
    cluster.machines[vm_id] = replace(cluster.machines[vm_id], tags=tags)


@pytest.mark.parametrize("power", list(Power))
def test_what_is_wanted_is_read_back_and_no_other_tag_is_touched(power: Power) -> None:
    tags = with_power((*OWN, "theirs"), power)
    assert power_of(tags) is power
    assert set(tags) - set(POWER_TAGS.values()) == {*OWN, "theirs"}
    assert with_power(tags, Power.RUNNING) == (*OWN, "theirs")


def test_one_wish_takes_the_place_of_another() -> None:
    assert with_power((*OWN, POWER_TAGS[Power.OFF]), Power.PAUSED) == (*OWN[:2], POWER_TAGS[Power.PAUSED], OWN[2])


@pytest.mark.parametrize("tags", [(), OWN, ("deskyard-power",), ("deskyard-power.offline",), ("deskyard.power.off",)])
def test_without_its_very_tag_a_machine_is_wanted_to_run(tags: tuple[str, ...]) -> None:
    assert power_of(tags) is Power.RUNNING


def test_a_machine_that_is_wanted_off_and_paused_is_wanted_off() -> None:
    assert power_of(reversed(POWER_TAGS.values())) is Power.OFF


@pytest.mark.parametrize("tag", POWER_TAGS.values())
def test_the_tag_is_no_owners_no_templates_and_one_that_the_cluster_takes(tag: str) -> None:
    assert not tag.startswith((WORKSPACE_POOLS, IMAGE_POOLS, templates.OURS, templates.DRAFT))
    assert re.fullmatch(r"[a-z0-9_][a-z0-9_\-+.]*", tag)


def test_a_fresh_machine_is_planned_to_run_and_to_start_with_its_node() -> None:
    vm = planned(PaperCluster())
    assert (vm.power, vm.on_boot, vm.tags) == (Power.RUNNING, True, OWN)


@pytest.mark.parametrize("power", [Power.OFF, Power.PAUSED])
def test_what_a_machine_shows_that_it_is_wanted_to_be_is_planned(power: Power) -> None:
    cluster = PaperCluster()
    cluster.make(cluster.plan(workspace("lab", "dev1"))[1])
    tagged(cluster, *with_power(OWN, power))
    vm = planned(cluster)
    assert (vm.power, vm.on_boot, vm.tags) == (power, False, with_power(OWN, power))


def test_a_foreign_tag_is_planned_away() -> None:
    cluster = PaperCluster()
    cluster.make(cluster.plan(workspace("lab", "dev1"))[1])
    tagged(cluster, *OWN, "theirs")
    assert planned(cluster).tags == OWN


def test_whose_machine_it_is_does_not_change_with_its_power() -> None:
    cluster = PaperCluster()
    plan, on_cluster = cluster.plan(workspace("lab", "dev1"))
    cluster.make(on_cluster)
    for vm in on_cluster.machines():
        seen = cluster.machines[vm.vm_id]
        cluster.machines[vm.vm_id] = replace(seen, tags=with_power(seen.tags, Power.OFF), name="renamed", pool="")
    view = cluster.view()
    for vm in on_cluster.machines():
        found = view.machine_of(Owner(plan.site, plan.name, vm.owner.machine))
        assert found is not None
        assert found.vm_id == vm.vm_id
    # The gateway is still no desktop of the quotas.
    assert [vm.vm_id for vm in cluster.plan(workspace("lab", "dev1"))[1].machines()] == [
        vm.vm_id for vm in on_cluster.machines()
    ]
