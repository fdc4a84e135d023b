"""Measures the life of a desktop that is there, as ratios against its own start in the same run."""

import time
from collections.abc import Callable, Iterator
from typing import Any

from deskyard.declaration import declaration
from deskyard.host.progress import say
from deskyard.lab.desktop_bench import Figure
from deskyard.life import health, power, snapshot, system
from deskyard.life.backup import backup, restoration
from deskyard.plan.snapshot import Snapshot
from deskyard.site.ssh_link import SshLink

NAME, WRITE_SECONDS = "bench-life", 300.0
BACKUP = "backup, "
START = "start -> all routes answer"


def measure(target: str, *, reinstall: bool = False, backups: bool = False) -> list[Figure]:
    """Stop, start, pause and go back with a desktop; each figure in seconds, and against its start.

    With `reinstall` its system disk is exchanged, too, and the one of before comes back; with `backups` backups are
    made of it, which stay, and it goes back to the last.
    """
    power.opened(target)
    waits = {}
    works = (*_works(target, reinstall), *(_backups(target) if backups else ()))
    for name, work in works:
        begin = time.monotonic()
        done = work()
        waits[name] = time.monotonic() - begin
        said = f"    {name}: {waits[name]:.1f} s"
        if name.startswith(BACKUP):
            waits[f"{name}: file systems stood still"] = done["frozen_seconds"]
            said += f", frozen {done['frozen_seconds']:.2f} s, {done['backup']['added'] / 2**20:.1f} MiB new"
        say(said)
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


def _backups(target: str) -> Iterator[tuple[str, Callable[[], Any]]]:
    yield f"{BACKUP}the first of this run", lambda: backup.run(target)
    yield f"{BACKUP}unchanged", lambda: backup.run(target)
    yield "write 100 MiB into its home", lambda: _write(target)
    yield f"{BACKUP}100 MiB more", lambda: backup.run(target)
    yield "verify: restored, booted apart, its nonce read", lambda: restoration.verify(target)
    yield "restore -> all routes answer", lambda: restoration.restore(target, "latest")


def _write(target: str) -> None:
    workspace, _, desktop = target.partition("/")
    site = declaration.read_workspace(workspace).site
    script = f"head -c {100 << 20} /dev/urandom > /home/.deskyard-bench && sync"
    SshLink(site, workspace).run(desktop, ["sudo", "-n", "sh", "-c", script], timeout=WRITE_SECONDS)
