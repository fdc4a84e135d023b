"""Nothing that a killed program of an operation had started goes on beside what is begun in its place."""

import os
import signal
from collections.abc import Iterator

import httpx
import pytest

from deskyard.control.jobs import claim as claims
from deskyard.control.jobs.slots import MOST
from deskyard.host import offspring
from deskyard.host.background import Background, start_time
from tests.control.lab import Lab
from tests.control.slotted import slotted
from tests.control.test_operations import want

# Of an operation that leaves something: it says that it began once that is there.
BEGINS = """select 1 from operation o join operation_log l on l.operation_id = o.id and l.attempt = o.attempt
    where o.id = %s and o.attempt - o.refusals = %s and line like '%% begins'"""


@pytest.fixture
def mission(mission: Lab) -> Iterator[Lab]:
    yield mission
    Background("left", mission.path).stop()


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


@pytest.mark.parametrize("name", ["leaves", "leaves-deaf"])
def test_what_a_killed_program_started_is_gone_before_the_operation_is_begun_again(
    mission: Lab, owner: httpx.Client, name: str
) -> None:
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


def test_what_a_program_left_that_ended_well_goes_on(mission: Lab, owner: httpx.Client) -> None:
    operation = leaving(mission, owner)
    mission.open("leaves")
    mission.state(operation, "done")
    (holder,) = started(mission, "alone")
    try:
        assert start_time(holder) is not None
    finally:
        os.kill(holder, signal.SIGKILL)


def test_an_operation_says_what_of_its_program_the_kernel_does_not_end_and_waits_for_it(
    mission: Lab, owner: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(offspring, "KILL_SECONDS", 0.5)
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
