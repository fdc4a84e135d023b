"""Works through hours of a large site in Mission Control's queue: how long operations wait for a slot, in its own time.

The queue is real: PostgreSQL, and the statements by which a worker claims and finishes. What operations do is not done;
they last as long as docs/measurements.md has it, by a clock that jumps from event to event.
"""

import heapq
import itertools
import json
import random
import sys
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from statistics import median

from psycopg.types.json import Jsonb

from deskyard.control.jobs.slots import SHARES, full, slots
from deskyard.control.queue import claim as claims
from deskyard.control.queue.claim import Claim
from deskyard.control.store.connection import Link
from deskyard.host.progress import step
from deskyard.lab.quantile import quantile
from tests.control.lab import Lab, lab

Full = Callable[[Collection[str]], list[str]]
HOUR = 3600.0
# What all operations had together before they had shares, and how many more agents could be stopped.
TOGETHER, MORE_TO_STOP = 6, 4


@dataclass(frozen=True)
class Habit:
    """How often somebody wants an operation, and how long it takes: its lane is its workspace's, or its own."""

    kind: str
    an_hour: float
    seconds: float
    by_workspace: bool = False
    actor: str = "person:bench"
    # Work that an agent does lasts now a minute and now an hour.
    varies: bool = False


# Of each desktop, and of each workspace.
OF_DESKTOP = (
    Habit("desktop.chat", 0.5, 600, varies=True),
    Habit("desktop.session", 0.5, 7),
    Habit("desktop.restart", 0.1, 50, by_workspace=True),
    Habit("desktop.create", 0.05, 190, by_workspace=True),
    Habit("backup.run", 0.04, 78, by_workspace=True),
    Habit("desktop.freeze", 0.02, 1),
)
OF_WORKSPACE = (Habit("approval.decide", 2, 0.4), Habit("workspace.look", 1, 15, actor="watch"))


@dataclass(frozen=True)
class Wanted:
    """An operation that somebody will want."""

    at: float
    habit: Habit
    workspace: str
    desktop: str
    seconds: float


@dataclass
class Day:
    """What came of it: by share, the seconds that each operation waited, and the most that ran at once."""

    waits: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    most: dict[str, int] = field(default_factory=lambda: defaultdict(int))


def day(seed: int, workspaces: int, desktops: int, hours: float) -> Iterator[Wanted]:
    """What is wanted in so many hours, in no order."""
    dice = random.Random(seed)
    for number in range(workspaces):
        name = f"w{number}"
        named = [(habit, f"{name}.d{place}") for place in range(desktops) for habit in OF_DESKTOP]
        for habit, desktop in [*named, *((habit, name) for habit in OF_WORKSPACE)]:
            at = dice.expovariate(habit.an_hour / HOUR)
            while at < hours * HOUR:
                seconds = dice.expovariate(1 / habit.seconds) if habit.varies else habit.seconds
                yield Wanted(at, habit, name, desktop, seconds)
                at += dice.expovariate(habit.an_hour / HOUR)


def work_through(link: Link, wanted: Sequence[Wanted], full_of: Full) -> Day:
    """Have all of it claimed as soon as there is a slot, and done after its time."""
    found, numbers = Day(), itertools.count()
    events: list[tuple[float, int, Wanted | Claim]] = [(each.at, next(numbers), each) for each in wanted]
    heapq.heapify(events)
    by_id: dict[str, Wanted] = {}
    running: dict[str, Claim] = {}
    while events:
        now, number, event = heapq.heappop(events)
        if isinstance(event, Wanted):
            by_id[_asked(link, event, number)] = event
        else:
            assert claims.finish(link, event, "done")
            del running[event.id]
        while (held := _claim(link, full_of, running)) is not None:
            running[held.id] = held
            found.waits[held.share].append(now - by_id[held.id].at)
            at_once = sum(each.share == held.share for each in running.values())
            found.most[held.share] = max(found.most[held.share], at_once)
            heapq.heappush(events, (now + by_id[held.id].seconds, next(numbers), held))
    assert len(by_id) == sum(map(len, found.waits.values())) and not running
    return found


def _claim(link: Link, full_of: Full, running: Mapping[str, Claim]) -> Claim | None:
    return claims.claim(link, "bench", HOUR, full_of([each.share for each in running.values()]))


def _asked(link: Link, wanted: Wanted, number: int) -> str:
    id, habit = f"op_{number:09}", wanted.habit
    lane = f"workspace:{wanted.workspace}" if habit.by_workspace else f"{habit.kind}:{wanted.desktop}:{number}"
    query = """insert into operation (id, kind, workspace_id, desktop_id, lane, input, actor)
        values (%s, %s, %s, %s, %s, %s, %s)"""
    link.execute(query, [id, habit.kind, wanted.workspace, wanted.desktop, lane, Jsonb({}), habit.actor])
    return id


def by_share(memory_gib: int) -> Full:
    """The shares that are full on a worker's host with so much memory."""
    there = slots(memory_gib * 1024)
    return lambda taken: full(there, taken)


def together(taken: Collection[str]) -> list[str]:
    """The shares that are full where all operations have the same few slots, and stops of agents some more."""
    if len(taken) < TOGETHER:
        return []
    return [share for share in SHARES if share != "stops" or len(taken) >= TOGETHER + MORE_TO_STOP]


@dataclass(frozen=True)
class Row:
    """Seconds that operations of a share waited, and those where all have the same slots."""

    share: str
    operations: int
    most_at_once: int
    slots: int
    p50: float
    p95: float
    most: float
    p95_together: float
    most_together: float


def figures(mission: Lab, seed: int, workspaces: int, desktops: int, hours: float, memory_gib: int) -> list[Row]:
    """The same hours twice, by shares and with the same slots for all."""
    mission.end("worker")
    wanted = list(day(seed, workspaces, desktops, hours))
    days = []
    for name, full_of in (("by shares", by_share(memory_gib)), ("together", together)):
        with step(f"{len(wanted)} operations, {name}"):
            mission.link.execute("truncate operation cascade")
            days.append(work_through(mission.link, wanted, full_of))
    own, other = days
    there = slots(memory_gib * 1024)
    return [_row(share, own, other, there[share]) for share in SHARES if own.waits[share]]


def _row(share: str, own: Day, other: Day, there: int) -> Row:
    waits, others = own.waits[share], other.waits[share]
    figures = (median(waits), quantile(waits, 0.95), max(waits), quantile(others, 0.95), max(others))
    return Row(share, len(waits), own.most[share], there, *(round(figure, 2) for figure in figures))


def text(rows: Sequence[Row]) -> str:
    """The rows as a person reads them."""
    head = f"{'':<10}{'operations':>11}{'at once':>9}{'of':>5}{'waits p50':>11}{'p95':>9}{'most':>9}"
    head += f"{'same for all: p95':>18}{'most':>10}"
    return "\n".join([head, *map(_line, rows)])


def _line(row: Row) -> str:
    own = f"{row.share:<10}{row.operations:>11}{row.most_at_once:>9}{row.slots:>5}"
    own += f"{row.p50:>9.1f} s{row.p95:>7.1f} s{row.most:>7.1f} s"
    return f"{own}{row.p95_together:>16.1f} s{row.most_together:>8.1f} s"


def main(arguments: Sequence[str]) -> int:
    """Work through it and print what waited."""
    workspaces, desktops, hours, memory, seed = (int(each) for each in arguments[:5])
    with lab() as mission:
        rows = figures(mission, seed, workspaces, desktops, hours, memory)
    print(json.dumps([asdict(row) for row in rows], indent=2) if "--json" in arguments else text(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
