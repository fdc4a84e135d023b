"""Boots a backup of a cluster apart from everything: in a machine of its own, without any NIC, gone with its block."""

import contextlib
import time
from collections.abc import Callable, Iterator

from deskyard.errors import SiteError
from deskyard.host.progress import say
from deskyard.host.vm.tried_guest import TriedGuest
from deskyard.plan.backup import Backup, NoVerdict
from deskyard.plan.proxmox.backup_note import Keeper
from deskyard.plan.proxmox.view import SeenMachine
from deskyard.site.proxmox.client import ApiError, Client
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

# What QEMU and storages say where a node lacks room for a machine; in small letters.
NO_ROOM = ("cannot allocate memory", "no space left on device", "insufficient free space")


@contextlib.contextmanager
def booted(client: Client, owner: Keeper, machine: SeenMachine, node: str, backup: Backup) -> Iterator[TriedGuest]:
    """A machine like that of the desktop, started from its backup on a node that has it.

    Raises `NoVerdict` if none can be started, for a reason that says nothing of the backup.
    """
    with _says_nothing(lambda _: True):
        _clear(client, owner, backup.desktop)
        storage = require_room(client, machine, node)
        trial = new_copy(client, owner, backup.desktop, TRIAL, node)
    try:
        with _says_nothing(_is_of_the_cluster):
            trial.make(machine, backup, storage, written({"until": latest_end(), "host": this_host()}))
            wait_task(client, client.post(f"{trial.path}/status/start"), START_SECONDS)
        yield TriedGuest(answering(client, node, trial.vm_id).execute)
    finally:
        trial.remove()


@contextlib.contextmanager
def _says_nothing(is_so: Callable[[SiteError], bool]) -> Iterator[None]:
    """Turn errors of which that is so into `NoVerdict`: the cluster refused or never answered."""
    try:
        yield
    except SiteError as error:
        if is_so(error):
            raise NoVerdict.because(error) from error
        raise


def _is_of_the_cluster(error: SiteError) -> bool:
    return isinstance(error, ApiError) or any(words in error.reason.lower() for words in NO_ROOM)


def _clear(client: Client, owner: Keeper, desktop: str) -> None:
    """Remove what trials left whose process was killed; one that may still go on is left alone."""
    for left in copies(client, owner, desktop, TRIAL):
        if until_of(left.config()) < time.time():
            say(f"    machine {left.vm_id}, which an interrupted trial left, is removed")
            left.remove()
