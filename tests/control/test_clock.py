"""A clock that is set, ahead or back: it is said, nothing is done twice, and nobody waits for as long as it was wrong.

The database's own clock stays: what it jumped by is taken from this process's clock, or added to a moment in a table.
"""

import signal
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial

import httpx
import pytest

from deskyard.control.jobs.observer import go_on
from deskyard.control.jobs.running import Runner
from deskyard.control.jobs.slots import SHARES
from deskyard.control.jobs.standby import Standby
from deskyard.control.jobs.worker import Worker
from deskyard.control.people.passkeys import Passkeys
from deskyard.control.store.clock import TOLERATED_SECONDS, Clock
from deskyard.control.store.cluster import WORKER
from deskyard.control.store.connection import Link
from deskyard.control.watch import alerts, budgets, looks, webhooks
from deskyard.control.watch.rules import RULES, Eye
from deskyard.control.watch.webhooks import Reach
from tests.control.lab import LEASE_SECONDS, ORIGIN, Lab
from tests.control.test_alert_rules import operation
from tests.control.test_operations import begun, want
from tests.control.watching import deliver_next, opened

DAY = 86_400.0


class Away:
    """How far the database's clock went away from this process's; the next answer may take long."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.answer_takes = 0.0

    def monotonic(self) -> float:
        now = time.monotonic() - self.seconds
        self.seconds -= self.answer_takes
        self.answer_takes = 0.0
        return now


@pytest.fixture
def away() -> Away:
    return Away()


@pytest.mark.parametrize("seconds", [DAY, -DAY, 60.0])
def test_a_jump_is_noticed_once_with_its_direction(worker: Link, away: Away, seconds: float) -> None:
    clock = Clock(away.monotonic)
    assert [clock.jump(worker), clock.jump(worker)] == [0.0, 0.0]
    away.seconds += seconds
    # At least so many: what the answers took is left out.
    assert abs(seconds) - 30 < abs(jump := clock.jump(worker)) <= abs(seconds) and jump * seconds > 0
    assert clock.jump(worker) == 0.0


def test_neither_a_slow_answer_nor_a_clock_that_is_disciplined_is_a_jump(worker: Link, away: Away) -> None:
    clock = Clock(away.monotonic)
    clock.jump(worker)
    away.seconds += TOLERATED_SECONDS / 2
    assert clock.jump(worker) == 0.0
    away.answer_takes = DAY
    assert [clock.jump(worker), clock.jump(worker)] == [0.0, 0.0]
    away.seconds += DAY
    assert clock.jump(worker) > DAY - 30


def test_alert_says_how_far_and_which_way_and_ends_by_itself(
    mission: Lab, owner: httpx.Client, worker: Link, away: Away, monkeypatch: pytest.MonkeyPatch
) -> None:
    eye = Eye(None, lambda _: datetime.now(UTC), Clock(away.monotonic))

    def found() -> list[tuple[str, int, str]]:
        alerts.settle(worker, eye.look(worker, partial(budgets.spent_this_month, worker)))
        jumped = [alert for alert in opened(owner).values() if alert["rule"] == "clock.jumped"]
        ways = [alert["text"].partition(":")[0].split()[-1] for alert in jumped]
        return [(way, round(alert["number"] / 3600), alert["unit"]) for way, alert in zip(ways, jumped, strict=True)]

    assert found() == []
    away.seconds += DAY
    assert found() == found() == [("ahead", 24, "seconds")]
    away.seconds -= DAY
    assert found() == [("back", 24, "seconds")]
    # Below the rule's number nobody is told.
    away.seconds += 3
    monkeypatch.setattr("deskyard.control.watch.rules.JUMPED_SECONDS", 0.0)
    assert found() == []
    away.seconds += DAY
    assert found() == [] and RULES["clock.jumped"].next_step


@pytest.fixture
def idle(mission: Lab, away: Away) -> Iterator[Worker]:
    """A worker that begins nothing, in place of the one that runs."""
    mission.end("worker")
    runner = Runner(Passkeys(ORIGIN), Standby(["true"]), LEASE_SECONDS)
    yield Worker(mission.url(WORKER), runner, dict.fromkeys(SHARES, 0), Clock(away.monotonic))


def ended_lease(mission: Lab) -> str:
    """An operation that somebody runs, and whose lease is over by the clock."""
    id = operation(mission, "desktop.restart", "running", desktop="lab.first")
    query = "update operation set attempt = 1, lease_until = now() - interval '1 second' where id = %s"
    mission.link.execute(query, [id])
    return id


def lease(mission: Lab, id: str) -> tuple[str, float]:
    query = "select state, extract(epoch from lease_until - now())::float8 as left from operation where id = %s"
    (row,) = mission.link.execute(query, [id]).fetchall()
    return row["state"], row["left"]


def test_lease_that_ended_by_the_clock_alone_is_given_to_nobody_else(
    mission: Lab, worker: Link, idle: Worker, away: Away
) -> None:
    mission.declare("lab", "first")
    idle.look(worker)
    id = ended_lease(mission)
    away.seconds += DAY
    idle.look(worker)
    state, left = lease(mission, id)
    assert state == "running" and LEASE_SECONDS / 2 < left <= LEASE_SECONDS
    # Without a jump its worker is gone.
    mission.link.execute("update operation set lease_until = now() - interval '1 second' where id = %s", [id])
    idle.look(worker)
    assert lease(mission, id)[0] == "queued"


def test_lease_of_a_worker_that_is_gone_ends_in_time_though_the_clock_was_set_back(
    mission: Lab, owner: httpx.Client
) -> None:
    mission.declare("lab", "blocks")
    mission.gate("blocks")
    operation = want(owner, "lab.blocks")
    begun(mission, operation)
    mission.end("worker", signal.SIGKILL)
    mission.link.execute("update operation set lease_until = lease_until + interval '1 day' where id = %s", [operation])
    mission.worker()
    begun(mission, operation, attempt=2)
    mission.open("blocks")
    mission.state(operation, "done")
    assert mission.effects("lab.blocks") == ["begin", "begin", "end"]


def test_operation_that_runs_is_done_once_though_the_clock_was_set_back(mission: Lab, owner: httpx.Client) -> None:
    mission.declare("lab", "blocks")
    mission.gate("blocks")
    operation = want(owner, "lab.blocks")
    begun(mission, operation)
    mission.link.execute("update operation set lease_until = lease_until + interval '1 day' where id = %s", [operation])
    # Its worker holds it anew, by the clock that it is now.
    mission.until("select 1 from operation where id = %s and lease_until < now() + interval '1 hour'", [operation])
    mission.open("blocks")
    mission.state(operation, "done")
    assert mission.effects("lab.blocks") == ["begin", "end"]


def test_worker_that_was_seen_tomorrow_is_not_there(mission: Lab, owner: httpx.Client) -> None:
    mission.end("worker")
    mission.link.execute("update worker set seen_at = now() + interval '1 day'")
    assert owner.get("/readyz").status_code == 503
    mission.worker()
    mission.until("select 1 from worker where recent(seen_at, '10 seconds')", [])
    assert owner.get("/readyz").status_code == 200


def test_workspace_that_was_looked_at_tomorrow_is_looked_at_now(mission: Lab, worker: Link) -> None:
    mission.end("worker")
    mission.declare("lab", "first")
    operation(mission, looks.KIND, "done", -DAY)
    assert looks.ask_for_due(worker) == ["lab"]
    assert looks.ask_for_due(worker) == []


def test_delivery_that_is_due_tomorrow_is_tried_now_and_by_nobody_while_it_is_tried(
    mission: Lab, owner: httpx.Client, worker: Link
) -> None:
    hook = owner.post("/api/webhooks", json={"url": "https://127.0.0.1:1/"}).json()["id"]
    owner.post(f"/api/webhooks/{hook}/test")
    assert deliver_next(worker, Reach())
    assert not deliver_next(worker, Reach()), "it is tried again after a pause"
    mission.link.execute("update delivery set next_at = next_at + interval '1 hour'")
    assert deliver_next(worker, Reach())
    longest = webhooks.LONGEST_TRY - 1
    mission.link.execute("update delivery set next_at = now() + make_interval(secs => %s)", [longest])
    assert not deliver_next(worker, Reach()), "somebody tries it"


def test_machine_time_does_not_count_what_the_clock_jumped(mission: Lab, worker: Link) -> None:
    mission.declare("lab", "runs", "stands", state="ready")
    mission.link.execute("update desktop set state = 'stopped' where name = 'stands'")
    mission.link.execute("delete from usage_interval")

    def followed(ago: float) -> datetime:
        at = datetime.now(UTC) - timedelta(seconds=ago)
        mission.link.execute("update workspace set followed_at = %s", [at])
        return at

    def intervals() -> list[tuple[datetime, datetime | None]]:
        query = "select began_at, ended_at from usage_interval order by id"
        return [(row["began_at"], row["ended_at"]) for row in mission.link.execute(query).fetchall()]

    began = datetime.now(UTC) - timedelta(days=2)
    query = """insert into usage_interval (desktop_id, workspace_id, tier, began_at)
        values ('lab.runs', 'lab', 'free', %s)"""
    mission.link.execute(query, [began])
    followed(20)
    go_on(worker, ["lab"])
    assert intervals() == [(began, None)]
    last = followed(DAY)
    go_on(worker, ["lab"])
    (first, (anew, ended)) = intervals()
    assert first == (began, last) and anew > last + timedelta(hours=23) and ended is None
    # Set back: nobody ran until tomorrow.
    followed(-DAY)
    go_on(worker, ["lab"])
    assert intervals() == [first, (anew, None)]
    mission.until("select 1 from workspace where id = 'lab' and recent(followed_at, '10 seconds')", [])


def test_answer_of_tomorrow_is_not_counted_with_one_of_now(mission: Lab) -> None:
    query = """select recent(now() - interval '59 minutes', '1 hour') as young, recent(now() + %s, '1 hour') as ahead,
        recent(now() - interval '61 minutes', '1 hour') as old, recent(null, '1 hour') as never"""
    (row,) = mission.link.execute(query, [timedelta(days=1)]).fetchall()
    assert row == {"young": True, "ahead": False, "old": False, "never": False}
