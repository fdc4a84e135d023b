"""Plans a whole fleet on a cluster on paper: that nothing is given twice, and how time and memory grow."""

import statistics
import sys
import time
import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from json import dumps
from typing import Any

from deskyard.model.tier import TIERS
from deskyard.model.workspace import Workspace
from deskyard.plan.proxmox.workspace import ClusterPlan
from tests.support.paper_cluster import PaperCluster, rack, workspace

NODES = 32
DESKTOPS = (1, 5, 20, 60)
REPEATS = 5


@dataclass(frozen=True)
class Row:
    """The Plan of one workspace at one size; ratios are against the first row of the same table."""

    name: str
    size: int
    milliseconds: float
    kib: float
    time_ratio: float = 1.0
    memory_ratio: float = 1.0


def fleet(workspaces: int, desktops: int, start: int = 0) -> Iterator[Workspace]:
    """Declarations of many workspaces: each its own network, every tier in turn."""
    tiers = list(TIERS)
    for number in range(start, start + workspaces):
        names = [f"desk-{number}" for number in range(desktops)]
        listed = [{"name": name, "tier": tiers[(number + place) % len(tiers)]} for place, name in enumerate(names)]
        network = f"10.{number >> 8 & 255}.{number & 255}.0/24"
        yield workspace(f"team-{number}", network=network, desktops=listed)


def collisions(plans: Sequence[ClusterPlan]) -> dict[str, int]:
    """What must be of one alone and is of two: kind -> how many."""
    machines = [machine for plan in plans for machine in plan.machines()]
    values: dict[str, list[Any]] = {
        "VM ids": [machine.vm_id for machine in machines],
        "names of machines": [machine.owner.tag for machine in machines],
        "MAC addresses": [nic.mac for machine in machines for nic in machine.nics],
        "uplink addresses": [plan.gateway.nics[0].config for plan in plans],
        "VNets": [plan.vnet.name for plan in plans],
        "tags": [plan.vnet.tag for plan in plans],
        "pools": [plan.pool for plan in plans],
    }
    return {kind: sum(times - 1 for times in Counter(found).values()) for kind, found in values.items()}


def _cluster() -> PaperCluster:
    """With more room than any fleet here needs: what is measured is the Plan, not a refusal."""
    return PaperCluster(nodes=NODES, memory_gib=65_536, vcpus=8192, free_gib=4_000_000)


def by_desktops() -> list[Row]:
    """A workspace alone on the cluster, with more and more desktops."""
    cluster, site = _cluster(), rack()
    rows = []
    for size in DESKTOPS:
        (declared,) = fleet(1, size)
        rows.append(_row("desktops", size, lambda declared=declared: cluster.plan(declared, site)))  # type: ignore[misc]
    return _with_ratios(rows)


def by_workspaces(workspaces: int, desktops: int) -> tuple[list[Row], list[ClusterPlan], float]:
    """The whole fleet, one workspace after the other; each further one is measured where the site has grown tenfold."""
    cluster, site = _cluster(), rack()
    rows, plans, seconds = [], [], 0.0
    stops = {size for size in (1, 10, 100, 1000, 10_000) if size < workspaces} | {workspaces}
    for number, declared in enumerate(fleet(workspaces, desktops), 1):
        started = time.perf_counter()
        _, plan = cluster.plan(declared, site)
        seconds += time.perf_counter() - started
        cluster.make(plan)
        plans.append(plan)
        if number in stops:
            (further,) = fleet(1, desktops, start=number)
            rows.append(_row("workspaces", number, lambda further=further: cluster.plan(further, site)))  # type: ignore[misc]
    return _with_ratios(rows), plans, seconds


def _row(name: str, size: int, work: Callable[[], Any]) -> Row:
    times = []
    for _ in range(REPEATS):
        started = time.process_time()
        work()
        times.append(time.process_time() - started)
    # Apart from the timing, which it slows down.
    tracemalloc.start()
    work()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return Row(name, size, round(statistics.median(times) * 1000, 2), round(peak / 1024, 1))


def _with_ratios(rows: Sequence[Row]) -> list[Row]:
    first = rows[0]
    return [
        Row(
            row.name,
            row.size,
            row.milliseconds,
            row.kib,
            round(row.milliseconds / max(first.milliseconds, 0.01), 2),
            round(row.kib / first.kib, 2),
        )
        for row in rows
    ]


def main(arguments: Sequence[str]) -> int:
    """Measure, print, and fail only if something was given twice."""
    workspaces, desktops = (int(text) for text in arguments[:2])
    alone = by_desktops()
    grown, plans, seconds = by_workspaces(workspaces, desktops)
    twice = collisions(plans)
    nodes = Counter(machine.node for plan in plans for machine in plan.machines())
    if "--json" in arguments:
        tables = {"by_desktops": [asdict(row) for row in alone], "by_workspaces": [asdict(row) for row in grown]}
        print(dumps({**tables, "collisions": twice, "machines_by_node": nodes, "seconds": round(seconds, 1)}, indent=2))
    else:
        print(f"{'one workspace of':<18}{'time':>10}{'x':>8}{'memory':>12}{'x':>8}")
        print("\n".join(_line(row) for row in alone))
        print(f"{'a further one, of':<18}{'time':>10}{'x':>8}{'memory':>12}{'x':>8}")
        print("\n".join(_line(row) for row in grown))
        each = f"{min(nodes.values())} to {max(nodes.values())} machines on each of {len(nodes)} nodes"
        print(f"{len(plans)} workspaces, {len(plans) * desktops} desktops in {seconds:.1f} s; {each}")
        print("given twice: " + (", ".join(f"{kind} {n}" for kind, n in twice.items() if n) or "nothing"))
    return 1 if any(twice.values()) else 0


def _line(row: Row) -> str:
    size = f"{row.size} {row.name}"
    return f"{size:<18}{row.milliseconds:>7.1f} ms{row.time_ratio:>8.2f}{row.kib:>8.0f} KiB{row.memory_ratio:>8.2f}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
