"""How a workspace is: each machine's findings, and the worst of all."""

import datetime
import time
from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from deskyard.declaration import declaration
from deskyard.desktop import process_cap, program
from deskyard.errors import ConfigError, DeskyardError, SiteError
from deskyard.life import health, power
from deskyard.life.backup.kept import InRepository
from deskyard.life.backup.repository import repository_of
from deskyard.life.journal import Entry, Journal
from deskyard.model.care import BackupSchedule
from deskyard.model.idle import Idle
from deskyard.plan.backup import Backup
from deskyard.plan.power import Power
from deskyard.plan.workspace import DesktopPlan
from deskyard.workspace import readiness
from tests.unit.life.machines import DEV1, GATEWAY, PLAN, Machines
from tests.unit.plan.test_health import WELL


@pytest.fixture(autouse=True)
def door(machines: Machines, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """A gateway whose routes answer, and desktops that are well; `door` says what they answer."""
    routes = {
        desktop.name: {route: {"ready": True, "detail": "ok"} for route in desktop.routes} for desktop in PLAN.desktops
    }
    door: dict[str, Any] = {"status": {"gateway_ready": True, "desktops": routes}, "days": 90, "inside": dict(WELL)}

    def expires(_: Any) -> datetime.datetime:
        return datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=door["days"])

    def ask(plan: Any, desktop: str, *_: Any, **__: Any) -> dict[str, Any]:
        if isinstance(door["inside"], Exception):
            raise door["inside"]
        found: dict[str, Any] = door["inside"]
        return found

    def status(_: Any, desktops: Sequence[DesktopPlan]) -> dict[str, Any]:
        door["asked"] = [desktop.name for desktop in desktops]
        found: dict[str, Any] = door["status"]
        return found

    monkeypatch.setattr(readiness, "ask", status)
    monkeypatch.setattr(health, "_expires", expires)
    monkeypatch.setattr(program, "ask", ask)
    monkeypatch.setattr(time, "time", lambda: WELL["time"])
    return door


def bad(found: dict[str, Any]) -> dict[str, list[str]]:
    """Machine -> the checks that are not well."""
    rows = {name: [row["check"] for row in rows if row["state"] != "ok"] for name, rows in found["machines"].items()}
    return {name: checks for name, checks in rows.items() if checks}


def test_workspace_whose_machines_are_well_is_well() -> None:
    found = health.look("lab")
    assert (found["state"], bad(found)) == ("ok", {})
    assert "lab/dev1  well  power running" in health.text(found)


def test_upgrade_that_has_not_come_to_its_end_is_a_warning_with_what_ends_it(machines: Machines) -> None:
    journal = Journal(power.opened("lab/dev1"))
    journal.write(Entry("desktop-old", "desktop-new", "watching"))
    found = health.look("lab")
    assert (found["state"], bad(found)) == ("warning", {"dev1": ["upgrade"]})
    assert "broke off (watching)  -> ./inv desktop.upgrade lab/dev1 ends it" in health.text(found)
    journal.close()
    assert bad(health.look("lab")) == {}


def test_who_asks_so_looks_into_no_desktop_that_is_stopped_when_unused(monkeypatch: pytest.MonkeyPatch) -> None:
    first, *others = PLAN.desktops
    plan = replace(PLAN, desktops=(replace(first, idle=Idle(stop_after="1h")), *others))
    look_up = power.look_up
    monkeypatch.setattr(power, "look_up", lambda name: (plan, look_up(name)[1]))
    assert set(health.look("lab")["machines"]) == {"gateway", *(desktop.name for desktop in plan.desktops)}
    assert set(health.look("lab", leave_idle=True)["machines"]) == {"gateway", *(desktop.name for desktop in others)}


def test_desktop_that_is_off_as_wanted_is_well_and_not_asked(machines: Machines, door: dict[str, Any]) -> None:
    health.look("lab")
    assert door["asked"] == ["dev1", "dev2"]
    power.stop("lab/dev2")
    health.look("lab")
    assert door["asked"] == ["dev1"]
    power.stop("lab/dev1")
    door["inside"] = SiteError("desktop", "lab/dev1", "cannot be reached", "wait")
    assert health.look("lab")["state"] == "ok"


def test_cap_of_processes_that_the_tier_has_no_more_is_lifted_by_the_next_up(door: dict[str, Any]) -> None:
    health.look("lab", "dev1")
    assert process_cap.wanted(PLAN) == {}
    door["inside"] = {**WELL, "processes": {"agent.slice": 300}}
    found = health.look("lab", "dev1")
    assert (found["state"], bad(found)) == ("warning", {"dev1": ["processes"]})
    assert "-> ./inv workspace.up lab" in health.text(found)
    assert process_cap.wanted(PLAN) == {"dev1": None}


def test_age_of_backups_is_looked_at_where_there_are_some(monkeypatch: pytest.MonkeyPatch) -> None:
    key = repository_of(PLAN.site, PLAN.name).key
    key.parent.mkdir(parents=True)
    key.write_text("key")
    present = Backup("one", "dev1", made=int(WELL["time"]) - 86_400, running=True, verified=1)
    monkeypatch.setattr(InRepository, "present", lambda *_: [present])
    found = health.look("lab")
    assert (found["state"], bad(found)) == ("warning", {"dev2": ["backup"]})
    assert "backup 24 hours old, the last verified one 24 hours" in health.text(found)


class Place:
    """Where the backups of the workspace lie; `fault` is what it says instead."""

    def __init__(self) -> None:
        self.has_place, self.kept = True, list[Backup]()
        self.fault: DeskyardError | None = None

    def present(self, _: str | None) -> list[Backup]:
        if self.fault is not None:
            raise self.fault
        return self.kept


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch) -> Place:
    place = Place()
    monkeypatch.setattr(health, "vault_of", lambda *_: place)
    return place


def declare(monkeypatch: pytest.MonkeyPatch, backup: Any) -> None:
    """Let both desktops declare it."""
    planned = replace(PLAN, desktops=tuple(replace(desktop, backup=backup) for desktop in PLAN.desktops))
    monkeypatch.setattr(declaration, "read", lambda _: SimpleNamespace(plan=planned))


def made(desktop: str, hours: float, *, verified: bool = True) -> Backup:
    return Backup("one", desktop, int(WELL["time"] - hours * 3600), True, verified=1 if verified else None)


def test_a_schedule_says_what_is_too_old(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.kept = [made("dev1", 5), made("dev2", 7)]
    assert bad(health.look("lab")) == {}
    declare(monkeypatch, BackupSchedule(every="6h"))
    found = health.look("lab")
    assert bad(found) == {"dev2": ["backup"]}
    assert "backup: 7 hours old, the last verified one 7 hours  -> ./inv care.run lab/dev2 --due" in health.text(found)
    place.kept = [made("dev1", 5), *(made(name, 1, verified=False) for name in ("dev1", "dev2")), made("dev2", 7)]
    declare(monkeypatch, BackupSchedule(every="2h", verify_every="6h"))
    assert bad(health.look("lab")) == {"dev2": ["backup"]}


def test_a_schedule_by_which_nothing_was_ever_made_is_a_warning(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.has_place = False
    assert bad(health.look("lab")) == {}
    declare(monkeypatch, BackupSchedule(every="1d"))
    assert bad(health.look("lab")) == {"dev1": ["backup"], "dev2": ["backup"]}


def test_desktops_that_are_never_backed_up_are_not_asked_for_backups(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.kept = [made("dev1", 1000)]
    declare(monkeypatch, "never")
    assert bad(health.look("lab")) == {}


def test_a_place_that_cannot_be_asked_fails_only_where_backups_may_be(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.fault = SiteError("storage", "safe", "is active on no node\nmore", "pvesm status says why")
    assert bad(health.look("lab")) == {"dev1": ["backup"]}
    place.has_place, place.fault = (
        False,
        ConfigError("backups", None, "no storage of the site takes backups", "name one"),
    )
    assert bad(health.look("lab")) == {}
    declare(monkeypatch, BackupSchedule(every="1d"))
    assert "no storage of the site takes backups" in health.text(health.look("lab"))


def test_each_machine_has_its_own_findings(machines: Machines, door: dict[str, Any]) -> None:
    machines.now[DEV1] = "stopped"
    door["status"]["desktops"]["dev2"]["terminal"] = {"ready": False, "detail": "refused"}
    door["days"] = 2
    found = health.look("lab")
    assert bad(found) == {"gateway": ["certificate"], "dev1": ["power"], "dev2": ["route terminal"]}
    assert "  failed: power: stopped  -> ./inv desktop.start lab/dev1" in health.text(found)
    assert bad(health.look("lab", "dev1")) == {"dev1": ["power"]}


def test_stopped_agent_is_a_warning_with_who_has_stopped_it(door: dict[str, Any]) -> None:
    halt = {"desktop": "dev1", "stopped": True, "by": "ann", "since": 1, "by_host": False, "still": True}
    door["status"]["stopped"] = {"dev1": halt}
    found = health.look("lab")
    assert (found["state"], bad(found)) == ("warning", {"dev1": ["agent"]})
    assert "  warning: agent: stopped by ann  -> ./inv desktop.thaw lab/dev1" in health.text(found)
    halt["still"] = None
    assert "stopped by ann, and not known to stand still" in health.text(health.look("lab"))


@pytest.mark.parametrize("said", [None, [], "dev1", {"dev1": None}, {"dev1": []}, {"dev1": {"stopped": "yes"}}])
def test_gateway_that_says_nothing_of_stops_or_nonsense_stops_nobody(door: dict[str, Any], said: object) -> None:
    door["status"]["stopped"] = said
    assert bad(health.look("lab")) == {}


def test_desktop_that_lets_nobody_in_fails_and_the_rest_is_still_told(door: dict[str, Any]) -> None:
    door["inside"] = SiteError("desktop", "lab/dev1", "cannot be reached\nsecond line", "wait")
    found = health.look("lab", "dev1")
    assert bad(found) == {"dev1": ["inside"]}
    assert "route desktop ok" in health.text(found)


def test_gateway_that_does_not_run_fails_its_desktops_too(machines: Machines) -> None:
    machines.now[GATEWAY] = "stopped"
    assert bad(health.look("lab")) == {"gateway": ["power"], "dev1": ["gateway"], "dev2": ["gateway"]}


def test_workspace_that_is_stopped_is_well(machines: Machines) -> None:
    power.stop_workspace("lab")
    assert set(machines.wanted.values()) == {Power.OFF}
    assert health.look("lab")["state"] == "ok"
