"""The volume of /home of a desktop of a cluster: made before its first start, grown, put back, never lost.

The peer makes, changes and takes out disks as qemu-server e6352be6 does (`tests/support/pve/moved_disks.py`).
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from deskyard.desktop import program
from deskyard.errors import SiteError
from deskyard.life import system
from deskyard.life.backup import final
from deskyard.plan.proxmox.home_tag import home_of
from deskyard.plan.proxmox.view import tags_of
from deskyard.plan.proxmox.workspace import VmPlan
from deskyard.site.files import read_site
from deskyard.site.proxmox.client import connect
from deskyard.site.proxmox.kinds.home import HomeKind
from deskyard.site.proxmox.life.home import has_home
from deskyard.site.proxmox.machines import ClusterMachines
from tests.proxmox.backed_up import DISK, SEED
from tests.proxmox.bench import NAME
from tests.proxmox.rack import SITE, Rack, watched
from tests.proxmox.started_gateway import start
from tests.support.pve import Client, Peer
from tests.support.pve.asking import refused
from tests.support.pve.faults import When

KIND = HomeKind()


class Place:
    """A desktop without a volume of /home, as the engine has made it by then, and what the engine asks for it."""

    def __init__(self, rack: Rack, vm: VmPlan) -> None:
        self.rack, self.planned = rack, vm
        self.client = connect(read_site(SITE))
        self.inputs: dict[str, Any] = {
            "site": SITE,
            "node": vm.node,
            "vm_id": vm.vm_id,
            "storage": "local-lvm",
            "size_gib": 2,
        }
        self.state: dict[str, Any] = {}

    def link(self, _: str) -> Any:
        """The API, as the backend finds it."""
        return self.client

    def create(self, **changes: Any) -> str:
        """Create the resource; its volume."""
        self.inputs |= changes
        _, outputs = KIND.create(self.link, self.inputs)  # type: ignore[arg-type]
        self.state = {**self.inputs, **outputs}
        return str(outputs["volume"])

    def read(self) -> dict[str, Any] | None:
        """Look again."""
        return KIND.read(self.link, f"{self.planned.vm_id}/scsi1", self.state)

    def update(self, **changes: Any) -> None:
        """Update the resource after a look."""
        seen = self.read()
        assert seen is not None
        self.inputs |= changes
        outputs = KIND.update(self.link, "", seen, self.inputs)  # type: ignore[arg-type]
        self.state = {**self.inputs, **outputs}

    @property
    def vm(self) -> Any:
        """What the peer holds of it."""
        return self.rack.peer.fake.vm(self.planned.vm_id)

    @property
    def path(self) -> str:
        """Where the API has it."""
        return f"/nodes/{self.planned.node}/qemu/{self.planned.vm_id}"

    def drive(self) -> set[str]:
        """The options of the volume, and its name."""
        return set(str(self.vm.config["scsi1"]).split(","))

    def volumes(self) -> list[str]:
        """Its volumes."""
        stores = self.rack.peer.fake.storages.values()
        held = [name for store in stores for name, row in store["volumes"].items() if row.get("vmid") == self.vm.vmid]
        return sorted(held)


@pytest.fixture
def place(peer: Peer, root: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    rack = Rack(peer, root, tmp_path, monkeypatch)
    rack.declare(NAME, "dev1")
    planned = rack.plan(NAME).on_cluster
    assert planned is not None
    vm = planned.desktops["dev1"]
    start(rack, replace(vm, machine=replace(vm.machine, home_gib=None)), scsi0=DISK, ide2=SEED)
    yield Place(rack, vm)


def test_it_is_a_disk_of_its_own_that_the_guest_finds_and_a_backup_takes_along(place: Place) -> None:
    before = place.volumes()
    volume = place.create(disk_iops=500)
    assert {volume, "serial=home", "backup=1", "discard=on", "size=2G", "iops_rd=500", "iops_wr=500"} == place.drive()
    assert len(place.volumes()) == len(before) + 1
    assert place.read() == {**place.state, "attached": True}
    # Whoever lost the state finds the same one.
    with watched(place.rack.peer) as calls:
        assert place.create() == volume
    assert [call for call in calls if call.writes] == []


@pytest.mark.parametrize(("kind", "form"), [("nfs", "qcow2"), ("dir", "qcow2"), ("lvmthin", "raw"), ("zfspool", "raw")])
def test_it_has_a_form_of_which_snapshots_are_made(place: Place, kind: str, form: str) -> None:
    fake = place.rack.peer.fake
    fake.storages["local-lvm"]["type"] = kind
    if form == "qcow2":
        # As a clone of a template is, in a folder.
        system = place.rack.root
        assert system.finish("POST", f"{place.path}/config", scsi0="local-lvm:2,format=qcow2") == "OK"
    volume = place.create()
    assert (fake._qm_volume(volume) or {})["format"] == form
    assert fake._qm_can_snapshot(place.vm.config)
    assert place.create() == volume


def test_it_grows_while_its_machine_runs_and_never_shrinks(place: Place) -> None:
    volume = place.create()
    place.update(size_gib=3, disk_iops=100)
    assert (place.vm.status, {volume, "size=3G", "iops_rd=100"} <= place.drive()) == ("running", True)
    (wrong,) = KIND.check({"size_gib": 3}, {"size_gib": 2})
    assert wrong[0] == "size_gib"
    assert "cannot shrink" in wrong[1]
    # What somebody gave it more is kept, a cap that was taken away is not.
    place.rack.root.finish("PUT", f"{place.path}/resize", disk="scsi1", size="5G")
    place.rack.root.ask("PUT", f"{place.path}/config", scsi1=f"{volume},serial=home,discard=on,cache=writeback")
    seen = place.read()
    assert seen is not None
    assert (seen["size_gib"], "disk_iops" in seen) == (3, False)
    place.update()
    assert {volume, "size=5G", "iops_rd=100", "cache=writeback", "backup=1"} <= place.drive()
    del place.inputs["disk_iops"]
    place.update()
    assert not [option for option in place.drive() if option.startswith("iops")]


def test_one_that_was_taken_out_is_put_back_and_none_is_made_in_its_place(place: Place) -> None:
    volume = place.create()
    held = place.volumes()
    place.rack.root.ask("PUT", f"{place.path}/config", delete="scsi1")
    assert volume in [place.vm.config[key] for key in place.vm.config if key.startswith("unused")]
    seen = place.read()
    assert seen is not None
    assert KIND.stale(seen) == ["attached"]
    place.update()
    assert {volume, "serial=home"} <= place.drive()
    assert place.volumes() == held
    assert not [key for key in place.vm.config if key.startswith("unused")]


def test_one_that_is_gone_is_told_to_be_and_a_disk_of_somebody_stays_where_it_is(place: Place) -> None:
    place.create()
    place.rack.root.ask("PUT", f"{place.path}/config", delete="scsi1")
    place.rack.root.ask("PUT", f"{place.path}/config", delete="unused0")
    assert place.read() is None
    place.rack.root.ask("PUT", f"{place.path}/config", scsi1="local-lvm:1,serial=work")
    with pytest.raises(SiteError, match="has a disk of somebody at scsi1"):
        place.create()
    assert "serial=work" in place.drive()


def test_protection_keeps_it_in_its_machine(place: Place) -> None:
    volume = place.create()
    place.rack.root.ask("PUT", f"{place.path}/config", protection=1)
    for wanted in ("scsi1", "scsi0"):
        answer = place.rack.root.put(f"{place.path}/config", data={"delete": wanted})
        refused(answer, 500, f"can't remove drive '{wanted}' - protection mode enabled")
    with pytest.raises(SiteError, match="protection mode enabled"):
        KIND.delete(place.link, "", place.state)
    assert volume in place.drive()
    place.rack.root.ask("PUT", f"{place.path}/config", protection=0)
    KIND.delete(place.link, "", place.state)
    assert volume in place.vm.config.values()
    assert place.rack.root.finish("POST", f"{place.path}/status/stop") == "OK"
    assert place.rack.root.finish("DELETE", place.path, purge=1) == "OK"
    assert volume.partition(":")[2] not in place.rack.peer.fake.storages["local-lvm"]["volumes"]


@pytest.mark.parametrize("when", ["before", "after"])
def test_one_whose_making_nobody_heard_of_is_made_once(place: Place, when: When) -> None:
    fake, before = place.rack.peer.fake, len(place.volumes())

    def cut(call: Any) -> None:
        if call.writes and call.path.endswith("/config"):
            fake.faults.on_call = None
            fake.faults.cuts[call.number] = when

    fake.faults.on_call = cut
    # The task goes on behind the call whose answer is missing.
    fake.faults.slow_tasks["qmconfig"] = 0.3
    with pytest.raises(SiteError):
        place.create()
    place.create()
    assert len(place.volumes()) == before + 1


def test_a_desktop_of_before_is_planned_without_one_and_whoever_has_one_keeps_it(place: Place) -> None:
    def planned() -> VmPlan:
        found = place.rack.plan(NAME).on_cluster
        assert found is not None
        return found.desktops["dev1"]

    # It has never run: it is not protected yet.
    assert planned().machine.home_gib == 10
    place.rack.root.ask("PUT", f"{place.path}/config", protection=1)
    assert planned().machine.home_gib is None
    assert home_of(planned().tags) is None
    place.create()
    with watched(place.rack.peer) as asked:
        assert "deskyard-home.10" in planned().tags
    # Its tag tells the same with a question less.
    place.rack.root.ask("PUT", f"{place.path}/config", tags=";".join(planned().tags))
    with watched(place.rack.peer) as tagged:
        assert planned().machine.home_gib == 10
    assert len(asked) == len(tagged) + 1


def machines(place: Place) -> ClusterMachines:
    """The machines of the workspace, as tasks ask for them."""
    return ClusterMachines(place.rack.plan(NAME).plan, read_site(SITE))


@pytest.fixture
def older(place: Place) -> Place:
    """The desktop as an earlier version left it: protected, and planned without a volume."""
    place.rack.root.ask("PUT", f"{place.path}/config", protection=1)
    return place


def test_a_desktop_of_before_is_promised_a_volume_that_is_planned_and_made_then(older: Place) -> None:
    domain = older.planned.machine.domain
    assert machines(older).disk_sizes(domain).keys() == {"/"}
    before = older.volumes()
    with watched(older.rack.peer) as calls:
        machines(older).promise_home(domain, 10)
        machines(older).promise_home(domain, 10)
    (written,) = [call for call in calls if call.writes]
    assert (written.path, written.parameters.keys()) == (f"{older.path}/config", {"tags", "digest"})
    planned = older.rack.plan(NAME).on_cluster
    assert planned is not None
    assert planned.desktops["dev1"].machine.home_gib == 10
    # The plan has the very tags that the machine has: nothing but the volume is to be made.
    assert sorted(planned.desktops["dev1"].tags) == sorted(str(older.vm.config["tags"]).split(";"))
    assert older.volumes() == before
    older.create(size_gib=10)
    assert machines(older).disk_sizes(domain)["/home"] == 10


def test_promise_that_somebody_else_wrote_beside_is_kept_with_what_they_wrote(older: Place) -> None:
    fake = older.rack.peer.fake

    def meanwhile(call: Any) -> None:
        if call.writes and call.path == f"{older.path}/config":
            fake.faults.on_call = None
            older.vm.config["description"] = "mine"

    fake.faults.on_call = meanwhile
    machines(older).promise_home(older.planned.machine.domain, 10)
    assert (older.vm.config["description"], home_of(tags_of(older.vm.config))) == ("mine", 10)


@pytest.mark.parametrize("lack", ["snapshot", "place", "room"])
def test_no_volume_is_promised_where_it_could_not_be_had(older: Place, lack: str) -> None:
    if lack == "snapshot":
        assert older.rack.root.finish("POST", f"{older.path}/snapshot", snapname="before") == "OK"
    elif lack == "place":
        older.rack.root.ask("PUT", f"{older.path}/config", scsi1="local-lvm:1,serial=work")
    size_gib = 1 << 20 if lack == "room" else 10
    said = {"snapshot": "has snapshots, each of which", "place": "has a disk of somebody", "room": "MiB are free on"}
    tags = older.vm.config["tags"]
    with pytest.raises(SiteError, match=said[lack]):
        machines(older).promise_home(older.planned.machine.domain, size_gib)
    assert older.vm.config["tags"] == tags


def test_home_of_a_desktop_of_before_moves_to_its_volume_by_a_restart(
    older: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The guest is played: it finds its volume once it was started with it, as role `home_volume` has it."""
    planned = older.rack.plan(NAME).on_cluster
    assert planned is not None
    start(older.rack, planned.gateway)
    asked: list[str] = []
    kept: list[int] = []

    def ask(_plan: Any, _name: str, _program: Any, request: dict[str, Any], **_: Any) -> dict[str, Any]:
        asked.append(request["do"])
        moved = "move_home" in asked and has_home(older.vm.config) and restarted()
        return {"home": moved, "machine_id": "1", "bytes": 1 << 30, "files": 9}

    def restarted() -> bool:
        return any(call.path == f"{older.path}/status/start" for call in older.rack.peer.fake.calls)

    monkeypatch.setattr(program, "ask", ask)
    monkeypatch.setattr(final, "keep", lambda *_: kept.append(len(asked)))
    with pytest.raises(SiteError, match=r"not exchanged\s+-> run \./inv desktop\.migrate-home lab/dev1 first"):
        machines(older).system(older.planned.machine.domain)
    older.rack.peer.fake.calls.clear()
    assert "workspace.up lab makes its volume now" in system.migrate_home(f"{NAME}/dev1")["home"]
    assert (kept, restarted()) == ([], False)
    older.create(size_gib=10)
    assert "on its volume" in system.migrate_home(f"{NAME}/dev1")["home"]
    assert asked == ["look", "measure_home", "look", "measure_home", "move_home", "look"]
    # The backup comes before the guest is told anything.
    assert kept == [4]
    assert (older.vm.status, older.vm.config["protection"] in (1, "1")) == ("running", True)
    # From now on its system can be exchanged.
    assert machines(older).system(older.planned.machine.domain).image() == "desktop-desktop0digest"
    assert system.migrate_home(f"{NAME}/dev1")["home"] == "on its volume already"
