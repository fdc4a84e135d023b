"""Boots a backup of a cluster apart from everything: in a machine of its own, without any NIC, gone with its block."""

import contextlib
import time
from collections.abc import Iterator

from deskyard.host.progress import say
from deskyard.host.vm.tried_guest import TriedGuest
from deskyard.plan.backup import Backup
from deskyard.plan.proxmox.backup_note import Keeper
from deskyard.plan.proxmox.view import SeenMachine
from deskyard.site.proxmox.client import Client
from deskyard.site.proxmox.life.copies import (
    TRIAL,
    answering,
    copies,
    latest_end,
    new_copy,
    require_room,
    until_of,
    written,
)
from deskyard.site.proxmox.life.power import START_SECONDS
from deskyard.site.proxmox.life.record import this_host
from deskyard.site.proxmox.task import wait_task


@contextlib.contextmanager
def booted(client: Client, owner: Keeper, machine: SeenMachine, node: str, backup: Backup) -> Iterator[TriedGuest]:
    """A machine like that of the desktop, started from its backup on a node that has it."""
    _clear(client, owner, backup.desktop)
    storage = require_room(client, machine, node)
    trial = new_copy(client, owner, backup.desktop, TRIAL, node)
    try:
        trial.make(machine, backup, storage, written({"until": latest_end(), "host": this_host()}))
        wait_task(client, client.post(f"{trial.path}/status/start"), START_SECONDS)
        yield TriedGuest(answering(client, node, trial.vm_id).execute)
    finally:
        trial.remove()


def _clear(client: Client, owner: Keeper, desktop: str) -> None:
    """Remove what trials left whose process was killed; one that may still go on is left alone."""
    for left in copies(client, owner, desktop, TRIAL):
        if until_of(left.config()) < time.time():
            say(f"    machine {left.vm_id}, which an interrupted trial left, is removed")
            left.remove()
