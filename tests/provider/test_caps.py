"""A tier's caps on real QEMU, as its guest feels them: it writes and counts as fast as it can.

What is asserted in each run is that a guest gets no more than its cap, which other work on the host cannot break. That
it gets as much, and what it leaves to its neighbour, are figures of a quiet host: `./inv check.deep`.
"""

import time
import uuid
from collections.abc import Callable, Iterator
from statistics import median
from typing import Any

import pytest

from deskyard.host.deadline import Deadline
from deskyard.host.vm.accelerator import accelerator
from deskyard.site.libvirt.kinds.domain import DomainKind
from deskyard.site.libvirt.kinds.volume import SeedKind, VolumeKind
from tests.provider import witness
from tests.provider.bench import PREFIX, Bench

pytestmark = pytest.mark.vm

GUEST, NEIGHBOUR = f"{PREFIX}-caps", f"{PREFIX}-beside"
RECORDS, IOPS, PERCENT = 60, 10, 20
# QEMU lets a tenth of a second's share through at once, and a record may have been under way; the kernel counts a
# machine's time in periods, one of which may have begun.
AT_ONCE, PERIOD_SECONDS = 3, 0.1
# What an issue of this project asks for: a neighbour of a capped machine keeps most of what it has alone.
KEPT, ROUNDS = 0.8, 5


@pytest.fixture(autouse=True)
def fitting() -> Iterator[None]:
    """Machines fit for a guest of one sector."""
    with witness.adapted():
        yield


def machine(bench: Bench, name: str, *, memory_mib: int = 64, **caps: int) -> dict[str, Any]:
    """A machine of one processor with the guest that witnesses, and its state."""
    image = witness.image(bench.folder, name, paced=False)
    disk = bench.make(
        VolumeKind(),
        {"name": f"{name}.qcow2", "image": PREFIX, "digest": name, "source": image.disk, "size_gib": 1},
    )
    home = bench.make(VolumeKind(), {"name": f"{name}.home.qcow2", "size_gib": 1})
    documents = {"meta_data": {"instance-id": "x"}, "user_data": {}, "network_config": {"version": 2}}
    seed = bench.make(SeedKind(), {"name": f"{name}-seed.iso", **documents})
    mac = {"mac": "52:54:00:fe:00:01", "address": "10.99.1.20", "isolated": True, "network": "none", "filter": "none"}
    inputs = {
        "name": name,
        "machine_uuid": str(uuid.uuid4()),
        "vcpus": 1,
        "memory_mib": memory_mib,
        "accelerator": accelerator("auto"),
        "disk": disk["path"],
        "home": home["path"],
        "seed": seed["path"],
        "interfaces": [mac],
        **caps,
    }
    made: dict[str, Any] = bench.make(DomainKind(), inputs)
    return made


def seconds(domain: str, records: int = RECORDS) -> float:
    """How long a guest takes for so many records."""
    begun, since = witness.await_more(domain), time.monotonic()
    enough = Deadline(witness.SECONDS).wait_for(lambda: witness.last(domain) >= begun + records, witness.PAUSE)
    assert enough, f"{domain} has kept {witness.last(domain) - begun} of {records} records"
    return time.monotonic() - since


def update(bench: Bench, state: dict[str, Any], **caps: int | None) -> None:
    """Change a running machine's caps as `up` does, and nothing else of it."""
    seen: Any = DomainKind().read(bench.link, state["name"], state)
    wanted: Any = {**state, **caps}
    DomainKind().update(bench.link, state["name"], {**seen, "interfaces": state["interfaces"]}, wanted)


def processor(bench: Bench) -> Callable[[], float]:
    """The share of a processor that the guest's machine has had since this was called."""
    domain = bench.link.lookupByName(GUEST)

    def used() -> float:
        return float(domain.info()[4]) / 1e9

    before, since = used(), time.monotonic()
    return lambda: (used() - before) / (time.monotonic() - since)


def on_one_processor(bench: Bench) -> None:
    """Keep guest and neighbour on the same processor, so that what one takes the other lacks."""
    for name in (GUEST, NEIGHBOUR):
        domain, first = bench.link.lookupByName(name), (True, *(False for _ in range(bench.link.getInfo()[2] - 1)))
        domain.pinVcpu(0, first)
        domain.pinEmulator(first)


def kept(bench: Bench) -> float:
    """The share of its own figure alone that the neighbour has beside the guest."""
    domain, shares = bench.link.lookupByName(GUEST), []
    for _ in range(ROUNDS):
        domain.suspend()
        alone = seconds(NEIGHBOUR)
        domain.resume()
        shares.append(alone / seconds(NEIGHBOUR))
    return median(shares)


def test_guest_gets_no_more_writes_than_its_cap_and_more_as_soon_as_it_is_lifted(bench: Bench) -> None:
    state = machine(bench, GUEST, disk_iops=IOPS)
    least = (RECORDS - AT_ONCE) / IOPS
    assert seconds(GUEST) >= least
    update(bench, state, disk_iops=None)
    # With the cap it never is so fast; other work on the host may keep it for a while without.
    assert Deadline(witness.SECONDS).wait_for(lambda: seconds(GUEST) < least, witness.PAUSE)


def test_machine_gets_no_more_processor_time_than_its_cap(bench: Bench) -> None:
    machine(bench, GUEST, cpu_percent=PERCENT)
    witness.await_more(GUEST)
    share = processor(bench)
    took = seconds(GUEST)
    assert share() <= PERCENT / 100 + PERIOD_SECONDS / took


@pytest.mark.deep
def test_machine_gets_what_its_cap_gives_and_its_neighbour_keeps_its_own(bench: Bench) -> None:
    state = machine(bench, GUEST)
    machine(bench, NEIGHBOUR)
    on_one_processor(bench)
    assert kept(bench) < KEPT
    update(bench, state, cpu_percent=PERCENT // 2)
    assert kept(bench) >= KEPT
    share = processor(bench)
    seconds(NEIGHBOUR)
    assert share() >= PERCENT / 2 / 100 * KEPT
