"""A machine of its own that holds a backup of a desktop: beside the workspace, without any NIC.

Read in qemu-server e6352be6 (PVE/API2/Qemu.pm: create_vm; PVE/QemuServer.pm: restore_vma_archive, restore_merge_config,
restore_update_config_line) and pve-storage (PVE/Storage.pm: check_volume_access). Not run on a real cluster.

It is made empty, in a pool, and the backup is restored over it: a restore that fails, or is ended, takes nothing away
and leaves a machine without name and tags, which the token reaches by that pool alone (create_vm, 1575-1592).

What is given beside the archive takes the place of what the archive says, in the step that gives the machine its
configuration: so it never has the name or the tags of the desktop that it is a copy of. A NIC can be replaced in that
way, not be left out: it is given as one on no bridge, since the right to use that of the archive, which may be of
before another network, is demanded at the restore (check_restore_permissions), and is taken out before anything else.
"""

import contextlib
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from deskyard.errors import SiteError
from deskyard.host.deadline import Deadline
from deskyard.plan.backup import Backup
from deskyard.plan.proxmox.backup_note import Keeper
from deskyard.plan.proxmox.claims import trial_id
from deskyard.plan.proxmox.view import ClusterView, SeenMachine, read_view, tags_of, trial_pool_of
from deskyard.site.proxmox import listing
from deskyard.site.proxmox.agent import ClusterAgent
from deskyard.site.proxmox.client import ApiError, Client, quoted
from deskyard.site.proxmox.kinds.disk_size import size_of
from deskyard.site.proxmox.life.home import HOME_DISK
from deskyard.site.proxmox.life.power import MachinePower
from deskyard.site.proxmox.life.record import this_host
from deskyard.site.proxmox.machine import DISK, ClusterMachine, ensure_pool, vm_path
from deskyard.site.proxmox.task import node_of, running, wait_removal, wait_task

MAKE_SECONDS, RESTORE_SECONDS, BOOT_SECONDS, REMOVE_SECONDS, POLL_SECONDS = 600.0, 24 * 3600.0, 900.0, 600.0, 2.0
# All that is in the configuration of one that was not restored to its end.
HUSK = frozenset({"memory", "digest"})
# Enough to boot; what else runs on the node keeps its own.
MOST_MEMORY_MIB = 2048
# What copies are for.
TRIAL, RESTORE = "trial", "restore"
_NIC = re.compile(r"net\d+")
# On no bridge, for which nobody needs a right (check_bridge_access).
ALONE = "virtio,link_down=1"


@dataclass(frozen=True)
class Copy(ClusterMachine):
    """A machine that holds a backup, whose backup that is, and what it is for: `trial` or `restore`."""

    owner: Keeper
    desktop: str
    purpose: str

    @property
    def path(self) -> str:
        """Where the API has it."""
        return self._path

    @property
    def mark(self) -> str:
        """The tag that tells it from the machines of workspaces."""
        return mark_of(self.owner, self.desktop, self.purpose)

    @property
    def called(self) -> str:
        """Its name as a machine, by which it is known in its pool until it has its tag."""
        return f"{self.desktop}-{self.purpose}.{self.owner.workspace}"

    @property
    def power(self) -> MachinePower:
        """The power of this machine."""
        return MachinePower(self.client, self.node, self.vm_id)

    def config(self) -> Mapping[str, Any]:
        """Its configuration."""
        found: Mapping[str, Any] = self.client.get(f"{self._path}/config")
        return found

    def make(self, machine: SeenMachine, backup: Backup, storage: str, description: str) -> None:
        """Restore a backup to it, with its disks in a storage; then it has no NIC."""
        ensure_pool(self.client, trial_pool_of(self.owner.site), "Backups that Deskyard tries out")
        path, ours = f"nodes/{self.node}/qemu", {"name": self.called, "pool": trial_pool_of(self.owner.site)}
        made = self.client.post(path, vmid=self.vm_id, description=description, **ours)
        wait_task(self.client, made, MAKE_SECONDS)
        upid = self.client.post(
            path,
            vmid=self.vm_id,
            force=True,
            archive=backup.manifest,
            storage=storage,
            unique=True,
            **ours,
            tags=self.mark,
            description=description,
            memory=min(machine.memory_mib, MOST_MEMORY_MIB),
            onboot=False,
            protection=False,
            **dict.fromkeys(self._nics_in(backup), ALONE),
        )
        try:
            wait_task(self.client, upid, RESTORE_SECONDS)
        except BaseException:
            # Of its own task a token may end each; the disks that were not whole go with it.
            with contextlib.suppress(SiteError):
                self.client.delete(f"nodes/{node_of(upid)}/tasks/{quoted(upid)}")
                wait_task(self.client, upid, REMOVE_SECONDS)
            raise
        self._cut_off()

    def remove(self) -> None:
        """Remove it with its disks; nothing if it is not there, or is not ours."""
        try:
            config = self.config()
        except ApiError:
            # Nothing was made.
            return
        if self.mark not in tags_of(config):
            named = config.get("name") == self.called or config.keys() <= HUSK
            if not named or self.vm_id not in {machine.vm_id for machine in _pooled(self.client, self.owner.site)}:
                return
        self.power.pull_plug()
        wait_removal(self.client, self.client.delete(self._path, purge=True), REMOVE_SECONDS)

    def _nics_in(self, backup: Backup) -> list[str]:
        """The NICs that an archive holds; a desktop's own where it cannot be read, of which the restore says more."""
        try:
            kept = self.client.get(f"nodes/{self.node}/vzdump/extractconfig", volume=backup.manifest)
        except ApiError:
            return ["net0"]
        return sorted({line.partition(":")[0] for line in str(kept).splitlines() if _NIC.match(line)})

    def _cut_off(self) -> None:
        """Take its NICs out, and see that it has none: it is the twin of a desktop that runs."""
        config = self.config()
        if nics := _nics(config):
            self.client.put(f"{self._path}/config", delete=",".join(nics), digest=config["digest"])
        if nics := _nics(self.config()):
            reason = f"still has {', '.join(nics)} and would be a twin of the desktop on its network"
            raise SiteError("machine", self.vm_id, reason, "look who else changes it, then run it again")


def mark_of(owner: Keeper, desktop: str, purpose: str) -> str:
    """The tag of the copies of a desktop's backups that are for something."""
    return f"deskyard-{purpose}.{owner.site}.{owner.workspace}.{desktop}"


def new_copy(client: Client, owner: Keeper, desktop: str, purpose: str, node: str) -> Copy:
    """A copy with a free id that is to be made on a node; what restores that failed have left is removed."""
    _clear_husks(client, owner.site)
    name = mark_of(owner, desktop, purpose)
    return Copy(client, node, trial_id(owner.site, client.cluster, name, view_of(client)), owner, desktop, purpose)


def copies(client: Client, owner: Keeper, desktop: str, purpose: str) -> list[Copy]:
    """The copies that are there."""
    found = (copy_at(client, machine, owner, purpose) for machine in view_of(client).machines)
    return [copy for copy in found if copy is not None and copy.desktop == desktop]


def copy_at(client: Client, machine: SeenMachine, owner: Keeper, purpose: str) -> Copy | None:
    """The copy that a machine is: by its tag, or in the pool by its name, as long as nothing is restored to it."""
    # Names have no dot, so no other workspace's tags begin like this.
    start, end = mark_of(owner, "", purpose), f"-{purpose}.{owner.workspace}"
    marked = [tag.removeprefix(start) for tag in machine.tags if tag.startswith(start)]
    if not marked and not machine.tags and machine.pool == trial_pool_of(owner.site) and machine.name.endswith(end):
        marked = [machine.name.removesuffix(end)]
    return Copy(client, machine.node, machine.vm_id, owner, marked[0], purpose) if marked else None


def require_nobody_else(copy: Copy) -> None:
    """Raise `SiteError` while another operator's machine may be at work with a copy; on this one locks tell."""
    words = words_of(copy.config())
    if words.get("host", this_host()) != this_host() and until_of(copy.config()) > time.time():
        doing = "trying a backup of it out" if copy.purpose == TRIAL else "taking it back to a backup"
        reason = f"another operator's machine is {doing}, by machine {copy.vm_id}"
        remedy = f"wait until that has ended; if it was killed, run this there, or remove {copy.vm_id} by hand"
        raise SiteError("desktop", copy.desktop, reason, remedy)


def view_of(client: Client) -> ClusterView:
    """The machines of the cluster."""
    return read_view(listing.resources(client), (), {})


def _pooled(client: Client, site: str) -> list[SeenMachine]:
    return [machine for machine in view_of(client).machines if machine.pool == trial_pool_of(site)]


def _clear_husks(client: Client, site: str) -> None:
    """Remove what failed restores have left whose process was killed; one at which a task works is left alone."""
    for machine in _pooled(client, site):
        path = vm_path(machine.node, machine.vm_id)
        # A node that does not answer keeps its own until a later time.
        with contextlib.suppress(ApiError):
            is_idle = not machine.tags and not running(client, machine.node, vmid=machine.vm_id)
            if is_idle and client.get(f"{path}/config").keys() <= HUSK:
                wait_removal(client, client.delete(path, purge=True), REMOVE_SECONDS)


def require_room(client: Client, machine: SeenMachine, node: str) -> str:
    """The storage of the desktop's system disk; raises `SiteError` if its disks have no room there once more.

    Their whole sizes count: what a disk will take of a thin pool nobody can tell, and one that is full halts all of it.
    """
    config = client.get(f"{vm_path(machine.node, machine.vm_id)}/config")
    drives = [str(config.get(disk, "")) for disk in (DISK, HOME_DISK)]
    storage, needed = drives[0].partition(":")[0], sum(map(size_of, drives))
    if not storage:
        raise SiteError("machine", f"{machine.vm_id} on {machine.node}", f"has no {DISK}", "give it back its disk")
    free = int(client.get(f"nodes/{node}/storage/{quoted(storage)}/status").get("avail") or 0)
    if free < needed:
        reason = f"{free >> 20} MiB are free on {node}; the disks of a backup take {needed >> 20}"
        remedy = "delete snapshots or backups that lie there, or add space, then run it again; nothing was touched"
        raise SiteError("storage", storage, reason, remedy)
    return storage


def answering(client: Client, node: str, vm_id: int) -> ClusterAgent:
    """The agent of a guest once it answers; raises `SiteError` if the machine ends, or it takes too long."""
    agent, power = ClusterAgent(client, node, vm_id), MachinePower(client, node, vm_id)

    def decided() -> bool:
        return agent.answers() or power.state() != "running"

    if not Deadline(BOOT_SECONDS).wait_for(decided, POLL_SECONDS, client.sleep) or not agent.answers():
        reason = f"the restored machine did not boot within {BOOT_SECONDS:.0f} s"
        raise SiteError("machine", agent.name, reason, "restore the backup by hand and see its console")
    return agent


def written(words: Mapping[str, object]) -> str:
    """A description that holds these words."""
    return "\n".join(f"{key}={value}" for key, value in words.items() if value not in ("", None))


def words_of(config: Mapping[str, Any]) -> dict[str, str]:
    """The words in the description of a machine."""
    pairs = [line.strip().partition("=") for line in str(config.get("description") or "").splitlines()]
    return {key: value for key, _, value in pairs if value}


def latest_end() -> int:
    """When a copy that is begun now has booted at the latest, or is of a process that was killed."""
    return int(time.time() + RESTORE_SECONDS + BOOT_SECONDS)


def until_of(config: Mapping[str, Any]) -> int:
    """Until when somebody may be at work with a machine; 0 if it does not say."""
    found = words_of(config).get("until", "")
    return int(found) if found.isdecimal() else 0


def _nics(config: Mapping[str, Any]) -> list[str]:
    return sorted(key for key in config if _NIC.fullmatch(key))
