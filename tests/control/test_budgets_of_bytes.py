"""A budget's bound of measured bytes: what counts, as of when, and that it is mixed with no machine time."""

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from typing import Any

import httpx
import psycopg
import pytest

from deskyard.control.store.connection import Link
from deskyard.control.watch import looks
from tests.control.lab import Lab
from tests.control.watching import ask_for_closing, look, opened, put_in_force

MODEL, COST, TODAY = "api.example.org", 1000, datetime.now(UTC).date()
FIRST = TODAY.replace(day=1)
READ_AT = datetime(2026, 5, 4, 10, 30, tzinfo=UTC)
MIB = 2**20


@pytest.fixture(autouse=True)
def locked(mission: Lab) -> Iterator[None]:
    """A locked workspace whose machine time has cost 1,000 millionths this month, read at a moment."""
    mission.end("worker")
    mission.declare("lab", "first")
    mission.declare("elsewhere", "first")
    mission.link.execute("update workspace set egress = 'locked', traffic_read_at = %s", [READ_AT])
    mission.link.execute("truncate usage_interval, traffic")
    begin = datetime(FIRST.year, FIRST.month, 1, tzinfo=UTC)
    mission.link.execute("insert into tier_price values ('free', 3600, %s, 'x')", [begin - timedelta(days=1)])
    query = """insert into usage_interval (desktop_id, workspace_id, tier, began_at, ended_at)
        values ('lab.gone', 'lab', 'free', %s, %s)"""
    mission.link.execute(query, [begin, begin + timedelta(seconds=COST)])
    mission.link.execute("update desktop set tier = 'gratis'")
    yield
    put_in_force(mission)


def passed(mission: Lab, sent: int, received: int, desktop: str = "lab.first", day: date = TODAY) -> None:
    query = """insert into traffic values (%s, %s, %s, 'pypi.org', 1, %s, %s) on conflict (desktop_id, name, day)
        do update set sent = excluded.sent, received = excluded.received"""
    mission.link.execute(query, [desktop.partition(".")[0], desktop, day, sent, received])


def put(owner: httpx.Client, **wanted: Any) -> httpx.Response:
    return owner.put("/api/budgets/lab", json=wanted)


def shown(owner: httpx.Client) -> dict[str, Any]:
    (found,) = owner.get("/api/budgets").json()["items"]
    return dict(found)


def test_what_all_desktops_sent_and_received_in_this_month_is_spent_as_of_the_last_look(
    mission: Lab, owner: httpx.Client
) -> None:
    put(owner, bytesPerMonth=1000)
    assert (shown(owner)["bytesSpent"], shown(owner)["bytesAt"]) == (0, "2026-05-04T10:30:00Z")
    passed(mission, 1, 20)
    passed(mission, 300, 4000, "lab.gone", FIRST)
    passed(mission, 10**6, 10**6, "elsewhere.first")
    passed(mission, 10**6, 10**6, "lab.first", FIRST - timedelta(days=1))
    assert (shown(owner)["bytesPerMonth"], shown(owner)["bytesSpent"]) == (1000, 4321)
    mission.link.execute("update workspace set traffic_read_at = null")
    assert shown(owner)["bytesAt"] is None


def test_each_bound_counts_its_own_and_a_missing_one_is_nought(mission: Lab, owner: httpx.Client) -> None:
    passed(mission, 5, 6)
    names = ("microsPerMonth", "spent", "bytesPerMonth", "bytesSpent")
    for wanted, known in (
        ({"microsPerMonth": 7, "bytesPerMonth": 8}, (7, COST, 8, 11)),
        ({"bytesPerMonth": 9}, (0, COST, 9, 11)),
        ({"microsPerMonth": 3, "bytesPerMonth": None}, (3, COST, 0, 11)),
    ):
        assert put(owner, **wanted).status_code == 200
        assert tuple(shown(owner)[name] for name in names) == known
    query = "select detail from audit_entry where action = 'budget.set' and detail ->> 'bytesPerMonth' = '9'"
    assert mission.until(query, [])["detail"] == {"microsPerMonth": None, "bytesPerMonth": 9, "closes": []}
    assert put(owner, microsPerMonth=None).json()["items"] == []


@pytest.mark.parametrize("wanted", [{}, {"closes": [MODEL]}], ids=["nothing", "names alone"])
def test_one_of_the_bounds_has_to_be_said(mission: Lab, owner: httpx.Client, wanted: dict[str, Any]) -> None:
    put(owner, bytesPerMonth=9)
    answer = put(owner, **wanted)
    problem = answer.json()
    assert (answer.status_code, problem["field"]) == (422, "microsPerMonth")
    assert "bytesPerMonth too" in problem["reason"] and "one of the two" in problem["remedy"]
    assert shown(owner)["bytesPerMonth"] == 9, "a budget is lost by no list of names"
    with pytest.raises(psycopg.errors.CheckViolation, match="budget_has_a_bound"):
        mission.link.execute("insert into budget (workspace_id, actor) values ('elsewhere', 'x')")


@pytest.mark.parametrize("wrong", [0, -1, True, "5", 1.5, 10**15 + 1])
def test_what_is_no_number_of_bytes_is_refused(owner: httpx.Client, wrong: Any) -> None:
    answer = put(owner, bytesPerMonth=wrong)
    assert (answer.status_code, answer.json()["field"]) == (422, "bytesPerMonth")


def test_a_workspace_whose_gateway_counts_nothing_gets_no_bound_that_is_never_spent(
    mission: Lab, owner: httpx.Client
) -> None:
    mission.link.execute("update workspace set egress = 'open'")
    answer = put(owner, microsPerMonth=5, bytesPerMonth=5)
    assert (answer.status_code, answer.json()["field"]) == (422, "bytesPerMonth")
    assert "egress of lab is open" in answer.json()["reason"] and "locked" in answer.json()["remedy"]
    assert put(owner, microsPerMonth=5).status_code == 200


@pytest.mark.parametrize(
    ("micros", "most", "is_closed"),
    [
        (COST, None, True),
        (COST + 1, 10, True),
        (COST, 11, True),
        (COST + 1, 11, False),
        (None, 10, True),
        (None, 11, False),
    ],
    ids=["time alone", "bytes of both", "time of both", "neither of both", "bytes alone", "bytes alone, not spent"],
)
def test_names_are_closed_while_either_is_spent(
    mission: Lab, owner: httpx.Client, worker: Link, micros: int | None, most: int | None, is_closed: bool
) -> None:
    passed(mission, 4, 6)
    assert put(owner, microsPerMonth=micros, bytesPerMonth=most, closes=[MODEL]).status_code == 200
    assert ask_for_closing(worker) == (["lab"] if is_closed else [])


def test_names_are_reopened_when_neither_is_spent_any_more(mission: Lab, owner: httpx.Client, worker: Link) -> None:
    passed(mission, 4, 6)
    mission.link.execute("insert into closing (workspace_id, names) values ('lab', %s)", [[MODEL]])
    put(owner, microsPerMonth=COST, bytesPerMonth=10, closes=[MODEL])
    assert ask_for_closing(worker) == []
    put(owner, microsPerMonth=COST, bytesPerMonth=11)
    assert ask_for_closing(worker) == [], "machine time is spent still"
    put(owner, microsPerMonth=COST + 1, bytesPerMonth=11)
    assert ask_for_closing(worker) == ["lab"]


def test_alerts_say_which_of_the_two_it_is_and_as_of_when_bytes_are(
    mission: Lab, owner: httpx.Client, worker: Link
) -> None:
    put(owner, microsPerMonth=2 * COST, bytesPerMonth=100 * MIB, closes=[MODEL])
    for count, kinds in (
        (80 * MIB - 1, set()),
        (80 * MIB, {"budget.near lab bytes"}),
        (100 * MIB, {"budget.near lab bytes", "budget.spent lab bytes"}),
    ):
        passed(mission, MIB, count - MIB)
        look(worker)
        assert set(opened(owner)) == kinds
    alert = opened(owner)["budget.spent lab bytes"]
    month = f"{TODAY:%Y-%m}"
    measured = f"measured at its gateway in {month}: 100.0 MiB of 100.0 MiB, as of 2026-05-04 10:30 UTC"
    assert alert["text"] == f"{measured}; while it is spent, closed are {MODEL}"
    assert (alert["workspaceId"], alert["number"]) == ("lab", 100)
    put(owner, microsPerMonth=COST, bytesPerMonth=100 * MIB)
    look(worker)
    found = opened(owner)
    assert f"machine time of {month}: {COST} of {COST} millionths" in found["budget.spent lab"]["text"]
    assert found["budget.spent lab bytes"]["id"] == alert["id"], "each is told by itself"
    put(owner, microsPerMonth=COST)
    look(worker)
    assert set(opened(owner)) == {"budget.near lab", "budget.spent lab"}


def test_a_workspace_whose_bytes_are_bound_is_looked_at_also_with_no_rule_that_reads_looks(
    mission: Lab, owner: httpx.Client, worker: Link
) -> None:
    mission.link.execute("update alert_rule set enabled = false")
    put(owner, microsPerMonth=5)
    assert looks.ask_for_due(worker) == []
    put(owner, bytesPerMonth=5)
    assert looks.ask_for_due(worker) == ["lab"]


def test_bytes_of_other_workspaces_are_not_shown(mission: Lab, owner: httpx.Client) -> None:
    passed(mission, 5, 6)
    put(owner, bytesPerMonth=9)
    with mission.client(mission.key("read", workspaces=["elsewhere"])) as client:
        assert client.get("/api/budgets").json()["items"] == []
    with mission.client(mission.key("read", workspaces=["lab"])) as client:
        assert client.get("/api/budgets").json()["items"] == [shown(owner)]
