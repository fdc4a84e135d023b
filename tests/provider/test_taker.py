"""A guest that takes inodes, disks, memory and processes without end takes those of its own machine alone."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from deskyard.host.deadline import Deadline
from deskyard.site.libvirt import documents
from deskyard.site.libvirt.link import POOL_PATH
from tests.provider import taker, witness
from tests.provider.bench import Bench
from tests.provider.test_caps import (
    GUEST,
    KEPT,
    NEIGHBOUR,
    PERCENT,
    PERIOD_SECONDS,
    kept,
    machine,
    on_one_processor,
    processor,
    seconds,
    update,
)
from tests.provider.test_memory import NEARLY_MIB, taken_mib

pytestmark = pytest.mark.vm

LOG = witness.CONSOLES / f"{GUEST}-console.log"
DISK_BYTES, MEMORY_MIB, MANY = 32 << 20, 128, 100
# What QEMU takes for itself, beside its guest's memory: code of an emulated machine, most of all.
QEMU_MIB = 256
# The metadata of a qcow2 of that size, and the clusters in which it is written.
QCOW2_BYTES = 2 << 20
# QEMU has up to so many for the disks that its guest writes, and ends them when they have nothing to do.
WORKERS = "worker"


@pytest.fixture(autouse=True)
def fitting() -> Iterator[None]:
    """Machines fit for guests of one sector, and for the one that takes all."""
    with witness.adapted(), taker.started_without_loader(GUEST):
        yield


@pytest.fixture
def at_work(bench: Bench) -> Iterator[Bench]:
    """The guest once its disks and its memory were full, and it has a hundred processes; its neighbour runs."""
    LOG.unlink(missing_ok=True)
    with pytest.MonkeyPatch.context() as patch:
        # So small that it is full in a moment.
        patch.setattr(documents, "GIB", DISK_BYTES)
        machine(bench, GUEST, memory_mib=MEMORY_MIB)
    try:
        enough = Deadline(witness.SECONDS).wait_for(lambda: forks()[0] >= MANY, witness.PAUSE)
        assert enough, console()[-500:]
        machine(bench, NEIGHBOUR)
        witness.await_more(NEIGHBOUR)
        yield bench
    finally:
        # It hears no button.
        bench.link.lookupByName(GUEST).destroy()
        # A witness of that name would be asked what it said in it.
        LOG.unlink(missing_ok=True)


def cap(bench: Bench, percent: int | None) -> None:
    """Give the guest that much of a processor, or all."""
    (state,) = [state for _, name, state in bench.made if name == GUEST]
    update(bench, state, cpu_percent=percent)


def console() -> str:
    """What the guest has said so far."""
    return LOG.read_text(errors="replace") if LOG.exists() else ""


def forks() -> tuple[int, int]:
    """The processes in the guest, and the number that the last one of them has; 0 before it forks."""
    found = [words for words in taker.said(console()) if words[0] == "forks"]
    return (int(found[-1][1]), int(found[-1][2])) if found else (0, 0)


def process(domain: str) -> Path:
    """The process of a machine."""
    return Path("/proc", Path(f"/run/libvirt/qemu/{domain}.pid").read_text().strip())


def threads(domain: str) -> list[str]:
    """The threads of a machine's process by name, without those that come and go with what its disks do."""
    names = [path.read_text().strip() for path in process(domain).glob("task/*/comm")]
    return sorted(name for name in names if name != WORKERS)


def children(domain: str) -> str:
    """The processes that a machine's process has made."""
    return "".join(path.read_text() for path in process(domain).glob("task/*/children"))


def test_guest_that_takes_all_it_can_takes_of_its_own_machine_alone(at_work: Bench) -> None:
    cap(at_work, PERCENT)
    machine_threads, neighbour_mib, (_, last) = threads(GUEST), taken_mib(NEIGHBOUR), forks()
    words = {said[0]: said[1:] for said in taker.said(console()) if said[0] != "forks"}
    assert int(words.pop("inodes")[0]) > 100
    # Killed by its own kernel, for want of memory; not a KiB is free, and a disk is at its end.
    assert words == {"room": ["0"], "disk": [], "memory": ["137"]}
    assert "Out of memory: Killed process" in console()

    share = processor(at_work)
    took = seconds(NEIGHBOUR)
    assert share() <= PERCENT / 100 + PERIOD_SECONDS / took
    assert Deadline(witness.SECONDS).wait_for(lambda: forks()[1] != last, witness.PAUSE), "it forks no more"
    assert (threads(GUEST), children(GUEST)) == (machine_threads, "")
    assert taken_mib(GUEST) <= MEMORY_MIB + QEMU_MIB
    assert abs(taken_mib(NEIGHBOUR) - neighbour_mib) <= NEARLY_MIB
    for disk in (f"{GUEST}.qcow2", f"{GUEST}.home.qcow2"):
        assert DISK_BYTES // 2 < Path(POOL_PATH, disk).stat().st_blocks * 512 <= DISK_BYTES + QCOW2_BYTES
    # None of its records failed.
    assert witness.last(NEIGHBOUR, "f") == 0


@pytest.mark.deep
def test_neighbour_of_a_guest_that_forks_without_end_keeps_its_own_by_the_cap_alone(at_work: Bench) -> None:
    on_one_processor(at_work)
    cap(at_work, PERCENT // 2)
    assert kept(at_work) >= KEPT
    cap(at_work, None)
    assert kept(at_work) < KEPT
