"""Of tasks that plan at once on a cluster none takes the place of another."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from queue import Queue

import pytest

from deskyard.declaration.promise import Heard, given
from deskyard.host import lock
from deskyard.host.places import places
from deskyard.plan.power import NoRoom
from deskyard.plan.proxmox.workspace import ClusterPlan, plan_on_cluster
from tests.support.paper_cluster import PaperCluster, rack, workspace

GIB = 1024


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PaperCluster:
    """One node, on which a gateway of 1 GiB and a desktop of 4 GiB fit once."""
    monkeypatch.setenv("DESKYARD_HOME", str(tmp_path))
    return PaperCluster(nodes=1, memory_gib=8)


@pytest.fixture
def tasks() -> Iterator[ExitStack]:
    """The tasks that run; they end with the test."""
    with ExitStack() as running:
        yield running


def begun(tasks: ExitStack, name: str, cluster: PaperCluster) -> ClusterPlan:
    """A task that has planned a workspace, and makes it."""
    promise = tasks.enter_context(given("rack", name))
    return promise.plan(cluster.view, lambda view: plan_on_cluster(workspace(name), rack(), view))[1]


def test_a_place_that_another_task_is_about_to_fill_is_not_free(cluster: PaperCluster, tasks: ExitStack) -> None:
    begun(tasks, "one", cluster)
    with pytest.raises(NoRoom, match="MiB of memory"):
        begun(tasks, "two", cluster)
    # The cluster itself shows nothing yet, by which both would have had it.
    cluster.plan(workspace("two"))


def test_space_on_a_storage_that_another_task_is_about_to_take_is_not_free(
    cluster: PaperCluster, tasks: ExitStack
) -> None:
    cluster.memory_gib, cluster.free_gib = 512, 12
    begun(tasks, "one", cluster)
    with pytest.raises(NoRoom, match="space on its storage"):
        begun(tasks, "two", cluster)


def test_a_promise_ends_with_its_task_and_what_is_there_counts_once(cluster: PaperCluster) -> None:
    cluster.memory_gib = 12
    with ExitStack() as tasks:
        cluster.make(begun(tasks, "one", cluster))
        begun(tasks, "two", cluster)
        with pytest.raises(NoRoom):
            begun(tasks, "three", cluster)
    with ExitStack() as tasks:
        # Nothing was made of the second one.
        begun(tasks, "three", cluster)


def test_the_promise_of_a_task_that_was_killed_counts_no_more(cluster: PaperCluster, tasks: ExitStack) -> None:
    with ExitStack() as killed:
        begun(killed, "one", cluster)
        path = places().state / "promised" / "rack" / "one"
        left = path.read_text()
    path.write_text(left)
    begun(tasks, "two", cluster)
    assert [found.name for found in path.parent.iterdir()] == ["two"]


def test_a_clone_that_has_the_size_of_its_template_counts_by_what_it_will_have(
    cluster: PaperCluster, tasks: ExitStack
) -> None:
    plan = begun(tasks, "one", cluster)
    cluster.make(plan)
    for vm_id, machine in list(cluster.machines.items()):
        cluster.machines[vm_id] = machine.__class__(**{**machine.__dict__, "memory_mib": 512, "tags": ()})
    with pytest.raises(NoRoom, match="MiB of memory"):
        begun(tasks, "two", cluster)


def test_a_machine_that_has_its_tag_alone_is_there_and_counts_once(cluster: PaperCluster, tasks: ExitStack) -> None:
    cluster.memory_gib = 12
    cluster.make(begun(tasks, "one", cluster))
    for vm_id, machine in list(cluster.machines.items()):
        cluster.machines[vm_id] = replace(machine, pool="", name="moved")
    begun(tasks, "two", cluster)


def test_who_promises_nothing_hears_of_the_promises_of_others(cluster: PaperCluster, tasks: ExitStack) -> None:
    make = partial(plan_on_cluster, workspace("two"), rack())
    assert Heard("rack").plan(cluster.view, make) == cluster.plan(workspace("two"))
    begun(tasks, "one", cluster)
    with pytest.raises(NoRoom, match="MiB of memory"):
        Heard("rack").plan(cluster.view, make)


def test_who_waits_for_another_task_that_plans_says_so(
    cluster: PaperCluster, tasks: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: Queue[str] = Queue()
    monkeypatch.setattr(lock, "say", said.put)
    with ThreadPoolExecutor(1) as pool:
        with lock.alone("places-rack"):
            late = pool.submit(begun, tasks, "one", cluster)
            assert said.get(timeout=30).strip() == "another task looks for places on rack: waiting"
        late.result()


def test_a_task_that_plans_again_is_in_nobodys_way_twice(cluster: PaperCluster, tasks: ExitStack) -> None:
    promise = tasks.enter_context(given("rack", "one"))
    first, again = (
        promise.plan(cluster.view, lambda view: plan_on_cluster(workspace("one"), rack(), view)) for _ in range(2)
    )
    assert first == again == cluster.plan(workspace("one"))
