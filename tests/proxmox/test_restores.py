"""Desktops of a cluster that are taken back to a backup: the same machines with the disk of then, or as they were.

The peer moves and exchanges disks as qemu-server e6352be6 does (`tests/support/pve/moved_disks.py`).
"""

import os
import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from deskyard.errors import SiteError
from deskyard.life import power
from deskyard.life.backup import backup, restoration
from deskyard.life.backup.vault import vault_of
from deskyard.plan.power import Power
from deskyard.plan.proxmox.system_tag import Systems
from deskyard.plan.proxmox.view import tags_of, trial_pool_of
from deskyard.site.proxmox.client import Answer
from deskyard.site.proxmox.client import Client as Api
from deskyard.site.proxmox.kinds.disk_size import size_of
from deskyard.site.proxmox.life import copies, exchange
from deskyard.site.proxmox.life.copies import words_of, written
from deskyard.site.proxmox.life.power import MachinePower
from tests.proxmox import test_contract
from tests.proxmox.backed_up import DISKS, FOLDER, NAME, RESTORE, SERVER, STORAGE, TARGET, Desk, desk_on
from tests.proxmox.rack import SITE
from tests.support.pve import Client, Peer
from tests.support.pve.asking import NODE, machine, refused
from tests.support.pve.calls import Call

published = test_contract.published
SYSTEM = Systems("desktop-desktop0digest")
WELL = "mount / ext4 rw\n"
# Kills that are tried in every run; with DESKYARD_ALL_KILLS=1 it is all of them.
SAMPLE, SEED = 3, os.environ.get("DESKYARD_SEED", "22")


@pytest.fixture(scope="module", params=[FOLDER, SERVER])
def kept_desk(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    """One desktop for all: each restore ends with a whole one."""
    folder = tmp_path_factory.mktemp("desk")
    with (
        pytest.MonkeyPatch.context() as monkeypatch,
        Peer(folder, nodes=2) as peer,
        peer.client() as root,
        desk_on(peer, root, folder, monkeypatch, request.param) as desk,
    ):
        # Made once for all times: each restore then makes the same calls.
        root.ask("POST", "/pools", poolid=trial_pool_of(SITE))
        yield desk


@pytest.fixture
def desk(kept_desk: Desk) -> Iterator[Desk]:
    """The desktop, running and well, with one backup."""
    machine = power.opened(TARGET)
    machine.move(Power.RUNNING, lambda: machine.machines.start(machine.domain))
    kept_desk.volumes.clear()
    kept_desk.looks, kept_desk.asked = WELL, lambda: None
    kept_desk.vm.config["tags"] = ";".join(SYSTEM.among(tags_of(kept_desk.vm.config)))
    backup.run(TARGET)
    yield kept_desk


class Killed(BaseException):
    """What a process that is killed is to those who look on."""


class Kill:
    """Ends all calls of this process at one of those that write: before it is made, or before its answer is heard."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._call: Callable[..., Answer] = Api.call
        self.fatal, self.heard, self.writes, self.dead = 0, True, 0, False
        kill = self

        def call(api: Api, method: str, path: str, params: Any) -> Answer:
            return kill(api, method, path, params)

        monkeypatch.setattr(Api, "call", call)

    def __call__(self, api: Api, method: str, path: str, params: Any) -> Answer:
        if self.dead:
            raise Killed
        counts = method != "GET" and "/agent/" not in path
        self.writes += counts
        self.dead = counts and self.fatal == self.writes
        if self.dead and not self.heard:
            raise Killed
        answer = self._call(api, method, path, params)
        if self.dead:
            raise Killed
        return answer

    def at(self, fatal: int, *, heard: bool) -> None:
        """Be killed at that call from now on; at none with 0."""
        self.fatal, self.heard, self.writes, self.dead = fatal, heard, 0, False


def left_on(desk: Desk) -> dict[str, Any]:
    """What is on the cluster; volumes have new names after an exchange."""
    found = desk.fake.left()
    return {**found, "volumes": len(found["volumes"])}


def restored(before: dict[str, Any]) -> dict[str, Any]:
    """The configuration with restored disks: of their system nobody knows the image."""
    return {**before, "tags": ";".join(Systems().among(tags_of(before)))}


def settled(desk: Desk, before: dict[str, Any], left: dict[str, Any]) -> None:
    """The machine is what it was, runs, and nothing lies about."""
    assert desk.config() == before
    assert desk.vm.status == "running"
    assert desk.copies(RESTORE) == []
    assert left_on(desk) == left


def test_a_desktop_goes_back_as_the_machine_that_it_is(
    desk: Desk, published: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    (made,) = backup.listing(TARGET)["backups"]
    before, left, seen = desk.config(), left_on(desk), list[Any]()
    desk.asked = lambda: seen.append((desk.holds, len(desk.copies(RESTORE)), dict(desk.vm.config)))
    desk.fake.calls.clear()
    done = restoration.restore(TARGET, made["id"])
    assert done == {"workspace": NAME, "machines": [{"name": "dev1", "state": "running", "desired": "running"}]}
    settled(desk, restored(before), left)
    assert desk.holds == made["manifest"]
    # The one that it had before was there until the desktop was asked with the other.
    holds, copies, config = seen[0]
    assert (holds, copies) == (made["manifest"], 1)
    kept = [str(value) for key, value in config.items() if key.startswith("unused")]
    assert [desk.fake._qm_volume(volume) for volume in kept] == [None, None]
    assert "it is restored beside the desktop first" in capsys.readouterr().err
    calls = desk.published()
    assert sorted(set(test_contract._faults(calls, published))) == []
    # `protection` is never lifted, and no boot order touched.
    assert not [
        call for call in calls if {"protection", "boot"} & set(call.parameters) and f"/{desk.vm.vmid}/" in call.path
    ]


def test_a_disk_that_has_grown_since_stays_as_large(desk: Desk) -> None:
    path = desk.rack.node_path(NAME, "dev1")
    for disk, size in (("scsi0", "8G"), ("scsi1", "3G")):
        assert desk.rack.root.finish("PUT", f"{path}/resize", disk=disk, size=size) == "OK"
    restoration.restore(TARGET, "latest")
    assert desk.vm.config["scsi0"].endswith(",discard=on,iops_rd=500,size=8G")
    assert desk.vm.config["scsi1"].endswith(",backup=1,discard=on,iops_rd=500,serial=home,size=3G")


def test_one_of_before_without_a_volume_of_home_goes_back_to_its_own_backups_alone(desk: Desk) -> None:
    home = desk.vm.config.pop("scsi1")
    with pytest.raises(SiteError, match="has the disks scsi0, scsi1, and the desktop has scsi0"):
        restoration.restore(TARGET, "latest")
    assert desk.copies(RESTORE) == []
    desk.volumes.clear()
    backup.run(TARGET)
    restoration.restore(TARGET, "latest")
    assert (desk.fake._qm_volume(str(desk.vm.config["scsi0"]).partition(",")[0]) or {})["archive"]
    desk.vm.config["scsi1"] = home
    with pytest.raises(SiteError, match="has the disks scsi0, and the desktop has scsi0, scsi1"):
        restoration.restore(TARGET, "latest")
    assert desk.copies(RESTORE) == []


def test_one_that_is_not_well_with_it_is_as_it_was_before(desk: Desk) -> None:
    before, left, volume, nonce = desk.config(), left_on(desk), desk.vm.config["scsi0"], desk.held
    for held, looks, reason in (
        ("other", "mount / ext4 rw\n", "is not of this backup"),
        (nonce, "errors sda1 3\nmount / ext4 rw\n", "has met errors"),
    ):
        desk.held, desk.looks = held, looks
        with pytest.raises(SiteError, match=reason):
            restoration.restore(TARGET, "latest")
        settled(desk, before, left)
        assert desk.vm.config["scsi0"] == volume
    with desk.wrong("restore"), pytest.raises(SiteError, match=r"short vma extent|wrong CRC"):
        restoration.restore(TARGET, "latest")
    settled(desk, before, left)


def test_one_that_is_wanted_off_is_off_again(desk: Desk) -> None:
    (made,) = backup.listing(TARGET)["backups"]
    power.stop(TARGET)
    restoration.restore(TARGET, "latest")
    assert (desk.vm.status, desk.holds) == ("stopped", made["manifest"])


def test_the_disks_of_one_under_high_availability_are_exchanged_once_it_is_off(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(desk.vm, "ha_state", "started")
    seen: list[str] = []

    def look(call: Call) -> None:
        if call.method == "PUT" and "scsi0" in call.parameters:
            seen.append(desk.vm.status)

    desk.fake.faults.on_call = look
    restoration.restore(TARGET, "latest")
    desk.fake.faults.on_call = None
    assert (seen, desk.vm.status) == (["stopped"], "running")


def test_a_disk_is_never_taken_out_of_one_that_runs(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    before = desk.config()
    monkeypatch.setattr(MachinePower, "shut_down", lambda _: None)
    with pytest.raises(SiteError, match="is running: its disks stay"):
        restoration.restore(TARGET, "latest")
    assert desk.config() == before


def test_what_cannot_be_is_refused_before_anything_is_touched(desk: Desk) -> None:
    root = desk.rack.root
    path = desk.rack.node_path(NAME, "dev1")

    def refuses(text: str) -> None:
        desk.fake.calls.clear()
        with pytest.raises(SiteError, match=text):
            restoration.restore(TARGET, "latest")
        assert desk.fake.calls.writes() == []

    free = desk.fake.storages["local-lvm"]["avail"]
    desk.fake.storages["local-lvm"]["avail"] = 1 << 30
    needed = sum(size_of(desk.vm.config[disk]) for disk in DISKS) >> 20
    refuses(rf"1024 MiB are free on .*; the disks of a backup take {needed}")
    desk.fake.storages["local-lvm"]["avail"] = free
    assert root.finish("POST", f"{path}/snapshot", snapname="before") == "OK"
    refuses("has snapshots, which lie in the disks that would go: before")
    assert root.finish("DELETE", f"{path}/snapshot/before") == "OK"
    home = desk.vm.config["scsi1"]
    desk.vm.config["scsi2"] = "local-lvm:vm-1-disk-9,size=1G"
    refuses("has the disks scsi0, scsi1, scsi2")
    del desk.vm.config["scsi2"]
    # Somebody's disk in the place of /home is not exchanged.
    desk.vm.config["scsi1"] = home.replace("serial=home", "serial=work")
    refuses("has the disks scsi0, scsi1; only scsi0 and a volume of /home")
    desk.vm.config["scsi1"] = home
    assert root.finish("POST", f"{path}/status/suspend") == "OK"
    refuses("is paused")


def test_a_backup_that_lies_on_another_node_alone_is_refused_with_what_to_do(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, other = desk.vm.node, next(node for node in desk.fake.nodes if node != desk.vm.node)
    kept = desk.fake.storages[STORAGE]
    monkeypatch.setitem(desk.fake.storages, STORAGE, {**kept, "shared": 0, "nodes": other})
    with pytest.raises(SiteError, match=f"is not active on {here}"):
        restoration.restore(TARGET, "latest")
    assert desk.copies(RESTORE) == []


def test_a_restore_of_another_host_is_left_alone_until_its_time_is_over(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    kill = Kill(monkeypatch)
    kill.at(3, heard=True)
    with pytest.raises(Killed):
        restoration.restore(TARGET, "latest")
    kill.at(0, heard=True)
    for module in (exchange, copies):
        monkeypatch.setattr(module, "this_host", lambda: "another")
    with pytest.raises(SiteError, match="another operator's machine"):
        restoration.restore(TARGET, "latest")
    (copy,) = desk.copies(RESTORE)
    copy.config["description"] = written({**words_of(copy.config), "until": 5})
    restoration.restore(TARGET, "latest")
    assert desk.copies(RESTORE) == []


def test_a_restore_that_is_killed_is_ended_by_the_next(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    (made,) = backup.listing(TARGET)["backups"]
    before, left = desk.config(), left_on(desk)
    kill = Kill(monkeypatch)
    kill.at(0, heard=True)
    restoration.restore(TARGET, "latest")
    points = [(fatal, heard) for fatal in range(1, kill.writes + 1) for heard in (False, True)]
    assert len(points) > 15
    chosen = points if os.environ.get("DESKYARD_ALL_KILLS") else random.Random(SEED).sample(points, SAMPLE)
    for fatal, heard in chosen:
        kill.at(fatal, heard=heard)
        with pytest.raises(Killed):
            restoration.restore(TARGET, "latest")
        # Whatever is under way, it has a disk to start from; and this is all that is needed.
        assert desk.fake.missing_disks(desk.vm) == []
        assert {"scsi0", "scsi1"} <= desk.vm.config.keys()
        # Of one moment: the restored ones, or those of before.
        assert desk.holds in (None, made["manifest"])
        kill.at(0, heard=True)
        restoration.restore(TARGET, "latest")
        settled(desk, restored(before), left)
        assert desk.holds == made["manifest"]


def test_one_that_was_killed_while_the_desktop_booted_keeps_what_is_well_and_takes_back_what_is_not(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    kill, well = Kill(monkeypatch), desk.looks
    for looks in (well, "errors sda1 3\n"):
        volume = desk.vm.config["scsi0"]
        desk.asked = lambda: setattr(kill, "dead", True)
        with pytest.raises(Killed):
            restoration.restore(TARGET, "latest")
        assert desk.vm.config["scsi0"] != volume
        desk.asked, kill.dead, desk.looks = (lambda: None), False, looks
        vault_of(SITE, NAME).mend(power.opened(TARGET))
        assert desk.copies(RESTORE) == []
        assert desk.vm.status == "running"
        assert (desk.vm.config["scsi0"] != volume) is (looks == well)
        desk.looks = well


# The peer.


def test_the_peer_moves_disks_as_the_sources_say(root: Client, peer: Peer) -> None:
    for vmid in (100, 101):
        machine(root, vmid)
    root.ask("PUT", f"{NODE}/100/config", boot="order=scsi0;net0", protection=1)
    path, to = f"{NODE}/100/move_disk", {"target-vmid": 101}
    refused(root.post(path, data={"disk": "scsi0", "target-vmid": 100}), 400, "must be different")
    refused(root.post(path, data={"disk": "scsi3", **to}), 500, "does not exist")
    refused(root.post(path, data={"disk": "scsi0", **to}), 500, "already in use")
    refused(root.post(path, data={"disk": "scsi0", "target-vmid": 999}), 500, "could not find target VM")
    assert root.finish("POST", path, disk="scsi0", **{**to, "target-disk": "unused0"}) == "OK"
    here, there = (next(vm for vm in peer.fake.vms if vm.vmid == vmid) for vmid in (100, 101))
    assert (here.config["boot"], "scsi0" in here.config) == ("order=net0", False)
    assert there.config["unused0"] == "local-lvm:vm-101-disk-1"
    # One write exchanges two disks; what is not used is kept, what is used is no more among that.
    root.ask("PUT", f"{NODE}/101/config", scsi0="local-lvm:vm-101-disk-1,discard=on")
    assert there.config["scsi0"] == "local-lvm:vm-101-disk-1,discard=on,size=4G"
    assert {key: value for key, value in there.config.items() if key.startswith("unused")} == {
        "unused1": "local-lvm:vm-101-disk-0"
    }
    assert root.finish("POST", f"{NODE}/101/status/start") == "OK"
    back = {"target-vmid": 100, "target-disk": "scsi0"}
    refused(root.post(f"{NODE}/101/move_disk", data={"disk": "scsi0", **back}), 500, "is running")
    assert root.finish("POST", f"{NODE}/101/move_disk", disk="unused1", **back) == "OK"
    assert here.config["scsi0"] == "local-lvm:vm-100-disk-0"
