"""Volumes that a task of ours made, and to which it could not write their notes: nothing else says whose they are.

The storage lists them without notes, as it does what others have made. The log of the task that was at work when a
volume came into being has its name, and the notes that it was told to write.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from deskyard.plan.proxmox import vzdump_log
from deskyard.site.proxmox.client import Client
from deskyard.site.proxmox.listing import nodes_up
from deskyard.site.proxmox.task import ended, log_of

MAKE = "vzdump"
# Between the clock of a node and that of its backup server.
APART_SECONDS = 2


def with_lost_notes(client: Client, vm_id: int, rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The volumes of a machine that lost their notes, with those; the cluster's tasks are asked only if one has none.

    What somebody has protected there is left alone.
    """
    bare = [row for row in rows if not row.get("notes") and not int(row.get("protected") or 0)]
    bare = [row for row in bare if str(row.get("vmid")) == str(vm_id)]
    if not bare:
        return []
    tasks = [task for node in nodes_up(client) for task in ended(client, node, kind=MAKE, vmid=vm_id)]
    noted = [{**row, "notes": _lost(client, row, tasks)} for row in bare]
    return [row for row in noted if row["notes"]]


def _lost(client: Client, row: Mapping[str, Any], tasks: Sequence[Mapping[str, Any]]) -> str:
    """The notes that a volume was to have; empty if no task of ours made it, or it had them once."""
    for task in tasks:
        if not task["starttime"] - APART_SECONDS <= int(row.get("ctime") or 0) <= task["endtime"] + APART_SECONDS:
            continue
        if not row["shared"] and row["node"] != task["node"]:
            # Another node's storage may have a volume of the same name.
            continue
        ended_well = str(task.get("status")).startswith(("OK", "WARNINGS"))
        made = vzdump_log.made(log_of(client, str(task["upid"])), ended_well=ended_well)
        if made is not None and made.volume == row["volid"] and not made.is_noted:
            return made.notes
    return ""
