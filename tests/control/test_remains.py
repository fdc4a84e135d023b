"""Nothing that a killed program of an operation had started goes on beside what is begun in its place."""

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import httpx
import psycopg
import pytest

from deskyard.control.jobs import remains
from deskyard.control.jobs.remains import Remains
from deskyard.control.jobs.slots import MOST
from deskyard.control.queue import claim as claims
from deskyard.control.queue.claim import Claim
from deskyard.control.store.cluster import WEB
from deskyard.control.store.connection import Link
from deskyard.engine import command as engine
from deskyard.host import offspring
from deskyard.host.background import Background, start_time
from deskyard.host.deadline import Deadline
from tests.control.lab import LEASE_SECONDS, WAIT_SECONDS, Lab
from tests.control.slotted import slotted
from tests.control.test_operations import want

pytestmark = pytest.mark.sampled

# Of an operation that leaves something: it says that it began once that is there.
BEGINS = """select 1 from operation o join operation_log l on l.operation_id = o.id and l.attempt = o.attempt
    where o.id = %s and o.attempt - o.refusals = %s and line like '%% begins'"""


@pytest.fixture
def mission(mission: Lab) -> Iterator[Lab]:
    yield mission
    Background("left", mission.path).stop()
    for pid in started(mission, "alone", "beside"):
        # Those of an attempt that went well, which nobody looks for.
        if os.fsencode(mission.path) in cmdline(pid):
            os.kill(pid, signal.SIGKILL)


def cmdline(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def leaving(mission: Lab, owner: httpx.Client, name: str = "leaves") -> str:
    """An operation whose program has started another in a session of its own, and left one that is to go on."""
    mission.declare("lab", name, "after")
    mission.gate(name)
    operation = want(owner, f"lab.{name}")
    mission.until(BEGINS, [operation, 1])
    return operation


def started(mission: Lab, *events: str) -> list[int]:
    """The processes that the double started so, in order."""
    return [line["pid"] for line in mission.all_effects() if line["event"] in events]


def require_none_beside(mission: Lab, attempts: int) -> None:
    """Each attempt had the file alone, and what is to go on is the same that the first one left."""
    assert len(started(mission, "alone")) == attempts and started(mission, "beside") == []
    left = started(mission, "left")
    assert set(left) == {left[0]} and start_time(left[0]) is not None


def said(owner: httpx.Client, operation: str) -> list[str]:
    return [line["line"] for line in owner.get(f"/api/operations/{operation}/log").json()["items"]]


def test_what_a_killed_program_started_is_gone_before_the_operation_is_begun_again(
    mission: Lab, owner: httpx.Client
) -> None:
    begun_again(mission, owner, "leaves")


def test_what_hears_no_sigterm_is_gone_too_before_the_operation_is_begun_again(
    mission: Lab, owner: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remains, "ORDERLY_SECONDS", 0.5)
    with slotted(mission, MOST):
        begun_again(mission, owner, "leaves-deaf")
    mission.worker()


def begun_again(mission: Lab, owner: httpx.Client, name: str) -> None:
    operation = leaving(mission, owner, name)
    (holder,) = started(mission, "alone")
    os.kill(mission.pids(f"lab.{name}")[-1], signal.SIGKILL)
    mission.until(BEGINS, [operation, 2])
    assert start_time(holder) is None
    require_none_beside(mission, 2)
    lines = said(owner, operation)
    assert lines[0] == lines[-1] == f"{name} begins"
    assert f"(process {holder})" in lines[1] and lines[2] == claims.KILLED
    mission.open(name)
    mission.state(operation, "done")


def test_what_the_program_of_a_killed_worker_started_is_gone_before_the_next_begins_it(
    mission: Lab, owner: httpx.Client
) -> None:
    operation = leaving(mission, owner)
    (holder,) = started(mission, "alone")
    mission.end("worker", signal.SIGKILL)
    assert start_time(holder) is not None
    mission.worker()
    mission.until(BEGINS, [operation, 2])
    assert start_time(holder) is None
    require_none_beside(mission, 2)
    # Whoever only cleared it away did not begin it.
    assert owner.get(f"/api/operations/{operation}").json()["attempt"] == 2
    mission.open("leaves")
    mission.state(operation, "done")


def test_a_program_that_ends_in_order_as_its_worker_is_killed_ends_its_step_before_the_next_begins(
    mission: Lab, owner: httpx.Client
) -> None:
    mission.declare("lab", "orderly")
    for name in ("orderly", "orderly-step"):
        mission.gate(name)
    operation = want(owner, "lab.orderly")
    mission.until(BEGINS, [operation, 1])
    program = mission.pids("lab.orderly")[0]
    mission.end("worker", signal.SIGKILL)
    assert Deadline(WAIT_SECONDS).wait_for(lambda: mission.effects("lab.orderly") == ["begin", "stops"], 0.05)
    mission.worker()
    query = "select 1 from operation_log where operation_id = %s and line like %s"
    mission.until(query, [operation, f"ends what its program left%(process {program})%"])
    # It is held longer when it was told to end again.
    held = mission.state(operation, "running")["lease_until"]
    mission.until("select 1 from operation where id = %s and lease_until > %s", [operation, held])
    assert start_time(program) is not None
    mission.open("orderly-step")
    mission.until(BEGINS, [operation, 2])
    assert mission.effects("lab.orderly") == ["begin", "stops", "stopped", "begin"]
    mission.open("orderly")
    mission.state(operation, "done")


def test_what_ends_in_order_has_longer_than_the_engine_takes_for_that(monkeypatch: pytest.MonkeyPatch) -> None:
    process = offspring.Process(1, 1, 0, "engine")
    given: list[float] = []

    def end(_mark: str, seconds: float, _tick: Callable[[], object]) -> list[offspring.Process]:
        given.append(seconds)
        return []

    monkeypatch.setattr(offspring, "running", lambda _: {"mark": [process]})
    monkeypatch.setattr(offspring, "end", end)

    @contextmanager
    def away() -> Iterator[Link]:
        raise psycopg.OperationalError
        yield

    held = Claim("op", 1, "workspace.up", "lab", None, {}, None, "key:one", "engine", datetime.now(UTC))
    Remains(away, held, "mark", LEASE_SECONDS).end()
    assert given == [remains.ORDERLY_SECONDS] and given[0] > engine.ORDERLY_SECONDS
    Remains(away, held, "mark", LEASE_SECONDS).end(by_force=True)
    assert given[1:] == [0]


def test_whoever_reads_the_mark_of_a_program_can_hold_its_operation_by_nothing_that_it_starts(
    mission: Lab, owner: httpx.Client
) -> None:
    operation = leaving(mission, owner)
    with psycopg.connect(mission.url_as(WEB)) as link:
        row = link.execute("select program from operation where id = %s", [operation]).fetchone()
    assert row is not None and row[0]
    with subprocess.Popen(["sleep", "infinity"], env={**os.environ, offspring.SECRET: row[0]}) as stranger:
        try:
            os.kill(mission.pids("lab.leaves")[-1], signal.SIGKILL)
            mission.until(BEGINS, [operation, 2])
            assert start_time(stranger.pid) is not None
            assert not any(f"(process {stranger.pid})" in line for line in said(owner, operation))
        finally:
            stranger.kill()
    mission.open("leaves")
    mission.state(operation, "done")


def test_what_a_cancelled_program_started_is_gone_before_the_next_of_its_workspace_begins(
    mission: Lab, owner: httpx.Client
) -> None:
    operation = leaving(mission, owner)
    (holder,) = started(mission, "alone")
    after = want(owner, "lab.after")
    owner.post(f"/api/operations/{operation}/cancel")
    mission.state(after, "done")
    assert start_time(holder) is None and start_time(started(mission, "left")[0]) is not None
    assert owner.get(f"/api/operations/{operation}").json()["state"] == "cancelled"


def stuck(mission: Lab, owner: httpx.Client) -> tuple[str, int]:
    """An operation that was asked to stop and goes on with what it is at, and what that started."""
    operation = leaving(mission, owner, "leaves-deaf-patient")
    owner.post(f"/api/operations/{operation}/cancel").raise_for_status()
    assert Deadline(WAIT_SECONDS).wait_for(lambda: "stops" in mission.effects("lab.leaves-deaf-patient"), 0.05)
    return operation, started(mission, "alone")[0]


@pytest.mark.parametrize("name", ["tells", "tells-patient"], ids=["is ended", "ends by itself"])
def test_what_was_done_before_it_heard_that_it_is_to_stop_is_written_down(
    mission: Lab, owner: httpx.Client, name: str
) -> None:
    mission.declare("lab", name)
    mission.gate(name)
    operation = want(owner, f"lab.{name}", "freeze")
    assert Deadline(WAIT_SECONDS).wait_for(lambda: "told" in mission.effects(f"lab.{name}"), 0.05)
    owner.post(f"/api/operations/{operation}/cancel").raise_for_status()
    if name == "tells-patient":
        assert Deadline(WAIT_SECONDS).wait_for(lambda: "stops" in mission.effects(f"lab.{name}"), 0.05)
        mission.open(name)
    mission.state(operation, "done")
    found = owner.get(f"/api/operations/{operation}").json()
    assert found["result"] is not None and found["problem"] is None
    assert owner.get(f"/api/desktops/lab.{name}").json()["frozenAt"] is not None


def be_later(mission: Lab, operation: str, seconds: int) -> None:
    """As if it had been asked to stop so much earlier."""
    query = "update operation set cancel_requested_at = cancel_requested_at - make_interval(secs => %s) where id = %s"
    mission.link.execute(query, [seconds, operation])


def force(owner: httpx.Client, operation: str) -> httpx.Response:
    return owner.post(f"/api/operations/{operation}/cancel", json={"force": True})


def require_forced(mission: Lab, owner: httpx.Client, operation: str, holder: int) -> None:
    """It is over with all that it had started, says what puts things right, and what waited for it is done."""
    mission.state(operation, "cancelled")
    found = owner.get(f"/api/operations/{operation}").json()
    assert "half done" in found["problem"]["reason"] and "./inv workspace.up lab" in found["problem"]["remedy"]
    assert found["forceFrom"] is None
    assert all(start_time(pid) is None for pid in (holder, *mission.pids("lab.leaves-deaf-patient")))
    assert start_time(started(mission, "left")[0]) is not None
    after = want(owner, "lab.after")
    mission.state(after, "done")
    assert mission.effects("lab.leaves-deaf-patient").count("begin") == 1


def test_what_was_asked_to_stop_and_does_not_is_ended_by_force_once_it_had_its_time(
    mission: Lab, owner: httpx.Client
) -> None:
    operation, holder = stuck(mission, owner)
    early = force(owner, operation)
    assert early.status_code == 409, early.text
    seconds = int(early.headers["retry-after"])
    assert 0 < seconds <= 15 and f"{seconds} s left" in early.json()["reason"]
    found = owner.get(f"/api/operations/{operation}").json()
    assert found["state"] == "running" and found["forceFrom"] > found["cancelRequestedAt"]
    be_later(mission, operation, 15)
    assert force(owner, operation).status_code == 202
    # Asked again, it is the same.
    assert force(owner, operation).status_code == 202
    require_forced(mission, owner, operation, holder)
    # It heard that it was to stop, once.
    assert mission.effects("lab.leaves-deaf-patient").count("stops") == 1
    assert force(owner, operation).json()["state"] == "cancelled"
    query = "select actor from audit_entry where action = 'operation.force' and target = %s"
    assert mission.until(query, [operation])["actor"].startswith("key:")


def test_what_nobody_ends_by_force_is_killed_when_its_longest_time_is_over(mission: Lab, owner: httpx.Client) -> None:
    operation, holder = stuck(mission, owner)
    be_later(mission, operation, claims.STOP_SECONDS)
    require_forced(mission, owner, operation, holder)


def test_what_was_not_asked_to_stop_is_not_ended_by_force(mission: Lab, owner: httpx.Client) -> None:
    operation = leaving(mission, owner)
    after = want(owner, "lab.after")
    refused = force(owner, operation)
    assert refused.status_code == 409 and "without force first" in refused.json()["remedy"]
    # What has not begun is cancelled at once, and needs no force.
    assert force(owner, after).status_code == 202
    mission.state(after, "cancelled")
    assert owner.get(f"/api/operations/{after}").json()["problem"] is None
    mission.open("leaves")
    mission.state(operation, "done")


def test_what_is_forced_while_no_worker_runs_is_ended_by_the_next(mission: Lab, owner: httpx.Client) -> None:
    operation, holder = stuck(mission, owner)
    mission.end("worker", signal.SIGKILL)
    be_later(mission, operation, 15)
    assert force(owner, operation).status_code == 202
    mission.worker()
    require_forced(mission, owner, operation, holder)


def test_who_may_not_cancel_an_operation_ends_it_by_no_force(mission: Lab, owner: httpx.Client) -> None:
    operation, holder = stuck(mission, owner)
    be_later(mission, operation, 15)
    with mission.client(mission.key("read", "chat")) as reader:
        assert force(reader, operation).status_code == 403
    with mission.client(mission.key("read", "desktops:write", workspaces=["other"])) as stranger:
        assert force(stranger, operation).status_code == 404
    assert force(owner, operation).status_code == 202
    require_forced(mission, owner, operation, holder)


def test_what_a_program_left_that_ended_well_goes_on(mission: Lab, owner: httpx.Client) -> None:
    operation = leaving(mission, owner)
    mission.open("leaves")
    mission.state(operation, "done")
    (holder,) = started(mission, "alone")
    assert start_time(holder) is not None


def test_an_operation_says_what_of_its_program_the_kernel_does_not_end_and_waits_for_it(
    mission: Lab, owner: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(offspring, "KILL_SECONDS", 0.5)
    monkeypatch.setattr(remains, "ORDERLY_SECONDS", 0.5)
    with slotted(mission, MOST):
        operation = leaving(mission, owner, "leaves-deaf")
        (holder,) = started(mission, "alone")
        with monkeypatch.context() as stuck:
            # As one that waits for a disk which does not answer.
            stuck.setattr(signal, "pidfd_send_signal", lambda *_: None)
            os.kill(mission.pids("lab.leaves-deaf")[-1], signal.SIGKILL)
            mission.until("select 1 from operation where id = %s and remains is not null", [operation])
            found = owner.get(f"/api/operations/{operation}").json()
            assert found["state"] == "running"
            assert f"(process {holder})" in found["why"] and "does not end" in found["why"]
            owner.post(f"/api/operations/{operation}/cancel")
            # Not even then: what comes next of its workspace would begin beside it.
            mission.until("select 1 from operation where id = %s and cancel_requested_at is not null", [operation])
            assert start_time(holder) is not None and len(started(mission, "alone")) == 1
        mission.state(operation, "cancelled")
        assert start_time(holder) is None and len(started(mission, "alone")) == 1
    mission.worker()
