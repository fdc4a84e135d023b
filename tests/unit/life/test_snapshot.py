"""Snapshots of a desktop: what is refused comes first, what has expired goes, and it runs again as it was wanted."""

import json
import time
from collections.abc import Sequence
from dataclasses import replace

import pytest
from invoke import Context, Exit

from deskyard.errors import ConfigError, HostError, SiteError
from deskyard.host import jump
from deskyard.life import power, snapshot
from deskyard.plan.power import NoRoom, Power
from deskyard.plan.snapshot import MOST, Snapshot
from deskyard.tasks.life import snapshot as tasks
from tests.unit.life.machines import DEV1, Machines


def test_snapshot_is_taken_and_listed(machines: Machines) -> None:
    found = snapshot.create("lab/dev1", Snapshot("before", "all well"))
    assert [(row["name"], row["text"], row["memory"]) for row in found["snapshots"]] == [("before", "all well", True)]
    assert "disk and memory  all well" in snapshot.text(found)
    assert snapshot.text(snapshot.delete("lab/dev1", "before")) == "lab/dev1 has no snapshots"


def test_what_has_expired_makes_room(machines: Machines) -> None:
    for number in range(MOST):
        machines.kept.append(Snapshot(f"s{number}", expires=1 if number else None))
    found = snapshot.create("lab/dev1", Snapshot("before"))
    assert [row["name"] for row in found["snapshots"]] == ["s0", "before"]


def test_what_expires_by_a_clock_that_jumped_ahead_stays_and_another_is_taken(
    machines: Machines, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    begin = jump.moment()
    snapshot.create("lab/dev1", Snapshot("day", expires=int(begin.clock) + 86_400))
    year = 365 * 86_400
    monkeypatch.setattr(jump, "moment", lambda: replace(begin, clock=begin.clock + year))
    monkeypatch.setattr(time, "time", lambda: begin.clock + year)
    found = snapshot.create("lab/dev1", Snapshot("next"))
    assert [row["name"] for row in found["snapshots"]] == ["day", "next"]
    assert "what has expired stays: the clock jumped 8760.0 h ahead" in capsys.readouterr().err
    with pytest.raises(HostError, match=r"care\.run lab --clock-is-right"):
        snapshot.expire(power.opened("lab/dev1"))
    assert len(machines.kept) == 2
    jump.believe()
    assert snapshot.expire(power.opened("lab/dev1")) == ["day"]


def test_what_is_refused_deletes_nothing_that_is_kept(machines: Machines) -> None:
    machines.kept = [Snapshot(f"s{number}", expires=4_000_000_000) for number in range(MOST)]
    with pytest.raises(ConfigError, match="is the most"):
        snapshot.create("lab/dev1", Snapshot("before"))
    assert len(machines.kept) == MOST


@pytest.mark.parametrize("off", [False, True], ids=["with memory", "of the disk"])
def test_restored_desktop_runs_if_it_is_wanted_to(
    machines: Machines, waits: list[Sequence[str] | None], capsys: pytest.CaptureFixture[str], off: bool
) -> None:
    if off:
        power.stop("lab/dev1")
    snapshot.create("lab/dev1", Snapshot("before"))
    power.start("lab/dev1", wait=False)
    snapshot.restore("lab/dev1", "before")
    assert "./inv workspace.up lab brings what changed since" in capsys.readouterr().err
    assert (machines.now[DEV1], machines.wanted[DEV1]) == ("running", Power.RUNNING)
    assert waits == [["dev1"]]


def test_restored_desktop_stays_off_if_it_is_wanted_off(machines: Machines, waits: list[Sequence[str] | None]) -> None:
    power.stop("lab/dev1")
    snapshot.create("lab/dev1", Snapshot("before"))
    done = snapshot.restore("lab/dev1", "before")
    assert done["machines"] == [{"name": "dev1", "state": "stopped", "desired": Power.OFF}]
    assert waits == []


@pytest.mark.parametrize(("wanted", "state"), [(Power.OFF, "stopped"), (Power.PAUSED, "paused")])
def test_desktop_that_is_wanted_off_or_paused_is_so_again_though_its_memory_came_back(
    machines: Machines, waits: list[Sequence[str] | None], wanted: Power, state: str
) -> None:
    snapshot.create("lab/dev1", Snapshot("before"))
    assert machines.kept[0].memory
    power.stop("lab/dev1")
    machines.want(DEV1, wanted)
    assert snapshot.would_restore("lab/dev1", "before")["would_be"] == wanted
    snapshot.restore("lab/dev1", "before")
    assert (machines.now[DEV1], machines.wanted[DEV1], waits) == (state, wanted, [])


def test_each_task_of_a_desktop_first_mends_the_wish_that_a_killed_restore_left(machines: Machines) -> None:
    power.stop("lab/dev1")
    snapshot.create("lab/dev1", Snapshot("before"))
    assert machines.mended == [DEV1, DEV1]
    snapshot.listing("lab/dev1")
    assert machines.mended == [DEV1, DEV1]


@pytest.mark.parametrize("to_disk", [False, True])
def test_paused_desktop_is_off_and_wanted_so_once_it_is_back_at_a_snapshot_without_memory(
    machines: Machines, waits: list[Sequence[str] | None], to_disk: bool
) -> None:
    power.stop("lab/dev1")
    snapshot.create("lab/dev1", Snapshot("before"))
    power.start("lab/dev1", wait=False)
    power.pause("lab/dev1", to_disk=to_disk)
    found = snapshot.would_restore("lab/dev1", "before")
    assert (found["would_be"], machines.wanted[DEV1]) == (Power.OFF, Power.PAUSED)
    done = snapshot.restore("lab/dev1", "before")
    assert done["machines"] == [{"name": "dev1", "state": "stopped", "desired": found["would_be"]}]
    assert waits == []


def test_paused_desktop_whose_way_back_is_refused_is_wanted_paused_still(
    machines: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    machines.kept.append(Snapshot("before"))
    power.pause("lab/dev1")
    monkeypatch.setattr(machines, "restore_snapshot", lambda *_: (_ for _ in ()).throw(SiteError("a", "b", "c", "d")))
    with pytest.raises(SiteError):
        snapshot.restore("lab/dev1", "before")
    assert (machines.now[DEV1], machines.wanted[DEV1]) == ("paused", Power.PAUSED)


@pytest.mark.parametrize("wanted", [Power.RUNNING, Power.PAUSED])
def test_memory_on_disk_is_not_given_up_for_a_way_back_for_which_there_is_no_room(
    machines: Machines, wanted: Power
) -> None:
    machines.kept.append(Snapshot("before", memory=True))
    power.pause("lab/dev1", to_disk=True)
    machines.want(DEV1, wanted)
    machines.too_large = {DEV1}
    before = [*machines.moves]
    with pytest.raises(NoRoom):
        snapshot.restore("lab/dev1", "before")
    assert (machines.now[DEV1], machines.wanted[DEV1], machines.moves) == ("saved", wanted, before)


def test_desktop_that_lost_its_memory_on_a_way_back_that_failed_is_wanted_off(
    machines: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    machines.kept.append(Snapshot("before", memory=True))
    power.pause("lab/dev1", to_disk=True)

    def fail(domain: str, name: str) -> None:
        machines.now[domain] = "stopped"
        raise SiteError("machine", domain, "does not start", "look at its log")

    monkeypatch.setattr(machines, "restore_snapshot", fail)
    with pytest.raises(SiteError, match="does not start"):
        snapshot.restore("lab/dev1", "before")
    assert machines.wanted[DEV1] is Power.OFF


def test_snapshot_that_is_not_there_moves_nothing(machines: Machines) -> None:
    for do in (snapshot.restore, snapshot.delete):
        with pytest.raises(ConfigError, match="has no such snapshot"):
            do("lab/dev1", "before")
    assert machines.moves == []


def test_dry_run_of_a_restore_says_what_is_lost_and_touches_nothing(machines: Machines) -> None:
    for name in ("before", "later"):
        snapshot.create("lab/dev1", Snapshot(name))
    found = snapshot.would_restore("lab/dev1", "before")
    assert (found["snapshot"]["name"], found["taken_after"], found["would_be"]) == ("before", ["later"], Power.RUNNING)
    assert "would go back to before of" in snapshot.would_text(found)
    assert "unless it is in: later" in snapshot.would_text(found)
    power.stop("lab/dev1")
    moves = list(machines.moves)
    assert "and be off; lost" in snapshot.would_text(snapshot.would_restore("lab/dev1", "later"))
    with pytest.raises(ConfigError, match="has no such snapshot"):
        snapshot.would_restore("lab/dev1", "never")
    assert machines.moves == moves


def test_task_with_dry_run_neither_asks_nor_restores(machines: Machines, capsys: pytest.CaptureFixture[str]) -> None:
    snapshot.create("lab/dev1", Snapshot("before"))
    tasks.restore(Context(), "lab/dev1", "before", dry_run=True, json=True)
    assert json.loads(capsys.readouterr().out)["snapshot"]["name"] == "before"
    assert machines.moves == []
    with pytest.raises(Exit):
        tasks.restore(Context(), "lab/dev1", "before")
