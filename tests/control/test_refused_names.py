"""The rule about a name that a desktop was refused for the first time: out of force until somebody wants it."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest
from psycopg.errors import InsufficientPrivilege

from deskyard.control.store.connection import Link
from deskyard.control.upkeep import moments
from deskyard.control.upkeep import refused as refused_names
from deskyard.control.upkeep.moments import KEPT, of_egress
from deskyard.control.upkeep.refused import MOST_OF_A_DAY
from deskyard.control.watch import traffic
from deskyard.control.watch.traffic import NEW_NAME, NEW_REFUSED
from tests.control.lab import Lab
from tests.control.test_timeline import looked
from tests.control.test_timeline import refused as line
from tests.control.test_traffic_rules import a_day_passes, known_for, on
from tests.control.watching import look, opened, put_in_force

OBJECT = f"{NEW_REFUSED} lab.first"
NOW = datetime.now(UTC).replace(microsecond=0)
# More than this of a hundred thousand rows is a look through all.
MOST_READ = 10_000


@pytest.fixture
def in_force(mission: Lab) -> Iterator[None]:
    mission.link.execute("update alert_rule set enabled = true where kind = %s", [NEW_REFUSED])
    yield
    put_in_force(mission)


def refuse(mission: Lab, *targets: str, desktop: str = "first", ago: timedelta = timedelta(0)) -> None:
    """Keep what a gateway refused, as the worker does at the end of a look."""
    moments.keep(mission.link, "lab", of_egress([line(target, NOW - ago, desktop) for target in targets]))


def names(mission: Lab) -> list[str]:
    found = mission.link.execute("select name from refused_name order by name").fetchall()
    return [row["name"] for row in found]


@pytest.mark.usefixtures("in_force")
def test_name_that_was_never_refused_is_told_and_one_that_was_is_not(
    mission: Lab, owner: httpx.Client, worker: Link
) -> None:
    known_for(mission, 7)
    looked(mission, owner, *of_egress([line("crates.io:443", NOW - timedelta(days=9))]))
    looked(mission, owner, *of_egress([line("crates.io:443", NOW)]))
    look(worker)
    assert opened(owner) == {}, "it was refused before"
    looked(mission, owner, *of_egress([line("paste.example.net:443", NOW), line("Paste.Example.net", NOW)]))
    look(worker)
    (alert,) = opened(owner).values()
    assert (alert["rule"], alert["object"], alert["workspaceId"]) == (NEW_REFUSED, "lab.first", "lab")
    assert (alert["number"], alert["unit"]) == (1, "names") and alert["nextStep"]
    assert alert["text"] == f"since {NOW.date()}: paste.example.net"
    mission.link.execute("update refused_name set day = day - 2")
    look(worker)
    assert opened(owner) == {}, "the day after is over"


@pytest.mark.usefixtures("in_force")
def test_desktop_in_its_first_days_is_quiet_and_another_one_is_told_by_itself(
    mission: Lab, owner: httpx.Client, worker: Link
) -> None:
    known_for(mission, 6)
    refuse(mission, "paste.example.net:443")
    look(worker)
    assert opened(owner) == {}
    on(mission, 8, "api.example.org")
    look(worker)
    assert set(opened(owner)) == {OBJECT}
    mission.declare("lab", "first", "second")
    refuse(mission, "paste.example.net:443", desktop="second")
    look(worker)
    assert set(opened(owner)) == {OBJECT}, "the second is new"


@pytest.mark.usefixtures("in_force")
def test_name_that_somebody_allowed_meanwhile_is_told_as_reached_alone(
    mission: Lab, owner: httpx.Client, worker: Link
) -> None:
    known_for(mission, 7)
    refuse(mission, "paste.example.net:443")
    look(worker)
    assert set(opened(owner)) == {OBJECT}
    on(mission, 0, "paste.example.net")
    look(worker)
    assert set(opened(owner)) == {f"{NEW_NAME} lab.first"}
    a_day_passes(mission)
    a_day_passes(mission)
    refuse(mission, "paste.example.net:443")
    look(worker)
    assert opened(owner) == {}, "it was reached, and closed again"


@pytest.mark.usefixtures("in_force")
def test_name_whose_refusals_are_forgotten_is_not_new_again(mission: Lab, owner: httpx.Client, worker: Link) -> None:
    known_for(mission, 7)
    refuse(mission, "paste.example.net:443", ago=KEPT + timedelta(days=1))
    assert mission.link.execute("select from moment").fetchone() is None
    refuse(mission, "paste.example.net:443")
    look(worker)
    assert opened(owner) == {} and mission.link.execute("select from moment").fetchone() is not None


def test_names_of_desktops_that_are_long_gone_are_forgotten_and_no_others(mission: Lab, worker: Link) -> None:
    known_for(mission, 7)
    mission.declare("lab", "second", "third")
    for desktop in ("first", "second", "third"):
        refuse(mission, f"{desktop}.example.net:443", desktop=desktop, ago=timedelta(days=200))
    mission.link.execute("update desktop set gone_at = now() - interval '89 days' where id = 'lab.second'")
    mission.link.execute("update desktop set gone_at = now() - interval '91 days' where id = 'lab.third'")
    assert refused_names.forget(worker) == 1
    assert names(mission) == ["first.example.net", "second.example.net"], "of those that are there, or were lately"
    assert refused_names.forget(worker) == 0
    with pytest.raises(InsufficientPrivilege):
        worker.execute("delete from refused_name")


def test_rule_is_out_of_force_until_somebody_wants_it(mission: Lab, owner: httpx.Client, worker: Link) -> None:
    known_for(mission, 7)
    refuse(mission, "paste.example.net:443")
    rules = {rule["kind"]: rule for rule in owner.get("/api/alert-rules").json()["items"]}
    assert (rules[NEW_REFUSED]["enabled"], rules[NEW_REFUSED]["number"]) == (False, 1)
    look(worker)
    assert opened(owner) == {}
    wanted = {"kind": NEW_REFUSED, "enabled": True, "number": 1}
    try:
        assert owner.put("/api/alert-rules", json={"rules": [wanted]}).status_code == 200
        look(worker)
        assert set(opened(owner)) == {OBJECT}
    finally:
        put_in_force(mission)


def test_names_alone_are_kept_and_of_a_desktop_and_day_no_more_than_a_bound(mission: Lab) -> None:
    odd = ["10.0.0.1:80/udp", "10.0.0.1 (protocol 47)", "localhost", "9.1.10.in-addr.arpa", f"{'a.' * 130}example.net"]
    refuse(mission, *odd, "\x1b[2J.example.net", "ok.example.net:8443")
    assert names(mission) == ["ok.example.net"]
    made_up = [f"n{number}.example.net:443" for number in range(MOST_OF_A_DAY)]
    refuse(mission, *made_up[: MOST_OF_A_DAY // 2])
    refuse(mission, *made_up)
    refuse(mission, *made_up[:1])
    assert len(names(mission)) == MOST_OF_A_DAY
    refuse(mission, "late.example.net:443")
    assert "late.example.net" not in names(mission), "the day is full"
    refuse(mission, "late.example.net:443", desktop="second")
    refuse(mission, "early.example.net:443", ago=timedelta(days=1))
    assert {"late.example.net", "early.example.net"} <= set(names(mission)), "another desktop's, and another day's"


@pytest.mark.parametrize("rule", [NEW_NAME, NEW_REFUSED])
def test_looking_for_new_names_reads_little_of_a_hundred_thousand_rows(mission: Lab, rule: str) -> None:
    mission.declare("lab", *[f"d{number}" for number in range(100)])
    mission.link.execute("update desktop set there_since = now() - interval '200 days'")
    today = "(now() at time zone 'utc')::date"
    mission.link.execute(
        f"""insert into traffic select 'lab', 'lab.d' || d, {today} - ago, 'n' || n || '.example.org', 1, 10, 100
        from generate_series(0, 99) d, generate_series(0, 99) ago, generate_series(1, 10) n""".encode()
    )
    mission.link.execute(
        f"""insert into refused_name
        select 'lab', 'lab.d' || n % 100, 'r' || n || '.example.org', {today} - n / 1000
        from generate_series(0, 99999) n""".encode()
    )
    mission.link.execute(
        "insert into traffic select 'lab', id, now() at time zone 'utc', 'new.test', 1, 1, 1 from desktop"
    )
    mission.link.execute("analyze traffic")
    mission.link.execute("analyze refused_name")
    (found,) = mission.link.execute(f"explain (analyze, format json) {traffic.NEW[rule]}".encode()).fetchall()
    plan = found["QUERY PLAN"][0]["Plan"]
    assert plan["Actual Rows"] >= 100, "each desktop has names that are new"
    assert read(plan) <= MOST_READ


def read(plan: dict[str, Any]) -> int:
    """How many rows of the two tables a plan reads, those that it leaves out among them."""
    own = 0
    if plan.get("Relation Name") in ("traffic", "refused_name"):
        rows = (
            plan["Actual Rows"] + plan.get("Rows Removed by Filter", 0) + plan.get("Rows Removed by Index Recheck", 0)
        )
        own = int(rows * plan["Actual Loops"])
    return own + sum(read(below) for below in plan.get("Plans", []))
