"""Snapshots of a domain: what they hold, how they come back; libvirt's own test driver answers."""

import itertools
import shutil
from collections import namedtuple
from collections.abc import Iterator
from contextlib import suppress
from typing import Any
from xml.etree import ElementTree

import pytest

from deskyard.errors import SiteError
from deskyard.plan.power import Power
from deskyard.plan.snapshot import Snapshot
from deskyard.site.libvirt import power, snapshots, storage
from tests.unit.site.driver import Domain, running

Disk = namedtuple("Disk", "total used free")
GIB = 1024**3


@pytest.fixture
def domain(monkeypatch: pytest.MonkeyPatch) -> Iterator[Domain]:
    """A running domain of its own."""
    monkeypatch.setattr(storage, "require_room", lambda _: None)
    with running(monkeypatch) as found:
        yield found


@pytest.mark.parametrize("runs", [True, False])
def test_snapshot_holds_memory_if_the_domain_runs_and_never_the_seed(domain: Domain, runs: bool) -> None:
    root = ElementTree.fromstring(snapshots._document(domain, Snapshot("before"), memory=runs))
    disks = {disk.get("name"): disk.get("snapshot") for disk in root.iterfind("disks/disk")}
    assert disks == {"vda": "internal", "vdb": "no"}
    memory = root.find("memory")
    assert (None if memory is None else memory.get("snapshot")) == ("internal" if runs else None)


def test_snapshots_are_listed_with_what_was_said_of_them(domain: Domain) -> None:
    snapshots.take(domain, Snapshot("before", "the browser <works>", 1_800_000_000))
    power.shut_down(domain)
    snapshots.take(domain, Snapshot("off"))
    rows = [(row.name, row.text, row.expires, row.memory, row.parent, row.current) for row in snapshots.listed(domain)]
    assert rows == [
        ("before", "the browser <works>", 1_800_000_000, True, None, False),
        ("off", "", None, False, "before", True),
    ]


def test_domain_comes_back_running_with_its_clock_set(domain: Domain) -> None:
    snapshots.take(domain, Snapshot("before"))
    power.shut_down(domain)
    snapshots.restore(domain, "before")
    assert power.state(domain) == "running"
    assert len(domain.shifts) == 1


def test_snapshot_without_memory_leaves_the_domain_off(domain: Domain) -> None:
    power.shut_down(domain)
    snapshots.take(domain, Snapshot("off"))
    power.start(domain)
    snapshots.restore(domain, "off")
    assert power.state(domain) == "stopped"
    assert domain.shifts == []


@pytest.mark.parametrize("memory", [True, False])
def test_memory_on_disk_goes_before_the_way_back_since_it_is_of_other_disks(domain: Domain, memory: bool) -> None:
    if not memory:
        power.shut_down(domain)
    snapshots.take(domain, Snapshot("before"))
    power.start(domain)
    power.pause(domain, to_disk=True)
    struck = Struck(domain, 9)
    snapshots.restore(struck, "before")
    assert struck.calls.index("managedSaveRemove") < struck.calls.index("revertToSnapshot")
    power.shut_down(domain)
    assert power.state(domain) == "stopped"


@pytest.mark.parametrize(("then", "now"), [(Power.RUNNING, Power.OFF), (Power.OFF, Power.RUNNING)])
def test_what_is_wanted_now_outlives_what_was_wanted_then(domain: Domain, then: Power, now: Power) -> None:
    power.want(domain, then)
    snapshots.take(domain, Snapshot("before"))
    power.want(domain, now)
    snapshots.restore(domain, "before")
    assert power.desired(domain) is now
    assert bool(domain.autostart()) is (now is Power.RUNNING)


class Struck(Domain):
    """A domain of which whoever asks it something dies behind a call that changes it, counted from 1."""

    CALLS = frozenset(
        {
            "snapshotCreateXML",
            "managedSaveRemove",
            "revertToSnapshot",
            "setMetadata",
            "setAutostart",
            "create",
            "resume",
        }
    )

    def __init__(self, domain: Domain, fatal: int) -> None:
        super().__init__(domain.machine)
        self.fatal, self.calls = fatal, list[str]()

    def __getattr__(self, name: str) -> Any:
        work = super().__getattr__(name)
        if name not in self.CALLS:
            return work

        def done(*given: Any) -> Any:
            answer = work(*given)
            self.calls.append(name)
            if len(self.calls) == self.fatal:
                raise KeyboardInterrupt
            return answer

        return done


@pytest.mark.parametrize(("then", "now"), list(itertools.permutations(Power, 2)))
def test_who_dies_at_any_call_of_a_restore_leaves_it_wanted_as_before(domain: Domain, then: Power, now: Power) -> None:
    power.want(domain, then)
    snapshots.take(domain, Snapshot("before"))
    for fatal in range(1, 10):
        power.want(domain, now)
        struck = Struck(domain, fatal)
        with suppress(KeyboardInterrupt):
            snapshots.restore(struck, "before")
        assert power.desired(domain) is now, struck.calls
        if len(struck.calls) < fatal:
            break
    assert "revertToSnapshot" in struck.calls and fatal > 2


@pytest.mark.parametrize("runs", [True, False])
def test_definition_that_comes_back_differs_in_what_is_wanted_alone(domain: Domain, runs: bool) -> None:
    power.want(domain, Power.PAUSED)
    if not runs:
        power.shut_down(domain)
    snapshots.take(domain, Snapshot("before", "all well", 1_800_000_000))

    def kept() -> tuple[str, list[str | None], list[Snapshot]]:
        (found,) = domain.listAllSnapshots()
        root = ElementTree.fromstring(found.getXMLDesc())
        (definition,) = root.findall("domain")
        wishes = [element.get("desired") for element in definition.iterfind("metadata/*")]
        for metadata in definition.findall("metadata"):
            definition.remove(metadata)
        return ElementTree.canonicalize(ElementTree.tostring(root), strip_text=True), wishes, snapshots.listed(domain)

    before = kept()
    snapshots._wanting(domain, "before", Power.OFF)
    assert kept() == (before[0], ["off"], before[2])
    snapshots._wanting(domain, "before", Power.RUNNING)
    assert kept() == (before[0], [], before[2])


def test_others_stay_whole_when_one_is_deleted(domain: Domain) -> None:
    for name in ("first", "second", "third"):
        snapshots.take(domain, Snapshot(name))
    snapshots.delete(domain, "second")
    assert {(row.name, row.parent) for row in snapshots.listed(domain)} == {("first", None), ("third", "first")}
    snapshots.restore(domain, "first")
    assert power.state(domain) == "running"


def test_domain_whose_memory_is_on_disk_gets_no_snapshot(domain: Domain) -> None:
    power.pause(domain, to_disk=True)
    with pytest.raises(SiteError, match="is saved"):
        snapshots.take(domain, Snapshot("before"))


def test_domain_with_checkpoints_does_not_go_back(domain: Domain, monkeypatch: pytest.MonkeyPatch) -> None:
    snapshots.take(domain, Snapshot("before"))
    monkeypatch.setattr(domain, "listAllCheckpoints", lambda: ["weekly"], raising=False)
    with pytest.raises(SiteError, match="left checkpoints"):
        snapshots.restore(domain, "before")
    assert power.state(domain) == "running"


@pytest.mark.parametrize(
    ("size", "free", "needed", "enough"),
    [(40, 4, 0, True), (40, 3, 0, False), (40, 8, 4, True), (40, 7, 4, False), (900, 8, 0, True), (900, 7, 0, False)],
)
def test_some_of_the_disk_is_kept_for_machines_that_write(
    monkeypatch: pytest.MonkeyPatch, size: int, free: int, needed: int, enough: bool
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Disk(size * GIB, 0, free * GIB))
    if enough:
        storage.require_room(needed * GIB)
        return
    with pytest.raises(SiteError, match="1024 MiB too few"):
        storage.require_room(needed * GIB)
