"""What gateways counted: kept by the worker from looks, shown beside machine time, and mixed with nothing."""

import asyncio
import csv
import io
import json
from datetime import UTC, date, datetime, timedelta
from typing import Any

import httpx
import psycopg
import pytest
from psycopg.rows import dict_row

from deskyard.control.api.problem import Problem
from deskyard.control.store.cluster import WORKER
from deskyard.control.usage import usage
from deskyard.control.web.watch import traffic
from deskyard.control.web.watch.traffic import MOST
from tests.control.lab import Lab
from tests.control.test_usage import DAY, HOUR, WINDOW, claimed, price, ran

COUNTS = ("connections", "sent", "received")
TODAY = datetime.now(UTC).date()
SILENT = {"field": "gateway", "value": "lab", "reason": "is from before gateways counted traffic", "remedy": "x"}
Counts = tuple[int, int, int]


def passed(mission: Lab, desktop: str, day: date, name: str, counts: Counts = (1, 10, 100)) -> None:
    query = "insert into traffic values (%s, %s, %s, %s, %s, %s, %s)"
    mission.link.execute(query, [desktop.partition(".")[0], desktop, day, name, *counts])


def row(name: str, *counts: int, day: date = TODAY, desktop: str = "first") -> dict[str, Any]:
    """A row as a look has it."""
    return {"desktop": desktop, "day": day.isoformat(), "name": name, **dict(zip(COUNTS, counts, strict=True))}


def looked(mission: Lab, client: httpx.Client, *rows: dict[str, Any], problem: Any = None) -> dict[str, Any]:
    """A look that finds these rows; the operation at its end."""
    found = {"traffic": {"rows": rows, "problem": problem}}
    (mission.path / "look").write_text(json.dumps(found))
    asked = client.post("/api/workspaces/lab/look").json()
    return mission.state(asked["id"], "done", "failed")


def kept(mission: Lab) -> dict[str, Counts]:
    """What is kept, by desktop, name and day."""
    found = mission.link.execute("select * from traffic order by desktop_id, name, day").fetchall()
    return {f"{row['desktop_id']} {row['name']} {row['day']}": tuple(row[count] for count in COUNTS) for row in found}


def listed(client: httpx.Client, **options: str) -> list[tuple[Any, ...]]:
    """What is measured, without what nothing is said of."""
    found = client.get("/api/usage", params={**WINDOW, **options}).json()["measured"]
    return [tuple(value for value in row.values() if value is not None) for row in found]


def test_look_brings_what_its_gateway_counted_and_begins_with_the_last_day_that_is_known(
    mission: Lab, owner: httpx.Client
) -> None:
    mission.declare("lab", "first")
    before = TODAY - timedelta(days=3)
    done = looked(mission, owner, row("api.example.org", 2, 10, 2000, day=before), row("pypi.org", 1, 7, 8))
    assert done["state"] == "done" and done["result"]["seen"] == {}
    assert done["result"]["traffic"] == {"kept": 2, "problem": None}, "its rows are in their table alone"
    expected = {f"lab.first api.example.org {before}": (2, 10, 2000), f"lab.first pypi.org {TODAY}": (1, 7, 8)}
    assert kept(mission) == expected
    found = owner.get("/api/usage", params={"since": before.isoformat(), "until": TODAY.isoformat()}).json()
    assert [(row["day"], row["name"], row["received"]) for row in found["measured"]] == [
        (before.isoformat(), "api.example.org", 2000),
        (TODAY.isoformat(), "pypi.org", 8),
    ]
    (reading,) = found["readings"]
    assert datetime.fromisoformat(reading["readAt"]) == done["started_at"] and reading["problem"] is None
    again = looked(mission, owner, row("pypi.org", 3, 9, 20))
    assert again["result"]["seen"] == {"traffic_since": TODAY.isoformat()}
    assert kept(mission) == {**expected, f"lab.first pypi.org {TODAY}": (3, 9, 20)}


def test_gateway_that_was_made_anew_makes_nothing_smaller(mission: Lab, owner: httpx.Client) -> None:
    mission.declare("lab", "first")
    looked(mission, owner, row("pypi.org", 5, 500, 5000))
    looked(mission, owner, row("pypi.org", 1, 600, 50), row("new.example.org", 1, 1, 1))
    assert kept(mission) == {
        f"lab.first new.example.org {TODAY}": (1, 1, 1),
        f"lab.first pypi.org {TODAY}": (5, 600, 5000),
    }


def test_look_that_could_not_read_changes_nothing_and_says_why(mission: Lab, owner: httpx.Client) -> None:
    mission.declare("lab", "first")
    first = looked(mission, owner, row("pypi.org", 1, 2, 3))
    failed = looked(mission, owner, problem=SILENT)
    assert failed["result"]["traffic"] == {"kept": 0, "problem": SILENT}
    assert kept(mission) == {f"lab.first pypi.org {TODAY}": (1, 2, 3)}
    (reading,) = owner.get("/api/usage").json()["readings"]
    assert datetime.fromisoformat(reading["readAt"]) == first["started_at"] and reading["problem"] == SILENT
    looked(mission, owner)
    (reading,) = owner.get("/api/usage").json()["readings"]
    assert datetime.fromisoformat(reading["readAt"]) > first["started_at"] and reading["problem"] is None


def test_look_of_another_kind_of_operation_is_no_look(mission: Lab, owner: httpx.Client) -> None:
    mission.declare("lab", "first")
    (mission.path / "look").write_text(json.dumps({"traffic": {"rows": [row("pypi.org", 1, 2, 3)], "problem": None}}))
    asked = owner.post("/api/desktops/lab.first/restart").json()
    done = mission.state(asked["id"], "done")
    assert "traffic" not in done["result"] and kept(mission) == {}


def test_what_was_measured_stands_beside_time_and_claims_and_changes_nothing_of_them(
    mission: Lab, owner: httpx.Client
) -> None:
    ran(mission, "lab.first", DAY, DAY + timedelta(hours=1))
    price(mission, 5_000_000, DAY - timedelta(days=9))
    claimed(mission, "lab.first", DAY, 10, 7, 0)
    apart = ("measured", "measuredLeftOut", "readings")
    before = owner.get("/api/usage", params=WINDOW).json()
    assert (before["measured"], before["measuredLeftOut"], before["microseconds"]) == ([], 0, HOUR)
    passed(mission, "lab.first", DAY.date(), "api.example.org", (2, 10**15, 10**15))
    passed(mission, "lab.first", DAY.date() + timedelta(days=9), "api.example.org")
    found = owner.get("/api/usage", params=WINDOW).json()
    assert {name: value for name, value in found.items() if name not in apart} == {
        name: value for name, value in before.items() if name not in apart
    }
    assert listed(owner) == [("lab", "lab.first", "2026-01-31", "api.example.org", 2, 10**15, 10**15)]


def test_bytes_are_added_up_by_what_is_asked_for_with_the_most_first(mission: Lab, owner: httpx.Client) -> None:
    first, second = DAY.date(), DAY.date() + timedelta(days=1)
    passed(mission, "lab.first", first, "api.example.org", (1, 10, 100))
    passed(mission, "lab.first", second, "api.example.org", (1, 20, 100))
    passed(mission, "lab.other", second, "api.example.org", (1, 1, 200))
    passed(mission, "gone.first", second, "pypi.org", (7, 1, 1))
    assert listed(owner, by="desktop") == [
        ("lab", "lab.first", "api.example.org", 2, 30, 200),
        ("lab", "lab.other", "api.example.org", 1, 1, 200),
        ("gone", "gone.first", "pypi.org", 7, 1, 1),
    ]
    assert listed(owner, by="workspace") == [("lab", "api.example.org", 3, 31, 400), ("gone", "pypi.org", 7, 1, 1)]
    assert listed(owner, by="day")[0] == (second.isoformat(), "api.example.org", 2, 21, 300)
    assert listed(owner, desktop="lab.other") == [("lab", "lab.other", str(second), "api.example.org", 1, 1, 200)]
    assert listed(owner, workspace="gone") == [("gone", "gone.first", str(second), "pypi.org", 7, 1, 1)]
    # The database itself adds up to the same, as does the table.
    sums = mission.link.execute("select sum(sent) as sent, sum(received) as received from traffic").fetchone()
    assert sums is not None
    table = list(csv.DictReader(io.StringIO(owner.get("/api/usage/traffic.csv", params=WINDOW).text)))
    for by in ("desktop", "workspace", "day"):
        assert sum(row[-1] for row in listed(owner, by=by)) == sums["received"]
    assert sum(int(row["sent"]) for row in table) == sums["sent"] and table[0]["name"] == "api.example.org"


def test_rows_beyond_the_most_are_counted_and_are_in_the_table(mission: Lab, owner: httpx.Client) -> None:
    query = """insert into traffic select 'lab', 'lab.first', %s, n || '.example.org', 1, n, 0
        from generate_series(1, %s) as n"""
    mission.link.execute(query, [DAY.date(), MOST + 3])
    found = owner.get("/api/usage", params=WINDOW).json()
    assert (len(found["measured"]), found["measuredLeftOut"]) == (MOST, 3)
    assert min(row["sent"] for row in found["measured"]) == 4, "those with the fewest bytes are left out"
    table = owner.get("/api/usage/traffic.csv", params=WINDOW)
    assert len(table.text.splitlines()) == 1 + MOST + 3 and table.headers["content-type"].startswith("text/csv")


@pytest.mark.parametrize(("rows", "is_refused"), [(3, False), (4, True)])
def test_table_of_more_than_it_may_have_is_refused_instead_of_cut(
    mission: Lab, monkeypatch: pytest.MonkeyPatch, rows: int, is_refused: bool
) -> None:
    monkeypatch.setattr(traffic, "MOST_LINES", 3)
    for number in range(rows):
        passed(mission, "lab.first", DAY.date(), f"{number}.example.org")

    async def ask() -> None:
        link = await psycopg.AsyncConnection.connect(mission.url(WORKER), row_factory=dict_row)
        async with link:
            await traffic.require_short(link, usage.values(DAY.date(), DAY.date()))

    if is_refused:
        with pytest.raises(Problem) as caught:
            asyncio.run(ask())
        assert (caught.value.status, caught.value.field) == (422, "since")
    else:
        asyncio.run(ask())


@pytest.mark.parametrize("name", ["=1+1.example.org", "+a.example.org", "-a.example.org", "@a.example.org"])
def test_name_that_a_desktop_chose_is_no_formula_in_the_table(mission: Lab, owner: httpx.Client, name: str) -> None:
    passed(mission, "lab.first", DAY.date(), name)
    (line,) = csv.DictReader(io.StringIO(owner.get("/api/usage/traffic.csv", params=WINDOW).text))
    assert line["name"] == f"'{name}"
    assert listed(owner)[0][3] == name


def test_traffic_of_other_workspaces_is_not_shown(mission: Lab) -> None:
    for workspace in ("mine", "theirs"):
        mission.declare(workspace, "first")
        passed(mission, f"{workspace}.first", DAY.date(), f"{workspace}.example.org")
    with mission.client(mission.key("read", workspaces=["mine"])) as client:
        found = client.get("/api/usage", params=WINDOW).json()
        assert [row["name"] for row in found["measured"]] == ["mine.example.org"]
        assert [row["workspaceId"] for row in found["readings"]] == ["mine"]
        table = client.get("/api/usage/traffic.csv", params=WINDOW).text
        assert "mine.example.org" in table and "theirs" not in table
    with mission.client(mission.key("chat")) as client:
        assert client.get("/api/usage/traffic.csv", params=WINDOW).status_code == 403


@pytest.mark.parametrize("days", [("2026-02-02", "2026-01-01"), ("2020-01-01", "2026-01-01")])
def test_table_of_a_time_that_is_none_is_refused(owner: httpx.Client, days: tuple[str, str]) -> None:
    answer = owner.get("/api/usage/traffic.csv", params={"since": days[0], "until": days[1]})
    assert (answer.status_code, answer.json()["field"]) == (422, "since")


def test_what_is_gone_keeps_its_counts_and_the_worker_can_take_none_away(mission: Lab, owner: httpx.Client) -> None:
    mission.declare("lab", "first")
    passed(mission, "lab.first", DAY.date(), "pypi.org")
    mission.link.execute("update desktop set gone_at = now()")
    mission.link.execute("update workspace set gone_at = now()")
    assert [row[3] for row in listed(owner)] == ["pypi.org"]
    assert owner.get("/api/usage").json()["readings"] == []
    for statement in ("delete from traffic", "truncate traffic", "update traffic set name = 'x'"):
        with psycopg.connect(mission.url(WORKER)) as link, pytest.raises(psycopg.errors.InsufficientPrivilege):
            link.execute(statement.encode())
