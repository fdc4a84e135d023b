"""Finds /home among the restored disks of a backup: a volume of its own, or a folder of the system's disk."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from deskyard.errors import SiteError
from deskyard.host.command import run
from deskyard.host.progress import say
from deskyard.host.sandbox import FILE, sandboxed
from deskyard.host.vm.ext4 import ROOT, DamagedError, Entry, Ext4
from deskyard.host.vm.root_file_system import LINUX_ROOT_TYPES, SECTOR
from deskyard.life.backup.home.tree import Tree
from deskyard.plan.backup import Backup, Disk

TABLE_SECONDS = 60
# The journal holds what has not reached its place: the machine was not halted in order, or ran on.
UNFINISHED = "needs_recovery"


@contextmanager
def home_of(found: Backup, restored: Callable[[Disk], Path]) -> Iterator[Tree]:
    """The /home of a backup, whose disks are restored one by one until it is found; raises `SiteError` if it is not."""
    # The system's disk is the first; a volume that was never used is blank.
    for disk in reversed(found.disks):
        path = restored(disk)
        path.chmod(0o444)
        for offset in _offsets(path):
            with Ext4(path, offset) as file_system:
                features = file_system.features()
                home = _home(file_system, is_volume=not offset) if features else None
                if home is None:
                    continue
                if UNFINISHED in features:
                    say("    its journal was not empty: what was written in the last moments before it may be missing")
                yield Tree(file_system, home, disk.size)
                return
        path.unlink()
    reason = "none of its disks holds an ext4 file system with /home that can be read"
    raise SiteError("backup", found.id, reason, "take another, or take the whole desktop back: ./inv backup.restore")


def _home(file_system: Ext4, *, is_volume: bool) -> Entry | None:
    if is_volume:
        return Entry(b"home", ROOT, 0o040755, 0, 0, 0)
    try:
        entries = file_system.folder(ROOT).entries
    except DamagedError:
        return None
    return next((entry for entry in entries if entry.name == b"home" and entry.kind == "folder"), None)


def _offsets(path: Path) -> list[int]:
    """Where its file systems may begin: with the disk, or with a partition for a system."""
    argv = sandboxed(["/usr/sbin/sfdisk", "--json", FILE], path, TABLE_SECONDS)
    table = run(argv, timeout=TABLE_SECONDS, check=False)
    try:
        partitions = json.loads(table.stdout)["partitiontable"]["partitions"] if table.code == 0 else []
        wanted = [int(row["start"]) for row in partitions if str(row["type"]).upper() in LINUX_ROOT_TYPES]
    except (KeyError, TypeError, ValueError):
        wanted = []
    return [0, *(start * SECTOR for start in wanted if start > 0)]
