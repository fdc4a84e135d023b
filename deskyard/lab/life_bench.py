"""Measures the life of a desktop that is there, as ratios against its own start in the same run."""

import time
from collections.abc import Callable, Iterator
from typing import Any

from deskyard.host.progress import say
from deskyard.lab.desktop_bench import Figure
from deskyard.life import health, power, snapshot, system
from deskyard.plan.snapshot import Snapshot

NAME = "bench-life"
START = "start -> all routes answer"


def measure(target: str, *, reinstall: bool = False) -> list[Figure]:
    """Stop, start, pause and go back with a desktop; each figure in seconds, and against its start.

    With `reinstall` its system disk is exchanged, too, and the one of before comes back.
    """
    power.opened(target)
    waits = {}
    for name, work in _works(target, reinstall):
        begin = time.monotonic()
        work()
        waits[name] = time.monotonic() - begin
        say(f"    {name}: {waits[name]:.1f} s")
    return [Figure(name, round(wait, 2), round(wait / waits[START], 3)) for name, wait in waits.items()]


def _works(target: str, reinstall: bool) -> Iterator[tuple[str, Callable[[], Any]]]:
    workspace, _, desktop = target.partition("/")
    yield "stop", lambda: power.stop(target)
    yield START, lambda: power.start(target)
    yield "pause", lambda: power.pause(target)
    yield "resume -> all routes answer", lambda: power.start(target)
    yield "pause to disk", lambda: power.pause(target, to_disk=True)
    yield "resume from disk -> all routes answer", lambda: power.start(target)
    yield "snapshot with memory", lambda: snapshot.create(target, Snapshot(NAME))
    yield "restore with memory -> all routes answer", lambda: snapshot.restore(target, NAME)
    yield "delete the snapshot", lambda: snapshot.delete(target, NAME)
    yield "health", lambda: health.look(workspace, desktop)
    if reinstall:
        yield "reinstall -> as well as before", lambda: system.upgrade(target, again=True)
        yield "roll back -> all routes answer", lambda: system.roll_back(target)
