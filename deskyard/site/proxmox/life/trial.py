"""Boots a backup of a cluster apart from everything: in a machine of its own, without any NIC, gone with its block.

Read in qemu-server e6352be6 (PVE/API2/Qemu.pm: create_vm; PVE/QemuServer.pm: restore_vma_archive, restore_merge_config,
restore_update_config_line) and pve-storage (PVE/Storage.pm: check_volume_access). Not run on a real cluster.

What is given beside the archive takes the place of what the archive says, in the step that gives the machine its
configuration: so it never has the name or the tags of the desktop that it is a copy of. A NIC can be replaced in that
way, not be left out: it is taken out before the first start.
"""

import contextlib
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from deskyard.errors import SiteError
from deskyard.host.deadline import Deadline
from deskyard.host.progress import say
from deskyard.host.vm.tried_guest import TriedGuest
from deskyard.plan.backup import Backup
from deskyard.plan.proxmox.backup_note import Keeper
from deskyard.plan.proxmox.claims import trial_id
from deskyard.plan.proxmox.view import ClusterView, SeenMachine, read_view, tags_of, trial_pool_of
from deskyard.site.proxmox.agent import ClusterAgent
from deskyard.site.proxmox.client import ApiError, Client, quoted
from deskyard.site.proxmox.life.power import START_SECONDS, MachinePower
from deskyard.site.proxmox.machine import ClusterMachine, ensure_pool
from deskyard.site.proxmox.task import node_of, wait_task

RESTORE_SECONDS, BOOT_SECONDS, REMOVE_SECONDS, POLL_SECONDS = 24 * 3600.0, 900.0, 600.0, 2.0
# Enough to boot; what else runs on the node keeps its own.
MOST_MEMORY_MIB = 2048
_NIC = re.compile(r"net\d+")


@dataclass(frozen=True)
class Trial(ClusterMachine):
    """A machine in which a backup is tried out, and whose backup that is."""

    owner: Keeper
    desktop: str

    @property
    def path(self) -> str:
        """Where the API has it."""
        return self._path

    @property
    def mark(self) -> str:
        """The tag that tells it from the machines of workspaces."""
        return mark_of(self.owner, self.desktop)

    @property
    def power(self) -> MachinePower:
        """What moves it."""
        return MachinePower(self.client, self.node, self.vm_id)


@contextlib.contextmanager
def booted(client: Client, owner: Keeper, machine: SeenMachine, node: str, backup: Backup) -> Iterator[TriedGuest]:
    """A machine like that of the desktop, started from its backup on a node that has it."""
    ensure_pool(client, trial_pool_of(owner.site), "Backups that Deskyard tries out")
    view = _view(client)
    _clear(client, owner, backup.desktop, view)
    name = mark_of(owner, backup.desktop)
    trial = Trial(client, node, trial_id(owner.site, client.cluster, name, view), owner, backup.desktop)
    try:
        _restore(trial, machine, backup)
        _cut_off(trial)
        wait_task(client, client.post(f"{trial.path}/status/start"), START_SECONDS)
        yield TriedGuest(_answering(trial).execute)
    finally:
        _remove(trial)


def mark_of(owner: Keeper, desktop: str) -> str:
    """The tag of the trials of a desktop's backups."""
    return f"deskyard-trial.{owner.site}.{owner.workspace}.{desktop}"


def _view(client: Client) -> ClusterView:
    return read_view(client.get("cluster/resources", type="vm"), (), {})


def _clear(client: Client, owner: Keeper, desktop: str, view: ClusterView) -> None:
    """Remove what trials left whose process was killed; one that may still go on is left alone."""
    for machine in view.machines:
        left = Trial(client, machine.node, machine.vm_id, owner, desktop)
        if left.mark in machine.tags and _until(_config(left)) < time.time():
            say(f"    machine {machine.vm_id}, which an interrupted trial left, is removed")
            _remove(left)


def _restore(trial: Trial, machine: SeenMachine, backup: Backup) -> None:
    until = int(time.time() + RESTORE_SECONDS + BOOT_SECONDS)
    upid = trial.client.post(
        f"nodes/{trial.node}/qemu",
        vmid=trial.vm_id,
        archive=backup.manifest,
        unique=True,
        pool=trial_pool_of(trial.owner.site),
        name=f"{trial.desktop}-trial.{trial.owner.workspace}",
        tags=trial.mark,
        description=f"until={until}",
        memory=min(machine.memory_mib, MOST_MEMORY_MIB),
        onboot=False,
        protection=False,
    )
    try:
        wait_task(trial.client, upid, RESTORE_SECONDS)
    except BaseException:
        # Of its own task a token may end each; it takes away what it has restored by then.
        with contextlib.suppress(SiteError):
            trial.client.delete(f"nodes/{node_of(upid)}/tasks/{quoted(upid)}")
            wait_task(trial.client, upid, REMOVE_SECONDS)
        raise


def _cut_off(trial: Trial) -> None:
    """Take its NICs out, and see that it has none: it is the twin of a desktop that runs."""
    config = _config(trial)
    if nics := _nics(config):
        trial.client.put(f"{trial.path}/config", delete=",".join(nics), digest=config["digest"])
    if nics := _nics(_config(trial)):
        reason = f"still has {', '.join(nics)} and would be a twin of the desktop on its network"
        raise SiteError("machine", trial.vm_id, reason, "look who else changes it, then run it again")


def _answering(trial: Trial) -> ClusterAgent:
    """The agent of the guest once it answers; raises `SiteError` if the machine ends, or it takes too long."""
    agent = ClusterAgent(trial.client, trial.node, trial.vm_id)

    def decided() -> bool:
        return agent.answers() or trial.power.state() != "running"

    if not Deadline(BOOT_SECONDS).wait_for(decided, POLL_SECONDS, trial.client.sleep) or not agent.answers():
        reason = f"the restored machine did not boot within {BOOT_SECONDS:.0f} s"
        raise SiteError("machine", trial.name, reason, "restore the backup by hand and see its console")
    return agent


def _remove(trial: Trial) -> None:
    """Remove it with its disks; nothing if it is not there, or is not ours."""
    try:
        config = _config(trial)
    except ApiError:
        # Nothing was restored: the cluster took it away itself.
        return
    if trial.mark not in tags_of(config):
        return
    trial.power.pull_plug()
    wait_task(trial.client, trial.client.delete(trial.path, purge=True), REMOVE_SECONDS)


def _config(trial: Trial) -> Mapping[str, Any]:
    found: Mapping[str, Any] = trial.client.get(f"{trial.path}/config")
    return found


def _nics(config: Mapping[str, Any]) -> list[str]:
    return sorted(key for key in config if _NIC.fullmatch(key))


def _until(config: Mapping[str, Any]) -> int:
    found = re.search(r"until=(\d+)", str(config.get("description") or ""))
    return int(found[1]) if found else 0
