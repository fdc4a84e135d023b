"""Fills a cluster by a clock of its own: how long workspaces wait for a slot and a place; that none is given twice.

What decides is real: the statements by which a worker claims, lets wait for room and finishes, on PostgreSQL; the slots
of its shares; the Plan of a workspace on a cluster, and what tasks promise each other meanwhile. The cluster is on
paper, and operations last as long as docs/measurements.md has it. A storage counts by what is asked for a new disk.
"""

import heapq
import itertools
import json
import os
import random
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any
from unittest.mock import patch

from psycopg.types.json import Jsonb

from deskyard.control.jobs.slots import full, slots
from deskyard.control.queue import claim as claims
from deskyard.control.queue.claim import Claim
from deskyard.control.queue.turns import ORDER
from deskyard.control.store.connection import Link
from deskyard.declaration import promise
from deskyard.host.progress import step
from deskyard.lab.quantile import quantile
from deskyard.model.tier import TIERS
from deskyard.plan.power import NoRoom
from deskyard.plan.proxmox.home_tag import home_of
from deskyard.plan.proxmox.placement import DISK_PART
from deskyard.plan.proxmox.view import ClusterView, SeenMachine
from deskyard.plan.proxmox.workspace import VmPlan, plan_on_cluster
from tests.control.lab import Lab, lab
from tests.support.paper_cluster import PaperCluster, rack, workspace

HOUR = 3600.0
FOUND, CREATE, DESTROY, PREVIEW, TASK = (
    *("workspace.create", "desktop.create", "desktop.destroy", "destroy.preview", "task.begin"),
)
SECONDS = {FOUND: 250.0, CREATE: 190.0, DESTROY: 127.0, PREVIEW: 10.0, TASK: 60.0}
# What waits for nothing else of its workspace.
OF_OWN_LANE = (PREVIEW, TASK)
# Before a task plans it looks at everything; then the cluster shows one machine after the other.
CHECK_SECONDS, CLONE_SECONDS = 9.0, 12.0
GREEDY = "w0"
SITE = rack()
TIER_NAMES = tuple(TIERS)


@dataclass(frozen=True)
class Sizes:
    """The site, and the hours that are worked through."""

    seed: int = 1
    workspaces: int = 200
    nodes: int = 12
    hours: int = 8
    node_gib: int = 256
    node_disk_gib: int = 1200
    host_gib: int = 64
    # What one workspace wants at once in the middle of it, and how often each of them wants something small.
    burst: int = 200
    previews_an_hour: float = 0.3
    # The part of the hours in which workspaces come.
    founding: float = 0.5


@dataclass(frozen=True)
class Wanted:
    """An operation that somebody will want."""

    at: float
    kind: str
    workspace: str
    tiers: tuple[str, ...] = ()
    is_burst: bool = False


class Cluster(PaperCluster):
    """The cluster on paper: its storages fill, and a node may be away, with what is on it."""

    away: str | None = None

    def view(self) -> ClusterView:
        """What it shows at this moment."""
        view = super().view()
        nodes = tuple(replace(node, online=node.name != self.away) for node in view.nodes)
        taken = self.taken(lambda machine: (machine.disk_gib + (home_of(machine.tags) or 0)) * DISK_PART)
        free = (replace(each, free_gib=int(each.free_gib - taken[each.node])) for each in view.storages)
        return replace(view, nodes=nodes, storages=tuple(free))

    def taken(self, of: Callable[[SeenMachine], float]) -> dict[str, float]:
        """How much of something the machines of each node take."""
        found: dict[str, float] = defaultdict(float)
        for machine in self.machines.values():
            found[machine.node] += of(machine)
        return found

    def overspent(self) -> Iterator[str]:
        """The nodes on which machines have more than there is, and of what."""
        for node, mib in self.taken(lambda machine: machine.memory_mib).items():
            if mib > self.memory_gib * 1024:
                yield f"memory of {node}"
        for storage in self.view().storages:
            if storage.free_gib < 0:
                yield f"storage of {storage.node}"


@dataclass
class Found:
    """What came of it: seconds until an operation began for good, by its share and whether it is of the burst."""

    waits: dict[tuple[str, bool], list[float]] = field(default_factory=lambda: defaultdict(list))
    for_room: list[float] = field(default_factory=list)
    refusals: int = 0
    failed: list[float] = field(default_factory=list)
    overspent: Counter[str] = field(default_factory=Counter)
    on_lost_nodes: int = 0
    most_memory: float = 0.0
    ended: int = 0


def wanted_of(sizes: Sizes) -> Iterator[Wanted]:
    """The wishes of so many hours, in no order: workspaces come at first, and change all the time."""
    dice = random.Random(sizes.seed)
    end = sizes.hours * HOUR
    for number in range(sizes.workspaces):
        name, at = f"w{number}", dice.uniform(0, end * sizes.founding)
        yield Wanted(at, FOUND, name, tuple(dice.choices(TIER_NAMES, k=dice.randint(1, 3))))
        # Whoever is greedy waits for what it asked for itself.
        previews = 0.0 if name == GREEDY else sizes.previews_an_hour
        for kind, an_hour in ((CREATE, 0.25), (DESTROY, 0.2), (PREVIEW, previews)):
            if not an_hour:
                continue
            then = at + dice.expovariate(an_hour / HOUR)
            while then < end:
                yield Wanted(then, kind, name, (dice.choice(TIER_NAMES),) if kind == CREATE else ())
                then += dice.expovariate(an_hour / HOUR)
    yield from (Wanted(end / 2, TASK, GREEDY, is_burst=True) for _ in range(sizes.burst))


@contextmanager
def clock(link: Link) -> Iterator[Callable[[float], object]]:
    """Let `now()` in statements of this connection be what is set, as seconds since any day."""
    link.execute("create schema bench")
    link.execute("""create function bench.now() returns timestamptz language sql stable as
        $$ select to_timestamp(current_setting('bench.seconds')::float8) $$""")
    link.execute("set search_path = bench, public, pg_catalog")
    try:
        yield lambda seconds: link.execute("select set_config('bench.seconds', %s, false)", [str(1e9 + seconds)])
    finally:
        link.execute("reset search_path")
        link.execute("drop schema bench cascade")


class Site:
    """A site at work: takes what is wanted, and lets a worker's operations last as long as they do."""

    def __init__(self, link: Link, sizes: Sizes, *, promises: bool = True) -> None:
        self._link, self._promises = link, promises
        self.cluster = Cluster(nodes=sizes.nodes, memory_gib=sizes.node_gib, free_gib=sizes.node_disk_gib)
        self._slots, self._end = slots(sizes.host_gib * 1024), sizes.hours * HOUR
        self.found = Found()
        self._numbers = itertools.count()
        self._events: list[tuple[float, int, Callable[[], object]]] = []
        self._now = 0.0
        self._wanted: dict[str, Wanted] = {}
        self._running: dict[str, Claim] = {}
        self._tasks: dict[str, ExitStack] = defaultdict(ExitStack)
        self._desktops: dict[str, dict[str, str]] = defaultdict(dict)
        # Since when an operation waits for room alone.
        self._refused: dict[str, float] = {}

    def work_through(self, wanted: Sequence[Wanted]) -> Found:
        """Have all of it done, or failed; a node is away for an hour after the burst."""
        for each in wanted:
            self._at(each.at, partial(self._ask, each))
        self._at(self._end * 0.6, partial(setattr, self.cluster, "away", "pve1"))
        self._at(self._end * 0.6 + HOUR, partial(setattr, self.cluster, "away", None))
        with clock(self._link) as set_clock:
            while self._events:
                self._now, _, happens = heapq.heappop(self._events)
                set_clock(self._now)
                happens()
                while (held := self._claim()) is not None:
                    self._begin(held)
                self._look()
        assert not self._running and self.found.ended == len(wanted)
        return self.found

    def _at(self, when: float, happens: Callable[[], object]) -> None:
        heapq.heappush(self._events, (when, next(self._numbers), happens))

    def _after(self, seconds: float, happens: Callable[[], object]) -> None:
        self._at(self._now + seconds, happens)

    def _look(self) -> None:
        self.found.overspent.update(self.cluster.overspent())
        taken = sum(self.cluster.taken(lambda machine: machine.memory_mib).values())
        share = taken / (self.cluster.nodes * self.cluster.memory_gib * 1024)
        self.found.most_memory = max(self.found.most_memory, share)

    def _ask(self, wanted: Wanted) -> None:
        id = f"op_{next(self._numbers):09}"
        lane = f"own:{id}" if wanted.kind in OF_OWN_LANE else f"workspace:{wanted.workspace}"
        query = """insert into operation (id, kind, workspace_id, lane, input, actor, created_at)
            values (%s, %s, %s, %s, %s, 'person:bench', now())"""
        self._link.execute(query, [id, wanted.kind, wanted.workspace, lane, Jsonb({})])
        self._wanted[id] = wanted

    def _claim(self) -> Claim | None:
        return claims.claim(
            self._link, "bench", HOUR, full(self._slots, [each.share for each in self._running.values()])
        )

    def _begin(self, held: Claim) -> None:
        wanted = self._wanted[held.id]
        self._running[held.id] = held
        if wanted.kind in (FOUND, CREATE):
            self._after(CHECK_SECONDS, partial(self._plan, held, wanted))
            return
        self._goes(held, wanted)
        then = partial(self._remove, held, wanted) if wanted.kind == DESTROY else partial(self._finish, held)
        self._after(SECONDS[wanted.kind], then)

    def _goes(self, held: Claim, wanted: Wanted, before: float = 0.0) -> None:
        waited = self._now - before - wanted.at
        if held.id in self._refused:
            self.found.for_room.append(self._now - self._refused.pop(held.id))
        else:
            self.found.waits[held.share, wanted.is_burst].append(waited)

    def _plan(self, held: Claim, wanted: Wanted) -> None:
        """Place what is declared with what is new, as `workspace.up` does; without room it waits in the queue."""
        there = self._desktops[wanted.workspace]
        new = {f"d{next(self._numbers)}": tier for tier in wanted.tiers}
        listed = [{"name": name, "tier": tier} for name, tier in {**there, **new}.items()]
        number = int(wanted.workspace[1:])
        declared = workspace(wanted.workspace, network=f"10.{number >> 8}.{number & 255}.0/24", desktops=listed)
        make = partial(plan_on_cluster, declared, SITE)
        try:
            if self._promises:
                given = self._tasks[held.id].enter_context(promise.given(SITE.name, wanted.workspace))
                _, plan = given.plan(self.cluster.view, make)
            else:
                _, plan = make(self.cluster.view())
        except NoRoom as error:
            self._wait(held, wanted, error)
            return
        self._goes(held, wanted, CHECK_SECONDS)
        there.update(new)
        self.cluster.make_vnet(plan)
        fresh = [vm for vm in plan.machines() if vm.vm_id not in self.cluster.machines]
        self.found.on_lost_nodes += sum(vm.node == self.cluster.away for vm in fresh)
        for place, vm in enumerate(fresh, 1):
            self._after(place * CLONE_SECONDS, partial(self._make, vm))
        self._after(SECONDS[wanted.kind], partial(self._finish, held))

    def _make(self, vm: VmPlan) -> None:
        self.cluster.make_machine(vm)

    def _wait(self, held: Claim, wanted: Wanted, error: NoRoom) -> None:
        self._tasks.pop(held.id, ExitStack()).close()
        self.found.refusals += 1
        self._refused.setdefault(held.id, self._now)
        if claims.wait_for_room(self._link, held, error.reason):
            del self._running[held.id]
            # The worker looks again by then.
            self._after(claims.ROOM_SECONDS, lambda: None)
        else:
            self.found.failed.append(self._now - wanted.at)
            self._refused.pop(held.id)
            self._finish(held, "failed")

    def _remove(self, held: Claim, wanted: Wanted) -> None:
        """Take the desktop away that was made first; of one that is left the workspace stays."""
        there = self._desktops[wanted.workspace]
        if len(there) > 1:
            name = next(iter(there))
            del there[name]
            gone = [vm_id for vm_id, each in self.cluster.machines.items() if each.name == f"{name}.{wanted.workspace}"]
            for vm_id in gone:
                del self.cluster.machines[vm_id]
        self._finish(held)

    def _finish(self, held: Claim, state: str = "done") -> None:
        assert claims.finish(self._link, held, state)
        self._tasks.pop(held.id, ExitStack()).close()
        del self._running[held.id]
        self.found.ended += 1


@contextmanager
def promises_of_its_own() -> Iterator[None]:
    """A state folder that is nobody's."""
    with tempfile.TemporaryDirectory() as folder, patch.dict(os.environ, {"DESKYARD_HOME": str(Path(folder))}):
        yield


def worked_through(link: Link, sizes: Sizes, *, promises: bool = True) -> Found:
    """The hours of a site, begun without any operation."""
    link.execute("truncate operation cascade")
    with promises_of_its_own():
        return Site(link, sizes, promises=promises).work_through(list(wanted_of(sizes)))


@dataclass(frozen=True)
class Row:
    """Seconds that operations waited for a slot; with `by_age`, where the oldest of all always comes first."""

    name: str
    operations: int
    p50: float
    p95: float
    most: float
    p95_by_age: float
    most_by_age: float


class ByAge:
    """A connection on which nobody has a turn, and what there was no room for comes as everything: by its age."""

    def __init__(self, link: Link) -> None:
        self._link = link

    def __getattr__(self, name: str) -> object:
        return getattr(self._link, name)

    def execute(self, query: str | bytes, values: Any = None) -> Any:
        """Run it, without the turns of workspaces."""
        return self._link.execute(without_turns(query), values)


def without_turns(query: str | bytes) -> bytes:
    """The statement of a claim by age alone; any other as it is."""
    text = query if isinstance(query, bytes) else query.encode()
    return text.replace(ORDER.encode(), b"t.created_at, t.id")


def figures(mission: Lab, sizes: Sizes) -> dict[str, object]:
    """The same hours three times: as they are, by age alone, and without what tasks promise each other."""
    mission.end("worker")
    found = {}
    for name, link, promises in (
        ("as it is", mission.link, True),
        ("by age", ByAge(mission.link), True),
        ("without promises", mission.link, False),
    ):
        with step(f"{sizes.workspaces} workspaces on {sizes.nodes} nodes, {name}"):
            found[name] = worked_through(link, sizes, promises=promises)  # type: ignore[arg-type]
    own, by_age, alone = found.values()
    rows = [_row(own, by_age, *key) for key in sorted(own.waits) if own.waits[key] and by_age.waits[key]]
    return {
        "waits": [asdict(row) for row in rows],
        "waited_for_room": len(own.for_room),
        "room_p50": round(median(own.for_room or [0.0])),
        "room_p95": round(quantile(own.for_room or [0.0], 0.95)),
        "tries_without_room": own.refusals,
        "failed_for_room": len(own.failed),
        "most_memory": round(own.most_memory, 3),
        "overspent": sum(own.overspent.values()),
        "on_lost_nodes": own.on_lost_nodes,
        "overspent_without_promises": sum(alone.overspent.values()),
        "most_memory_without_promises": round(alone.most_memory, 3),
    }


def _row(own: Found, by_age: Found, share: str, is_burst: bool) -> Row:
    waits, others = own.waits[share, is_burst], by_age.waits[share, is_burst]
    numbers = (median(waits), quantile(waits, 0.95), max(waits), quantile(others, 0.95), max(others))
    name = f"{share} of {GREEDY}, {len(waits)} at once" if is_burst else share
    return Row(name, len(waits), *(round(number, 1) for number in numbers))


def text(found: dict[str, object]) -> str:
    """The figures as a person reads them."""
    lines = [f"{'':<30}{'operations':>11}{'waits p50':>12}{'p95':>9}{'most':>9}{'by age: p95':>14}{'most':>9}"]
    for row in found["waits"]:  # type: ignore[attr-defined]
        own = f"{row['name']:<30}{row['operations']:>11}{row['p50']:>10.1f} s{row['p95']:>7.1f} s{row['most']:>7.1f} s"
        lines.append(f"{own}{row['p95_by_age']:>12.1f} s{row['most_by_age']:>7.1f} s")
    lines += [f"{name.replace('_', ' ')}: {value}" for name, value in found.items() if name != "waits"]
    return "\n".join(lines)


def main(arguments: Sequence[str]) -> int:
    """Work through it and print what came of it; the exit code is 1 if a place was given twice."""
    numbers = [int(each) for each in arguments if each != "--json"]
    with lab() as mission:
        found = figures(mission, Sizes(*numbers))
    print(json.dumps(found, indent=2) if "--json" in arguments else text(found))
    return 1 if found["overspent"] or found["on_lost_nodes"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
