"""Looks by the hour: at workspaces that can be looked at, for rules that are in force, and no more of them is kept."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from deskyard.control.store.connection import Link
from deskyard.control.watch import looks
from deskyard.plan.health import stopped_agent
from tests.control.lab import Lab
from tests.control.test_alert_rules import operation
from tests.control.watching import look, opened, put_in_force

KIND, UNWELL, REFUSED = "workspace.look", "desktop.unwell", "egress.refused"
DISK = {"check": "disk", "state": "warning", "detail": "9 % is free", "remedy": "free some"}
UNITS = {"check": "units", "state": "failed", "detail": "vncserver.service", "remedy": "restart it"}
WELL = {"check": "power", "state": "ok", "detail": "running", "remedy": ""}
HOUR = 3600


@pytest.fixture(autouse=True)
def ready(mission: Lab) -> Iterator[None]:
    """A workspace whose first desktop is in use, and nobody who does what is asked for."""
    mission.end("worker")
    mission.declare("lab", "first", "second")
    mission.link.execute("update desktop set state = case name when 'first' then 'ready' else 'stopped' end")
    yield
    put_in_force(mission)


def waiting(mission: Lab) -> list[dict[str, Any]]:
    query = "select * from operation where kind = %s order by created_at"
    return mission.link.execute(query, [KIND]).fetchall()


def found(mission: Lab, ago: float = 0, **parts: Any) -> str:
    """A look that is done, of so many seconds ago."""
    result = {name: {"rows": rows, "problem": None} for name, rows in parts.items()}
    return operation(mission, KIND, "done", ago, result=result)


def test_look_is_asked_for_by_the_hour_with_its_line_of_the_audit(mission: Lab, worker: Link) -> None:
    assert looks.ask_for_due(worker) == ["lab"]
    (asked,) = waiting(mission)
    assert (asked["workspace_id"], asked["lane"], asked["actor"]) == ("lab", "look:lab", "watch")
    line = mission.until("select * from audit_entry where detail ->> 'operation' = %s", [asked["id"]])
    assert (line["actor"], line["action"], line["target"]) == ("watch", KIND, "lab")
    assert looks.ask_for_due(worker) == [], "it waits still"
    mission.link.execute("update operation set state = 'done', ended_at = now() - interval '59 minutes'")
    assert looks.ask_for_due(worker) == []
    mission.link.execute("update operation set ended_at = now() - interval '61 minutes'")
    assert looks.ask_for_due(worker) == ["lab"]


@pytest.mark.parametrize(
    "change",
    [
        "update desktop set state = 'stopped'",
        "update workspace set silent_since = now(), silence = 'does not answer'",
        "update workspace set problem = '{}'",
        "update workspace set gone_at = now()",
        "update alert_rule set enabled = false",
    ],
    ids=["nothing is in use", "its gateway is silent", "its declaration is broken", "it is gone", "no rule reads it"],
)
def test_nobody_is_looked_at_in_vain(mission: Lab, worker: Link, change: str) -> None:
    mission.link.execute(change.encode())
    assert looks.ask_for_due(worker) == []


def test_a_rule_that_reads_looks_is_enough(mission: Lab, worker: Link) -> None:
    mission.link.execute("update alert_rule set enabled = kind = %s", [REFUSED])
    assert looks.ask_for_due(worker) == ["lab"]


def test_look_of_a_person_counts_and_of_the_watchers_own_the_newest_alone_is_kept(mission: Lab, worker: Link) -> None:
    person = found(mission, 3 * HOUR)
    own = []
    for hours in (4, 2, 1.5):
        own.append(found(mission, hours * HOUR))
        mission.link.execute("update operation set actor = 'watch' where id = %s", [own[-1]])
    assert looks.ask_for_due(worker) == ["lab"]
    kept = [row["id"] for row in waiting(mission)]
    assert kept[:-1] == [person, own[-1]]
    mission.link.execute("delete from operation where id = %s", [kept[-1]])
    found(mission, HOUR / 2)
    assert looks.ask_for_due(worker) == [], "a person looked half an hour ago"


def test_machine_that_is_not_well_is_told_until_a_look_finds_it_well(
    mission: Lab, owner: httpx.Client, worker: Link
) -> None:
    rows = [{"machine": "first", **row} for row in (WELL, DISK, UNITS)]
    rows += [{"machine": "second", **DISK}, {"machine": "gateway", **DISK}]
    rows.append({"machine": "first", **DISK, "check": "backup"})
    found(mission, 60, health=rows)
    look(worker)
    alerts = opened(owner)
    assert set(alerts) == {f"{UNWELL} lab.first", f"{UNWELL} gateway lab"}, "the second is not in use"
    alert = alerts[f"{UNWELL} lab.first"]
    assert (alert["number"], alert["unit"], alert["workspaceId"]) == (2, "findings", "lab")
    assert alert["text"].startswith("failed: units: vncserver.service, and 1 more, as of ") and alert["nextStep"]
    found(mission, health=[{"machine": "first", **WELL}])
    look(worker)
    assert opened(owner) == {}


def test_agent_that_somebody_has_stopped_is_no_trouble_and_one_that_fails_is(
    mission: Lab, owner: httpx.Client, worker: Link
) -> None:
    about = vars(stopped_agent({"by": "ann", "still": False}, "lab/first"))
    found(mission, health=[{"machine": "first", **about}])
    look(worker)
    assert opened(owner) == {}
    found(mission, health=[{"machine": "first", **about}, {"machine": "first", **UNITS, "check": "agent"}])
    look(worker)
    assert opened(owner)[f"{UNWELL} lab.first"]["number"] == 1


def test_what_a_look_of_another_day_found_is_told_no_more(mission: Lab, owner: httpx.Client, worker: Link) -> None:
    found(mission, 25 * HOUR, health=[{"machine": "first", **DISK}])
    look(worker)
    assert opened(owner) == {}


def test_much_that_is_refused_is_told_by_desktop(mission: Lab, owner: httpx.Client, worker: Link) -> None:
    row = {"desktop": "first", "reason": "is not on the list", "count": 500, "entry": None, "last": ""}
    found(mission, 60, refusals=[{**row, "target": "crates.io", "recent": 30}, {**row, "target": "a", "recent": 69}])
    look(worker)
    assert opened(owner) == {}, "99 in an hour is not 100"
    found(mission, 30, refusals=[{**row, "target": "crates.io", "recent": 30}, {**row, "target": "a", "recent": 70}])
    look(worker)
    (alert,) = opened(owner).values()
    assert (alert["rule"], alert["object"], alert["number"]) == (REFUSED, "lab.first", 100)
    assert "most of all a" in alert["text"]
