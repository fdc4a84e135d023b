"""A workspace whose desktops were stopped and paused, with the real engine: nothing to mend, and nothing started."""

from collections.abc import Iterator

import pytest

from deskyard.engine.stack import WorkspaceStack
from deskyard.plan.power import Power
from deskyard.plan.proxmox.power_tag import POWER_TAGS
from deskyard.plan.proxmox.view import tags_of
from deskyard.plan.snapshot import Snapshot
from deskyard.site.files import read_site
from deskyard.site.proxmox.machines import ClusterMachines
from tests.proxmox.bench import NAME, Bench
from tests.proxmox.rack import SITE, changed, watched
from tests.proxmox.test_restores import Kill, Killed

pytestmark = pytest.mark.sampled


@pytest.fixture
def up(bench: Bench) -> Iterator[Bench]:
    """A workspace of two desktops that run."""
    bench.up()
    yield bench


def machines(bench: Bench) -> ClusterMachines:
    """Its machines."""
    return ClusterMachines(bench.rack.plan(NAME).plan, read_site(SITE))


def domain(bench: Bench, machine: str) -> str:
    """The name of a machine in the Plan."""
    return bench.rack.plan(NAME).plan.machines()[machine].domain


def stopped(bench: Bench, machine: str) -> None:
    """Let it be wanted off, and be off."""
    machines(bench).want(domain(bench, machine), Power.OFF)
    machines(bench).shut_down(domain(bench, machine), force=False)


def paused(bench: Bench, machine: str, *, to_disk: bool) -> None:
    """Let it be wanted paused, and be so."""
    machines(bench).want(domain(bench, machine), Power.PAUSED)
    machines(bench).pause(domain(bench, machine), to_disk=to_disk)


def states(bench: Bench) -> list[str]:
    """Of gateway, first and second desktop."""
    return [str(row["state"]) for row in machines(bench).states().values()]


def test_what_was_stopped_is_no_drift_stays_off_and_starts_again(up: Bench) -> None:
    stack, rack = WorkspaceStack(NAME), up.rack
    stopped(up, "dev1")
    paused(up, "dev2", to_disk=True)
    assert changed(stack.preview()) == []
    with watched(rack.peer) as calls:
        up.run("up")
    assert [call for call in calls if call.writes and "/status/" in call.path] == []
    assert states(up) == ["running", "stopped", "saved"]
    assert rack.machines(NAME)["dev1"].config["onboot"] in (0, "0")

    # A foreign tag is still seen and taken away; what the machine is wanted to be is kept.
    path = f"{rack.node_path(NAME, 'dev1')}/config"
    tags = str(rack.root.ask("GET", path)["tags"])
    rack.root.ask("PUT", path, tags=f"{tags};theirs")
    assert changed(stack.preview()) == [("update", "lab-desktop-dev1-machine")]
    up.run("up")
    assert rack.root.ask("GET", path)["tags"] == tags
    assert states(up) == ["running", "stopped", "saved"]

    moved = machines(up)
    for name in ("dev1", "dev2"):
        moved.want(domain(up, name), Power.RUNNING)
        moved.start(domain(up, name))
    assert states(up) == ["running", "running", "running"]
    assert changed(stack.preview()) == []


def test_a_whole_workspace_that_was_stopped_stays_so(up: Bench) -> None:
    for name in ("dev1", "dev2", "gateway"):
        stopped(up, name)
    assert changed(WorkspaceStack(NAME).preview()) == []
    with watched(up.rack.peer) as calls, pytest.raises(AssertionError, match="is stopped"):
        up.run("up")
    assert [call for call in calls if call.writes and "/qemu/" in call.path] == []
    assert states(up) == ["stopped", "stopped", "stopped"]


def test_what_stands_still_and_is_wanted_to_run_is_drift(up: Bench) -> None:
    stack, path = WorkspaceStack(NAME), up.rack.node_path(NAME, "dev1")
    assert up.rack.root.finish("POST", f"{path}/status/stop") == "OK"
    assert up.rack.root.finish("POST", f"{up.rack.node_path(NAME, 'dev2')}/status/suspend") == "OK"
    power = [("update", "lab-desktop-dev1-power"), ("update", "lab-desktop-dev2-power")]
    assert sorted(changed(stack.preview())) == power
    up.run("up")
    assert states(up) == ["running", "running", "running"]


def test_what_a_killed_way_back_to_a_snapshot_left_of_the_wish_is_mended_by_up(
    up: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    rack, dev1 = up.rack, domain(up, "dev1")
    stopped(up, "dev1")
    machines(up).take_snapshot(dev1, Snapshot("before"))
    machines(up).want(dev1, Power.RUNNING)
    machines(up).start(dev1)
    with monkeypatch.context() as patched:
        # Behind the rollback, before what it is wanted to be is written again.
        Kill(patched).at(2, heard=True)
        with pytest.raises(Killed):
            machines(up).restore_snapshot(dev1, "before")
    assert POWER_TAGS[Power.OFF] in tags_of(rack.machines(NAME)["dev1"].config)
    assert machines(up).desired()[dev1] is Power.RUNNING
    up.run("up")
    assert states(up) == ["running"] * 3
    config = rack.machines(NAME)["dev1"].config
    assert (POWER_TAGS[Power.OFF] in tags_of(config), int(config["onboot"])) == (False, 1)
    assert changed(WorkspaceStack(NAME).preview()) == []


def test_a_workspace_is_removed_whose_desktops_are_paused(up: Bench) -> None:
    paused(up, "dev1", to_disk=False)
    paused(up, "dev2", to_disk=True)
    up.run("destroy")
    up.gone()
