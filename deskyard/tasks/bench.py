"""Tasks that measure: figures, never verdicts."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING

from invoke import Collection, Context, Exit

from deskyard.errors import ConfigError
from deskyard.host.places import tree
from deskyard.tasks.front import Changes, Unnoted, command, show

if TYPE_CHECKING:
    from deskyard.lab import image_bench

SOCKETS = 2000
WORKSPACES, DESKTOPS = 1000, 5
QUEUED_WORKSPACES, HOURS, MEMORY_GIB, NODES = 200, 4, 64, 12
ROUNDS, AT_ONCE = 5, 8


@command(
    changes=Unnoted.TREE,
    help={"clean": "build the images anew instead of quoting their manifests", "json": "print JSON"},
)
def desktop(_: Context, clean: bool = False, json: bool = False) -> None:
    """Measure builds, boots and previews, as ratios against a bare boot of the same disk in the same run."""
    from deskyard.lab.desktop_bench import measure

    figures = measure(clean)
    lines = [f"{figure.ratio:9.3f} x  {figure.seconds:9.2f} s  {figure.name}" for figure in figures]
    show([asdict(figure) for figure in figures], as_json=json, text="\n".join(lines))


@command(
    changes=Changes("bench.life", "target", only_with="target"),
    help={
        "target": "WORKSPACE/DESKTOP that nobody works on: measure its own life instead",
        "reinstall": "with a target: exchange its system disk, too, and take the one of before back",
        "backup": "with a target: make backups of it and go back to one, too",
        "rounds": "how often each is measured",
        "at_once": "how many desktops start at once at the end",
        "json": "print JSON",
    },
)
def life(
    _: Context,
    target: str = "",
    reinstall: bool = False,
    backup: bool = False,
    rounds: int = ROUNDS,
    at_once: int = AT_ONCE,
    json: bool = False,
) -> None:
    """Measure how desktops start, cold, warm, claimed and at once, in a workspace of its own; or one desktop's life."""
    from deskyard.lab import life_bench, start_bench
    from deskyard.lab.quantile import table

    _require(("rounds", rounds, 100), ("at-once", at_once, 100))
    if target:
        rows = life_bench.measure(target, rounds, reinstall=reinstall, backups=backup)
    else:
        rows = start_bench.measure(rounds, at_once)
    show([asdict(row) for row in rows], as_json=json, text=table(rows))


@command(changes=Unnoted.TREE, help={"json": "print JSON"})
def computer(_: Context, json: bool = False) -> None:
    """Measure the computer-use service beside E2B's way (xdotool, scrot, x11vnc), on a screen of its own."""
    from deskyard.lab.computer import bench, figures

    found = bench.measure()
    show([asdict(figure) for figure in found], as_json=json, text=figures.text(found))


@command(changes=Unnoted.TREE, positional=["name"], help={"name": "the image to build", "json": "print JSON"})
def image(_: Context, name: str, json: bool = False) -> None:
    """Build an image three times in a copy of the tree: from nothing, with one role changed, with nothing changed."""
    from deskyard.lab import image_bench

    figures = image_bench.measure(name)
    show([asdict(figure) for figure in figures], as_json=json, text="\n".join(map(_line, figures)))


def _line(figure: image_bench.Figure) -> str:
    ratio = f"{figure.ratio:7.3f} x" if figure.ratio is not None else " " * 9
    last = f"last {figure.last:g}" if figure.last is not None else ""
    value = f"{figure.value:9.2f} {figure.unit}"
    return f"{ratio}  {value:13}  {last:13}  {figure.name}{f' (aim {figure.aim})' if figure.aim else ''}"


@command(changes=Unnoted.TREE, help={"sockets": "how many idle WebSockets to hold", "json": "print JSON"})
def gateway(_: Context, sockets: int = SOCKETS, json: bool = False) -> None:
    """Measure the door, as ratios against direct connections and nginx (if installed) in the same run."""
    _require(("sockets", sockets, 20000))
    _measured("gateway", str(sockets), json=json)


@command(
    changes=Unnoted.TREE,
    help={"workspaces": "how many workspaces on the site", "desktops": "desktops of each", "json": "print JSON"},
)
def fleet(_: Context, workspaces: int = WORKSPACES, desktops: int = DESKTOPS, json: bool = False) -> None:
    """Plan a fleet on a cluster on paper: nothing is given twice; how time and memory grow, as ratios of one run."""
    _require(("workspaces", workspaces, 2000), ("desktops", desktops, 60))
    _measured("fleet", str(workspaces), str(desktops), json=json)


@command(changes=Unnoted.TREE, help={"json": "print JSON"})
def control(_: Context, json: bool = False) -> None:
    """Measure Mission Control with 10,000 desktops: lists, events, claims, memory; in a run of its own."""
    _measured("control", json=json)


@command(
    changes=Unnoted.TREE,
    help={
        "workspaces": "how many workspaces on the site",
        "desktops": "desktops of each",
        "hours": "hours that are worked through",
        "memory": "GiB of memory of the worker's host",
        "seed": "which hours, where the same are wanted again",
        "json": "print JSON",
    },
)
def queue(
    _: Context,
    workspaces: int = QUEUED_WORKSPACES,
    desktops: int = DESKTOPS,
    hours: int = HOURS,
    memory: int = MEMORY_GIB,
    seed: int = 1,
    json: bool = False,
) -> None:
    """Work through hours of a large site in the real queue, by its own clock: how long operations wait for a slot."""
    _require(
        ("workspaces", workspaces, 1000), ("desktops", desktops, 60), ("hours", hours, 24), ("memory", memory, 4096)
    )
    _measured("queueing", *map(str, (workspaces, desktops, hours, memory, seed)), json=json)


@command(
    changes=Unnoted.TREE,
    help={
        "workspaces": "how many workspaces come to the site",
        "nodes": "nodes of the cluster, of 256 GiB of memory each",
        "hours": "hours that are worked through",
        "seed": "which hours, where the same are wanted again",
        "json": "print JSON",
    },
)
def cluster(
    _: Context,
    workspaces: int = QUEUED_WORKSPACES,
    nodes: int = NODES,
    hours: int = 8,
    seed: int = 1,
    json: bool = False,
) -> None:
    """Fill a cluster on paper by its own clock, in the real queue: waits, turns of workspaces, nothing given twice."""
    _require(("workspaces", workspaces, 1000), ("nodes", nodes, 64), ("hours", hours, 24))
    _measured("cluster", *map(str, (seed, workspaces, nodes)), str(hours), json=json)


@command(changes=Unnoted.TREE, help={"json": "print JSON"})
def state(_: Context, json: bool = False) -> None:
    """Make workspaces on a fake cluster: time, calls and what the state costs, kept in files and in a database."""
    _measured("state", json=json)


def _require(*wanted: tuple[str, int, int]) -> None:
    """Raise `ConfigError` for a number that is not from 1 to its most: each by its field."""
    for field, value, most in wanted:
        if not 1 <= value <= most:
            raise ConfigError(field, value, f"must be from 1 to {most}", "choose another number")


def _measured(name: str, *arguments: str, json: bool) -> None:
    """Run one of `tests/bench`: they share the laboratory and the clusters of the tests, so they live with them."""
    argv = [sys.executable, "-m", f"tests.bench.{name}", *arguments, *(["--json"] if json else [])]
    code = subprocess.run(argv, cwd=tree(), check=False).returncode
    if code:
        raise Exit(code=code)


ns = Collection("bench")
ns.add_task(desktop, default=True)
ns.add_task(cluster)
ns.add_task(computer)
ns.add_task(control)
ns.add_task(fleet)
ns.add_task(gateway)
ns.add_task(queue)
ns.add_task(image)
ns.add_task(life)
ns.add_task(state)
