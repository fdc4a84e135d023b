"""Backups of machines by the cluster itself: vzdump to a storage of content `backup`, or a Proxmox Backup Server.

Read in pve-manager 14a22df3 (PVE/API2/VZDump.pm, PVE/API2/Backup.pm, PVE/VZDump.pm), pve-storage 0c56bad8
(PVE/Storage.pm: check_volume_access; PVE/API2/Storage/Content.pm; PVE/Storage/PBSPlugin.pm), qemu-server e6352be6
(PVE/QemuServer.pm, restore_proxmox_backup_archive) and proxmox-backup 4940514b (src/api2/admin/datastore.rs;
pbs-datastore/src/manifest.rs, check_fingerprint). Not run on a real cluster.
"""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from typing import Any

from deskyard.errors import ConfigError, SiteError
from deskyard.host.progress import say
from deskyard.host.vm.tried_guest import TriedGuest
from deskyard.plan.backup import NONCE, WRITE_NONCE, Backup, Survey
from deskyard.plan.proxmox import backup_note
from deskyard.plan.proxmox.backup_note import LEAST_BYTES, UNFINISHED, WHOLE, Keeper
from deskyard.plan.proxmox.view import Owner, SeenMachine, read_view
from deskyard.site.proxmox import retry
from deskyard.site.proxmox.agent import ClusterAgent
from deskyard.site.proxmox.client import ApiError, Client, quoted
from deskyard.site.proxmox.life import exchange, trial
from deskyard.site.proxmox.life.copies import require_room
from deskyard.site.proxmox.life.exchange import Exchange
from deskyard.site.proxmox.life.unnoted import with_lost_notes
from deskyard.site.proxmox.machine import vm_path
from deskyard.site.proxmox.task import finish, wait_task

LONG_SECONDS = 24 * 3600.0
SAY_EVERY_PERCENT = 10
_DENIED = "permission check failed"


class ClusterArchive:
    """The backups of a workspace in a storage of its cluster."""

    def __init__(self, client: Client, site: str, workspace: str) -> None:
        self._client, self._owner = client, Keeper(site, workspace)

    @property
    def location(self) -> str:
        """The storage; raises `ConfigError` if the site names none."""
        storage = self._client.cluster.storages.backups
        if storage is None:
            reason = "no storage of the site takes backups"
            remedy = "name one of content backup in the site's file, as storages: {backups: pbs}; then ./inv site.check"
            raise ConfigError("proxmox.storages.backups", None, reason, remedy)
        return storage

    def present(self, desktop: str | None) -> list[Backup]:
        """The whole backups of a desktop, or of all, the oldest first; the token sees those of machines there are."""
        return backup_note.read(self._volumes(), self._owner, desktop)

    def survey(self, desktop: str) -> Survey:
        """All that is kept of a desktop; not finished are those whose task failed, or whose beginner died."""
        rows = self._volumes()
        whole, half = (backup_note.read(rows, self._owner, desktop, head) for head in (WHOLE, UNFINISHED))
        protected = {str(row["volid"]) for row in rows if int(row.get("protected") or 0)}
        machine = self._seen(desktop)
        unnoted = self._unnoted(machine, desktop, rows) if machine is not None else []
        return Survey(whole, [*half, *unnoted], protected)

    def runs(self, desktop: str) -> bool:
        """Whether the desktop runs; raises `SiteError` while no backup can be made of it."""
        machine = self._machine(desktop)
        status = self._client.get(f"{vm_path(machine.node, machine.vm_id)}/status/current")
        state = status.get("lock") or status.get("qmpstatus") or status.get("status")
        if state not in ("running", "stopped"):
            reason = f"is {state}: its file systems cannot be brought to rest"
            raise SiteError("machine", f"{machine.vm_id} on {machine.node}", reason, "resume it, or stop it, first")
        return bool(state == "running")

    def give(self, desktop: str, nonce: str) -> None:
        """Write a nonce into a desktop that runs."""
        machine = self._machine(desktop)
        agent = ClusterAgent(self._client, machine.node, machine.vm_id)
        code, output = agent.execute(WRITE_NONCE, stdin=nonce)
        if code != 0:
            raise SiteError(
                "machine", agent.name, f"{NONCE} cannot be written: {output.strip()[-300:]}", "see its disk"
            )

    def make(self, wanted: Backup) -> Backup:
        """Make a backup; the task's end and the volume's size decide. Raises `SiteError` if it is not whole.

        Of a desktop that runs QEMU keeps the disks as of one moment, for which the guest's agent freezes its file
        systems. Storages prune by themselves after a backup (`remove`); here `backup.prune` alone does.
        """
        machine, storage = self._machine(wanted.desktop), self.location
        self._require_storage(machine.node)
        self._tidy(machine, wanted.desktop)
        upid = self._client.post(
            f"nodes/{machine.node}/vzdump",
            vmid=machine.vm_id,
            storage=storage,
            mode="snapshot",
            compress="zstd",
            remove=False,
            **{"notes-template": backup_note.notes(self._owner, wanted, UNFINISHED)},
        )
        if not str(upid).startswith("UPID:"):
            # What a node says that does not have the machine (PVE/API2/VZDump.pm: "silent exit").
            reason = f"{machine.node} does not have it any more"
            raise SiteError("machine", machine.vm_id, reason, "run the command again")
        try:
            warnings = wait_task(self._client, upid, LONG_SECONDS, follow=_Progress()).warnings
            made = self._found(machine.node, wanted, warnings)
        except SiteError:
            with suppress(SiteError):
                self.drop([half for half in self.survey(wanted.desktop).half if half.id == wanted.id])
            raise
        self._write(machine.node, made)
        return made

    def note(self, backup: Backup) -> None:
        """Write down what is known of a backup by now: whether it is proved."""
        self._write(self._node_of(backup), backup)

    def require_trial(self, backup: Backup) -> None:
        """Raise `SiteError` unless there is room for it once more where it would be tried out, and the key to it."""
        machine, node = self._trial_place(backup)
        require_room(self._client, machine, node)
        self._require_key(node, backup)

    def booted(self, backup: Backup) -> AbstractContextManager[TriedGuest]:
        """A machine without any NIC that starts from a backup; it is gone with its block."""
        return trial.booted(self._client, self._owner, *self._trial_place(backup), backup)

    def _trial_place(self, backup: Backup) -> tuple[SeenMachine, str]:
        """The desktop, and the node on which its backup is tried out: its own if that has the backup."""
        machine = self._machine(backup.desktop)
        node = machine.node if machine.node in {node.name for node in self._nodes() if node.shared} else ""
        return machine, node or self._node_of(backup)

    def mend(self, desktop: str) -> None:
        """Bring a restore of a desktop that broke off to its end; raises `SiteError` while another host is at one."""
        exchange.mend(self._client, self._owner, self._machine(desktop), desktop)

    def staged(self, backup: Backup) -> AbstractContextManager[Exchange]:
        """A backup restored beside its desktop, on the same node: a disk goes to no other (move_vm_disk)."""
        machine = self._machine(backup.desktop)
        self._require_storage(machine.node)
        if backup.manifest not in {str(row["volid"]) for row in self._listed(machine.node)}:
            reason = f"lies on {self._node_of(backup)} alone, and the desktop is on {machine.node}"
            remedy = "migrate the desktop there, or keep backups in a storage that all nodes share"
            raise SiteError("backup", backup.id, reason, remedy)
        self._require_key(machine.node, backup)
        return exchange.staged(self._client, self._owner, machine, backup)

    def drop(self, backups: Sequence[Backup]) -> None:
        """Delete backups; raises `SiteError` for one that the cluster keeps."""
        where = {str(row["volid"]): str(row["node"]) for row in self._volumes()}
        for backup in backups:
            if backup.manifest in where:
                node = where[backup.manifest]
                try:
                    finish(self._client, self._client.delete(_volume(node, self.location, backup.manifest)))
                except SiteError as error:
                    if _DENIED not in error.reason:
                        raise
                    reason = f"the account of {self.location} may not delete it on its Proxmox Backup Server"
                    remedy = "give that account DatastorePowerUser on the datastore there, then run it again"
                    raise SiteError("backup", backup.id, reason, remedy) from error

    def _tidy(self, machine: SeenMachine, desktop: str) -> None:
        """Take away what earlier tasks made of it and could not note anything to; what stays is in no backup's way."""
        try:
            self.drop(self._unnoted(machine, desktop, self._volumes()))
        except SiteError as error:
            say(f"    what an earlier backup has left could not be removed: {error.reason.splitlines()[0]}")

    def _unnoted(self, machine: SeenMachine, desktop: str, rows: Sequence[Mapping[str, Any]]) -> list[Backup]:
        """Volumes of a desktop to which the tasks that made them could not write their notes."""
        found = with_lost_notes(self._client, machine.vm_id, rows)
        return backup_note.read(found, self._owner, desktop, UNFINISHED)

    def _write(self, node: str, backup: Backup) -> None:
        text = backup_note.notes(self._owner, backup, WHOLE)
        self._client.put(_volume(node, self.location, backup.manifest), notes=text)

    def _require_key(self, node: str, backup: Backup) -> None:
        """Raise `SiteError` if a node has not the key of an encrypted backup, which says nothing of the backup.

        It is for a server's backups alone, and the configuration in one is read with the same key as its disks.
        """
        rows = [row for row in self._listed(node) if str(row["volid"]) == backup.manifest]
        if not rows or not str(rows[0].get("format")).startswith("pbs-"):
            return
        try:
            self._client.get(f"nodes/{node}/vzdump/extractconfig", volume=backup.manifest)
        except ApiError as error:
            # Of anything else that is wrong the restore says more.
            if retry.is_without_key(error.reason):
                reason = f"{node} has not the key that it is encrypted with: {error.reason}"
                remedy = f"give it back to the storage: pvesm set {self.location} --encryption-key FILE"
                raise SiteError("backup", backup.id, reason, remedy) from error

    def _node_of(self, backup: Backup) -> str:
        """A node that has it."""
        for row in self._volumes():
            if str(row["volid"]) == backup.manifest:
                return str(row["node"])
        reason = f"is in {self.location} no more"
        raise SiteError("backup", backup.id, reason, f"./inv backup.list {self._owner.workspace}/{backup.desktop}")

    def _found(self, node: str, wanted: Backup, warnings: str) -> Backup:
        rows = self._listed(node)
        for backup in backup_note.read(rows, self._owner, wanted.desktop, UNFINISHED):
            if backup.id == wanted.id and backup.nonce == wanted.nonce and backup.added >= LEAST_BYTES:
                return backup
        reason = f"its task ended, and no such backup of any size is there\n{warnings}".strip()
        raise SiteError("storage", self.location, reason, "look at the task's log on its node, and run it again")

    def _volumes(self) -> list[dict[str, Any]]:
        """All backups in the storage that the token may see, each with a node that has it."""
        there: dict[str, dict[str, Any]] = {}
        for node in self._nodes():
            for row in self._listed(node.name):
                name = str(row["volid"]) if node.shared else f"{node.name}/{row['volid']}"
                there.setdefault(name, {**row, "shared": node.shared})
            if node.shared:
                break
        return list(there.values())

    def _listed(self, node: str) -> list[dict[str, Any]]:
        rows = self._client.get(f"nodes/{node}/storage/{quoted(self.location)}/content", content="backup")
        return [{**row, "node": node} for row in rows]

    def _nodes(self) -> list["_Node"]:
        storage = self.location
        rows = [row for row in self._client.get("cluster/resources", type="storage") if row.get("storage") == storage]
        wrong = [row for row in rows if "backup" not in str(row.get("content")).split(",")]
        if not rows or wrong:
            reason = "is no storage of the cluster" if not rows else "does not take backups"
            remedy = f"pvesm set {storage} --content backup, or another one in the site's file; then ./inv site.check"
            raise SiteError("proxmox.storages.backups", storage, reason, remedy)
        nodes = [_Node(str(row["node"]), bool(int(row.get("shared") or 0))) for row in rows if _is_there(row)]
        if not nodes:
            raise SiteError("storage", storage, "is active on no node", "pvesm status says why")
        return nodes

    def _require_storage(self, node: str) -> None:
        if node not in {there.name for there in self._nodes()}:
            reason = f"is not active on {node}, where the desktop is"
            remedy = (
                f"pvesm status there says why; if it may not be used: pvesm set {self.location} --disable 0 --nodes ''"
            )
            raise SiteError("storage", self.location, reason, remedy)

    def _machine(self, desktop: str) -> SeenMachine:
        found = self._seen(desktop)
        if found is None:
            raise SiteError("machine", desktop, "is not in the cluster", "run ./inv workspace.up")
        return found

    def _seen(self, desktop: str) -> SeenMachine | None:
        view = read_view(self._client.get("cluster/resources", type="vm"), (), {})
        return view.machine_of(Owner(self._owner.site, self._owner.workspace, desktop))


@dataclass(frozen=True)
class _Node:
    """A node on which the storage is active."""

    name: str
    shared: bool


class _Progress:
    """Follows what vzdump says of its work: `INFO:  12% (1.2 GiB of 10.0 GiB) in 3s, ...`."""

    def __init__(self) -> None:
        self._percent = 0

    def __call__(self, line: str) -> None:
        words = line.removeprefix("INFO:").split()
        number = words[0].removesuffix("%") if words and words[0].endswith("%") else ""
        if number.isdecimal() and int(number) >= self._percent + SAY_EVERY_PERCENT:
            self._percent = int(number)
            say(f"    {self._percent} % read")


def _is_there(row: Mapping[str, Any]) -> bool:
    return str(row.get("status")) == "available"


def _volume(node: str, storage: str, volume: str) -> str:
    return f"nodes/{node}/storage/{quoted(storage)}/content/{quoted(volume)}"
