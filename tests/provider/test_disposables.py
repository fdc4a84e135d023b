"""Machines at seats, on real QEMU: made as the engine makes a desktop, given once, and gone with all their data."""

import os
import subprocess
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from deskyard.access import access
from deskyard.host.vm.accelerator import accelerator
from deskyard.plan.first_boot import desktop_first_boot
from deskyard.plan.image.source import ImageSource
from deskyard.plan.names import machine_uuid
from deskyard.plan.pool.seat import Claim, State
from deskyard.site.libvirt import storage
from deskyard.site.libvirt.kinds import parts
from deskyard.site.libvirt.kinds.domain import DomainKind
from deskyard.site.libvirt.kinds.network import FilterKind, NetworkKind
from deskyard.site.libvirt.kinds.volume import SeedKind, VolumeKind
from deskyard.site.libvirt.link import POOL_PATH
from deskyard.site.libvirt.underlay import LibvirtUnderlay
from deskyard.site.libvirt.warm.disposables import LibvirtDisposables
from deskyard.workspace.seats import Seats
from tests.provider.bench import Bench
from tests.support.claimers import FOREVER, race
from tests.unit.workspace.disposables import declared

pytestmark = pytest.mark.vm

NAME = f"seats{os.getpid()}"
NETWORK = "10.99.3.0/24"


@pytest.fixture
def lab(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A workspace of two seats, with its network and its filter, as the engine makes them."""
    source = bench.folder / "image.qcow2"
    subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", source, "64M"], check=True)
    image = ImageSource(f"{NAME}-image", "0123", str(source))
    lab = declared(2, 2, name=NAME, network=NETWORK, images={"desktop": image})
    seats = tuple(_tiny(seat) for seat in lab.plan.seats)
    lab = replace(lab, plan=replace(lab.plan, accelerator=accelerator("auto"), seats=seats))
    # The hypervisor runs by now, wherever that was started from.
    monkeypatch.setenv("DESKYARD_HOME", str(bench.folder))
    monkeypatch.setattr(access, "revoke", lambda *_, **__: None)
    network = asdict(lab.plan.network)
    bench.make(NetworkKind(), {key: network[key] for key in ("name", "bridge", "cidr", "host_address")})
    bench.make(FilterKind(), asdict(lab.plan.desktop_filter))
    bench.make(FilterKind(), asdict(lab.plan.gateway_filter))
    disposables = LibvirtDisposables(NAME)
    try:
        yield lab
    finally:
        for seat in disposables.there():
            disposables.remove(seat)


def _tiny(seat: Any) -> Any:
    return replace(seat, machine=replace(seat.machine, memory_mib=128, disk_gib=1, home_gib=1))


def make(lab: Any, name: str) -> str:
    """Make the machine of a seat, which boots from an empty disk."""
    seat, image = lab.plan.seat(name), lab.image_sources()["desktop"]
    return LibvirtDisposables(NAME).make(lab.plan, seat, image, desktop_first_boot(seat, "ssh-ed25519 AAAA x"), None)


def files() -> list[str]:
    """What is in the pool of these machines."""
    return sorted(path.name for path in Path(POOL_PATH).glob(f"deskyard-{NAME}.*"))


def test_machine_at_a_seat_is_what_the_engine_would_make_in_its_place(bench: Bench, lab: Any) -> None:
    seat = lab.plan.seat("s1")
    assert make(lab, "s1") == "boots"
    machine = bench.link.lookupByName(seat.machine.domain)
    assert (machine.isActive(), machine.autostart()) == (1, 0)
    # Filter, address, isolated port: in libvirt and in the kernel.
    assert [found for found in LibvirtUnderlay(lab.plan).findings() if "s1" in found] == []
    first_boot = desktop_first_boot(seat, "ssh-ed25519 AAAA x")
    hardware = parts.hardware(seat.machine, lab.plan.accelerator, seat.caps, first_boot, None)
    there = DomainKind().read(bench.link, seat.machine.domain, {})
    assert there is not None
    hardware["interfaces"] = [parts.nic(seat, lab.plan.network.name, lab.plan.desktop_filter.name)]
    known = hardware.keys() & there.keys()
    assert {"interfaces", "vcpus", "memory_mib", "accelerator"} <= known
    assert {key: there[key] for key in known} == {key: hardware[key] for key in known}


def test_weakened_machine_at_a_seat_is_found(bench: Bench, lab: Any) -> None:
    make(lab, "s1")
    machine = bench.link.lookupByName(lab.plan.seat("s1").machine.domain)
    (nic,) = ElementTree.fromstring(machine.XMLDesc(0)).findall("./devices/interface")
    nic.remove(nic.find("filterref"))  # type: ignore[arg-type]
    machine.updateDeviceFlags(ElementTree.tostring(nic, encoding="unicode"), 1)
    assert any("on the NIC of s1: is missing" in found for found in LibvirtUnderlay(lab.plan).findings())


def test_released_machine_leaves_no_byte(bench: Bench, lab: Any) -> None:
    seats, before = Seats("local", NAME, LibvirtDisposables(NAME)), files()
    begun = seats.begin(lab, lab.plan.seat("s1"), None)
    make(lab, "s1")
    seats.ready(begun)
    assert len(files()) == len(before) + 3
    taken = seats.take(lab, ["s1", "s2"], Claim("me", 4e9))
    assert taken is not None and taken.state is State.CLAIMED
    words = {"machine": begun.machine, "state": "claimed", "by": "me", "until": "4000000000"}
    assert seats.disposables.marks()["s1"] == words
    assert seats.take(lab, ["s1", "s2"], Claim("other", 4e9)) is None
    seats.remove("s1")
    assert (files(), seats.disposables.there()) == (before, set())


def test_of_6_claimers_with_a_kill_at_each_moment_2_get_a_machine_each(lab: Any) -> None:
    seats = Seats("local", NAME, LibvirtDisposables(NAME))
    for name in ("s1", "s2"):
        begun = seats.begin(lab, lab.plan.seat(name), None)
        make(lab, name)
        seats.ready(begun)
    kills = {0: "locked", 1: "torn", 2: "written"}
    said, _ = race(seats, lab, 6, kills)
    got = [answer["machine"] for answer in said if answer["machine"]]
    claimed = {seated.number: seated.claim for seated in seats.ledger.machines().values() if seated.claim}
    assert len(claimed) == 2
    assert len(got) == len(set(got)) and set(got) <= set(claimed)
    # Whoever was killed behind its line has had the other one.
    assert {claim.by for number, claim in claimed.items() if number not in got} <= {"c2"}
    assert seats.take(lab, ["s1", "s2"], Claim("late", FOREVER)) is None


def test_half_made_machines_are_found_and_removed(bench: Bench, lab: Any) -> None:
    disposables = LibvirtDisposables(NAME)
    for name in ("s1", "s2"):
        make(lab, name)
    first, second = (lab.plan.seat(name).machine.domain for name in ("s1", "s2"))
    bench.link.lookupByName(first).destroy()
    bench.link.lookupByName(first).undefine()
    storage.remove(bench.link, [f"{first}.qcow2"])
    assert disposables.there() == {"s1", "s2"}
    assert set(disposables.marks()) == {"s2"}
    Seats("local", NAME, disposables).sweep(lab)
    assert (files(), disposables.there()) == ([], set())
    assert {first, second} & {machine.name() for machine in bench.link.listAllDomains()} == set()


def test_what_is_kept_is_never_taken_for_a_disposable_machine(bench: Bench, lab: Any) -> None:
    seat = lab.plan.seat("s1")
    kept = replace(seat.machine, domain=f"deskyard-{NAME}.s1", uuid=machine_uuid(NAME, "kept"))
    image: Any = parts.system(kept, lab.image_sources()["desktop"], None)
    home: Any = parts.home(kept, None)
    first_boot = desktop_first_boot(seat, "")
    hardware: Any = parts.hardware(kept, lab.plan.accelerator, seat.caps, first_boot, None)
    hardware["disk"] = bench.make(VolumeKind(), image)["path"]
    hardware["home"] = bench.make(VolumeKind(), home)["path"]
    hardware["seed"] = bench.make(SeedKind(), parts.seed(kept, first_boot))["path"]
    bench.make(DomainKind(), {**hardware, "interfaces": []})
    before, disposables = files(), LibvirtDisposables(NAME)
    assert disposables.there() == set()
    make(lab, "s1")
    disposables.remove("s1")
    Seats("local", NAME, disposables).remove_all()
    assert files() == before
    assert bench.link.lookupByName(kept.domain).isActive()
    # Nothing in it hears a request to shut down.
    bench.link.lookupByName(kept.domain).destroy()
