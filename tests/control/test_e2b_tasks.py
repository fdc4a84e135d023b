"""E2B's unmodified client on desktops for a task: each sandbox is another, and kill() releases it."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from deskyard_e2b.naming import Choice, desktop_id
from e2b import NotFoundException, Sandbox, SandboxException, SandboxNotFoundException

from deskyard.life.pool import filling
from tests.control.lab import Lab
from tests.control.task_bench import SEATED, Bench, begun
from tests.control.test_e2b import MAY, listed, opens_of
from tests.support.e2b_door import Served, served

SECONDS = 3600


@pytest.fixture
def child() -> str:
    return SEATED


@pytest.fixture
def bench(mission: Lab, monkeypatch: pytest.MonkeyPatch) -> Bench:
    return begun(mission, monkeypatch)


@pytest.fixture
def door(bench: Bench, tmp_path: Path) -> Iterator[Served]:
    choice = Choice("lab", task_seconds=SECONDS)
    with served(tmp_path / "e2b.sqlite", opens_of(bench.mission), default=choice) as found:
        yield found


@pytest.fixture
def key(bench: Bench) -> str:
    # Whoever began one may end it: that needs no scope to destroy.
    return bench.mission.key("read", "desktops:write")


def test_a_sandbox_is_one_that_waits_and_is_released_by_kill(bench: Bench, door: Served, key: str) -> None:
    filling.fill("lab")
    bench.see()
    sandbox = door.create(key, timeout=600, metadata={"task": "tides"})
    id = sandbox.sandbox_id
    assert desktop_id(id) == "lab.s1"
    assert len(bench.claimers()) == 1
    info = sandbox.get_info()
    assert info.metadata == {"task": "tides"}
    assert 590 < (info.end_at - datetime.now(UTC)).total_seconds() <= 600
    assert listed(door, key, metadata={"task": "tides"}) == [[id]]
    assert door.connect(key, id).sandbox_id == id
    assert sandbox.kill()
    assert bench.claimers() == []
    assert not sandbox.kill(), "it is gone"
    with pytest.raises(NotFoundException):
        door.connect(key, id)


def test_the_next_at_the_same_seat_is_another_sandbox_and_an_old_object_ends_nothing(
    bench: Bench, door: Served, key: str
) -> None:
    first = door.create(key)
    assert first.kill()
    second = door.create(key)
    assert desktop_id(first.sandbox_id) == desktop_id(second.sandbox_id) == "lab.s1"
    assert first.sandbox_id != second.sandbox_id
    assert not first.kill()
    with pytest.raises(SandboxNotFoundException):
        first.get_info()
    assert len(bench.claimers()) == 1
    # By the name alone, which a desktop that is kept would have, it is none.
    with pytest.raises(NotFoundException):
        door.connect(key, "lab--s1")


def test_pause_and_times_beyond_its_own_are_refused_with_the_reason(bench: Bench, door: Served, key: str) -> None:
    with pytest.raises(SandboxException, match="is longer than a desktop for a task is given for here"):
        door.create(key, timeout=SECONDS + 1)
    assert bench.claimers() == []
    sandbox = door.create(key, timeout=60)
    with pytest.raises(SandboxException, match="is never stopped"):
        sandbox.pause()
    sandbox.set_timeout(SECONDS - 600)
    with pytest.raises(SandboxException, match="is longer than the desktop is given for"):
        sandbox.set_timeout(SECONDS + 600)
    assert len(bench.claimers()) == 1


def test_the_end_of_its_time_releases_it(bench: Bench, door: Served, key: str) -> None:
    sandbox = door.create(key, timeout=3600)
    sandbox.set_timeout(0)
    query = "select 1 from operation where kind = 'task.release' and state = 'done' and desktop_id = %s"
    bench.mission.until(query, [desktop_id(sandbox.sandbox_id)])
    assert bench.claimers() == []


def test_the_same_wish_is_the_same_sandbox_also_after_a_restart(bench: Bench, door: Served, key: str) -> None:
    first = Sandbox.create(idempotency_key="mine", **door.with_key(key))
    door.restart()
    again = Sandbox.create(idempotency_key="mine", **door.with_key(key))
    assert first.sandbox_id == again.sandbox_id
    assert len(bench.claimers()) == 1
    assert again.kill()
    with pytest.raises(SandboxException, match=f"was that of {first.sandbox_id}, which is gone"):
        Sandbox.create(idempotency_key="mine", **door.with_key(key))
    assert bench.claimers() == []


def test_all_that_the_key_sees_are_listed_and_none_is_ended_that_was_not_made_here(
    bench: Bench, door: Served, key: str
) -> None:
    other = bench.mission.key(*MAY)
    with bench.mission.client(other) as client:
        done = client.post("/api/workspaces/lab/tasks", headers={"Prefer": "wait=30"}).json()
    machine = done["result"]["machine"]
    assert sorted(listed(door, key)[0]) == [f"0{machine}-lab--s1", "lab--kept"]
    with pytest.raises(SandboxException, match=r"was not made by Sandbox\.create"):
        Sandbox.kill(f"0{machine}-lab--s1", api_key=key, api_url=door.url)
    assert len(bench.claimers()) == 1
