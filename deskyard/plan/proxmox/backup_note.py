"""The notes of a cluster's backup: whose it is, and whether it is whole. Pure.

They are the same in a file and on a Proxmox Backup Server, where a volume is called `backup/vm/ID/TIME`. Such a server
verifies what it keeps by a schedule of its own, and says so in `verification`.

vzdump writes the notes of a backup that is not finished; who began it looks at the end of the task and at the volume,
and only then says that it is one. So one that failed, or whose maker died, is never listed.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from deskyard.plan import backup as plan
from deskyard.plan.backup import Backup
from deskyard.plan.printable import printable

WHOLE, UNFINISHED = "deskyard-backup", "deskyard-unfinished"
# Proxmox Backup Server gives no size of one that is still being made, which then is listed as 1.
LEAST_BYTES = 2
# What such a server says of one whose data it could not read back; else `ok`, or nothing yet.
DAMAGED = "failed"


@dataclass(frozen=True)
class Keeper:
    """Whose a backup is."""

    site: str
    workspace: str

    @property
    def words(self) -> list[str]:
        """The words that stand for it in the notes."""
        return [f"site={self.site}", f"workspace={self.workspace}"]


def notes(owner: Keeper, backup: Backup, head: str) -> str:
    """The notes of a backup, on one line: `notes-template` of vzdump takes no line feed."""
    return " ".join([head, *owner.words, *backup.tags[1:]])


def read(rows: Iterable[Mapping[str, Any]], owner: Keeper, desktop: str | None, head: str = WHOLE) -> list[Backup]:
    """The backups of a workspace among a storage's volumes, the oldest first; of one desktop if it is named.

    Its `manifest` is the volume, and `added` the volume's size; a volume of no size is none. One that its server has
    found damaged is not verified, whatever its notes say.
    """
    found, sizes, lost = [], dict[str, int](), set[str]()
    for row in rows:
        words = printable(str(row.get("notes") or ""), most=None, keep="\n").split()
        size = int(row.get("size") or 0)
        if words[:1] != [head] or not set(owner.words) <= set(words) or (head == WHOLE and size < LEAST_BYTES):
            continue
        sizes[str(row["volid"])] = size
        if (row.get("verification") or {}).get("state") == DAMAGED:
            lost.add(str(row["volid"]))
        found.append({"id": str(row["volid"]), "tags": [plan.MANIFEST, *words[1:]]})
    read = [replace(backup, added=sizes[backup.manifest]) for backup in plan.backups(found, desktop)]
    return [replace(each, damaged=True, verified=None) if each.manifest in lost else each for each in read]
