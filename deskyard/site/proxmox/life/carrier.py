"""A machine that brings a disk to a desktop of a cluster, or takes disks away from it: it never runs.

Disks go from machine to machine (`move_disk`): an unused one of a protected machine cannot be deleted in place
(qemu-server e6352be6, PVE/API2/Qemu.pm, update_vm_api: check_protection).
"""

import contextlib
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from deskyard.errors import SiteError
from deskyard.plan.proxmox.backup_note import Keeper
from deskyard.plan.proxmox.claims import trial_id
from deskyard.plan.proxmox.view import ClusterView, SeenMachine, read_view, trial_pool_of
from deskyard.site.proxmox import listing
from deskyard.site.proxmox.client import ApiError, Client
from deskyard.site.proxmox.kinds.disk_size import disk_size_gib
from deskyard.site.proxmox.life.copies import until_of, words_of, written
from deskyard.site.proxmox.life.record import ABSENT, this_host
from deskyard.site.proxmox.machine import DISK, ClusterMachine, ensure_pool, vm_path
from deskyard.site.proxmox.task import finish, running, wait_removal, wait_task

CLONE, MOVE = "qmclone", "qmmove"
MAKE_SECONDS, MOVE_SECONDS, REMOVE_SECONDS = 600.0, 600.0, 600.0
# How long an operator's machine may be at work with one.
WORK_SECONDS = 3600
_START, _SUFFIX = "deskyard-carrier.", "-carrier"


@dataclass(frozen=True)
class Carrier(ClusterMachine):
    """The machine beside one desktop; it has only its name until it gets its tag."""

    owner: Keeper
    desktop: str

    @property
    def _given(self) -> dict[str, object]:
        words = {"until": int(time.time()) + WORK_SECONDS, "host": this_host()}
        return {"name": self._name, "pool": trial_pool_of(self.owner.site), "description": written(words)}

    @property
    def _name(self) -> str:
        return f"{self.desktop}{_SUFFIX}.{self.owner.workspace}"

    def config(self) -> Mapping[str, Any]:
        """Its configuration."""
        found: Mapping[str, Any] = self.client.get(f"{self._path}/config")
        return found

    def make_empty(self) -> None:
        """Make it without any disk."""
        wait_task(
            self.client, self.client.post(f"nodes/{self.node}/qemu", vmid=self.vm_id, **self._given), MAKE_SECONDS
        )
        self._tag()

    def make_clone(self, template_node: str, template: int, size_gib: int) -> None:
        """Make it a linked clone of a template, with a disk of this size."""
        elsewhere = self.node if self.node != template_node else None
        path = f"{vm_path(template_node, template)}/clone"
        upid = self.client.post(path, newid=self.vm_id, full=False, target=elsewhere, **self._given)
        finish(self.client, upid, MAKE_SECONDS)
        self._tag()
        if disk_size_gib(self.config(), DISK) < size_gib:
            upid = self.client.put(f"{self._path}/resize", disk=DISK, size=f"{size_gib}G")
            finish(self.client, upid, MOVE_SECONDS)

    def _tag(self) -> None:
        """Tag it once it is in its pool: before, the token may not (qemu-server, assert_tag_permissions)."""
        mark = f"{_START}{self.owner.site}.{self.owner.workspace}.{self.desktop}"
        self.client.put(f"{self._path}/config", tags=mark)

    def require_nobody_else(self) -> None:
        """Raise `SiteError` while another operator's machine may be at work with it."""
        config = self.config()
        if words_of(config).get("host", this_host()) != this_host() and until_of(config) > time.time():
            reason = f"another operator's machine is at work with its disks, by machine {self.vm_id}"
            remedy = f"wait until that has ended; if it was killed, run this in an hour, or remove {self.vm_id} by hand"
            raise SiteError("desktop", self.desktop, reason, remedy)

    def remove(self) -> None:
        """Remove it with the disks that it has; nothing if it is gone, or its id is another machine's by now."""
        try:
            if self.config().get("name") == self._name:
                wait_removal(self.client, self.client.delete(self._path, purge=True), REMOVE_SECONDS)
        except ApiError as error:
            if not ABSENT.search(error.reason):
                raise


def new_carrier(client: Client, owner: Keeper, desktop: str, node: str) -> Carrier:
    """A carrier with a free id that is to be made on a node."""
    ensure_pool(client, trial_pool_of(owner.site), "Backups that Deskyard tries out")
    chosen = trial_id(owner.site, client.cluster, f"{_START}{desktop}", _machines(client))
    return Carrier(client, node, chosen, owner, desktop)


def carriers(client: Client, owner: Keeper, desktop: str | None = None) -> list[Carrier]:
    """The carriers that are there: of a desktop, or of all of a workspace."""
    found = []
    for machine in _machines(client).machines:
        of = _desktop_of(machine, owner)
        if of is not None and desktop in (None, of):
            found.append(Carrier(client, machine.node, machine.vm_id, owner, of))
    return found


def move(client: Client, node: str, vm_id: int, key: str, target: int, target_key: str) -> None:
    """Let another machine of the node have a disk."""
    to = {"target-vmid": target, "target-disk": target_key}
    wait_task(client, client.post(f"{vm_path(node, vm_id)}/move_disk", disk=key, **to), MOVE_SECONDS)


def wait_for_tasks(client: Client, node: str) -> None:
    """Wait until none of our clones and moves is under way on a node: a task goes on although who began it has died."""
    for kind in (CLONE, MOVE):
        for upid in running(client, node, kind=kind):
            with contextlib.suppress(SiteError):
                wait_task(client, upid, MOVE_SECONDS)


def _machines(client: Client) -> ClusterView:
    return read_view(listing.resources(client), (), {})


def _desktop_of(machine: SeenMachine, owner: Keeper) -> str | None:
    start = f"{_START}{owner.site}.{owner.workspace}."
    marked = next((tag.removeprefix(start) for tag in machine.tags if tag.startswith(start)), None)
    name, _, workspace = machine.name.rpartition(".")
    named = machine.pool == trial_pool_of(owner.site) and workspace == owner.workspace and name.endswith(_SUFFIX)
    return marked or (name.removesuffix(_SUFFIX) if named else None)
