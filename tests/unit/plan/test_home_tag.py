"""The volume of /home of a machine of a cluster, in its tags and in the Plan."""

import re
from dataclasses import replace

import pytest

from deskyard.errors import ConfigError
from deskyard.plan.proxmox.home_tag import home_of, with_home
from deskyard.plan.proxmox.view import IMAGE_POOLS, TRIAL_POOLS, WORKSPACE_POOLS
from deskyard.plan.proxmox.workspace import plan_on_cluster
from deskyard.site.proxmox import templates
from tests.support.paper_cluster import PaperCluster, rack, workspace

OWN = ("deskyard", "deskyard.rack.lab.dev1")
DECLARED = workspace("lab", "dev1")


def test_its_size_is_read_back_and_no_other_tag_is_touched() -> None:
    tags = with_home((*OWN, "theirs"), 10)
    assert (home_of(tags), set(tags) - {"deskyard-home.10"}) == (10, {*OWN, "theirs"})
    assert home_of(with_home(tags, 40)) == 40
    assert with_home(tags, None) == (*OWN, "theirs")


@pytest.mark.parametrize("tags", [(), OWN, ("deskyard-home",), ("deskyard-home.",), ("deskyard-home.large",)])
def test_without_its_very_tag_none_is_told_of(tags: tuple[str, ...]) -> None:
    assert home_of(tags) is None


def test_the_tag_is_no_owners_no_templates_and_one_that_the_cluster_takes() -> None:
    (tag,) = with_home((), 10)
    assert not tag.startswith((WORKSPACE_POOLS, IMAGE_POOLS, TRIAL_POOLS, templates.OURS, templates.DRAFT))
    assert re.fullmatch(r"[a-z0-9_][a-z0-9_\-+.]*", tag)


def test_desktops_have_one_of_their_tier_and_gateways_none() -> None:
    _, on_cluster = PaperCluster().plan(workspace("lab", "dev1"))
    assert (on_cluster.desktops["dev1"].machine.home_gib, on_cluster.gateway.machine.home_gib) == (10, None)
    assert home_of(on_cluster.gateway.tags) is None


def test_a_desktop_that_has_run_without_one_is_planned_without_one() -> None:
    cluster = PaperCluster()
    _, made = cluster.plan(DECLARED)
    cluster.make(made)
    vm_id = made.desktops["dev1"].vm_id
    view = replace(cluster.view(), homeless=frozenset({vm_id}))
    vm = plan_on_cluster(DECLARED, rack(), view)[1].desktops["dev1"]
    assert (vm.machine.home_gib, vm.tags) == (None, OWN)
    # Whoever lies beside it, and it itself where it was not said to lack one, has one.
    assert plan_on_cluster(DECLARED, rack(), cluster.view())[1].desktops["dev1"].machine.home_gib == 10


def test_quotas_count_those_of_other_workspaces_by_their_tags() -> None:
    cluster = PaperCluster()
    _, other = cluster.plan(workspace("other", "dev1"))
    cluster.make(other)
    with pytest.raises(ConfigError, match="would be 68 with workspace lab"):
        cluster.plan(DECLARED, rack(quotas={"disk_gib": 67}))
    cluster.plan(DECLARED, rack(quotas={"disk_gib": 68}))
