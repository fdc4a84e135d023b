"""The notes of a cluster's backup: whose it is, and whether it is whole. Pure.

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

    Its `manifest` is the volume, and `added` the volume's size; a volume of no size is none.
    """
    found, sizes = [], {}
    for row in rows:
        words = printable(str(row.get("notes") or ""), most=None, keep="\n").split()
        size = int(row.get("size") or 0)
        if words[:1] != [head] or not set(owner.words) <= set(words) or (head == WHOLE and size < LEAST_BYTES):
            continue
        sizes[str(row["volid"])] = size
        found.append({"id": str(row["volid"]), "tags": [plan.MANIFEST, *words[1:]]})
    return [replace(backup, added=sizes[backup.manifest]) for backup in plan.backups(found, desktop)]
