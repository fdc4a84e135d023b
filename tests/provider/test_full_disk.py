"""A host whose disk is full, on real QEMU: its machine halts, everybody learns why, nothing is lost, and it goes on."""

import os
import subprocess
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from xml.etree import ElementTree

import pytest

from deskyard.errors import SiteError
from deskyard.host.deadline import Deadline
from deskyard.life import halted
from deskyard.life.halted import Halted
from deskyard.plan import health
from deskyard.plan.power import Power
from deskyard.plan.snapshot import Snapshot
from deskyard.site.libvirt import daemon, moves, power, snapshots
from deskyard.site.libvirt.backup.backups import LibvirtBackups
from deskyard.site.libvirt.link import POOL_PATH
from deskyard.site.libvirt.machines import LibvirtMachines
from deskyard.site.libvirt.system_disk import LibvirtSystemDisk
from deskyard.site.libvirt.warm.disposables import LibvirtDisposables
from deskyard.wire.stages import Stage
from tests.provider import witness
from tests.provider.own_hypervisor import OwnHypervisor

pytestmark = [pytest.mark.vm, pytest.mark.usefixtures("heard")]

WRITER, NEIGHBOUR = (desktop.machine.domain for desktop in witness.plan().desktops)
# The pool's file system, what else takes room on it at first, and its size once there is room.
SIZE, BALLAST, ROOM = "20m", 8 << 20, "512m"
FILE = Path(POOL_PATH).parent / "ballast"


@pytest.fixture(scope="module")
def own() -> Iterator[OwnHypervisor]:
    """A small file system with a machine that is off."""
    with OwnHypervisor(SIZE) as own:
        own.call(_make_neighbour)
        yield own


@pytest.fixture(scope="module")
def heard(own: OwnHypervisor) -> list[tuple[Stage, str]]:
    """What is told of another machine there, which writes until there is no room."""
    return own.call(_write_until_it_halts)


def _make_neighbour() -> None:
    folder = Path(POOL_PATH).parents[1] / "source"
    folder.mkdir()
    witness.make("dev2", witness.image(folder, "01d", paced=False))
    with daemon.connection() as link:
        link.lookupByName(NEIGHBOUR).destroy()


def _write_until_it_halts() -> list[tuple[Stage, str]]:
    """What was told of it, up to the first word that says why it halted."""
    with FILE.open("wb") as ballast:
        os.posix_fallocate(ballast.fileno(), 0, BALLAST)
    heard: list[tuple[Stage, str]] = []
    with moves.listening([WRITER]) as events:
        witness.make("dev1", witness.image(Path(POOL_PATH).parents[1] / "source", "01d", paced=False))
        while not heard or heard[-1][0] is not Stage.IO_ERROR or not heard[-1][1]:
            moved = events.next(witness.SECONDS)
            assert moved is not None, heard
            heard.append((moved.stage, moved.detail))
    return heard


def test_machine_halts_and_libvirt_tells_at_once_that_the_host_has_no_room(heard: list[tuple[Stage, str]]) -> None:
    assert heard[-1][0] is Stage.IO_ERROR
    assert heard[-1][1].endswith(": the host has no room")
    assert Stage.ERROR not in [stage for stage, _ in heard]


def test_its_state_and_its_health_say_so(own: OwnHypervisor) -> None:
    state = own.call(_states)[WRITER]
    assert (state["state"], state["desired"]) == ("io-error", "running")
    finding = health.power(state["state"], state["desired"], "lab/dev1")
    assert (finding.state, finding.detail) == ("failed", "halted: its host has no room")


def _states() -> dict[str, dict[str, str]]:
    return LibvirtMachines(witness.plan()).states()


def test_whatever_needs_room_is_refused_before_anything_is_touched(own: OwnHypervisor) -> None:
    refusals, before, after = own.call(_refused)
    assert [reason for reason in refusals if "MiB too few" not in reason] == []
    assert len(refusals) == 5
    assert after == before


def _refused() -> tuple[list[str], list[str], list[str]]:
    """The reasons of all that needs room, and the files before and afterwards."""
    plan = witness.plan()
    image = witness.image(Path(POOL_PATH).parents[1] / "source", "0e3")

    def room() -> None:
        with LibvirtBackups(NEIGHBOUR).room("restore", 0):
            pass

    def snapshot() -> None:
        with daemon.machine(NEIGHBOUR) as machine:
            snapshots.take(machine, Snapshot("kept"))

    def to_disk() -> None:
        with daemon.machine(WRITER) as machine:
            power.pause(machine, to_disk=True)

    works: tuple[Callable[[], object], ...] = (
        snapshot,
        to_disk,
        room,
        partial(LibvirtSystemDisk(NEIGHBOUR).stage, image, 1),
        partial(LibvirtDisposables("lab").require_room, plan.desktop("dev2")),
    )
    before, reasons = _files(), []
    for work in works:
        with pytest.raises(SiteError) as caught:
            work()
        reasons.append(caught.value.reason)
    return reasons, before, _files()


def _files() -> list[str]:
    return sorted(str(path) for path in Path(POOL_PATH).parent.rglob("*"))


def test_policy_that_lets_writes_fail_would_be_noticed(own: OwnHypervisor) -> None:
    failed, state = own.call(_write_on_without_room)
    assert failed > 0
    assert state == "running"


def _write_on_without_room() -> tuple[int, str]:
    """How the neighbour fares whose disks do not halt it: the record that its guest could not write, and its state."""
    with daemon.machine(NEIGHBOUR) as machine:
        root = ElementTree.fromstring(machine.XMLDesc(0))
        for driver in root.iterfind("./devices/disk/driver[@type='qcow2']"):
            driver.set("error_policy", "report")
        machine.connect().defineXML(ElementTree.tostring(root, encoding="unicode"))
        machine.create()
        Deadline(witness.SECONDS).wait_for(lambda: witness.last(NEIGHBOUR, "f") > 0, witness.PAUSE)
        state = power.state(machine)
        machine.destroy()
    return witness.last(NEIGHBOUR, "f"), state


def test_neither_care_nor_anybody_lets_it_go_on_without_room_or_against_a_wish(own: OwnHypervisor) -> None:
    rows, states = own.call(_care_in_vain)
    assert [row.went_on for row in rows] == [False]
    assert "MiB too few" in rows[0].trouble
    assert states == ["io-error", "io-error"]


def _care_in_vain() -> tuple[list[Halted], list[str]]:
    """What is said of it while the disk is full, and while a person wants it paused; how it is after each."""
    plan, machines, states = witness.plan(), LibvirtMachines(witness.plan()), list[str]()
    rows = halted.go_on(plan, machines, None)
    states.append(machines.states()[WRITER]["state"])
    machines.want(WRITER, Power.PAUSED)
    rows += halted.go_on(plan, machines, None)
    states.append(machines.states()[WRITER]["state"])
    machines.want(WRITER, Power.RUNNING)
    return rows, states


def test_care_lets_it_go_on_once_there_is_room_and_it_has_lost_nothing(own: OwnHypervisor) -> None:
    halted_at, heard, whole, faults = own.call(_make_room_and_go_on)
    last = max(number for _, number in heard)
    assert last > halted_at
    assert heard == [("b", 1), *(("k", number) for number in range(1, last + 1))]
    assert whole == [(list(range(1, last + 1)), [])] * 2
    assert faults == []


def _make_room_and_go_on() -> tuple[int, list[tuple[str, int]], list[tuple[list[int], list[int]]], list[str]]:
    """Where it had halted, all that it said, the records of its disks, and their faults."""
    machines, halted_at = LibvirtMachines(witness.plan()), witness.last(WRITER)
    FILE.unlink()
    subprocess.run(["mount", "-o", f"remount,size={ROOM}", FILE.parent], check=True, timeout=60)
    with witness.adapted():
        assert halted.go_on(witness.plan(), machines, None) == [Halted("dev1", went_on=True)]
        witness.await_more(WRITER)
        machines.shut_down(WRITER, force=False)
    disks = witness.disks(WRITER)
    faults = [fault for disk in disks for fault in witness.faults(disk)]
    return halted_at, witness.said(WRITER), [witness.records(disk) for disk in disks], faults
