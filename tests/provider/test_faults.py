"""A task, libvirtd or QEMU is killed at a step of a desktop's life, on the real hypervisor: nothing is lost or half,
and the next run ends it.

A sample of the tasks is struck in each run, and `./inv check.deep` strikes at each task and each victim.
"""

import contextlib
import functools
import random
from collections.abc import Iterator

import pytest

from deskyard.host.deadline import Deadline
from deskyard.host.toolchain import get
from deskyard.plan.power import Power
from tests.provider import struck
from tests.provider.own_hypervisor import KilledError, OwnHypervisor, start_libvirtd
from tests.provider.strikes import NOBODY, VICTIMS, Strike
from tests.provider.struck import TASKS
from tests.unit.life.machines import DEV1

pytestmark = pytest.mark.vm

# Of those that are drawn no further one begins after so many seconds; one takes up to ten.
SIZE, SECONDS, ROUNDS = "2g", 20.0, 2
# A step takes so long at most until the strike; half of the strikes come before it begins.
MOST_SECONDS = 0.1


@pytest.fixture(scope="module")
def own() -> Iterator[OwnHypervisor]:
    """A desktop that runs, with one backup."""
    get("restic")
    with OwnHypervisor(SIZE) as own:
        own.call(struck.begin)
        yield own


@functools.cache
def left_alone(own: OwnHypervisor, name: str) -> list[str]:
    """The steps of a task to which nothing happens."""
    steps, wrong = own.call(struck.attempt, name, NOBODY)
    assert (wrong, len(steps) > 0) == ("", True)
    return steps


def strikes(own: OwnHypervisor, name: str, victim: str, chance: random.Random) -> str:
    """Strike once while a task runs, and let the next run end it; what was struck."""
    steps = left_alone(own, name)
    step = chance.randint(1, len(steps))
    strike = Strike(victim, step, _moment(chance), struck.MACHINES.get(name, DEV1))
    said = "killed"
    with contextlib.suppress(KilledError):
        said = own.call(struck.attempt, name, strike)[1] or "ended well"
    own.call(start_libvirtd)
    what = f"{name}: {victim} killed at {steps[step - 1]} (step {step} of {len(steps)}, {strike.after:.3f} s): {said}"
    print(what)
    try:
        own.call(struck.end, name)
    except AssertionError as error:
        raise AssertionError(what) from error
    return what


def _moment(chance: random.Random) -> float:
    return chance.choice([0.0, chance.uniform(0, MOST_SECONDS)])


def test_sample_of_strikes_loses_nothing_and_the_next_run_ends_it(own: OwnHypervisor, random_seed: int) -> None:
    """Another task each time, as long as there is time; the report's head names the seed, and each strike is named."""
    chance, limit = random.Random(random_seed), Deadline(SECONDS)
    for name in chance.sample(sorted(TASKS), len(TASKS)):
        strikes(own, name, chance.choice(VICTIMS), chance)
        if limit.is_over:
            break


@pytest.mark.parametrize(
    ("now", "victim"),
    [
        (Power.OFF, "task"),
        *(pytest.param(Power.OFF, victim, marks=pytest.mark.deep) for victim in VICTIMS[1:]),
        *(pytest.param(Power.RUNNING, victim, marks=pytest.mark.deep) for victim in VICTIMS),
    ],
)
def test_restore_that_is_killed_at_any_step_leaves_a_desktop_wanted_as_it_was_before(
    own: OwnHypervisor, now: Power, victim: str, random_seed: int
) -> None:
    """The snapshot is of a time at which it was wanted to be the other; to kill a task before a step is behind one."""
    chance = random.Random(f"{random_seed} {now} {victim}")
    own.call(struck.take_wanted_otherwise, now)
    for step, name in enumerate(own.call(struck.go_back, NOBODY), 1):
        strike = Strike(victim, step, 0.0 if victim == "task" else _moment(chance))
        with contextlib.suppress(KilledError):
            own.call(struck.go_back, strike)
        own.call(start_libvirtd)
        what = f"{victim} killed at {name} (step {step}, {strike.after:.3f} s)"
        assert own.call(struck.wanted)[0] is now, what
        own.call(struck.go_back, NOBODY)
        assert own.call(struck.wanted) == (now, "running" if now is Power.RUNNING else "stopped"), what
    own.call(struck.forget_and_start)


def test_memory_that_a_killed_daemon_left_is_never_restored_on_newer_disks(own: OwnHypervisor) -> None:
    own.call(struck.leave_saved_memory, True)
    own.call(start_libvirtd)
    own.call(struck.leave_saved_memory, False)
    said = own.call(struck.go_on_and_restart)
    (boot,) = [place for place, (letter, _) in enumerate(said) if letter == "b"]
    assert said[boot][1] == said[boot - 1][1] + 1
    assert [number for _, number in said[boot:]][1:] == list(range(said[boot][1], said[-1][1] + 1))


@pytest.mark.deep
@pytest.mark.parametrize("victim", VICTIMS)
@pytest.mark.parametrize("name", sorted(TASKS))
def test_strike_at_any_step_loses_nothing_and_the_next_run_ends_it(
    own: OwnHypervisor, name: str, victim: str, random_seed: int
) -> None:
    chance = random.Random(f"{random_seed} {name} {victim}")
    for _ in range(ROUNDS):
        strikes(own, name, victim, chance)
