"""Another system for a desktop of a cluster: its disk is exchanged in one write, and the one of before comes back.

The peer clones, moves and exchanges disks as qemu-server e6352be6 does (`tests/support/pve/moved_disks.py`). What is in
a guest is played: which image a disk holds is known by the template that its volume starts from.
"""

import os
import random
from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from deskyard.desktop import customise_delivery, key_delivery, program
from deskyard.errors import SiteError
from deskyard.image.store import store
from deskyard.life import exchange, health, power, system
from deskyard.life.journal import Journal
from deskyard.plan.image.source import ImageSource
from deskyard.plan.proxmox.backup_note import Keeper
from deskyard.plan.proxmox.system_tag import Systems
from deskyard.plan.proxmox.view import tags_of, trial_pool_of
from deskyard.site.files import read_site
from deskyard.site.proxmox.client import connect
from deskyard.site.proxmox.life import carrier, remnants, system_disk
from tests.proxmox import test_contract
from tests.proxmox.backed_up import DISK, HOME, SEED
from tests.proxmox.bench import NAME
from tests.proxmox.rack import SITE, Rack
from tests.proxmox.started_gateway import start
from tests.proxmox.test_restores import Kill, Killed
from tests.support.pve import Peer
from tests.support.pve.asking import refused

published = test_contract.published
TARGET, OWNER = "lab/dev1", Keeper(SITE, NAME)
HOST_KEY = f"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI{'A' * 43} root@dev1\n"
# Kills that are tried in every run; with DESKYARD_ALL_KILLS=1 it is all of them.
SAMPLE, SEED_OF_KILLS = 4, os.environ.get("DESKYARD_SEED", "22")


class Place:
    """The desktop, and what its guest says with the system that it has."""

    def __init__(self, rack: Rack) -> None:
        self.rack, self.fake = rack, rack.peer.fake
        # The digest of the image as built now, and of those with which a desktop is not well.
        self.newest, self.bad = "newer", {"worse"}

    @property
    def vm(self) -> Any:
        """What the peer holds of it."""
        return self.rack.machines(NAME)["dev1"]

    @property
    def systems(self) -> Systems:
        """What its tags say."""
        return Systems.of(tags_of(self.vm.config))

    @property
    def digest(self) -> str:
        """The digest of the image that its disk starts from; empty of the disk that it had first."""
        volume = str(self.vm.config["scsi0"]).partition(",")[0]
        base = str((self.fake._qm_volume(volume) or {}).get("base") or "")
        held = [vm for vm in self.fake.vms if vm.template and base and base in str(vm.config["scsi0"])]
        return next((tag.removeprefix("digest-") for vm in held for tag in tags_of(vm.config) if "digest-" in tag), "")

    def unused(self) -> list[str]:
        """The disks that it does not use."""
        return sorted(str(value) for key, value in self.vm.config.items() if key.startswith("unused"))

    def volumes(self) -> int:
        """How many volumes there are on the cluster."""
        return len(self.fake.left()["volumes"])

    def disk(self) -> system_disk.ClusterSystemDisk:
        """Its system disk, as tasks get it."""
        machine = power.opened(TARGET)
        found = machine.machines.system(machine.domain)
        assert isinstance(found, system_disk.ClusterSystemDisk)
        return found

    def carriers(self) -> list[int]:
        """The machines that carry disks."""
        return [found.vm_id for found in carrier.carriers(connect(read_site(SITE)), OWNER)]

    def health(self, _name: str, desktop: str, **_: Any) -> dict[str, Any]:
        """The checks of the desktop."""
        state = "failed" if self.digest in self.bad else "ok"
        return {"machines": {desktop: [{"check": "browser", "state": state, "detail": "does not start"}]}}

    def ask(self, _plan: Any, _name: str, _program: Any, request: dict[str, Any], **_: Any) -> dict[str, Any]:
        """The answer of the program that is sent to the guest."""
        noted: dict[str, Any] = {"packages": ["htop"], "files": [], "kept": [], "too_large": []}
        return noted if request["do"] == "note" else {"home": True, "machine_id": "1"}

    def answer(self, vm: str, command: str, values: dict[str, Any]) -> Any:
        """The answer of its agent."""
        return {"content": HOST_KEY} if (vm, command) == ("dev1.lab", "file-read") and values else None


@pytest.fixture(scope="module")
def kept_place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """One desktop for all: each exchange ends with a whole one."""
    folder = tmp_path_factory.mktemp("system")
    with (
        pytest.MonkeyPatch.context() as monkeypatch,
        Peer(folder, nodes=2) as peer,
        peer.client() as root,
    ):
        rack = Rack(peer, root, folder, monkeypatch)
        place = Place(rack)
        rack.declare(NAME, "dev1")
        planned = rack.plan(NAME).on_cluster
        assert planned is not None
        start(rack, planned.gateway)
        vm = planned.desktops["dev1"]
        start(rack, vm, scsi0=DISK, scsi1=HOME, ide2=SEED, protection="1")
        for number, digest in enumerate(("newer", "worse")):
            for offset, node in enumerate(sorted(peer.fake.nodes)):
                rack.publish(node, 20_100 + 10 * number + offset, "desktop", digest)
        # Made once for all times: each exchange then makes the same calls.
        root.ask("POST", "/pools", poolid=trial_pool_of(SITE))
        built = {"manifest": {"packages": {"bash": "5"}}, "disk": "/images/desktop"}
        monkeypatch.setattr(store, "require", lambda _: SimpleNamespace(digest=place.newest, **built))
        monkeypatch.setattr(key_delivery, "wanted", lambda *_: None)
        monkeypatch.setattr(customise_delivery, "wanted", lambda _: {})
        monkeypatch.setattr(program, "ask", place.ask)
        monkeypatch.setattr(health, "look", place.health)
        monkeypatch.setattr(exchange, "WATCH_SECONDS", 0.0)
        peer.fake.answerer = place.answer
        yield place
        peer.fake.answerer = None


@pytest.fixture
def place(kept_place: Place) -> Place:
    """The desktop, running with the system of before, which nothing lies beside."""
    kept_place.newest = "desktop0digest"
    system.upgrade(TARGET, again=True)
    kept_place.disk().forget()
    kept_place.newest = "newer"
    kept_place.fake.calls.clear()
    return kept_place


def whole(place: Place, digest: str, *, kept: str | None) -> None:
    """It runs with this system, /home is what it was, and beside it lies the system of before alone."""
    assert (place.vm.status, place.digest, place.systems.image) == ("running", digest, f"desktop-{digest}")
    assert place.systems.kept_image == (f"desktop-{kept}" if kept else None)
    assert len(place.unused()) == (1 if kept else 0)
    assert (place.systems.spare, place.carriers()) == ((), [])
    assert place.fake.missing_disks(place.vm) == []
    assert Journal(power.opened(TARGET)).read() is None


def test_a_newer_system_takes_the_place_of_the_one_before_and_home_stays(place: Place, published: Any) -> None:
    before, volumes = dict(place.vm.config), place.volumes()
    done = system.upgrade(TARGET)
    assert (done["before"], done["after"], done["packages"]) == ("desktop-desktop0digest", "desktop-newer", ["htop"])
    whole(place, "newer", kept="desktop0digest")
    assert place.volumes() == volumes + 1
    # The machine is what it was: of its options only the disk, its tags and what is unused are others.
    after = {key: value for key, value in place.vm.config.items() if not key.startswith("unused")}
    assert {key for key in before.keys() | after.keys() if before.get(key) != after.get(key)} == {"scsi0", "tags"}
    assert {"discard=on", "iops_rd=500", "size=20G"} <= set(after["scsi0"].split(","))
    # What is planned is what is: there is nothing to change.
    planned = place.rack.plan(NAME).on_cluster
    assert planned is not None
    assert list(planned.desktops["dev1"].tags) == sorted(after["tags"].split(";"))
    calls = place.fake.calls
    assert sorted(set(test_contract._faults(calls, published))) == []
    mine = [call for call in calls if call.writes and f"/{place.vm.vmid}/" in call.path]
    assert not [call for call in mine if {"protection", "boot"} & set(call.parameters)]
    # One write exchanges the disks and says so.
    (swap,) = [call for call in mine if "scsi0" in call.parameters]
    assert {"scsi0", "tags", "digest"} == set(swap.parameters)


def test_it_is_made_while_the_desktop_runs_and_exchanged_while_that_is_off(place: Place) -> None:
    system.upgrade(TARGET)
    paths = [(call.path.rpartition("/")[2], "scsi0" in call.parameters) for call in place.fake.calls if call.writes]
    order = [paths.index(step) for step in (("clone", False), ("move_disk", False), ("shutdown", False))]
    order += [paths.index(("config", True)), paths.index(("start", False))]
    assert order == sorted(order)
    disk = place.disk()
    with pytest.raises(SiteError, match="is running: its disk stays"):
        disk.swap_back()
    disk.stage(ImageSource("desktop", "newer", ""), 20)
    with pytest.raises(SiteError, match="is running: its disk stays"):
        disk.swap()
    disk.forget()
    assert (place.digest, place.unused()) == ("newer", [])


def test_the_system_of_before_comes_back_and_leaves_nothing(place: Place) -> None:
    volume, volumes = str(place.vm.config["scsi0"]).partition(",")[0], place.volumes()
    system.upgrade(TARGET)
    assert system.kept(TARGET) == {"desktop": TARGET, "image": "desktop-newer", "kept": True, "broken_off": False}
    done = system.roll_back(TARGET)
    assert (done["before"], done["after"]) == ("desktop-newer", "desktop-desktop0digest")
    whole(place, "desktop0digest", kept=None)
    assert (str(place.vm.config["scsi0"]).partition(",")[0], place.volumes()) == (volume, volumes)
    with pytest.raises(SiteError, match="no system disk of before is kept"):
        system.roll_back(TARGET)


def test_a_desktop_that_is_not_well_with_it_has_the_one_of_before_by_itself(place: Place) -> None:
    volume, volumes = str(place.vm.config["scsi0"]).partition(",")[0], place.volumes()
    place.newest = "worse"
    with pytest.raises(SiteError, match=r"was not well with desktop-worse, and has its system of before again: .*brow"):
        system.upgrade(TARGET)
    whole(place, "desktop0digest", kept=None)
    assert (str(place.vm.config["scsi0"]).partition(",")[0], place.volumes()) == (volume, volumes)


def test_the_same_image_again_is_a_fresh_system_and_only_one_of_before_is_kept(place: Place) -> None:
    place.newest = "desktop0digest"
    volume = str(place.vm.config["scsi0"]).partition(",")[0]
    assert system.upgrade(TARGET)["after"] == "desktop-desktop0digest"
    assert str(place.vm.config["scsi0"]).partition(",")[0] == volume
    for _ in range(2):
        before = str(place.vm.config["scsi0"]).partition(",")[0]
        system.upgrade(TARGET, again=True)
        whole(place, "desktop0digest", kept="desktop0digest")
        assert place.unused() == [before]


def test_a_task_that_is_killed_is_ended_by_the_next(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    kill = Kill(monkeypatch)
    system.upgrade(TARGET)
    kill.at(0, heard=True)
    system.upgrade(TARGET, again=True)
    points = [(fatal, heard) for fatal in range(1, kill.writes + 1) for heard in (False, True)]
    assert len(points) > 24
    home, volumes = place.vm.config["scsi1"], place.volumes()
    chosen = points if os.environ.get("DESKYARD_ALL_KILLS") else random.Random(SEED_OF_KILLS).sample(points, SAMPLE)
    for fatal, heard in chosen:
        kill.at(fatal, heard=heard)
        with pytest.raises(Killed):
            system.upgrade(TARGET, again=True)
        # Whatever is under way, it has a disk to start from, and its own /home.
        assert place.fake.missing_disks(place.vm) == []
        assert place.digest == "newer"
        assert place.vm.config["scsi1"] == home
        kill.at(0, heard=True)
        system.upgrade(TARGET, again=True)
        whole(place, "newer", kept="newer")
        assert place.volumes() == volumes, f"killed at writing call {fatal}, {'done' if heard else 'not done'}"


def test_a_write_whose_answer_is_lost_is_made_once(place: Place) -> None:
    def cut(call: Any) -> None:
        if call.writes and "scsi0" in call.parameters:
            place.fake.faults.on_call = None
            place.fake.faults.cuts[call.number] = "after"

    place.fake.faults.on_call = cut
    system.upgrade(TARGET)
    whole(place, "newer", kept="desktop0digest")


def test_what_cannot_be_is_refused_before_anything_is_touched(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    image = ImageSource("desktop", "newer", "")

    def refuses(text: str, wanted: ImageSource = image) -> None:
        place.fake.calls.clear()
        with pytest.raises(SiteError, match=text):
            place.disk().stage(wanted, 20)
        assert place.fake.calls.writes() == []

    refuses("has no template that pve. could clone", ImageSource("desktop", "unpublished", ""))
    free = place.fake.storages["local-lvm"]["avail"]
    place.fake.storages["local-lvm"]["avail"] = 1 << 30
    refuses("1024 MiB are free on pve.; another system disk needs 5120")
    place.fake.storages["local-lvm"]["avail"] = free
    # Of a desktop that was made with /home on its system disk.
    home = place.vm.config.pop("scsi1")
    refuses("was made with /home on its system disk")
    place.vm.config["scsi1"] = home


def test_task_of_the_cluster_that_has_locked_it_keeps_it_as_it_is(place: Place) -> None:
    def refuses() -> None:
        place.fake.calls.clear()
        with pytest.raises(SiteError, match="is locked by a task of the cluster: backup"):
            system.upgrade(TARGET)
        assert (place.vm.status, place.fake.calls.writes()) == ("running", [])

    place.vm.config["lock"] = "backup"
    refuses()
    del place.vm.config["lock"]
    system.upgrade(TARGET)
    place.vm.config["lock"] = "backup"
    with pytest.raises(SiteError, match="is locked by a task of the cluster: backup"):
        system.roll_back(TARGET)
    del place.vm.config["lock"]
    whole(place, "newer", kept="desktop0digest")


def test_exchange_that_the_cluster_refuses_once_it_is_off_leaves_it_running_with_its_system(place: Place) -> None:
    def lock(call: Any) -> None:
        # Somebody has it for a moment: each time that the disks are to be exchanged.
        if call.writes and "scsi0" in call.parameters:
            place.vm.config["lock"] = "backup"
        else:
            place.vm.config.pop("lock", None)

    place.fake.faults.on_call = lock
    try:
        with pytest.raises(SiteError, match=r"did not get desktop-newer, and has its system of before again: somebody"):
            system.upgrade(TARGET)
    finally:
        place.fake.faults.on_call = None
    whole(place, "desktop0digest", kept=None)


def test_another_operators_exchange_is_left_alone_until_its_time_is_over(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    system.upgrade(TARGET)
    with monkeypatch.context() as elsewhere:
        for module in (system_disk, carrier):
            elsewhere.setattr(module, "this_host", lambda: "another")
        for task in (lambda: system.upgrade(TARGET, again=True), lambda: place.disk().forget()):
            with pytest.raises(SiteError, match="another operator's machine has exchanged its system"):
                task()
        whole(place, "newer", kept="desktop0digest")
        over = replace(place.systems, until=5).among(tags_of(place.vm.config))
        place.rack.root.ask("PUT", f"{place.rack.node_path(NAME, 'dev1')}/config", tags=";".join(over))
        system.upgrade(TARGET, again=True)
        whole(place, "newer", kept="newer")
        place.disk().forget()


def test_what_a_killed_task_left_beside_it_goes_with_the_desktop(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    kill, client = Kill(monkeypatch), connect(read_site(SITE))
    held = {vm.vmid for vm in place.fake.vms}
    # The clone is there and has no tag yet; then it has one.
    for fatal in (2, 3):
        kill.at(fatal, heard=True)
        with pytest.raises(Killed):
            system.upgrade(TARGET)
        kill.at(0, heard=True)
        remnants.wait_for_tasks(client)
        (left,) = remnants.remnants(client, OWNER)
        assert (left.desktop, "carry a disk" in left.what) == ("dev1", True)
        assert remnants.remnants(client, Keeper(SITE, "other")) == []
        # Where its id is another machine's by now, that stays.
        (vm,) = [vm for vm in place.fake.vms if vm.vmid not in held]
        name, vm.config["name"] = vm.config["name"], "somebodys"
        left.remove()
        assert vm in place.fake.vms
        vm.config["name"] = name
        left.remove()
        assert {vm.vmid for vm in place.fake.vms} == held


def test_the_cluster_lets_no_unused_disk_of_a_protected_machine_be_deleted(place: Place) -> None:
    system.upgrade(TARGET)
    path = place.rack.node_path(NAME, "dev1")
    refused(place.rack.root.put(f"{path}/config", data={"delete": "unused0"}), 500, "can't remove unused disk")
    whole(place, "newer", kept="desktop0digest")
