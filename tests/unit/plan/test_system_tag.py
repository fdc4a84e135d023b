"""The system of a desktop of a cluster in the tags of its machine, and in the Plan."""

import re
from dataclasses import replace

import pytest

from deskyard.plan.proxmox.home_tag import with_home
from deskyard.plan.proxmox.power_tag import POWER_TAGS
from deskyard.plan.proxmox.system_tag import SYSTEM_TAGS, Systems, image_of_template, volume_name
from deskyard.plan.proxmox.view import IMAGE_POOLS, TRIAL_POOLS, WORKSPACE_POOLS, SeenMachine
from deskyard.plan.proxmox.workspace import VmPlan, plan_on_cluster
from deskyard.site.proxmox import templates
from tests.support.paper_cluster import PaperCluster, rack, workspace

OWN = ("deskyard", "deskyard.rack.lab.dev1")
DECLARED = workspace("lab", "dev1")


@pytest.mark.parametrize(
    "systems",
    [
        Systems(),
        Systems("desktop-ab12"),
        Systems("my-image-ab12", "vm-101-disk-3", "desktop-00ff"),
        # Files have an ending, and of a first system nothing may be known.
        Systems(None, "vm-101-disk-3.qcow2", None, ("vm-101-disk-4.raw", "vm-101-disk-5")),
        Systems("desktop-ab12", busy="0a1b2c3d", until=1_800_000_000),
    ],
)
def test_it_is_read_back_and_no_other_tag_is_touched(systems: Systems) -> None:
    tags = systems.among((*OWN, "theirs", POWER_TAGS[max(POWER_TAGS)]))
    assert Systems.of(reversed(tags)) == systems
    assert {tag for tag in tags if not tag.startswith(SYSTEM_TAGS)} == {*OWN, "theirs", POWER_TAGS[max(POWER_TAGS)]}
    assert Systems().among(tags) == Systems().among((*OWN, "theirs", POWER_TAGS[max(POWER_TAGS)]))
    assert list(tags) == sorted(tags)
    for tag in tags:
        assert re.fullmatch(r"[a-z0-9_][a-z0-9_\-+.]*", tag)


def test_the_tags_are_nobody_elses() -> None:
    others = (WORKSPACE_POOLS, IMAGE_POOLS, TRIAL_POOLS, templates.OURS, templates.DRAFT, *with_home((), 1))
    for tag in Systems("a-1", "b", "c-2", ("d",), "e", 5).among(()):
        assert not tag.startswith(others)


def test_a_volume_is_told_by_its_own_name_whatever_it_starts_from() -> None:
    assert volume_name("local-lvm:vm-101-disk-1") == "vm-101-disk-1"
    assert volume_name("nfs:20000/base-20000-disk-0.qcow2/101/vm-101-disk-1.qcow2") == "vm-101-disk-1.qcow2"


def test_a_template_says_its_image() -> None:
    assert image_of_template(templates.tags("desktop", "ab12", made=1).split(";")) == "desktop-ab12"
    assert image_of_template(OWN) is None


def planned(cluster: PaperCluster, *more: SeenMachine) -> VmPlan:
    """The desktop `dev1`, with more machines in the view."""
    view = cluster.view()
    return plan_on_cluster(DECLARED, rack(), replace(view, machines=(*view.machines, *more)))[1].desktops["dev1"]


def test_a_new_desktop_has_the_image_of_its_template_and_later_what_its_machine_says() -> None:
    cluster = PaperCluster()
    first = planned(cluster)
    held = tuple(templates.tags("desktop", "ab12", made=1).split(";"))
    template = SeenMachine(first.template, first.template_node, "t", "", held, False, True, 1, 1, 1)
    assert planned(cluster, template).systems == Systems("desktop-ab12")
    made = cluster.plan(DECLARED)[1]
    assert made.gateway.systems == Systems()
    cluster.make(made)
    exchanged = Systems("desktop-cd34", "vm-1-disk-1", "desktop-ab12")
    cluster.machines[first.vm_id] = replace(cluster.machines[first.vm_id], tags=exchanged.among(first.tags))
    assert planned(cluster, template).systems == exchanged
    assert planned(cluster, template).tags == exchanged.among(first.tags)
    # What an earlier version made says nothing, and nothing is made up for it.
    cluster.machines[first.vm_id] = replace(cluster.machines[first.vm_id], tags=OWN)
    assert planned(cluster, template).systems == Systems()
