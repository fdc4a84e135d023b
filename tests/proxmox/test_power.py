"""The power of a desktop on the peer, without an engine: what it is wanted to be, and what moves it."""

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from deskyard.errors import SiteError
from deskyard.host.deadline import Deadline
from deskyard.life import halted
from deskyard.life.halted import Halted
from deskyard.plan.power import Load, Power
from deskyard.plan.workspace import WorkspacePlan
from deskyard.site.files import read_site
from deskyard.site.proxmox.life import power
from deskyard.site.proxmox.machines import ClusterMachines
from deskyard.wire.stages import Stage
from tests.proxmox.rack import SITE, Rack, watched
from tests.proxmox.started_gateway import SETTLING, Gateway, start
from tests.support.pve import Client, Peer
from tests.support.pve.calls import Call

NAME, OWN = "lab", "deskyard;deskyard.rack.lab.dev1"
TASK_SECONDS = 60.0


@dataclass
class Desk:
    """A desktop that runs, is protected, and has a tag of somebody else."""

    rack: Rack
    plan: WorkspacePlan
    machines: ClusterMachines
    domain: str

    @property
    def vm(self) -> Any:
        """What the peer holds of it."""
        return self.rack.machines(NAME)["dev1"]

    @property
    def state(self) -> str:
        """Its state."""
        return str(self.machines.states()[self.domain]["state"])

    def config(self, *names: str) -> tuple[Any, ...]:
        """Options of its configuration."""
        found = self.rack.root.ask("GET", f"{self.rack.node_path(NAME, 'dev1')}/config")
        return tuple(found.get(name) for name in names)

    def memory(self) -> set[str]:
        """The volumes of its storage besides those that it had."""
        return {name for name in self.rack.peer.fake.storages["local-lvm"]["volumes"] if f"-{self.vm.vmid}-" in name}


@contextmanager
def backed_up(desk: Desk) -> Iterator[None]:
    """The cluster reads its disks for a backup, as long as the block lasts."""
    fake, path = desk.rack.peer.fake, f"/nodes/{desk.vm.node}/vzdump"
    fake.faults.slow_tasks["vzdump"] = 0.01
    fake.backup_faults.add("long")
    upid = desk.rack.root.ask("POST", path, vmid=desk.vm.vmid, storage="local")
    assert Deadline(TASK_SECONDS).wait_for(lambda: desk.vm.lock == "backup", 0.02)
    try:
        yield
    finally:
        fake.backup_faults.clear()
        assert Deadline(TASK_SECONDS).wait_for(lambda: fake.tasks[upid]["status"] == "stopped", 0.02)
    assert fake.tasks[upid]["exitstatus"] == "OK"


@pytest.fixture
def desk(peer: Peer, root: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    """It is moved with the rights of the table of privileges, and with no other."""
    rack = Rack(peer, root, tmp_path, monkeypatch)
    rack.declare(NAME, "dev1")
    declared = rack.plan(NAME)
    assert declared.on_cluster is not None
    start(rack, declared.on_cluster.desktops["dev1"])
    root.ask("PUT", f"{rack.node_path(NAME, 'dev1')}/config", protection=1, tags=f"{OWN};theirs", onboot=1)
    machines = ClusterMachines(declared.plan, read_site(SITE))
    return Desk(rack, declared.plan, machines, declared.plan.desktop("dev1").machine.domain)


def test_what_it_takes_is_what_the_cluster_counts_while_it_runs(desk: Desk) -> None:
    desk.vm.config["cores"] = 4
    desk.vm.stats.update(cpu=0.25, netin=1000, netout=24)
    desk.rack.peer.fake.faults.late_listings = 0
    assert desk.machines.loads([desk.domain]) == {desk.domain: Load(1024, processors=1.0)}
    assert desk.machines.loads([]) == {}
    desk.machines.shut_down(desk.domain, force=True)
    assert desk.machines.loads([desk.domain]) == {}


def test_what_is_wanted_is_kept_with_the_machine_and_moves_nothing(desk: Desk) -> None:
    assert desk.machines.desired() == {desk.domain: Power.RUNNING}
    desk.machines.want(desk.domain, Power.OFF)
    assert desk.config("tags", "onboot") == ("deskyard;deskyard-power.off;deskyard.rack.lab.dev1;theirs", 0)
    assert desk.machines.desired() == {desk.domain: Power.OFF}
    shown = desk.machines.states()[desk.domain]
    assert (shown["state"], shown["desired"]) == ("running", Power.OFF)
    desk.machines.want(desk.domain, Power.RUNNING)
    assert desk.config("tags", "onboot") == (f"{OWN};theirs", 1)


def test_what_somebody_changes_at_the_same_time_is_kept(desk: Desk) -> None:
    vm = desk.vm
    writes: list[Call] = []

    def meanwhile(call: Call) -> None:
        if call.method == "PUT" and not writes:
            vm.config["tags"] += ";newer"
        writes.extend([call] if call.method == "PUT" else [])

    desk.rack.peer.fake.faults.on_call = meanwhile
    desk.machines.want(desk.domain, Power.PAUSED)
    desk.rack.peer.fake.faults.on_call = None
    assert [call.status for call in writes] == [500, 200]
    assert desk.config("tags") == ("deskyard;deskyard-power.paused;deskyard.rack.lab.dev1;newer;theirs",)


def test_a_guest_that_listens_shuts_down_and_starts_again(desk: Desk) -> None:
    desk.machines.shut_down(desk.domain, force=False)
    assert desk.state == "stopped"
    desk.machines.start(desk.domain)
    assert desk.state == "running"


def test_what_is_so_already_is_asked_for_nothing(desk: Desk) -> None:
    with watched(desk.rack.peer) as running:
        desk.machines.start(desk.domain)
    desk.machines.shut_down(desk.domain, force=False)
    with watched(desk.rack.peer) as off:
        desk.machines.shut_down(desk.domain, force=False)
        desk.machines.shut_down(desk.domain, force=True)
    desk.machines.start(desk.domain)
    desk.machines.pause(desk.domain, to_disk=False)
    with watched(desk.rack.peer) as paused:
        desk.machines.pause(desk.domain, to_disk=False)
    desk.machines.pause(desk.domain, to_disk=True)
    with watched(desk.rack.peer) as saved:
        desk.machines.pause(desk.domain, to_disk=True)
        desk.machines.pause(desk.domain, to_disk=False)
    assert [call for call in (*running, *off, *paused, *saved) if call.writes] == []


@pytest.mark.parametrize("force", [False, True])
def test_one_under_high_availability_is_waited_for_until_it_is_as_it_was_told(desk: Desk, force: bool) -> None:
    desk.vm.ha_state = "started"
    desk.machines.shut_down(desk.domain, force=force)
    assert desk.vm.status == "stopped"
    desk.machines.start(desk.domain)
    assert desk.vm.status == "running"
    assert {task["type"] for task in desk.rack.peer.fake.tasklog} >= {"hastop", "hastart"}


def test_one_that_high_availability_does_not_stop_is_an_error(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(power, "STOP_SECONDS", 0.0)
    desk.vm.ha_state, desk.rack.peer.fake.faults.late_ha = "started", 1000
    with pytest.raises(SiteError, match=r"is running, though HA was told(.|\n)*ha-manager status"):
        desk.machines.shut_down(desk.domain, force=True)


def test_one_that_is_off_stays_off_while_it_is_backed_up(desk: Desk) -> None:
    desk.machines.shut_down(desk.domain, force=True)
    with backed_up(desk):
        assert (desk.vm.status, desk.vm.qmpstatus) == ("running", "prelaunch")
        assert (desk.state, desk.machines.stopped().count(desk.domain)) == ("stopped", 1)
        with watched(desk.rack.peer) as calls:
            desk.machines.shut_down(desk.domain, force=False)
            desk.machines.shut_down(desk.domain, force=True)
        assert [call for call in calls if call.writes] == []
    assert desk.vm.status == "stopped"


def test_one_that_is_started_while_it_is_backed_up_goes_on_behind_the_backup(desk: Desk) -> None:
    desk.machines.shut_down(desk.domain, force=True)
    with backed_up(desk):
        desk.machines.start(desk.domain)
        assert desk.state == "running"
    assert desk.state == "running"


def test_a_guest_that_does_not_listen_goes_on_until_its_plug_is_pulled(desk: Desk) -> None:
    desk.vm.acpi = False
    with pytest.raises(SiteError, match=r"did not shut down within 180 s; it still runs(.|\n)*--force"):
        desk.machines.shut_down(desk.domain, force=False)
    assert desk.state == "running"
    desk.machines.shut_down(desk.domain, force=True)
    assert desk.state == "stopped"


def test_a_paused_desktop_keeps_its_process_and_goes_on_with_the_right_time(desk: Desk) -> None:
    fake = desk.rack.peer.fake
    desk.machines.pause(desk.domain, to_disk=False)
    assert (desk.state, desk.vm.status) == ("paused", "running")
    fake.halted[desk.vm.vmid] = time.time() - 3600
    desk.machines.start(desk.domain)
    assert desk.state == "running"
    assert abs(fake.clocks[desk.vm.vmid]) <= 2


def test_a_clock_that_nobody_sets_would_be_an_hour_late(desk: Desk) -> None:
    desk.machines.pause(desk.domain, to_disk=False)
    desk.rack.peer.fake.halted[desk.vm.vmid] = time.time() - 3600
    assert desk.rack.root.finish("POST", f"{desk.rack.node_path(NAME, 'dev1')}/status/resume") == "OK"
    assert desk.rack.peer.fake.clocks[desk.vm.vmid] < -3000


@pytest.mark.parametrize("to_disk", [False, True])
def test_a_paused_guest_hears_that_it_is_to_shut_down(desk: Desk, to_disk: bool) -> None:
    desk.machines.pause(desk.domain, to_disk=to_disk)
    desk.machines.want(desk.domain, Power.OFF)
    with watched(desk.rack.peer) as calls:
        desk.machines.shut_down(desk.domain, force=False)
    done = [call.path.rpartition("/")[2] for call in calls if call.method == "POST"]
    assert done == ["start" if to_disk else "resume", "shutdown"]
    assert (desk.state, desk.machines.desired()) == ("stopped", {desk.domain: Power.OFF})


def test_memory_on_disk_lies_with_the_disk_and_is_gone_once_it_goes_on(desk: Desk) -> None:
    before = desk.memory()
    desk.machines.want(desk.domain, Power.PAUSED)
    desk.machines.pause(desk.domain, to_disk=True)
    assert (desk.state, desk.vm.status, desk.machines.stopped().count(desk.domain)) == ("saved", "stopped", 1)
    assert len(desk.memory() - before) == 1
    desk.rack.peer.fake.halted[desk.vm.vmid] = time.time() - 3600
    desk.machines.start(desk.domain)
    assert (desk.state, desk.memory()) == ("running", before)
    assert abs(desk.rack.peer.fake.clocks[desk.vm.vmid]) <= 2


def test_what_one_with_its_memory_on_disk_is_wanted_to_be_is_written_once_it_can_be(desk: Desk) -> None:
    desk.machines.want(desk.domain, Power.PAUSED)
    desk.machines.pause(desk.domain, to_disk=True)
    desk.machines.want(desk.domain, Power.RUNNING)
    assert desk.machines.desired() == {desk.domain: Power.PAUSED}
    desk.machines.start(desk.domain)
    assert desk.machines.desired() == {desk.domain: Power.RUNNING}
    assert desk.config("tags", "onboot", "lock") == (f"{OWN};theirs", 1, None)


def test_the_plug_of_one_with_its_memory_on_disk_drops_it_and_keeps_its_protection(desk: Desk) -> None:
    before = desk.memory()
    desk.machines.pause(desk.domain, to_disk=True)
    desk.machines.shut_down(desk.domain, force=True)
    assert (desk.state, desk.memory(), desk.config("protection", "lock")) == ("stopped", before, (1, None))


def test_memory_that_cannot_be_saved_is_an_error_that_names_who_can_help(desk: Desk) -> None:
    desk.machines.want(desk.domain, Power.PAUSED)
    desk.rack.peer.fake.save_error = "query-savevm failed with error 'No space left on device'"
    with pytest.raises(SiteError, match=rf"No space left(.|\n)*qm unlock {desk.vm.vmid}"):
        desk.machines.pause(desk.domain, to_disk=True)
    # Who takes back what was wanted does not hide that error.
    desk.machines.want(desk.domain, Power.RUNNING)


def test_a_halted_one_goes_on_once_a_tenth_of_its_storage_is_free(desk: Desk) -> None:
    fake, store = desk.rack.peer.fake, desk.rack.peer.fake.storages["local-lvm"]
    desk.vm.config["scsi0"] = f"local-lvm:vm-{desk.vm.vmid}-disk-0,size=4G"
    desk.vm.qmpstatus, fake.halted[desk.vm.vmid] = "io-error", time.time() - 3600
    store.update(total=10 << 30, avail=1023 << 20)
    with watched(desk.rack.peer) as calls:
        (waiting,) = halted.go_on(desk.plan, desk.machines, "dev1")
    assert re.match(r"was halted: 1023 MiB are free on pve\d, 1 MiB too few: 1024 are kept", waiting.trouble)
    assert ([call for call in calls if call.writes], desk.state) == ([], "io-error")
    store["avail"] = 1 << 30
    assert halted.go_on(desk.plan, desk.machines, "dev1") == [Halted("dev1", went_on=True)]
    assert desk.state == "running"
    assert abs(fake.clocks[desk.vm.vmid]) <= 2


def test_one_that_a_person_paused_stays_so_on_a_storage_with_room(desk: Desk) -> None:
    desk.machines.want(desk.domain, Power.PAUSED)
    for state in ("paused", "io-error"):
        desk.vm.qmpstatus = state
        assert halted.go_on(desk.plan, desk.machines, "dev1") == []
        assert desk.state == state


def test_one_that_is_off_has_no_memory_to_keep(desk: Desk) -> None:
    desk.machines.shut_down(desk.domain, force=False)
    with pytest.raises(SiteError, match="is off and has no memory to keep"):
        desk.machines.pause(desk.domain, to_disk=True)


def test_a_guest_whose_agent_is_silent_runs_and_its_clock_is_an_error(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(power, "AGENT_SECONDS", 0.0)
    desk.machines.pause(desk.domain, to_disk=False)
    desk.vm.agent_hangs = True
    with pytest.raises(SiteError, match="the guest agent did not answer"):
        desk.machines.start(desk.domain)
    assert desk.state == "running"


def test_a_machine_that_is_not_there_is_an_error(desk: Desk) -> None:
    with pytest.raises(SiteError, match="is not in the cluster"):
        desk.machines.start("nobody")


def test_a_gateway_that_is_wanted_off_is_not_waited_for(gateway: Gateway) -> None:
    machines = ClusterMachines(gateway.plan, read_site(SITE))
    domain = gateway.plan.gateway.machine.domain
    machines.want(domain, Power.OFF)
    with pytest.raises(SiteError, match=r"is wanted off(.|\n)*workspace\.start lab"):
        gateway.tell()
    machines.want(domain, Power.RUNNING)
    gateway.tell()
    assert gateway.commands == SETTLING


def test_what_somebody_else_does_with_a_machine_is_seen_within_some_seconds(desk: Desk) -> None:
    with desk.machines.moves() as moves:
        path = desk.rack.node_path(NAME, "dev1")
        found = []
        for verb in ("suspend", "resume", "stop"):
            desk.rack.root.ask("POST", f"{path}/status/{verb}")
            moved = moves.next(60)
            assert moved is not None
            found.append((moved.domain, moved.stage))
    assert found == [(desk.domain, stage) for stage in (Stage.PAUSED, Stage.BOOTING, Stage.STOPPED)]
