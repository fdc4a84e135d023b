"""Tasks of a desktop's life on a cluster that are killed at a call of chance: the same task again ends them.

The cluster goes on with what it was told before the client died, as Proxmox VE does; the next task comes after that.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import pytest

from deskyard.errors import ConfigError
from deskyard.host.deadline import Deadline
from deskyard.life import power, snapshot
from deskyard.life.backup import backup, restoration, retention
from deskyard.plan.power import Power
from deskyard.plan.proxmox.power_tag import power_of
from deskyard.plan.proxmox.view import tags_of
from deskyard.plan.snapshot import Snapshot
from deskyard.site.proxmox.life.power import DATE
from deskyard.workspace import workspace
from tests.proxmox.backed_up import TARGET, Desk, desk_with_trials
from tests.proxmox.bench import OF_CHANCE
from tests.proxmox.test_restores import Kill, Killed
from tests.support.pve.memory import Memory
from tests.support.pve.power import PIDS_OF_CLOCKS

pytestmark = pytest.mark.sampled

SAMPLE, SETTLED_SECONDS = 2, 30.0
BEFORE = "before"


class Place:
    """The desktop, running and well, again and again."""

    def __init__(self, desk: Desk) -> None:
        self.desk, self._memory, self._held = desk, Memory(desk.rack.peer), desk.held
        desk.fake.answerer = self._answer

    def begin(self) -> None:
        """Be there again."""
        self._memory.put_back()
        self.desk.held = self._held
        self.desk.fake.calls.clear()

    def settle(self) -> None:
        """Wait until the cluster has ended what it was told."""

        def running() -> bool:
            return any(task["status"] == "running" for task in list(self.desk.fake.tasklog))

        assert Deadline(SETTLED_SECONDS).wait_for(lambda: not running(), 0.05)

    def seen(self) -> dict[str, Any]:
        """How the desktop is, what it is wanted to be, what is kept of it, and what lies on the cluster."""
        machine = power.opened(TARGET)
        (state,) = machine.machines.states().values()
        config = {name: value for name, value in self.desk.vm.config.items() if name not in OF_CHANCE}
        snapshots = [row["name"] for row in snapshot.listing(TARGET)["snapshots"]]
        left = self.desk.fake.left()
        # A volume of memory has another name each time.
        config |= {"vmstate": "vmstate" in config}
        return {
            "state": state,
            "config": config,
            "snapshots": snapshots,
            "left": {**left, "volumes": len(left["volumes"])},
        }

    def _answer(self, vm: str, command: str, values: dict[str, Any]) -> Any:
        """Clocks are the peer's own."""
        of_clock = command == "exec" and values["command"][0] == DATE
        if of_clock or (command == "exec-status" and int(values["pid"]) >= PIDS_OF_CLOCKS):
            return None
        return self.desk(vm, command, values)


@pytest.fixture(scope="module")
def kept_place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """One cluster for all."""
    with desk_with_trials(tmp_path_factory.mktemp("desk")) as (desk, _):
        yield Place(desk)


@pytest.fixture
def place(kept_place: Place) -> Place:
    """The desktop, running and well."""
    kept_place.begin()
    return kept_place


def start() -> None:
    """Let it run: the peer has no gateway, behind which a person's task starts it."""
    machine = power.opened(TARGET)
    machine.move(Power.RUNNING, partial(machine.machines.start, machine.domain))


def take() -> None:
    """Take a snapshot; one that a killed task has begun is there."""
    try:
        snapshot.create(TARGET, Snapshot(BEFORE))
    except ConfigError as error:
        assert "has it already" in error.reason


def delete() -> None:
    """Delete the snapshot, or find that a killed task has."""
    try:
        snapshot.delete(TARGET, BEFORE)
    except ConfigError as error:
        assert "has no such snapshot" in error.reason


stop, pause = partial(power.stop, TARGET), partial(power.pause, TARGET)
save = partial(power.pause, TARGET, to_disk=True)
restore = partial(snapshot.restore, TARGET, BEFORE, wait=False)
# What is done before, what is killed, and the least writing calls that it makes.
TASKS: dict[str, tuple[Sequence[Callable[[], Any]], Callable[[], Any], int]] = {
    "stop": ((), stop, 2),
    "start": ((stop,), start, 2),
    "pause": ((), pause, 2),
    "pause to disk": ((), save, 2),
    "resume": ((pause,), start, 2),
    "resume from disk": ((save,), start, 2),
    "snapshot with memory": ((), take, 1),
    "snapshot of the disk": ((stop,), take, 1),
    "back to a snapshot": ((take,), restore, 3),
    "back to a snapshot, wanted off now": ((take, stop), restore, 4),
    "back to a snapshot, wanted off then": ((stop, take, start), restore, 4),
    "back to a snapshot without memory, wanted paused now": ((stop, take, start, pause), restore, 4),
    "delete a snapshot": ((take,), delete, 1),
}


def points(kill: Kill, work: Callable[[], Any]) -> list[tuple[int, bool]]:
    """The writing calls of a task that nobody kills, before each is made and before its answer is heard."""
    kill.at(0, heard=True)
    work()
    return [(fatal, heard) for fatal in range(1, kill.writes + 1) for heard in (False, True)]


def killed(place: Place, kill: Kill, work: Callable[[], Any], fatal: int, *, heard: bool) -> None:
    """Let a task be killed at one of its writing calls, and the cluster end what it was told."""
    kill.at(fatal, heard=heard)
    with pytest.raises(Killed):
        work()
    kill.at(0, heard=True)
    place.settle()


def is_ended_by_the_next(place: Place, kill: Kill, name: str, sample: Callable[..., Any]) -> None:
    """Fail unless what is killed at calls that `sample` picks is ended by the same task, as if nobody had killed it."""
    prepare, work, least = TASKS[name]
    place.begin()
    for before in prepare:
        before()
    at_first = Memory(place.desk.rack.peer)
    found = points(kill, work)
    assert len(found) >= 2 * least, name
    wanted = place.seen()
    for fatal, heard in sample(found):
        at_first.put_back()
        killed(place, kill, work, fatal, heard=heard)
        work()
        assert place.seen() == wanted, f"{name}: killed at writing call {fatal}, {'done' if heard else 'not done'}"


def test_task_that_was_killed_at_a_call_of_chance_is_ended_by_the_next(
    place: Place, monkeypatch: pytest.MonkeyPatch, random_seed: int
) -> None:
    kill, dice = Kill(monkeypatch), random.Random(random_seed)
    for name in TASKS:
        is_ended_by_the_next(place, kill, name, lambda found: dice.sample(found, SAMPLE))


@pytest.mark.deep
@pytest.mark.parametrize("name", TASKS)
def test_task_that_was_killed_at_any_call_is_ended_by_the_next(
    place: Place, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    is_ended_by_the_next(place, Kill(monkeypatch), name, list)


# What is done before a way back to a snapshot: the cluster brings back what was wanted then.
WISHES: dict[str, tuple[Sequence[Callable[[], Any]], Power]] = {
    "off then, to run now": ((stop, take, start), Power.RUNNING),
    "to run then, off now": ((take, stop), Power.OFF),
    "to run then, paused now": ((take, pause), Power.PAUSED),
    "paused then, off now": ((pause, take, stop), Power.OFF),
}


def put_back() -> None:
    """What any task of the desktop does before its own work."""
    with power.opened(TARGET).alone():
        pass


def planned() -> None:
    """What `workspace.up` does before it plans anything."""
    machine = power.opened(TARGET)
    workspace._asleep(machine.plan, machine.machines)


@pytest.mark.parametrize("name", WISHES)
@pytest.mark.parametrize("next_run", [put_back, planned])
def test_wish_of_now_stands_after_a_kill_at_any_call_of_a_way_back(
    place: Place, monkeypatch: pytest.MonkeyPatch, name: str, next_run: Callable[[], None]
) -> None:
    kill, (prepare, now) = Kill(monkeypatch), WISHES[name]
    for before in prepare:
        before()
    described = place.desk.vm.config.get("description")
    at_first = Memory(place.desk.rack.peer)
    found = points(kill, restore)
    differed = False
    for fatal, heard in found:
        at_first.put_back()
        killed(place, kill, restore, fatal, heard=heard)
        machine = power.opened(TARGET)
        differed |= power_of(tags_of(place.desk.vm.config)) is not now
        # Also before anybody mends it.
        assert machine.machines.desired() == {machine.domain: now}
        assert machine.machines.states()[machine.domain]["desired"] is now
        next_run()
        config = place.desk.vm.config
        assert power_of(tags_of(config)) is now, (fatal, heard)
        assert (bool(int(config["onboot"])), config.get("description")) == (now is Power.RUNNING, described)
    # At one of these points at least the tags were those of then.
    assert differed


def test_next_task_waits_for_the_way_back_that_the_cluster_still_works_at(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    for before in (stop, take, start):
        before()
    kill = Kill(monkeypatch)
    kill.at(2, heard=True)
    monkeypatch.setitem(place.desk.fake.faults.slow_tasks, "qmrollback", 1.0)
    with pytest.raises(Killed):
        restore()
    kill.at(0, heard=True)
    assert [task["type"] for task in place.desk.fake.tasklog if task["status"] == "running"] == ["qmrollback"]
    put_back()
    place.settle()
    assert power_of(tags_of(place.desk.vm.config)) is Power.RUNNING


def no_half_backup_is_listed(place: Place, kill: Kill, sample: Callable[..., Any]) -> None:
    """Fail unless a backup that is killed at calls that `sample` picks is whole or not listed, and the next works."""
    run = partial(backup.run, TARGET)
    found = points(kill, run)
    assert len(found) >= 4
    for fatal, heard in sample(found):
        place.begin()
        killed(place, kill, run, fatal, heard=heard)
        # Listed is what was noted as whole, by the last call.
        after = place.desk.ids()
        assert len(after) == (heard and (fatal, heard) == found[-1])
        made = run()["backup"]["id"]
        assert place.desk.ids() == [*after, made]
        assert restoration.verify(TARGET, made)["backup"]["verified"] is not None
        retention.prune(TARGET, (1, 0, 0, 0, 0, 0), really=True)
        assert (place.desk.ids(), len(place.desk.volumes)) == ([made], 1)


def test_backup_that_was_killed_at_a_call_of_chance_is_whole_or_not_listed(
    place: Place, monkeypatch: pytest.MonkeyPatch, random_seed: int
) -> None:
    dice = random.Random(random_seed)
    no_half_backup_is_listed(place, Kill(monkeypatch), lambda found: dice.sample(found, SAMPLE))


@pytest.mark.deep
def test_backup_that_was_killed_at_any_call_is_whole_or_not_listed(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    no_half_backup_is_listed(place, Kill(monkeypatch), list)


def test_task_that_ends_less_than_it_was_asked_would_be_noticed(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    kill = Kill(monkeypatch)
    monkeypatch.setitem(TASKS, "half a stop", ((), half_a_stop, 1))
    with pytest.raises(AssertionError, match="half a stop: killed at writing call 1"):
        is_ended_by_the_next(place, kill, "half a stop", list)


def half_a_stop() -> None:
    """Stop it unless a task that was killed has begun to: it looks at nothing more than the wish."""
    machine = power.opened(TARGET)
    if machine.machines.desired()[machine.domain] is not Power.OFF:
        power.stop(TARGET)
