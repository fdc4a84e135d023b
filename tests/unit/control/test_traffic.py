"""What a look reads of a gateway's counts: rows that can be, of whole days, from the last one that is known."""

from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

from deskyard.control.jobs.child import JOBS
from deskyard.control.upkeep import look, traffic
from deskyard.control.upkeep.traffic import MOST_COUNT, MOST_DAYS, MOST_NAME, MOST_OF_A_DAY, MOST_ROWS
from deskyard.control.upkeep.workspace import Workspace
from deskyard.errors import ConfigError

TODAY = date(2026, 5, 20)
ROW = {"desktop": "dev", "day": TODAY.isoformat(), "name": "pypi.org", "connections": 1, "sent": 2, "received": 3}
Answer = dict[str, Any]


@pytest.fixture
def gateway(monkeypatch: pytest.MonkeyPatch) -> Answer:
    """A gateway's answer, and since when it was `asked`."""
    answer: Answer = {"egress": "locked", "traffic": [], "asked": []}

    def counted(name: str, since: str) -> Answer:
        answer["asked"].append((name, since))
        return answer

    monkeypatch.setattr("deskyard.access.egress.traffic_by_day", counted)
    return answer


def days(number: int) -> str:
    return (TODAY + timedelta(days=number)).isoformat()


def test_look_reads_from_the_day_that_it_is_given_or_all_that_a_gateway_keeps(
    gateway: Answer, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = datetime.now(UTC).date()
    gateway["traffic"] = [{**ROW, "day": now.isoformat(), "listed": True}]
    monkeypatch.setattr(look, "PARTS", {"traffic": look.PARTS["traffic"]})
    wanted = {"workspace": "lab", "desktop": None, "kind": "workspace.look", "actor": "watch", "attempt": 1}
    for given in ({}, {"leave_idle": False, "traffic_since": "2026-05-18"}):
        found = JOBS["workspace.look"]({**wanted, "input": given}) or {}
        assert found["result"]["traffic"] == {"rows": [{**ROW, "day": now.isoformat()}], "problem": None}
    (_, first), (_, second) = gateway["asked"]
    assert date.fromisoformat(first) in (now - timedelta(days=MOST_DAYS - 1), now - timedelta(days=MOST_DAYS))
    assert second == "2026-05-18"


@pytest.mark.parametrize("mode", ["open", "none"])
def test_gateway_that_counts_no_names_says_so_and_what_it_counted_before_is_read(gateway: Answer, mode: str) -> None:
    gateway["egress"] = mode
    with pytest.raises(ConfigError, match=f"is {mode}, so no names are counted"):
        traffic.read(Workspace("lab"))
    gateway["traffic"] = [{**ROW, "day": datetime.now(UTC).date().isoformat()}]
    assert len(traffic.read(Workspace("lab"))) == 1


def test_locked_gateway_through_which_nothing_passed_is_no_problem(gateway: Answer) -> None:
    assert traffic.read(Workspace("lab")) == []


@pytest.mark.parametrize(
    "wrong",
    [
        {"desktop": "Not.A.Name"},
        {"desktop": ""},
        {"desktop": None},
        {"name": ""},
        {"name": 7},
        {"day": days(1)},
        {"day": days(-MOST_DAYS - 1)},
        {"day": "20260520"},
        {"day": "yesterday"},
        {"connections": -1},
        {"sent": MOST_COUNT + 1},
        {"sent": True},
        {"received": "3"},
        {"received": None},
    ],
)
def test_row_that_no_gateway_counts_is_left_out_and_the_others_stay(wrong: dict[str, Any]) -> None:
    assert traffic.checked([{**ROW, **wrong}, ROW, "no row"], TODAY) == [ROW]
    assert traffic.checked([{**ROW, "day": days(-MOST_DAYS)}], TODAY) == [{**ROW, "day": days(-MOST_DAYS)}]


def test_names_are_kept_as_they_can_be_shown_and_are_one_row_if_they_are_the_same_then() -> None:
    odd = [{**ROW, "name": name} for name in ("a\x00.example.org", "a\x1b.example.org", "x" * (MOST_NAME + 9))]
    first, second = traffic.checked(odd, TODAY)
    assert first == {**ROW, "name": "a\ufffd.example.org", "connections": 2, "sent": 4, "received": 6}
    assert second["name"] == "x" * MOST_NAME
    full = [{**ROW, "name": name, "sent": MOST_COUNT} for name in ("a\x00", "a\x01")]
    assert traffic.checked(full, TODAY)[0]["sent"] == MOST_COUNT


def many(day: int, number: int) -> list[dict[str, Any]]:
    return [{**ROW, "day": days(day), "name": f"{count}.example.org", "sent": count} for count in range(number)]


def test_days_are_whole_and_the_oldest_come_first_as_many_as_a_look_may_have() -> None:
    third = MOST_ROWS // 3
    rows = [row for day in (0, -1, -2, -3) for row in many(day, third)]
    kept = traffic.bounded(rows)
    assert [row["day"] for row in kept] == [days(day) for day in (-3, -2, -1) for _ in range(third)]
    assert traffic.bounded(many(0, 3) + many(-9, 2)) == many(-9, 2)[::-1] + many(0, 3)[::-1]


def test_look_comes_on_by_a_day_however_many_rows_a_day_has() -> None:
    kept = traffic.bounded(many(0, 5) + many(-1, MOST_ROWS) + many(-2, MOST_ROWS))
    assert len(kept) == 2 * MOST_OF_A_DAY and {row["day"] for row in kept} == {days(-2), days(-1)}
    assert min(row["sent"] for row in kept) == MOST_ROWS - MOST_OF_A_DAY, "those with the fewest bytes are left out"
