"""Desktops are cared for in their window, never during a task; trouble is told, and stops nobody else's care."""

import http.client
import json
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from invoke import Context

from deskyard.declaration import declaration
from deskyard.desktop import program
from deskyard.errors import ConfigError, SiteError
from deskyard.host import jump
from deskyard.life import care, health
from deskyard.life.care import How
from deskyard.model.care import Care
from deskyard.plan.power import Power
from deskyard.plan.snapshot import Snapshot
from deskyard.tasks.life import care as care_tasks
from deskyard.workspace import turn
from tests.unit.life.machines import DEV1, PLAN, Machines
from tests.unit.life.waiting_turn import waiting

OPEN, CLOSED = "2026-11-25T04:00+00:00", "2026-11-25T12:00+00:00"


class Guests:
    """What the desktops answer, and what they were asked."""

    def __init__(self) -> None:
        self.used, self.restart, self.busy, self.failing = 40.0, False, list[str](), list[str]()
        self.deaf: set[str] = set()
        self.asked: list[tuple[str, str]] = []
        self.after_update: Callable[[], None] = lambda: None

    def ask(self, _plan: Any, name: str, _program: Any, request: dict[str, Any], **_: Any) -> dict[str, Any]:
        if name in self.deaf:
            raise SiteError("desktop", f"lab/{name}", "cannot be reached", "look at it")
        self.asked.append((name, request["do"]))
        if request["do"] == "look":
            return {"used": self.used, "restart": self.restart, "busy": self.busy}
        if request["do"] == "clean":
            return {"freed": 300 << 20}
        self.after_update()
        return {"updated": ["openssl"], "restart": self.restart}

    def look(self, _name: str, desktop: str) -> dict[str, Any]:
        rows = [{"check": check, "state": "failed", "detail": "bad", "remedy": "mend"} for check in self.failing]
        return {"machines": {desktop: rows}}


class Clock:
    """The moment that it is."""

    def __init__(self, text: str) -> None:
        self.now = datetime.fromisoformat(text)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The window is open."""
    clock = Clock(OPEN)
    monkeypatch.setattr(care, "_now", lambda: clock.now)
    return clock


@pytest.fixture
def declared(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Workspace `lab`, which declares no care of its own."""
    workspace = SimpleNamespace(care=None)
    monkeypatch.setattr(declaration, "read_workspace", lambda _: workspace)
    return workspace


@pytest.fixture
def guests(
    monkeypatch: pytest.MonkeyPatch,
    machines: Machines,
    waits: list[Sequence[str] | None],
    clock: Clock,
    declared: SimpleNamespace,
) -> Guests:
    guests = Guests()
    monkeypatch.setattr(program, "ask", guests.ask)
    monkeypatch.setattr(health, "look", guests.look)
    return guests


def rows(found: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {row["desktop"]: row for row in found["desktops"]}


def test_updates_are_installed_in_the_window_without_a_restart_that_is_not_due(
    machines: Machines, guests: Guests
) -> None:
    found = care.run("lab")
    assert {name: row["updated"] for name, row in rows(found).items()} == {"dev1": ["openssl"], "dev2": ["openssl"]}
    assert (machines.moves, found["trouble"]) == ([], False)
    assert "updated: openssl" in care.text(found)


def test_outside_of_the_window_updates_and_restarts_wait_unless_wanted_now(machines: Machines, guests: Guests) -> None:
    clock_closed = datetime.fromisoformat(CLOSED)
    guests.restart = True
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(care, "_now", lambda: clock_closed)
        found = rows(care.run("lab", "dev1"))["dev1"]
        assert found["waits"] == [f"{what}: for the window 03:00-05:00" for what in ("updates", "a restart")]
        assert machines.moves == []
        assert rows(care.run("lab", "dev1", How(now=True)))["dev1"]["restarted"] is True


def test_restart_is_done_in_the_window_and_waits_for_a_task(machines: Machines, guests: Guests) -> None:
    guests.restart, guests.busy = True, ["a task of the agent"]
    found = rows(care.run("lab", "dev1"))["dev1"]
    assert found["waits"] == [f"{what}: for a task of the agent" for what in ("updates", "a restart")]
    guests.busy = []
    assert rows(care.run("lab", "dev1"))["dev1"]["restarted"] is True
    assert [state for _, state, _ in machines.moves] == ["stopped", "running"]


@pytest.mark.parametrize("change", ["window", "task"])
def test_window_and_task_are_asked_again_before_a_restart(
    machines: Machines, guests: Guests, clock: Clock, change: str
) -> None:
    def later() -> None:
        guests.restart = True
        if change == "window":
            clock.now += timedelta(hours=3)
        else:
            guests.busy = ["backup"]

    guests.after_update = later
    found = rows(care.run("lab", "dev1"))["dev1"]
    assert found["updated"] == ["openssl"]
    assert (found["restarted"], len(found["waits"]), machines.moves) == (False, 1, [])


@pytest.mark.parametrize(
    ("change", "waits"),
    [
        ("window", "a restart: for the window 03:00-05:00"),
        ("task", "a restart: for backup"),
        ("stop", "a restart: it is stopped now"),
        ("pause", "a restart: it is paused now"),
    ],
)
def test_window_task_and_wish_are_asked_again_when_the_turn_of_a_restart_has_come(
    machines: Machines, guests: Guests, clock: Clock, monkeypatch: pytest.MonkeyPatch, change: str, waits: str
) -> None:
    guests.restart, found = True, list[dict[str, Any]]()
    with waiting("dev1", lambda: found.append(care.run("lab", "dev1")), monkeypatch):
        if change == "window":
            clock.now += timedelta(hours=3)
        elif change == "task":
            guests.busy = ["backup"]
        elif change == "stop":
            machines.now[DEV1], machines.wanted[DEV1] = "stopped", Power.OFF
        else:
            machines.now[DEV1], machines.wanted[DEV1] = "paused", Power.PAUSED
    (report,) = found[0]["desktops"]
    assert (report["restarted"], report["waits"], machines.moves) == (False, [waits], [])
    assert machines.wanted[DEV1] is {"stop": Power.OFF, "pause": Power.PAUSED}.get(change, Power.RUNNING)


def test_restart_whose_turn_comes_late_is_done_while_the_window_is_open(
    machines: Machines, guests: Guests, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    guests.restart, found = True, list[dict[str, Any]]()
    with waiting("dev1", lambda: found.append(care.run("lab", "dev1")), monkeypatch):
        clock.now += timedelta(minutes=10)
    assert found[0]["desktops"][0]["restarted"] is True
    assert [state for _, state, _ in machines.moves] == ["stopped", "running"]


def test_full_disk_is_cleaned_at_any_time(guests: Guests, clock: Clock) -> None:
    clock.now = datetime.fromisoformat(CLOSED)
    guests.used = 90.0
    assert rows(care.run("lab", "dev1"))["dev1"]["freed_mib"] == 300
    guests.used = 80.0
    assert rows(care.run("lab", "dev1"))["dev1"]["freed_mib"] == 0


def test_second_run_finds_nothing_due_until_the_next_window(guests: Guests, clock: Clock) -> None:
    care.run("lab", how=How(only_due=True))
    guests.asked.clear()
    assert {row["state"] for row in rows(care.run("lab", how=How(only_due=True))).values()} == {"nothing is due"}
    assert guests.asked == []
    clock.now += timedelta(days=1)
    assert rows(care.run("lab", how=How(only_due=True)))["dev1"]["updated"] == ["openssl"]


def test_dry_run_says_what_would_be_done_and_does_nothing(machines: Machines, guests: Guests) -> None:
    guests.used, guests.restart = 90.0, True
    found = rows(care.run("lab", "dev1", How(dry_run=True)))["dev1"]
    assert {kind for _, kind in guests.asked} == {"look"}
    assert (machines.moves, len(found["waits"])) == ([], 2)
    care.run("lab", "dev1", How(only_due=True))
    assert ("dev1", "update") in guests.asked


def test_desktop_that_is_off_as_wanted_is_left_alone_and_one_that_stopped_is_trouble(
    machines: Machines, guests: Guests
) -> None:
    machines.now[DEV1], machines.wanted[DEV1] = "stopped", Power.OFF
    assert care.run("lab")["trouble"] is False
    machines.wanted[DEV1] = Power.RUNNING
    found = care.run("lab")
    assert rows(found)["dev1"]["trouble"] == ["is stopped, and wanted to run"]
    assert {name for name, _ in guests.asked} == {"dev2"}


def test_desktop_that_is_not_there_is_trouble_and_keeps_no_other_from_its_care(
    machines: Machines, guests: Guests
) -> None:
    del machines.now[DEV1]
    found = rows(care.run("lab"))
    assert found["dev1"]["trouble"] == ["is absent, and wanted to run"]
    assert found["dev2"]["updated"] == ["openssl"]


def test_desktop_that_does_not_answer_keeps_no_other_from_its_care(guests: Guests) -> None:
    guests.deaf = {"dev1"}
    found = rows(care.run("lab"))
    assert found["dev1"]["trouble"] == ["cannot be reached"]
    assert found["dev2"]["updated"] == ["openssl"]


def test_hook_learns_of_trouble_and_of_nothing_else(
    guests: Guests, declared: SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DESKYARD_STACKS", str(tmp_path))
    hook = tmp_path / "tell.sh"
    hook.write_text(f"#!/bin/sh\ncat >> {tmp_path}/told\n")
    hook.chmod(0o755)
    declared.care = Care(hook="tell.sh")
    assert "hook" not in care.run("lab")
    guests.failing = ["disk"]
    assert care.run("lab", "dev1")["hook"] == "was told"
    assert json.loads((tmp_path / "told").read_text())["desktops"][0]["trouble"] == ["disk: bad -> mend"]
    hook.write_text("#!/bin/sh\nexit 3\n")
    assert care.run("lab", "dev1")["hook"] == "failed: exit code 3"
    declared.care = Care(hook="https://127.0.0.1:1/secret-in-the-path")
    found = care.run("lab", "dev1")
    assert found["hook"].startswith("failed")
    assert "secret" not in json.dumps(found) + care.text(found)


def test_hook_that_is_no_web_server_or_no_url_is_a_failed_hook_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert care._tell("https://127.0.0.1:1/a b?token=xyz", {}) == "failed: InvalidURL"

    def nonsense(*_: object, **__: object) -> None:
        raise http.client.BadStatusLine("SSH-2.0-xyz")

    monkeypatch.setattr(urllib.request, "urlopen", nonsense)
    assert care._tell("https://127.0.0.1:1/xyz", {}) == "failed: BadStatusLine"
    assert "xyz" not in capsys.readouterr().err


@pytest.mark.parametrize(
    "hook", ["https://a.example.org/a b?token=xyz", "https://a.example.org/xyz\n", "https://ä.org"]
)
def test_hook_with_blanks_is_refused_and_not_shown(hook: str) -> None:
    with pytest.raises(ConfigError, match="is no https URL") as caught:
        Care.check({"hook": hook}, "test")
    assert caught.value.value is None
    assert "xyz" not in str(caught.value)
    assert Care.check({"hook": "programs/tell me.sh"}, "test").hook == "programs/tell me.sh"


def test_history_that_cannot_be_read_makes_everything_due(guests: Guests, tmp_path: Path) -> None:
    care.run("lab")
    (file,) = tmp_path.rglob("care.json")
    file.write_text("{")
    assert rows(care.run("lab", how=How(only_due=True)))["dev1"]["updated"] == ["openssl"]


def over(machines: Machines) -> list[Snapshot]:
    machines.kept = [Snapshot("old", expires=1), Snapshot("kept", expires=4_000_000_000), Snapshot("forever")]
    return machines.kept


def test_snapshots_that_have_expired_are_deleted_at_any_run(machines: Machines, guests: Guests, clock: Clock) -> None:
    care.run("lab", "dev1", How(only_due=True))
    clock.now += timedelta(hours=8)
    over(machines)
    found = care.run("lab", "dev1", How(only_due=True))
    assert [left.name for left in machines.kept] == ["kept", "forever"]
    assert (rows(found)["dev1"]["expired"], rows(found)["dev1"]["state"]) == (["old"], "cared for")
    assert "snapshots that had expired are deleted: old" in care.text(found)
    again = rows(care.run("lab", "dev1", How(only_due=True)))["dev1"]
    assert (again["expired"], again["state"]) == ([], "nothing is due")


def test_snapshots_that_expire_by_a_clock_that_jumped_are_trouble_until_a_person_says_that_it_is_right(
    machines: Machines, guests: Guests, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin = jump.moment()
    kept = over(machines)[1:]
    care.run("lab", "dev1", How(only_due=True))
    assert machines.kept == kept
    over(machines)
    monkeypatch.setattr(jump, "moment", lambda: replace(begin, clock=begin.clock + 86_400))
    (trouble,) = rows(care.run("lab", "dev1", How(only_due=True)))["dev1"]["trouble"]
    assert trouble.startswith("the clock jumped 24.0 h ahead")
    assert len(machines.kept) == 3
    task = care_tasks.run.body
    task(Context(), "lab/dev1", due=True, dry_run=True, clock_is_right=True)
    assert len(machines.kept) == 3
    task(Context(), "lab/dev1", due=True, clock_is_right=True)
    assert machines.kept == kept


def test_dry_run_and_a_paused_desktop_keep_what_has_expired(machines: Machines, guests: Guests) -> None:
    kept = over(machines)
    waits = rows(care.run("lab", how=How(dry_run=True)))["dev1"]["waits"]
    assert "snapshot old: it has expired, and would be deleted" in waits
    machines.now[DEV1], machines.wanted[DEV1] = "paused", Power.PAUSED
    assert rows(care.run("lab", "dev1"))["dev1"]["expired"] == []
    assert machines.kept == kept


def test_snapshots_of_a_desktop_that_is_off_expire_too(machines: Machines, guests: Guests) -> None:
    over(machines)
    machines.now[DEV1], machines.wanted[DEV1] = "stopped", Power.OFF
    found = rows(care.run("lab", "dev1"))["dev1"]
    assert (found["expired"], found["state"], found["trouble"]) == (["old"], "stopped: left alone", [])


def test_snapshots_at_which_another_task_works_wait_and_what_fails_is_trouble(
    machines: Machines, guests: Guests, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = over(machines)
    with turn.of(PLAN, "dev1"):
        found = rows(care.run("lab", "dev1", How(only_due=True)))["dev1"]
    assert "expired snapshots: another task is at work there" in found["waits"]

    def fail(*_: str) -> None:
        raise SiteError("machine", DEV1, "is locked\nfor a while", "wait")

    monkeypatch.setattr(machines, "delete_snapshot", fail)
    assert rows(care.run("lab", "dev1"))["dev1"]["trouble"] == ["snapshots: is locked -> wait"]
    assert machines.kept == kept
