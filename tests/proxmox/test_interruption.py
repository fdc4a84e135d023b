"""The client is killed at a call of the API, with everything it has started; the same command then goes on.

The deep run kills it at every point (see killing.py), and at some calls of chance that are none: calls of the same
moment as the one before, which the list of points leaves out.
"""

import os
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from difflib import unified_diff
from pathlib import Path
from typing import Any

import pytest

from tests.proxmox.bench import Bench
from tests.proxmox.client_process import KILLED
from tests.proxmox.guarded import Watch
from tests.proxmox.killing import Killer, Listed, Point, Record, Strikes
from tests.support.pve.calls import Call

pytestmark = pytest.mark.sampled

# With it, a run of all points goes on where another was ended.
RECORD = os.environ.get("DESKYARD_KILLS_RECORD")
# How many calls that are no points are killed all the same; each so-manieth point is also followed by a preview.
SAMPLE, PREVIEW_EACH = 6, 10


@dataclass(frozen=True)
class Operation:
    """What is killed: from where, what is declared before, the command, and what is there in the end."""

    start: Callable[[Bench], None]
    declared: tuple[str, ...]
    command: str
    left: tuple[str, ...] | None
    changes: dict[str, Any]
    named: dict[str, Any]

    def begin(self, bench: Bench) -> None:
        """Be where the command starts."""
        self.start(bench)
        bench.rack.declare("lab", *self.declared, **self.changes)

    def check(self, bench: Bench) -> None:
        """Fail unless everything is as if nothing had happened."""
        if self.left is None:
            bench.gone()
        else:
            bench.settled(*self.left)


OPERATIONS = {
    # The second desktop would be the first once more; `update` makes one beside others.
    "create": Operation(Bench.empty, ("dev1",), "up", ("dev1",), {}, {}),
    # A change of tier, of the rules and of the VNet; one desktop comes, one goes.
    "update": Operation(
        Bench.up, ("dev1:pro", "dev3"), "up", ("dev1", "dev3"), {"peers": "open"}, {"remove": ["dev2"]}
    ),
    "destroy": Operation(Bench.up, ("dev1", "dev2"), "destroy", None, {}, {}),
}
# How many writing calls each has at least; `test_every_call_may_be_the_last` knows all of them.
WRITES = {"create": 18, "update": 20, "destroy": 8}


def points_of(bench: Bench, operation: Operation) -> tuple[Listed, str]:
    """All points, and what is there after an undisturbed run."""
    operation.begin(bench)
    listed = Listed(bench)
    killer = Killer(bench, Watch(bench.rack.peer.fake), listed)
    killer.client = bench.start(operation.command, **operation.named)
    assert killer.client.wait().error == ""
    outcome = bench.outcome()
    operation.check(bench)
    return listed, outcome


def goes_on(bench: Bench, operation: Operation, strikes: Strikes) -> Point | None:
    """Kill the client at a point, and run the same command again; nothing ever runs unguarded.

    Answers where it was killed; None if it ended before, which is for the caller to judge.
    """
    operation.begin(bench)
    watch = Watch(bench.rack.peer.fake, peers=operation.changes.get("peers", "closed"))
    killer = Killer(bench, watch, strikes)
    killer.client = bench.start(operation.command, **operation.named)
    ending = killer.client.wait()
    if killer.struck is None:
        return None
    assert ending.error == KILLED
    bench.run(operation.command, **operation.named)
    watch()
    assert watch.seen == []
    return killer.struck


def survives(bench: Bench, operation: Operation, strikes: Strikes) -> None:
    """Whoever is killed at this point goes on, and in the end a preview has nothing to say."""
    assert goes_on(bench, operation, strikes) is not None, "there is no such call"
    operation.check(bench)


def at(wanted: Point) -> Strikes:
    """Strikes at this point."""
    return lambda here, _: here == wanted


def test_what_was_killed_at_a_call_of_chance_goes_on(bench: Bench, random_seed: int) -> None:
    dice = random.Random(random_seed)
    name, writes = dice.choice(sorted(WRITES.items()))
    at, done = dice.randint(1, writes), dice.random() < 0.5
    print(f"DESKYARD_SEED={random_seed}: {name} is killed at writing call {at}, {'done' if done else 'not done'}")
    counted: set[int] = set()

    def strikes(point: Point, call: Call) -> bool:
        counted.update([call.number] * call.writes)
        return call.writes and len(counted) == at and point.done == done

    survives(bench, OPERATIONS[name], strikes)


@pytest.mark.deep
@pytest.mark.parametrize("done", [False, True])
def test_killed_while_a_volume_of_home_is_made_it_is_made_once(bench: Bench, done: bool) -> None:
    def strikes(point: Point, call: Call) -> bool:
        return call.method == "POST" and call.path.endswith("/config") and point.done == done

    survives(bench, OPERATIONS["create"], strikes)


@pytest.mark.deep
@pytest.mark.parametrize("name", OPERATIONS)
def test_every_call_may_be_the_last(
    bench: Bench, random_seed: int, name: str, capfd: pytest.CaptureFixture[str]
) -> None:
    operation, record = OPERATIONS[name], Record(Path(RECORD) if RECORD else None)
    listed, wanted = points_of(bench, operation)
    dice = random.Random(f"{random_seed}/{name}")
    chosen = [*listed.points, *dice.sample(listed.same, min(SAMPLE, len(listed.same)))]
    tell(capfd, f"{name}: {len(listed.points)} points, {len(listed.same)} calls are of the same moments as others")
    passed, failed, absent = record.passed(name), [], []
    for number, point in enumerate(chosen, 1):
        if point in passed:
            continue
        begun, how = time.monotonic(), "goes on"
        try:
            if goes_on(bench, operation, at(point)) is None:
                absent.append(point)
                how = "did not come"
            else:
                assert differences(wanted, bench.outcome()) == ""
                if number % PREVIEW_EACH == 0:
                    operation.check(bench)
                record.add(name, point)
        except AssertionError as error:
            failed.append(f"{number}: {point}\n{error}")
            how = f"FAILED: {error}"
        tell(capfd, f"{name} {number}/{len(chosen)} {point}: {how}, {time.monotonic() - begun:.0f} s")
    assert len(listed.points) > 20
    assert failed == []
    # How often a task is asked about is of chance.
    assert [point for point in absent if point.writes] == []


def differences(wanted: str, found: str) -> str:
    """What is not as it would be."""
    return "\n".join(unified_diff(wanted.splitlines(), found.splitlines(), lineterm="", n=0))


def tell(capfd: pytest.CaptureFixture[str], text: str) -> None:
    """Say it at once: these runs are long."""
    with capfd.disabled():
        print(text, flush=True)
