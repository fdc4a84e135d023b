"""Snapshots of machines of a cluster: the peer keeps them as Proxmox VE does, and Deskyard goes back to them."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from fakepve import schema

from deskyard.errors import SiteError
from deskyard.plan.power import Power
from deskyard.plan.snapshot import RESERVED, Snapshot
from deskyard.site.files import read_site
from deskyard.site.proxmox.agent import ClusterAgent
from deskyard.site.proxmox.client import ApiError, connect
from deskyard.site.proxmox.life.power import MachinePower
from deskyard.site.proxmox.life.snapshots import MachineSnapshots
from deskyard.site.proxmox.machines import ClusterMachines
from tests.proxmox import test_contract
from tests.proxmox.rack import SITE, Rack
from tests.proxmox.started_gateway import start
from tests.support.pve import Client, Peer
from tests.support.pve.asking import NODE, machine, refused

published = test_contract.published
SNAPSHOTS, VM = f"{NODE}/100/snapshot", f"{NODE}/100"
NAME, A_DAY = "lab", 86_400.0


@dataclass
class Desk:
    """A desktop that runs, with the rights of the table of privileges and no other."""

    rack: Rack
    machines: ClusterMachines
    domain: str

    @property
    def vm(self) -> Any:
        """What the peer holds of it."""
        return self.rack.machines(NAME)["dev1"]

    @property
    def path(self) -> str:
        """Where the API has it."""
        return self.rack.node_path(NAME, "dev1")

    def take(self, *names: str) -> None:
        """Take snapshots, each a second after the other."""
        for number, name in enumerate(names):
            self.machines.take_snapshot(self.domain, Snapshot(name))
            self.vm.snapshots[name]["snaptime"] += number

    def restore(self, name: str) -> None:
        """Go back to a snapshot."""
        self.machines.restore_snapshot(self.domain, name)

    def names(self) -> list[str]:
        """The snapshots that are listed."""
        return [snapshot.name for snapshot in self.machines.snapshots(self.domain)]

    def power(self, verb: str) -> None:
        """Start or stop it."""
        assert self.rack.root.finish("POST", f"{self.path}/status/{verb}") == "OK"


@pytest.fixture
def desk(peer: Peer, root: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    """It is protected, as every machine of a workspace is, and has a disk."""
    rack = Rack(peer, root, tmp_path, monkeypatch)
    rack.declare(NAME, "dev1")
    declared = rack.plan(NAME)
    assert declared.on_cluster is not None
    start(rack, declared.on_cluster.desktops["dev1"])
    path = rack.node_path(NAME, "dev1")
    root.finish("POST", f"{path}/status/stop")
    root.ask("PUT", f"{path}/config", protection=1, onboot=1, scsi0="local-lvm:4")
    root.finish("POST", f"{path}/status/start")
    machines = ClusterMachines(declared.plan, read_site(SITE))
    found = Desk(rack, machines, declared.plan.desktop("dev1").machine.domain)
    peer.fake.clocks[found.vm.vmid] = -A_DAY
    peer.fake.calls.clear()
    return found


# The peer.


@pytest.fixture
def running(peer: Peer, root: Client) -> Any:
    """A machine that runs."""
    machine(root, onboot=1, tags="then", description="of then")
    assert root.finish("POST", f"{VM}/status/start") == "OK"
    return peer.fake.vm(100)


def test_the_machine_as_it_is_now_is_in_the_list_and_has_the_last_snapshot_as_its_parent(
    running: Any, root: Client
) -> None:
    assert [row["name"] for row in root.ask("GET", SNAPSHOTS)] == ["current"]
    assert root.finish("POST", SNAPSHOTS, snapname="first", description="text") == "OK"
    assert root.finish("POST", SNAPSHOTS, snapname="second", vmstate=1) == "OK"
    rows = {row["name"]: row for row in root.ask("GET", SNAPSHOTS)}
    assert {name: row.get("parent") for name, row in rows.items()} == {
        "first": None,
        "second": "first",
        "current": "second",
    }
    assert (rows["first"]["vmstate"], rows["second"]["vmstate"], rows["current"]["running"]) == (0, 1, 1)


@pytest.mark.parametrize(("memory", "start", "after"), [(1, 0, "running"), (0, 0, "stopped"), (0, 1, "running")])
def test_memory_or_start_lets_a_machine_run_after_it_went_back(
    running: Any, root: Client, memory: int, start: int, after: str
) -> None:
    root.finish("POST", SNAPSHOTS, snapname="first", vmstate=memory)
    assert root.finish("POST", f"{SNAPSHOTS}/first/rollback", start=start) == "OK"
    assert root.ask("GET", f"{VM}/status/current")["status"] == after


def test_configuration_of_then_comes_back_but_for_description_and_new_disks(running: Any, root: Client) -> None:
    root.finish("POST", SNAPSHOTS, snapname="first")
    root.finish("POST", f"{VM}/status/stop")
    root.ask("PUT", f"{VM}/config", onboot=0, tags="now", description="of now", memory="1024", scsi1="local-lvm:1")
    new = root.ask("GET", f"{VM}/config")["scsi1"].partition(",")[0]
    root.finish("POST", f"{SNAPSHOTS}/first/rollback")
    config = root.ask("GET", f"{VM}/config")
    found = [config.get(key) for key in ("onboot", "tags", "description", "memory", "scsi1", "unused0", "parent")]
    assert found == [1, "then", "of now", "512", None, new, "first"]
    assert not {"lock", "snaptime", "vmstate", "runningmachine"} & config.keys()


def test_memory_takes_a_volume_until_its_snapshot_or_its_machine_is_deleted(
    running: Any, root: Client, peer: Peer
) -> None:
    before = peer.fake.left()["volumes"]
    root.finish("POST", SNAPSHOTS, snapname="first", vmstate=1)
    assert len(peer.fake.left()["volumes"] - before) == 1
    assert root.finish("DELETE", f"{SNAPSHOTS}/first") == "OK"
    assert peer.fake.left()["volumes"] == before
    root.finish("POST", SNAPSHOTS, snapname="second", vmstate=1)
    root.finish("POST", f"{VM}/status/stop")
    root.finish("DELETE", VM)
    assert peer.fake.left() == {}


def test_digest_follows_snapshots(running: Any, root: Client) -> None:
    before = root.ask("GET", f"{VM}/config")["digest"]
    root.finish("POST", SNAPSHOTS, snapname="first")
    refused(root.put(f"{VM}/config", data={"onboot": 0, "digest": before}), 500, "")


@pytest.mark.parametrize("name", RESERVED)
def test_reserved_name_is_refused(running: Any, root: Client, name: str) -> None:
    refused(root.post(SNAPSHOTS, data={"snapname": name}), 500, "reserved name")


def test_locked_machine_takes_no_snapshot_and_does_not_go_back(running: Any, root: Client, peer: Peer) -> None:
    root.finish("POST", SNAPSHOTS, snapname="first")
    peer.fake.snapshot_lock(100, "backup")
    first = f"{SNAPSHOTS}/first"
    for method, path in (("POST", SNAPSHOTS), ("POST", f"{first}/rollback"), ("DELETE", first)):
        given = {"snapname": "second"} if path == SNAPSHOTS else {}
        assert root.finish(method, path, **given) == "VM is locked (backup)"


def test_raw_file_keeps_no_snapshots(root: Client, peer: Peer) -> None:
    machine(root, scsi0="shared:4,format=raw")
    assert root.ask("GET", f"{VM}/feature", feature="snapshot")["hasFeature"] == 0
    assert root.finish("POST", SNAPSHOTS, snapname="first") == "snapshot feature is not available"


# Deskyard.


@pytest.mark.parametrize("runs", [True, False])
def test_snapshot_holds_memory_if_the_machine_runs(desk: Desk, runs: bool) -> None:
    if not runs:
        desk.power("stop")
    desk.take("before")
    assert [snapshot.memory for snapshot in desk.machines.snapshots(desk.domain)] == [runs]


def test_snapshot_with_memory_is_refused_before_it_is_begun_where_its_storage_has_no_room(desk: Desk) -> None:
    store = desk.rack.peer.fake.storages["local-lvm"]
    store["avail"] = 2**30
    with pytest.raises(SiteError, match="1024 MiB are free on pve") as caught:
        desk.machines.take_snapshot(desk.domain, Snapshot("full"))
    assert (caught.value.field, caught.value.value) == ("storage", "local-lvm")
    assert not any(call.writes for call in desk.rack.peer.fake.calls)
    # Of the disk alone one can be taken.
    desk.machines.shut_down(desk.domain, force=True)
    desk.machines.take_snapshot(desk.domain, Snapshot("off"))
    assert [found.name for found in desk.machines.snapshots(desk.domain)] == ["off"]


def test_snapshots_are_listed_with_what_was_said_of_them(desk: Desk) -> None:
    desk.machines.take_snapshot(desk.domain, Snapshot("before", "the <browser> works", 1_800_000_000))
    desk.vm.snapshots["before"]["snaptime"] = 5
    desk.machines.take_snapshot(desk.domain, Snapshot("after"))
    desk.vm.snapshots["after"]["snaptime"] = 6
    assert desk.machines.snapshots(desk.domain) == [
        Snapshot("before", "the <browser> works", 1_800_000_000, memory=True, made=5),
        Snapshot("after", memory=True, made=6, parent="before", current=True),
    ]


def test_machine_has_no_snapshots_at_first(desk: Desk) -> None:
    assert desk.names() == []


def test_others_stay_whole_when_one_is_deleted(desk: Desk) -> None:
    desk.take("first", "second", "third")
    desk.machines.delete_snapshot(desk.domain, "second")
    found = {snapshot.name: snapshot.parent for snapshot in desk.machines.snapshots(desk.domain)}
    assert found == {"first": None, "third": "first"}


def test_machine_comes_back_running_with_its_clock_set(desk: Desk) -> None:
    desk.take("before")
    desk.power("stop")
    desk.restore("before")
    assert desk.vm.status == "running"
    assert abs(desk.rack.peer.fake.clocks[desk.vm.vmid]) <= 2


def test_snapshot_without_memory_leaves_the_machine_off(desk: Desk) -> None:
    desk.power("stop")
    desk.take("off")
    desk.power("start")
    desk.restore("off")
    assert desk.vm.status == "stopped"
    assert desk.rack.peer.fake.clocks[desk.vm.vmid] == -A_DAY


@pytest.mark.parametrize("then", Power)
@pytest.mark.parametrize("now", Power)
def test_what_is_wanted_now_outlives_what_was_wanted_then(desk: Desk, then: Power, now: Power) -> None:
    desk.machines.want(desk.domain, then)
    desk.take("before")
    desk.machines.want(desk.domain, now)
    desk.restore("before")
    assert desk.machines.desired() == {desk.domain: now}
    assert desk.rack.root.ask("GET", f"{desk.path}/config")["onboot"] == int(now is Power.RUNNING)


def test_without_its_power_written_again_a_machine_would_be_wanted_as_then(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.take("before")
    desk.machines.want(desk.domain, Power.OFF)
    monkeypatch.setattr(MachinePower, "hold_wish", lambda _: None)
    monkeypatch.setattr(MachinePower, "want", lambda *_: True)
    assert MachineSnapshots(connect(read_site(SITE)), desk.vm.node, desk.vm.vmid).restore("before")
    assert desk.machines.desired() == {desk.domain: Power.RUNNING}


@pytest.mark.parametrize("description", ["lab.dev1", "", "by hand\nin two lines"])
def test_description_is_as_it_was_after_the_way_back(desk: Desk, description: str) -> None:
    if description:
        desk.rack.root.ask("PUT", f"{desk.path}/config", description=description)
    desk.machines.want(desk.domain, Power.OFF)
    desk.take("before")
    desk.machines.want(desk.domain, Power.PAUSED)
    desk.restore("before")
    assert desk.vm.config.get("description", "") == description


def test_line_that_names_no_power_is_no_wish(desk: Desk) -> None:
    desk.rack.root.ask("PUT", f"{desk.path}/config", description="deskyard-power=asleep", tags="deskyard-power.off")
    desk.machines.mend_wishes([desk.domain])
    assert desk.machines.desired() == {desk.domain: Power.OFF}
    assert desk.vm.config["description"] == "deskyard-power=asleep"


def test_lock_of_a_way_back_that_broke_off_keeps_no_task_from_a_machine_whose_wish_is_known(desk: Desk) -> None:
    wish = "deskyard-power=running"
    desk.rack.root.ask("PUT", f"{desk.path}/config", description=wish, tags="deskyard-power.off")
    desk.vm.lock = "rollback"
    desk.machines.mend_wishes([desk.domain])
    assert desk.machines.desired() == {desk.domain: Power.RUNNING}
    assert desk.vm.config["description"] == wish
    desk.vm.lock = None
    desk.machines.mend_wishes([desk.domain])
    assert desk.vm.config.get("description", "") == ""
    assert desk.machines.desired() == {desk.domain: Power.RUNNING}


def test_what_is_wanted_outlives_a_way_back_that_fails_after_the_configuration(desk: Desk, peer: Peer) -> None:
    desk.take("before")
    desk.machines.want(desk.domain, Power.OFF)
    peer.fake.storages["local-lvm"]["volumes"].pop(desk.vm.config["scsi0"].partition(":")[2].partition(",")[0])
    with pytest.raises(SiteError, match="does not exist"):
        desk.restore("before")
    assert desk.machines.desired() == {desk.domain: Power.OFF}


def test_clock_that_the_guest_refuses_is_an_error_of_that_machine(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ClusterAgent, "execute", lambda *_: (1, "not permitted"))
    with pytest.raises(SiteError, match="not permitted") as caught:
        MachinePower(connect(read_site(SITE)), desk.vm.node, desk.vm.vmid).set_clock()
    assert caught.value.value == f"{desk.vm.vmid} on {desk.vm.node}"


# What the cluster refuses, or would leave half done.


@pytest.mark.parametrize(("lock", "said"), [("suspended", "is saved"), ("backup", r"is locked \(backup\)")])
def test_locked_machine_is_refused_before_anything_is_begun(desk: Desk, lock: str, said: str) -> None:
    desk.take("before")
    desk.rack.peer.fake.snapshot_lock(desk.vm.vmid, lock)
    desk.rack.peer.fake.calls.clear()
    for deed in (desk.take, desk.restore, lambda name: desk.machines.delete_snapshot(desk.domain, name)):
        with pytest.raises(SiteError, match=said):
            deed("before")
    assert {call.method for call in desk.rack.peer.fake.calls if "/snapshot" in call.path} <= {"GET"}


def test_disk_that_keeps_no_snapshots_is_refused_before_anything_is_begun(desk: Desk) -> None:
    desk.power("stop")
    desk.rack.root.ask("PUT", f"{desk.path}/config", scsi1="shared:1,format=raw")
    desk.rack.peer.fake.calls.clear()
    with pytest.raises(SiteError, match="keeps no snapshots") as caught:
        desk.take("before")
    assert "storages.disks" in caught.value.remedy
    assert {call.method for call in desk.rack.peer.fake.calls} == {"GET"}


def test_storage_that_goes_back_to_the_newest_alone_is_told(desk: Desk, peer: Peer) -> None:
    desk.take("first", "second")
    peer.fake.rollback_refusal = "can't rollback, 'first' is not most recent snapshot on 'vm-100-disk-0'"
    with pytest.raises(SiteError, match="newest alone") as caught:
        desk.restore("first")
    assert caught.value.remedy == "delete those that were taken after it"


def test_interrupted_snapshot_is_listed_so_that_it_can_be_deleted(desk: Desk) -> None:
    desk.take("before")
    desk.vm.snapshots["before"]["snapstate"] = "prepare"
    assert desk.names() == ["before"]
    assert [found.interrupted for found in desk.machines.snapshots(desk.domain)] == [True]
    with pytest.raises(SiteError, match=r"was interrupted \(prepare\)"):
        desk.restore("before")
    desk.machines.delete_snapshot(desk.domain, "before")
    assert desk.names() == []


def test_whole_snapshot_is_never_deleted_by_force(desk: Desk) -> None:
    desk.take("before")
    desk.machines.delete_snapshot(desk.domain, "before")
    assert [call.parameters for call in desk.rack.peer.fake.calls if call.method == "DELETE"] == [{}]


def test_machine_that_waits_for_room_takes_no_snapshot(desk: Desk) -> None:
    desk.vm.qmpstatus = "io-error"
    with pytest.raises(SiteError, match="is io-error"):
        desk.take("before")


def test_snapshot_that_is_gone_is_named(desk: Desk) -> None:
    for deed in (desk.restore, lambda name: desk.machines.delete_snapshot(desk.domain, name)):
        with pytest.raises(SiteError, match="has no such snapshot"):
            deed("current")


def test_privilege_of_the_table_is_what_lets_snapshots_be(desk: Desk, peer: Peer) -> None:
    peer.fake.roles["DeskyardMachines"].remove("VM.Snapshot")
    with pytest.raises(ApiError, match=r"VM\.Snapshot"):
        desk.take("before")


def test_every_call_is_published_with_its_parameters(desk: Desk, published: schema.Schema) -> None:
    desk.machines.take_snapshot(desk.domain, Snapshot("before", "text", 1_800_000_000))
    desk.take("other")
    desk.vm.snapshots["other"]["snapstate"] = "delete"
    desk.machines.snapshots(desk.domain)
    desk.restore("before")
    for name in ("before", "other"):
        desk.machines.delete_snapshot(desk.domain, name)
    calls = [call for call in desk.rack.peer.fake.calls if "/snapshot" in call.path or "/feature" in call.path]
    assert {(call.method, call.path.rpartition("/")[2]) for call in calls} == {
        ("GET", "feature"),
        ("GET", "snapshot"),
        ("POST", "snapshot"),
        ("POST", "rollback"),
        ("DELETE", "before"),
        ("DELETE", "other"),
    }
    assert sorted(set(test_contract._faults(calls, published))) == []


def test_no_disk_of_a_cluster_is_read_from_here(desk: Desk) -> None:
    with pytest.raises(SiteError, match="none of its disks is read from here"):
        desk.machines.backups(desk.domain)
