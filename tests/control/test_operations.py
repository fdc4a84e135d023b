"""The queue: one at a time, in order, never lost, never twice."""

import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor

import httpx
import psycopg
import pytest
from psycopg.rows import dict_row

from deskyard.control.jobs.running import Runner
from deskyard.control.jobs.standby import Standby
from deskyard.control.jobs.worker import Worker
from deskyard.control.people.passkeys import Passkeys
from deskyard.control.queue import claim as claims
from deskyard.control.store.cluster import WORKER
from deskyard.control.store.connection import connect
from deskyard.control.web.application import CONNECTIONS
from deskyard.host.background import start_time
from tests.control import kills
from tests.control.lab import EVERYTHING, ORIGIN, Lab

SAMPLE = 8


def want(owner: httpx.Client, desktop: str, verb: str = "restart") -> str:
    answer = owner.post(f"/api/desktops/{desktop}/{verb}")
    assert answer.status_code == 202, answer.text
    return str(answer.json()["id"])


def begun(mission: Lab, operation: str, attempt: int = 1) -> None:
    """Until the child of an attempt has said that it began."""
    query = "select 1 from operation_log where operation_id = %s and attempt = %s"
    mission.until(query, [operation, attempt])


def test_of_a_workspace_runs_one_at_a_time_and_the_next_says_why_it_waits(mission: Lab, owner: httpx.Client) -> None:
    mission.declare("lab", "blocks", "after")
    mission.declare("other", "free")
    mission.gate("blocks")
    first = want(owner, "lab.blocks")
    begun(mission, first)
    second, third = want(owner, "lab.after"), want(owner, "other.free")
    mission.state(third, "done")
    waiting = owner.get(f"/api/operations/{second}").json()
    assert (waiting["state"], waiting["position"]) == ("queued", 1)
    assert first in waiting["why"] and "lab" in waiting["why"]
    mission.open("blocks")
    mission.state(second, "done")
    assert mission.effects("lab.blocks") == mission.effects("lab.after") == ["begin", "end"]


def test_what_an_operation_says_is_kept_line_by_line(mission: Lab, owner: httpx.Client) -> None:
    mission.declare("lab", "first")
    operation = want(owner, "lab.first")
    mission.state(operation, "done")
    log = owner.get(f"/api/operations/{operation}/log").json()["items"]
    assert [(line["number"], line["line"]) for line in log] == [(1, "first begins")]
    assert owner.get(f"/api/operations/{operation}/log?after=1").json()["items"] == []


def test_operations_are_listed_part_by_part_the_newest_first(mission: Lab, owner: httpx.Client) -> None:
    mission.declare("lab", "first")
    operations = [want(owner, "lab.first") for _ in range(3)]
    first = owner.get("/api/operations?limit=2&desktop=lab.first").json()
    second = owner.get("/api/operations", params={"limit": 2, "after": first["nextCursor"]}).json()
    listed = [operation["id"] for operation in (*first["items"], *second["items"])]
    assert (listed, second["nextCursor"]) == (operations[::-1], None)
    mission.state(operations[-1], "done")


def test_a_failure_tells_what_was_wrong_and_can_be_tried_again(mission: Lab, owner: httpx.Client) -> None:
    mission.declare("lab", "fails")
    operation = want(owner, "lab.fails")
    mission.state(operation, "failed")
    problem = owner.get(f"/api/operations/{operation}").json()["problem"]
    assert problem == {"field": "machine", "value": "fails", "reason": "did not start", "remedy": "look at it"}
    again = owner.post(f"/api/operations/{operation}/retry").json()
    assert again["id"] != operation
    mission.state(again["id"], "failed")
    assert owner.post(f"/api/operations/{again['id']}/retry").status_code == 202


def test_a_child_that_crashes_is_a_failure_not_a_success(mission: Lab, owner: httpx.Client) -> None:
    mission.declare("lab", "crashes")
    operation = want(owner, "lab.crashes")
    mission.state(operation, "failed")
    assert "-11" in owner.get(f"/api/operations/{operation}").json()["problem"]["reason"]


def kill_program(mission: Lab, operation: str, attempt: int) -> None:
    """Kill the program of an operation that was begun so many times, as the kernel does where memory lacks."""
    begun(mission, operation, attempt=attempt)
    os.kill(mission.pids("lab.blocks")[-1], signal.SIGKILL)


def killed_once(mission: Lab, owner: httpx.Client) -> str:
    """An operation whose program was killed, and that is begun again."""
    mission.declare("lab", "blocks")
    mission.gate("blocks")
    operation = want(owner, "lab.blocks")
    kill_program(mission, operation, 1)
    mission.until("select 1 from operation where id = %s and attempt = 2", [operation])
    return operation


def test_an_operation_whose_program_is_killed_is_done_again_once(mission: Lab, owner: httpx.Client) -> None:
    operation = killed_once(mission, owner)
    begun(mission, operation, attempt=2)
    mission.open("blocks")
    mission.state(operation, "done")
    assert mission.effects("lab.blocks") == ["begin", "begin", "end"]
    lines = [line["line"] for line in owner.get(f"/api/operations/{operation}/log").json()["items"]]
    assert lines == ["blocks begins", claims.KILLED, "blocks begins"]


def test_what_waits_behind_an_operation_whose_program_is_killed_does_not_overtake_it(
    mission: Lab, owner: httpx.Client
) -> None:
    mission.declare("lab", "blocks", "after")
    mission.gate("blocks")
    first = want(owner, "lab.blocks")
    begun(mission, first)
    second = want(owner, "lab.after")
    kill_program(mission, first, 1)
    mission.until("select 1 from operation where id = %s and attempt = 2", [first])
    begun(mission, first, attempt=2)
    assert mission.effects("lab.after") == []
    mission.open("blocks")
    for operation in (first, second):
        mission.state(operation, "done")
    assert mission.effects("lab.after") == ["begin", "end"]


def test_an_operation_whose_program_is_killed_again_fails_and_says_what_to_do(
    mission: Lab, owner: httpx.Client
) -> None:
    operation = killed_once(mission, owner)
    kill_program(mission, operation, 2)
    mission.state(operation, "failed")
    problem = owner.get(f"/api/operations/{operation}").json()["problem"]
    assert claims.KILLED in problem["reason"] and problem["remedy"].endswith("then retry it")
    assert mission.effects("lab.blocks") == ["begin", "begin"]


def test_an_operation_whose_program_is_killed_as_it_is_cancelled_does_not_begin_again(
    mission: Lab, owner: httpx.Client
) -> None:
    mission.declare("lab", "blocks")
    mission.gate("blocks")
    operation = want(owner, "lab.blocks")
    begun(mission, operation)
    mission.link.execute("update operation set cancel_requested_at = now() where id = %s", [operation])
    os.kill(mission.pids("lab.blocks")[-1], signal.SIGKILL)
    mission.state(operation, "cancelled")
    assert mission.effects("lab.blocks") == ["begin"]


def test_an_operation_that_waits_is_cancelled_and_never_begins(mission: Lab, owner: httpx.Client) -> None:
    mission.declare("lab", "blocks", "after")
    mission.gate("blocks")
    first = want(owner, "lab.blocks")
    begun(mission, first)
    second = want(owner, "lab.after")
    owner.post(f"/api/operations/{second}/cancel")
    mission.state(second, "cancelled")
    mission.open("blocks")
    mission.state(first, "done")
    assert mission.effects("lab.after") == []


def test_an_operation_that_runs_is_cancelled_with_its_program(mission: Lab, owner: httpx.Client) -> None:
    mission.declare("lab", "blocks")
    mission.gate("blocks")
    operation = want(owner, "lab.blocks")
    begun(mission, operation)
    owner.post(f"/api/operations/{operation}/cancel")
    mission.state(operation, "cancelled")
    assert mission.effects("lab.blocks") == ["begin"]
    assert all(start_time(pid) is None for pid in mission.pids("lab.blocks"))


def test_the_operation_of_a_killed_worker_is_done_by_the_next(mission: Lab, owner: httpx.Client) -> None:
    mission.declare("lab", "blocks")
    mission.gate("blocks")
    operation = want(owner, "lab.blocks")
    begun(mission, operation)
    mission.end("worker", signal.SIGKILL)
    mission.worker()
    mission.until("select 1 from operation where id = %s and attempt = 2", [operation])
    begun(mission, operation, attempt=2)
    mission.open("blocks")
    mission.state(operation, "done")
    # The first one's child ended with its worker, before it had done anything.
    assert mission.effects("lab.blocks") == ["begin", "begin", "end"]


def test_a_worker_that_stood_still_does_not_write_over_its_successor(mission: Lab, owner: httpx.Client) -> None:
    mission.declare("lab", "blocks")
    mission.gate("blocks")
    operation = want(owner, "lab.blocks")
    begun(mission, operation)
    mission.processes["worker"].send_signal(signal.SIGSTOP)
    mission.worker("second")
    try:
        # Its successor ends what the first one's child is at, and then begins it.
        query = "select 1 from operation where id = %s and attempt - refusals = 2"
        mission.until(query, [operation])
        mission.processes["worker"].send_signal(signal.SIGCONT)
        mission.until("select 1 from operation_log where operation_id = %s having count(*) > 2", [operation])
        row = mission.link.execute("select worker from operation where id = %s", [operation]).fetchone()
        assert row is not None and f"-{mission.processes['second'].pid}-" in row["worker"]
        mission.open("blocks")
        mission.state(operation, "done")
    finally:
        mission.end("second")


def test_an_operation_that_takes_every_worker_with_it_ends_as_failed(mission: Lab, owner: httpx.Client) -> None:
    mission.declare("lab", "blocks")
    mission.end("worker")
    operation = want(owner, "lab.blocks")
    mission.link.execute(
        "update operation set state = 'running', attempt = %s, lease_until = now() where id = %s",
        [claims.MOST_ATTEMPTS, operation],
    )
    mission.worker()
    mission.state(operation, "failed")
    assert "worker ended" in owner.get(f"/api/operations/{operation}").json()["problem"]["reason"]


def test_without_a_worker_an_operation_says_that_none_runs(mission: Lab, owner: httpx.Client) -> None:
    mission.declare("lab", "first")
    mission.end("worker")
    mission.link.execute("delete from worker")
    operation = want(owner, "lab.first")
    assert "no worker" in owner.get(f"/api/operations/{operation}").json()["why"]
    assert owner.get("/readyz").status_code == 503
    mission.worker()
    mission.state(operation, "done")


def test_what_has_no_thread_waits_in_the_queue_and_counts_for_no_attempt(
    mission: Lab, owner: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    mission.declare("lab", "first")
    mission.end("worker")
    operation = want(owner, "lab.first")
    worker = Worker(mission.url(WORKER), Runner(Passkeys(ORIGIN), Standby(["true"])))

    class Refused(threading.Thread):
        def start(self) -> None:
            raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched, connect(mission.url(WORKER)) as link:
        patched.setattr(threading, "Thread", Refused)
        worker.look(link)
    query = "select state, attempt - refusals as attempts, lease_until from operation where id = %s"
    assert mission.until(query, [operation]) == {"state": "queued", "attempts": 0, "lease_until": None}
    mission.link.execute("update operation set not_before = null where id = %s", [operation])
    mission.worker()
    mission.state(operation, "done")


def test_who_waits_for_an_operation_holds_up_nobody_else(without_worker: Lab) -> None:
    mission = without_worker
    mission.declare("lab", "first")
    # More of them than the web process has connections to the database.
    count = CONNECTIONS + 1
    key = mission.key(*EVERYTHING)
    path = "/api/desktops/lab.first/restart"

    def wait() -> str:
        with mission.client(key) as client:
            answer = client.post(path, headers={"Prefer": "wait=60"})
            return str(answer.json().get("state", answer.text))

    with ThreadPoolExecutor(count) as threads, mission.client(key) as client:
        waiting = [threads.submit(wait) for _ in range(count)]
        mission.until("select from operation having count(*) = %s", [count])
        assert client.get("/readyz").json()["database"] == "ok"
        frozen = client.post("/api/desktops/lab.first/freeze")
        assert frozen.status_code == 202, frozen.text
        mission.link.execute("update operation set state = 'cancelled' where kind = 'desktop.restart'")
        assert {each.result() for each in waiting} == {"cancelled"}


def test_many_claimers_give_each_operation_to_one(mission: Lab, owner: httpx.Client) -> None:
    mission.end("worker")
    names = [f"w{number}" for number in range(12)]
    for name in names:
        mission.declare(name, "first")
        for _ in range(2):
            want(owner, f"{name}.first")
    claimed: list[str] = []

    def take() -> None:
        with psycopg.connect(mission.url(WORKER), autocommit=True, row_factory=dict_row) as link:
            misses = 0
            while misses < 3:
                held = claims.claim(link, "test")
                misses = misses + 1 if held is None else 0
                if held is not None:
                    claimed.append(held.id)
                    assert claims.finish(link, held, "done")

    threads = [threading.Thread(target=take) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(claimed) == len(set(claimed)) == 24


@pytest.mark.parametrize("rounds", [SAMPLE, pytest.param(200, marks=pytest.mark.deep)])
def test_whatever_is_killed_at_any_event_nothing_is_lost_or_done_by_two_at_a_time(
    mission: Lab, random_seed: int, rounds: int
) -> None:
    # The sample is always the same; the deep run prints what it started from.
    found = kills.run(mission, 2 if rounds == SAMPLE else random_seed, rounds)
    print(found.summary())
    assert kills.faults(mission, found) == []
