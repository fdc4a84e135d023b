"""Backups by a schedule on the real restic: made when due, tried out, pruned; care tells what waits and what failed."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from deskyard.declaration import declaration
from deskyard.desktop import program
from deskyard.errors import SiteError
from deskyard.life import care, health, power
from deskyard.life.backup import backup, scheduled
from deskyard.life.care import How
from deskyard.life.journal import Entry, Journal
from deskyard.model.care import BackupSchedule, Care
from tests.unit.life.desk import TARGET, Desk
from tests.unit.life.machines import DEV1, PLAN

DUE = How(only_due=True)


class Schedule:
    """What desktop dev1 declares, and the moment that it is; its backups are made now."""

    def __init__(self) -> None:
        self.now = datetime.now(UTC)
        self.wanted: Any = BackupSchedule(every="1d", keep_last=2)

    def declared(self, _: str) -> Any:
        first, second = PLAN.desktops
        return SimpleNamespace(plan=replace(PLAN, desktops=(replace(first, backup=self.wanted), second)))


@pytest.fixture
def schedule(desk: Desk, waits: list[Sequence[str] | None], monkeypatch: pytest.MonkeyPatch) -> Schedule:
    """A backup is due a day after the last one."""
    schedule = Schedule()
    looked = {"used": 40.0, "restart": False, "busy": [], "updated": []}
    monkeypatch.setattr(declaration, "read", schedule.declared)
    monkeypatch.setattr(declaration, "read_workspace", lambda _: SimpleNamespace(care=Care(updates="none")))
    monkeypatch.setattr(program, "ask", lambda *_, **__: looked)
    monkeypatch.setattr(health, "look", lambda _, desktop: {"machines": {desktop: []}})
    monkeypatch.setattr(care, "_now", lambda: schedule.now)
    return schedule


def cared(how: How = DUE) -> dict[str, Any]:
    found: dict[str, Any] = care.run("lab", "dev1", how)["desktops"][0]
    return found


def listed() -> list[bool]:
    return [row["verified"] is not None for row in backup.listing(TARGET)["backups"]]


def test_one_that_is_due_is_made_and_verified_once(schedule: Schedule) -> None:
    row = cared()
    assert row["backup"].endswith(" verified") and (row["waits"], row["trouble"]) == ([], [])
    assert listed() == [True]
    assert cared()["backup"] == ""
    schedule.now += timedelta(hours=19)
    assert cared()["backup"] == ""
    schedule.now += timedelta(hours=2)
    report = care.run("lab", "dev1", DUE)
    assert "backed up: " in care.text(report) and "cared for" in care.text(report)
    assert listed() == [True, True]


def test_what_the_schedule_does_not_keep_goes_after_the_next_one(schedule: Schedule) -> None:
    for _ in range(3):
        row = cared()
        schedule.now += timedelta(days=1)
    assert row["backup"].endswith(" verified, 1 older ones removed")
    assert listed() == [True, True]
    schedule.wanted = BackupSchedule(every="1d")
    cared()
    # Without a policy all stay.
    assert listed() == [True, True, True]


def test_only_the_next_one_after_a_while_is_booted(schedule: Schedule) -> None:
    schedule.wanted = BackupSchedule(every="1d", verify_every="7d")
    for _ in range(2):
        row = cared()
        schedule.now += timedelta(days=1)
    assert row["backup"].endswith(" not verified")
    assert listed() == [True, False]
    schedule.now += timedelta(days=5)
    cared()
    assert listed() == [True, False, True]


@pytest.mark.parametrize("wanted", [None, "never"])
def test_without_a_schedule_nothing_is_made_or_asked(schedule: Schedule, desk: Desk, wanted: Any) -> None:
    schedule.wanted = wanted
    assert cared()["backup"] == ""
    assert not list(desk.folder.rglob("backup-keys/*"))


def test_a_look_alone_says_that_one_is_due(schedule: Schedule) -> None:
    assert "a backup: it would be made" in cared(How(dry_run=True))["waits"]
    assert listed() == []
    # It was not tried.
    assert cared()["backup"]


def test_one_that_fails_is_told_and_not_tried_again_at_once(schedule: Schedule, desk: Desk) -> None:
    desk.reader = "head -c 100"
    found = care.run("lab", "dev1", DUE)
    (trouble,) = found["desktops"][0]["trouble"]
    assert found["trouble"] and trouble.startswith("backup: 100 bytes came of ")
    desk.reader = "cat"
    assert cared()["backup"] == ""
    schedule.now += timedelta(hours=4)
    assert cared()["backup"]


def test_one_that_does_not_boot_is_trouble_and_lets_no_older_one_go(schedule: Schedule, desk: Desk) -> None:
    schedule.wanted = BackupSchedule(every="1d", keep_last=1)
    cared()
    schedule.now += timedelta(days=1)
    desk.boots = False
    row = cared()
    assert row["trouble"][0].startswith("backup: the restored machine did not boot")
    assert listed() == [True, False]


def test_a_place_that_cannot_be_asked_is_trouble(schedule: Schedule, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*_: Any) -> Any:
        raise SiteError("backups", "s3:x", "cannot be reached", "mend the network")

    monkeypatch.setattr(scheduled, "vault_of", lambda *_: SimpleNamespace(present=away))
    assert cared()["trouble"] == ["backup: cannot be reached -> mend the network"]
    assert cared()["trouble"] == []


def test_none_is_made_while_another_task_is_at_work_and_the_next_run_makes_it(schedule: Schedule) -> None:
    with power.opened(TARGET).alone():
        row = cared()
    assert (row["waits"], row["trouble"]) == (["a backup: another task is at work there"], [])
    assert cared()["backup"]


def test_none_is_made_of_a_half_finished_upgrade(schedule: Schedule) -> None:
    journal = Journal(power.opened(TARGET))
    journal.write(Entry("desktop-old", "desktop-new", "swapped"))
    assert "upgrade that broke off" in cared()["waits"][0]
    journal.close()
    assert cared()["backup"]


def test_none_is_made_of_a_half_finished_restore(schedule: Schedule, desk: Desk) -> None:
    desk.kept = True
    assert cared()["trouble"] == ["backup: a restore was interrupted -> mv it back"]
    assert listed() == []


def test_none_is_made_of_a_desktop_that_is_paused(schedule: Schedule) -> None:
    power.pause(TARGET)
    row = cared()
    assert (row["state"], row["waits"], row["trouble"]) == ("paused: left alone", ["a backup: it is paused"], [])


def test_a_desktop_that_is_off_is_backed_up_and_proved_if_that_can_be(schedule: Schedule, desk: Desk) -> None:
    power.stop(TARGET)
    row = cared()
    assert row["backup"].endswith(" not verified")
    assert row["waits"] == ["a verified backup: for one that is made while it runs"]
    power.start(TARGET, wait=False)
    schedule.now += timedelta(days=1)
    assert cared()["backup"].endswith(" verified")
    desk.machines.now[DEV1] = "stopped"
    schedule.now += timedelta(days=1)
    assert " verified" in cared()["backup"]


def test_history_of_before_knows_of_no_try(schedule: Schedule) -> None:
    cared()
    assert care._History(schedule.declared("lab").plan).of("dev1").tried == schedule.now
