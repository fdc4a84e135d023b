"""What the hypervisor halted for want of room goes on once there is room; what a person paused never does."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from deskyard.declaration import declaration
from deskyard.errors import SiteError
from deskyard.life import care, halted
from deskyard.life.care import How
from deskyard.life.halted import Halted
from deskyard.plan.names import seat_domain
from deskyard.plan.power import Power
from deskyard.plan.workspace import WorkspacePlan
from deskyard.workspace import turn
from tests.unit.life.machines import DEV1, DEV2, GATEWAY, PLAN, Machines

FULL = "was halted: 10 MiB are free, 90 MiB too few -> delete snapshots"


def go_on(machines: Any, desktop: str | None = None, plan: WorkspacePlan = PLAN) -> list[Halted]:
    return halted.go_on(plan, machines, desktop)


@pytest.fixture
def full(machines: Machines) -> Machines:
    """All machines of the workspace are halted, and there is no room."""
    machines.now = dict.fromkeys((DEV2, DEV1, GATEWAY), "io-error")
    return machines


def test_machines_go_on_once_there_is_room_and_their_gateway_first(full: Machines) -> None:
    full.disk_room = 3
    assert go_on(full) == [Halted(name, went_on=True) for name in ("gateway", "dev1", "dev2")]
    assert full.moves == [(domain, "running", Power.RUNNING) for domain in (GATEWAY, DEV1, DEV2)]
    assert go_on(full) == []


def test_none_goes_on_while_there_is_no_room(full: Machines) -> None:
    assert go_on(full) == [Halted(name, trouble=FULL) for name in ("gateway", "dev1", "dev2")]
    assert full.moves == []


def test_room_is_looked_for_before_each(full: Machines) -> None:
    full.disk_room = 2
    went = [row.went_on for row in go_on(full)]
    assert (went, full.now[DEV2]) == ([True, True, False], "io-error")


@pytest.mark.parametrize("wanted", [Power.PAUSED, Power.OFF])
@pytest.mark.parametrize("state", ["io-error", "paused", "saved", "stopped"])
def test_what_a_person_paused_or_stopped_is_left_alone(machines: Machines, state: str, wanted: Power) -> None:
    machines.now[DEV1], machines.wanted[DEV1], machines.disk_room = state, wanted, 9
    assert go_on(machines) == []
    assert machines.moves == []


def test_what_somebody_paused_at_the_hypervisor_is_left_alone(machines: Machines) -> None:
    machines.now[DEV1], machines.disk_room = "paused", 9
    assert go_on(machines) == []
    assert machines.moves == []


def test_of_one_desktop_its_gateway_goes_on_and_no_other(full: Machines) -> None:
    full.disk_room = 9
    assert [row.machine for row in go_on(full, "dev2")] == ["gateway", "dev2"]
    assert full.now[DEV1] == "io-error"


def test_machines_at_seats_go_on(machines: Machines) -> None:
    seat = PLAN.desktops[0]
    domain = seat_domain("lab", "seat1")
    plan = replace(PLAN, seats=(replace(seat, name="seat1", machine=replace(seat.machine, domain=domain)),))
    machines.now[domain], machines.wanted[domain], machines.disk_room = "io-error", Power.RUNNING, 1
    assert go_on(machines, plan=plan) == [Halted("seat1", went_on=True)]
    assert machines.now[domain] == "running"


def test_one_that_another_task_moves_waits(full: Machines) -> None:
    full.disk_room = 9
    with turn.of(PLAN, "dev1"):
        rows = {row.machine: row for row in go_on(full)}
    assert rows["dev1"] == Halted("dev1", waits="another task is at work there")
    assert (rows["dev2"].went_on, full.now[DEV1]) == (True, "io-error")


def test_one_that_somebody_moved_before_its_turn_is_no_news(full: Machines, monkeypatch: pytest.MonkeyPatch) -> None:
    def require(domain: str) -> None:
        full.now[domain] = "running"

    monkeypatch.setattr(full, "require_room_again", require)
    assert go_on(full) == []
    assert full.moves == []


def test_one_whose_guest_does_not_answer_is_trouble_and_keeps_no_other_halted(full: Machines) -> None:
    full.disk_room = 9

    def fail_once(_: str) -> None:
        full.act = lambda _: None
        raise SiteError("machine", GATEWAY, "its agent is silent\nfor a minute", "see its console")

    full.act = fail_once
    first, *others = go_on(full)
    assert first == Halted("gateway", trouble="was halted: its agent is silent -> see its console")
    assert all(row.went_on for row in others)


@pytest.fixture
def quiet(full: Machines, waits: list[Sequence[str] | None], monkeypatch: pytest.MonkeyPatch) -> Machines:
    """Care has nothing else to do, and its window is closed: in it each desktop is due once more."""
    monkeypatch.setattr(care, "_now", lambda: datetime(2026, 7, 1, 12, tzinfo=UTC))
    monkeypatch.setattr(declaration, "read_workspace", lambda _: SimpleNamespace(care=None))
    monkeypatch.setattr(care._Visit, "_do", lambda _: None)
    monkeypatch.setattr(care._Visit, "_failing", lambda _: [])
    return full


def test_care_lets_them_go_on_at_each_run_and_then_cares_for_them(quiet: Machines) -> None:
    quiet.disk_room = 3
    care.run("lab", how=How(only_due=True))
    quiet.now[DEV1], quiet.disk_room = "io-error", 1
    found = care.run("lab", how=How(only_due=True))
    assert found["halted"] == [{"machine": "dev1", "went_on": True, "waits": "", "trouble": ""}]
    assert (found["trouble"], quiet.now[DEV1]) == (False, "running")
    assert care.text(found).splitlines()[0] == "lab/dev1  goes on: its host has room again"
    assert [row["state"] for row in found["desktops"]] == ["nothing is due"] * 2


def test_care_says_what_lacks_while_the_host_is_full(quiet: Machines) -> None:
    found = care.run("lab")
    assert found["trouble"] is True
    assert f"lab/dev1  {FULL}" in care.text(found).splitlines()
    assert [row["trouble"] for row in found["desktops"]] == [["is io-error, and wanted to run"]] * 2


def test_dry_run_of_care_moves_nothing(quiet: Machines) -> None:
    quiet.disk_room = 9
    found = care.run("lab", how=How(dry_run=True))
    assert {row["waits"] for row in found["halted"]} == {"there is room again: it would go on"}
    assert (quiet.moves, found["desktops"][0]["state"]) == ([], "io-error: left alone")
