"""The machines that killed tasks have left beside the desktops of a workspace: copies, and carriers of their disks.

The next task of that kind at the same desktop ends them. A desktop that goes has no next one: they go with it.
"""

import contextlib
from functools import partial
from itertools import product

from deskyard.errors import SiteError
from deskyard.plan.proxmox.backup_note import Keeper
from deskyard.site.proxmox.client import Client
from deskyard.site.proxmox.life.carrier import CLONE, MOVE, Carrier, carriers
from deskyard.site.proxmox.life.copies import (
    REMOVE_SECONDS,
    RESTORE,
    TRIAL,
    Copy,
    copy_at,
    require_nobody_else,
    view_of,
)
from deskyard.site.proxmox.listing import nodes_up
from deskyard.site.proxmox.task import kind_of, running, wait_task
from deskyard.site.remnant import Remnant

# The task in which the cluster makes a copy: it has its tags, and so its owner, when that ends.
MAKE = "qmrestore"


def remnants(client: Client, owner: Keeper) -> list[Remnant]:
    """The copies of a workspace's desktops that are there, also of desktops that are not."""
    found = []
    for machine, purpose in product(view_of(client).machines, (RESTORE, TRIAL)):
        if copy := copy_at(client, machine, owner, purpose):
            what = f"machine {machine.vm_id} on {machine.node}, in which a backup of it was restored ({purpose})"
            found.append(Remnant(copy.desktop, what, partial(_remove, copy)))
    for left in carriers(client, owner):
        what = f"machine {left.vm_id} on {left.node}, which was to carry a disk of it"
        found.append(Remnant(left.desktop, what, partial(_remove, left)))
    return found


def wait_for_tasks(client: Client) -> None:
    """Wait until no copy is being made, and no disk goes from machine to machine: a task outlives who began it.

    Whose that is is not to be seen before. Raises `SiteError` if one takes longer than ten minutes.
    """
    for node in nodes_up(client):
        for upid in (upid for upid in running(client, node) if kind_of(upid) in (MAKE, CLONE, MOVE)):
            with contextlib.suppress(SiteError):
                wait_task(client, upid, REMOVE_SECONDS)
            if upid in running(client, node):
                reason = f"still makes a machine or moves a disk on {node}, maybe of a desktop that is to go"
                remedy = "wait until it ends, or stop it in its node's list of tasks, then run this again"
                raise SiteError("task", upid, reason, remedy)


def _remove(left: Copy | Carrier) -> None:
    if isinstance(left, Copy):
        require_nobody_else(left)
    else:
        left.require_nobody_else()
    left.remove()
