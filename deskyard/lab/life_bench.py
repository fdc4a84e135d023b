"""Measures the life of a desktop that is there, as ratios against its own start in the same run."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from deskyard.declaration import declaration
from deskyard.errors import DeskyardError
from deskyard.host.progress import say
from deskyard.lab.quantile import Row, judged, quantile, row
from deskyard.life import health, power, snapshot, system
from deskyard.life.backup import backup, restoration
from deskyard.plan.snapshot import Snapshot
from deskyard.site.ssh_link import SshLink

NAME, WRITE_SECONDS = "bench-life", 300.0
FILE = "/home/.deskyard-bench"
BACKUP, REINSTALL = "backup, ", "reinstall -> as well as before"
START = "start -> all routes answer"
UNCHANGED = f"{BACKUP}unchanged"
FROZEN, ADDED = ": file systems stood still", ": MB added"
DOWN, SWAP = "reinstall: routes did not answer", "reinstall: the swap of the system disk, against that"
# What was aimed at, of each: seconds that a guest stands still, MB that nothing new takes, seconds of a swap.
FROZEN_SECONDS, UNCHANGED_MB, SWAP_SECONDS = 0.2, 1.0, 0.1


def measure(target: str, rounds: int, *, reinstall: bool = False, backups: bool = False) -> list[Row]:
    """Stop, start, pause and go back with a desktop, so many times, each against its start.

    With `reinstall` its system disk is exchanged, too, and the one of before comes back; with `backups` backups are
    made of it, which stay, and it goes back to the last.
    """
    power.opened(target)
    waits: dict[str, list[float]] = {}
    try:
        for _ in range(rounds):
            for name, work in (*_works(target, reinstall), *(_backups(target) if backups else ())):
                begin = time.monotonic()
                done = work()
                for what, value in {name: time.monotonic() - begin, **_further(name, done)}.items():
                    waits.setdefault(what, []).append(value)
                    say(f"    {what}: {value:.2f}")
    finally:
        if backups:
            # A desktop that cannot be reached any more has a first error, which is the one to show.
            with suppress(DeskyardError):
                _on_desktop(target, f"rm -f {FILE}")
    return rows(waits)


def rows(waits: Mapping[str, Sequence[float]]) -> list[Row]:
    """The waits as rows against the start; the swap against the time without an answer, MB against nothing."""
    start = quantile(waits[START], 0.5)
    found = []
    for name, measured in waits.items():
        base = 1.0 if name.endswith(ADDED) else quantile(waits[DOWN], 0.5) if name == SWAP else start
        found.append(_with_aim(row(name, measured, base)))
    return found


def _with_aim(found: Row) -> Row:
    if found.name.endswith(FROZEN):
        return judged(found, "s", FROZEN_SECONDS)
    if found.name == f"{UNCHANGED}{ADDED}":
        return judged(found, "MB", UNCHANGED_MB)
    return judged(found, "s", SWAP_SECONDS) if found.name == SWAP else found


def _further(name: str, done: Any) -> dict[str, float]:
    """The figures that a task says of itself, besides how long it took."""
    if name.startswith(BACKUP):
        return {f"{name}{FROZEN}": done["frozen_seconds"], f"{name}{ADDED}": done["backup"]["added"] / 1e6}
    return {DOWN: done["down_seconds"], SWAP: done["swap_seconds"]} if name == REINSTALL else {}


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
        yield REINSTALL, lambda: system.upgrade(target, again=True, watch=0)
        yield "roll back -> all routes answer", lambda: system.roll_back(target)


def _backups(target: str) -> Iterator[tuple[str, Callable[[], Any]]]:
    yield f"{BACKUP}the first of a round", lambda: backup.run(target)
    yield UNCHANGED, lambda: backup.run(target)
    yield (
        "write 100 MiB into its home",
        lambda: _on_desktop(target, f"head -c {100 << 20} /dev/urandom > {FILE} && sync"),
    )
    yield f"{BACKUP}100 MiB more", lambda: backup.run(target)
    yield "verify: restored, booted apart, its nonce read", lambda: restoration.verify(target)
    yield "restore -> all routes answer", lambda: restoration.restore(target, "latest")


def _on_desktop(target: str, script: str) -> None:
    workspace, _, desktop = target.partition("/")
    site = declaration.read_workspace(workspace).site
    SshLink(site, workspace).run(desktop, ["sudo", "-n", "sh", "-c", script], timeout=WRITE_SECONDS)
