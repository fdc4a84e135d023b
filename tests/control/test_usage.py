"""Machine time and its cost: exact, by the price of its moment, and only while somebody looked."""

import csv
import io
import random
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from itertools import pairwise
from math import floor

import httpx
import pytest

from deskyard.control.jobs.observer import write_event
from deskyard.control.store.cluster import WORKER
from deskyard.control.store.connection import connect
from deskyard.control.usage import usage
from deskyard.control.usage.sight import close_unseen
from deskyard.life.events import Event
from deskyard.wire.stages import Stage
from tests.control.lab import Lab

HOUR = 3_600_000_000
DAYS = 24 * HOUR
TIERS = ("free", "large")
# Long ago, over the end of a month: nothing of it depends on today.
DAY = datetime(2026, 1, 31, tzinfo=UTC)
WINDOW = {"since": "2026-01-31", "until": "2026-02-02"}


def ran(mission: Lab, desktop: str, began: datetime, ended: datetime, tier: str = "free") -> None:
    query = (
        "insert into usage_interval (desktop_id, workspace_id, tier, began_at, ended_at) values (%s, %s, %s, %s, %s)"
    )
    mission.link.execute(query, [desktop, desktop.partition(".")[0], tier, began, ended])


def price(mission: Lab, micros: int, since: datetime, tier: str = "free") -> None:
    mission.link.execute("insert into tier_price values (%s, %s, %s, 'test')", [tier, micros, since])


def test_time_is_cut_at_midnight_and_at_a_change_of_price(mission: Lab, owner: httpx.Client) -> None:
    ran(mission, "lab.first", DAY + timedelta(hours=22), DAY + timedelta(hours=27))
    price(mission, 1_000_000, DAY - timedelta(days=9))
    price(mission, 3_000_000, DAY + timedelta(hours=25))
    found = owner.get("/api/usage", params=WINDOW).json()
    assert [(item["day"], item["microseconds"], item["micros"]) for item in found["items"]] == [
        ("2026-01-31", 2 * HOUR, 2_000_000),
        ("2026-02-01", 3 * HOUR, 1_000_000 + 2 * 3_000_000),
    ]
    assert (found["microseconds"], found["micros"]) == (5 * HOUR, 9_000_000)


def test_a_new_price_changes_nothing_of_before(mission: Lab, owner: httpx.Client) -> None:
    ran(mission, "lab.first", DAY, DAY + timedelta(hours=1))
    price(mission, 5_000_000, DAY - timedelta(days=9))
    before = owner.get("/api/usage", params=WINDOW).json()
    answer = owner.put("/api/prices", json={"prices": [{"tier": "free", "microsPerHour": 9_000_000}]})
    assert [item["microsPerHour"] for item in answer.json()["items"]] == [9_000_000, 5_000_000]
    assert owner.get("/api/usage", params=WINDOW).json() == before
    assert before["micros"] == 5_000_000


def test_what_is_shown_adds_up_to_the_microsecond(mission: Lab, owner: httpx.Client) -> None:
    for number in range(7):
        ran(mission, f"lab.d{number}", DAY, DAY + timedelta(microseconds=1_000_003 * (number + 1)))
    price(mission, 333_333_333, DAY - timedelta(days=9))
    lines = owner.get("/api/usage", params=WINDOW).json()
    # By the fractions of Python's whole numbers.
    assert [item["micros"] for item in lines["items"]] == [
        1_000_003 * (number + 1) * 333_333_333 // HOUR for number in range(7)
    ]
    for by in ("desktop", "workspace", "day"):
        found = owner.get("/api/usage", params={**WINDOW, "by": by}).json()
        assert sum(item["micros"] for item in found["items"]) == found["micros"] == lines["micros"]
        assert sum(item["microseconds"] for item in found["items"]) == 1_000_003 * 28
    rows = list(csv.DictReader(io.StringIO(owner.get("/api/usage.csv", params=WINDOW).text)))
    assert sum(int(row["micros"]) for row in rows) == lines["micros"] and rows[0]["desktop"] == "lab.d0"


@pytest.mark.parametrize("seed", range(3))
def test_the_sums_of_all_ways_to_ask_agree_with_the_lines_rounded_by_themselves(
    mission: Lab, owner: httpx.Client, seed: int
) -> None:
    chance = random.Random(seed)
    prices = {tier: {0: chance.randrange(10**9), chance.randrange(2 * DAYS): chance.randrange(10**9)} for tier in TIERS}
    for tier, changes in prices.items():
        for at, micros in changes.items():
            price(mission, micros, DAY + timedelta(microseconds=at), tier)
    exact: dict[tuple[str, str, int], Fraction] = {}
    for number in range(40):
        desktop, tier = f"{chance.choice('abc')}.d{number % 5}", chance.choice(TIERS)
        began, ended = sorted(chance.randrange(2 * DAYS) for _ in range(2))
        ran(mission, desktop, DAY + timedelta(microseconds=began), DAY + timedelta(microseconds=ended), tier)
        cuts = sorted({began, ended, *(at for at in (*prices[tier], DAYS) if began < at < ended)})
        for first, last in pairwise(cuts):
            micros = prices[tier][max(at for at in prices[tier] if at <= first)]
            line = (desktop, tier, first // DAYS)
            exact[line] = exact.get(line, Fraction(0)) + Fraction((last - first) * micros, HOUR)
    total = sum(map(floor, exact.values()))
    rows = list(csv.DictReader(io.StringIO(owner.get("/api/usage.csv", params=WINDOW).text)))
    shown = {(row["desktop"], row["tier"], int(row["day"] == "2026-02-01")): int(row["micros"]) for row in rows}
    assert shown == {line: floor(cost) for line, cost in exact.items()}
    for by in ({}, {"by": "desktop"}, {"by": "workspace"}, {"by": "day"}):
        found = owner.get("/api/usage", params={**WINDOW, **by}).json()
        assert sum(item["micros"] for item in found["items"]) == found["micros"] == total
    # What a budget is compared with.
    spent = mission.link.execute(usage.BY_WORKSPACE.encode(), usage.values(DAY.date(), DAY.date() + timedelta(days=2)))
    assert sum(row["micros"] for row in spent.fetchall()) == total


def test_a_machine_counts_while_it_runs_and_no_longer_than_it_was_seen(mission: Lab) -> None:
    mission.declare("lab", "first", state="stopped")
    with connect(mission.url(WORKER)) as link:
        begin = datetime.now(UTC) - timedelta(hours=5)

        def interval() -> list[tuple[object, object]]:
            found = mission.link.execute("select began_at, ended_at from usage_interval order by id").fetchall()
            return [(row["began_at"], row["ended_at"]) for row in found]

        def happens(stage: Stage, hours: float) -> datetime:
            at = begin + timedelta(hours=hours)
            write_event(link, Event("lab", "first", stage, at.timestamp()))
            return at

        started = happens(Stage.BOOTING, 0)
        happens(Stage.READY, 0.5)
        stopped = happens(Stage.STOPPED, 1)
        assert interval() == [(started, stopped)]
        again = happens(Stage.READY, 2)
        seen = begin + timedelta(hours=3)
        # The observer was killed at three, and another begins now.
        mission.link.execute("update workspace set followed_at = %s", [seen])
        close_unseen(link, "lab")
        assert interval()[1:] == [(again, seen)]
        happens(Stage.READY, 5)
        (_, _, (anew, ended)) = interval()
        assert isinstance(anew, datetime) and anew > seen + timedelta(hours=1) and ended is None
        # One that is followed goes on: nobody missed anything.
        mission.link.execute("update workspace set followed_at = now()")
        close_unseen(link, "lab")
        assert interval()[2] == (anew, None)


def test_an_open_interval_is_shown_as_far_as_it_was_seen(mission: Lab, owner: httpx.Client) -> None:
    mission.declare("lab", "first")
    mission.link.execute("update usage_interval set began_at = %s", [DAY])
    mission.link.execute("update workspace set followed_at = %s", [DAY + timedelta(hours=4)])
    assert owner.get("/api/usage", params=WINDOW).json()["microseconds"] == 4 * HOUR


def claimed(mission: Lab, desktop: str, at: datetime, *tokens: int | None) -> None:
    """An answer of a desktop's agent, with what it claims of it."""
    mission.link.execute(
        "insert into conversation (id, desktop_id, title) values (%s, %s, 'x') on conflict (id) do nothing",
        [f"cv_{desktop}", desktop],
    )
    query = """insert into message (id, conversation_id, role, author, text, state, at, claimed_input, claimed_output,
        claimed_cached) values (gen_random_uuid()::text, %s, 'agent', 'x', '', 'done', %s, %s, %s, %s)"""
    mission.link.execute(query, [f"cv_{desktop}", at, *tokens])


def test_claimed_tokens_stand_beside_what_was_measured_and_change_nothing_of_it(
    mission: Lab, owner: httpx.Client
) -> None:
    ran(mission, "lab.first", DAY, DAY + timedelta(hours=1))
    price(mission, 5_000_000, DAY - timedelta(days=9))
    before = owner.get("/api/usage", params=WINDOW).json()
    assert before["claimed"] == []
    claimed(mission, "lab.first", DAY, 10**9, 7, 0)
    claimed(mission, "lab.first", DAY + timedelta(hours=23, minutes=59), 10**9, 8, 3)
    claimed(mission, "lab.first", DAY + timedelta(days=1), 1, 2, 3)
    claimed(mission, "lab.first", DAY + timedelta(days=1), None, None, None)
    # It ran for nobody who looked, and its agent claims all the same.
    claimed(mission, "lab.other", DAY, 5, 5, 5)
    # Outside what is asked for.
    claimed(mission, "lab.first", DAY + timedelta(days=9), 40, 40, 40)
    found = owner.get("/api/usage", params=WINDOW).json()
    assert {name: value for name, value in found.items() if name != "claimed"} == {
        name: value for name, value in before.items() if name != "claimed"
    }
    columns = ("desktopId", "day", "turns", "input", "output", "cached")
    assert [tuple(claim[name] for name in columns) for claim in found["claimed"]] == [
        ("lab.first", "2026-01-31", 2, 2 * 10**9, 15, 3),
        ("lab.other", "2026-01-31", 1, 5, 5, 5),
        ("lab.first", "2026-02-01", 1, 1, 2, 3),
    ]
    for by, turns in (("desktop", [3, 1]), ("workspace", [4]), ("day", [3, 1])):
        sums = owner.get("/api/usage", params={**WINDOW, "by": by}).json()["claimed"]
        assert [claim["turns"] for claim in sums] == turns
        assert sum(claim["output"] for claim in sums) == 22
    of_other = owner.get("/api/usage", params={**WINDOW, "desktop": "lab.other"}).json()["claimed"]
    assert [claim["desktopId"] for claim in of_other] == ["lab.other"]


def test_usage_of_other_workspaces_is_not_shown(mission: Lab) -> None:
    claimed(mission, "mine.first", DAY, 1, 1, 1)
    claimed(mission, "theirs.first", DAY, 1, 1, 1)
    ran(mission, "mine.first", DAY, DAY + timedelta(hours=1))
    ran(mission, "theirs.first", DAY, DAY + timedelta(hours=1))
    with mission.client(mission.key("read", workspaces=["mine"])) as client:
        found = client.get("/api/usage", params=WINDOW).json()
        assert [item["desktopId"] for item in found["items"]] == ["mine.first"]
        assert [claim["desktopId"] for claim in found["claimed"]] == ["mine.first"]
        assert client.put("/api/prices", json={"prices": [{"tier": "free", "microsPerHour": 1}]}).status_code == 403


@pytest.mark.parametrize(
    "days", [("2026-02-02", "2026-01-01"), ("2020-01-01", "2026-01-01"), ("9999-12-31", "9999-12-31")]
)
def test_a_time_that_is_none_is_refused(mission: Lab, owner: httpx.Client, days: tuple[str, str]) -> None:
    answer = owner.get("/api/usage", params={"since": days[0], "until": days[1]})
    assert (answer.status_code, answer.json()["field"]) == (422, "since")
