"""Machines that start count with what they will take: those that start at once do not all find the same memory."""

import contextlib
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import libvirt
import pytest

from deskyard.host import facts
from deskyard.plan.power import NoRoom
from deskyard.site.libvirt import daemon
from deskyard.site.libvirt.kinds.domain import DomainKind
from deskyard.site.libvirt.limits import memory
from deskyard.site.libvirt.machines import LibvirtMachines
from deskyard.site.libvirt.warm import restoring
from tests.desktop.lab import planned

SIZE, FREE = 4096, 10_000
PLAN = planned("dev1", "dev2")
GATEWAY, DEV1, DEV2 = (machine.domain for machine in PLAN.machines().values())


@dataclass
class Domain:
    """A machine of libvirt, of which so many MiB are taken if it runs."""

    link: "Link"
    called: str
    rss: int | None = None

    def name(self) -> str:
        return self.called

    def connect(self) -> "Link":
        return self.link

    def isActive(self) -> bool:
        return self.rss is not None

    def maxMemory(self) -> int:
        return SIZE << 10

    def memoryStats(self) -> dict[str, int]:
        assert self.rss is not None
        return {"rss": self.rss << 10}


@dataclass
class Link:
    """A connection to libvirt that knows some machines."""

    machines: dict[str, Domain] = field(default_factory=dict)

    def lookupByName(self, name: str) -> Domain:
        if name not in self.machines:
            error = libvirt.libvirtError("no such machine")
            error.err = (libvirt.VIR_ERR_NO_DOMAIN,)
            raise error
        return self.machines[name]

    def add(self, name: str, rss: int | None = None) -> Domain:
        self.machines[name] = Domain(self, name, rss)
        return self.machines[name]


@pytest.fixture
def link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Link:
    """A machine with some free memory, on which nothing starts."""
    monkeypatch.setenv("DESKYARD_HOME", str(tmp_path))
    monkeypatch.setattr(facts, "MEMORY_FILE", tmp_path / "meminfo")
    free(tmp_path, FREE)
    return Link()


def free(folder: Path, mib: int) -> None:
    (folder / "meminfo").write_text(f"MemAvailable: {mib << 10} kB\n")


def test_those_that_start_at_once_do_not_all_find_the_same_memory(link: Link) -> None:
    started = []
    with pytest.raises(NoRoom, match="3856 MiB are free for fourth"):
        for name in ("first", "second", "third", "fourth"):
            memory.take(link.add(name))
            started.append(name)
    # Each counts with half of its memory, and the next has to find all of its own.
    assert started == ["first", "second", "third"]
    # It counts with nothing, since it did not start.
    assert memory.free_mib(link) == FREE - 3 * SIZE // 2


def test_what_a_machine_took_by_now_counts_once(link: Link, tmp_path: Path) -> None:
    machine = link.add("first")
    memory.take(machine)
    for rss in (1000, SIZE // 2, SIZE):
        machine.rss = rss
        free(tmp_path, FREE - rss)
        assert memory.free_mib(link) == FREE - max(rss, SIZE // 2)


def test_a_machine_that_booted_long_ago_counts_with_what_it_took(link: Link, tmp_path: Path) -> None:
    memory.take(link.add("first"))
    mark = next((tmp_path / "state/starting").iterdir())
    os.utime(mark, (mark.stat().st_atime, mark.stat().st_mtime - memory.TAKING_SECONDS - 1))
    assert memory.free_mib(link) == FREE
    assert not mark.exists()


def test_a_machine_that_is_gone_counts_with_nothing(link: Link) -> None:
    memory.take(link.add("first"))
    del link.machines["first"]
    assert memory.free_mib(link) == FREE


def test_a_machine_does_not_stand_in_its_own_way(link: Link, tmp_path: Path) -> None:
    free(tmp_path, SIZE)
    for _ in range(2):
        memory.take(link.add("first"))
    free(tmp_path, SIZE - 1)
    with pytest.raises(NoRoom):
        memory.take(link.add("first"))


def test_only_a_machine_that_is_off_has_to_find_memory(
    link: Link, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    free(tmp_path, 1)
    monkeypatch.setattr(daemon, "machine", lambda name: contextlib.nullcontext(link.machines[name]))
    machines = LibvirtMachines(PLAN)
    link.add(DEV1, rss=100)
    machines.take_room(DEV1)
    link.add(DEV2)
    with pytest.raises(NoRoom, match="1 MiB are free"):
        machines.take_room(DEV2)


@pytest.mark.parametrize("warm", [None, {"template": "t"}], ids=["by booting", "from its template"])
def test_a_machine_counts_before_it_starts_however_it_does(
    link: Link, monkeypatch: pytest.MonkeyPatch, warm: dict[str, str] | None
) -> None:
    class Starting(Exception):
        """What the machine would do has begun."""

    def start(*_: Any) -> None:
        link.machines["first"].rss = 0
        raise Starting(memory.free_mib(link))

    monkeypatch.setattr(Domain, "create", start, raising=False)
    monkeypatch.setattr(link, "defineXML", lambda _: link.add("first"), raising=False)
    monkeypatch.setattr(restoring, "start", lambda *_: start(link.add("first")))
    hardware: Any = {
        "name": "first",
        "machine_uuid": "6ba7b810-9dad-41d1-80b4-00c04fd430c8",
        "vcpus": 1,
        "memory_mib": SIZE,
        "accelerator": "tcg",
        "disk": "first.qcow2",
        "seed": "first.iso",
        "interfaces": [],
        "warm": warm,
    }
    with pytest.raises(Starting, match=str(FREE - SIZE // 2)):
        DomainKind().create(link, hardware)
