"""Backups of desktops that their backend keeps in its own way, as a cluster does."""

import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, replace
from typing import Any, NoReturn

from deskyard.engine.backend import Archive, Guest, Staged
from deskyard.errors import ConfigError, DeskyardError, SiteError
from deskyard.host.progress import say, step
from deskyard.life.backup.shown import Outdated, known_nonce, survivor
from deskyard.life.power import Machine
from deskyard.plan import backup as plan
from deskyard.plan.backup import Backup


class InArchive:
    """The backups of a workspace in a place of its backend."""

    def __init__(self, archive: Archive) -> None:
        self._archive = archive

    @property
    def location(self) -> str:
        """The place; raises `ConfigError` if the site names none."""
        return self._archive.location

    @property
    def has_place(self) -> bool:
        """Whether the site names a place."""
        try:
            return bool(self._archive.location)
        except ConfigError:
            return False

    def present(self, desktop: str | None) -> list[Backup]:
        """The whole backups of a desktop, or of all, the oldest first."""
        return self._archive.present(desktop)

    def make(self, machine: Machine, target: str) -> dict[str, Any]:
        """Make a backup, which is listed once its task has ended well and its volume is there."""
        archive, location = self._archive, self._archive.location
        with machine.alone(at_once=True):
            present = archive.present(machine.name)
            running, made = archive.runs(machine.name), int(time.time())
            wanted = Backup(plan.free_name(made, present), machine.name, made, running=running)
            if running:
                wanted = replace(wanted, nonce=secrets.token_hex(16))
                archive.give(machine.name, wanted.nonce)
            else:
                wanted = replace(wanted, nonce=known_nonce(present, target))
            with step(f"back up to {location}"):
                done = archive.make(wanted)
        return {"desktop": target, "backup": asdict(done), "location": location}

    def note(self, backup: Backup) -> None:
        """Write down whether it is proved."""
        self._archive.note(backup)

    @contextmanager
    def trial(self, _: Machine, found: Backup) -> Iterator[Callable[[], AbstractContextManager[Guest]]]:
        """Room and the key for a machine of the backend in which a backup is booted."""
        self._archive.require_trial(found)
        yield lambda: self._archive.booted(found)

    def mend(self, machine: Machine) -> None:
        """Bring a restore that broke off to its end."""
        self._archive.mend(machine.name)

    @contextmanager
    def staged(self, _: Machine, found: Backup) -> Iterator[Staged]:
        """A backup restored beside its desktop."""
        say("    it is restored beside the desktop first, which goes on meanwhile")
        with self._archive.staged(found) as staged:
            yield staged

    def require_copies(self, machine: Machine, found: Backup) -> NoReturn:
        """None: the cluster exchanges the disks of a machine and of its own restored twin alone."""
        reason = f"a cluster takes {machine.target} back as itself alone, and makes no other desktop of its backups"
        itself = f"take it back as itself (./inv backup.restore {machine.target} {found.id})"
        remedy = f"{itself}, or restore it in Proxmox VE to another id (docs/proxmox.md)"
        raise SiteError("backup", found.id, reason, remedy)

    def copied(self, machine: Machine, found: Backup, *_: object) -> NoReturn:
        """None, as above."""
        self.require_copies(machine, found)

    def home(self, machine: Machine, found: Backup) -> NoReturn:
        """None: the cluster keeps a machine in a volume of its own form."""
        reason = f"a cluster keeps {machine.target} in one volume, of which no single file is read here"
        whole = f"take it back whole (./inv backup.restore {machine.target} {found.id})"
        others = "or restore it in Proxmox VE to another id (docs/proxmox.md)"
        remedy = f"{whole}, {others}; a Proxmox Backup Server has single files there by its File Restore"
        raise SiteError("backup", found.id, reason, remedy)

    def outdated(self, desktop: str, policy: Mapping[str, int]) -> Outdated:
        """The backups of a desktop that a policy does not keep; those that somebody has protected there stay.

        A damaged one takes no place in a policy. It stays as long as it would if it were sound, since it may be found
        whole again, and until a newer one is proved.
        """
        found = self._archive.survey(desktop)
        whole, expired = plan.sound(found.whole), plan.outdated(found.whole, policy)
        superseded = [entry for entry in plan.superseded(found.whole) if entry in expired]
        doomed = [*plan.spared(plan.outdated(whole, policy), whole), *superseded]
        doomed = [entry for entry in doomed if entry.manifest not in found.protected]
        if waits := len(found.whole) - len(whole) - len(superseded):
            say(f"    {waits} of them are damaged, and stay until they are old and a newer one is verified")
        if stays := sum(entry.manifest in found.protected for entry in found.whole):
            say(f"    {stays} of them are protected in {self.location}, and stay")

        def drop() -> None:
            with step("delete what is not kept"):
                self._archive.drop([*doomed, *found.half])

        return Outdated(found.whole, doomed, len(found.half), drop)

    def survivors(self, desktops: Sequence[str]) -> list[str]:
        """Of each desktop: its newest backup, which stays, or that there is none."""
        try:
            present = self._archive.present(None)
        except ConfigError:
            return [f"{desktop}: no backup" for desktop in desktops]
        except DeskyardError as error:
            return [f"its backups cannot be looked at: {error.reason.splitlines()[0]}"]
        newest = {entry.desktop: entry for entry in plan.sound(present)}
        proved = {entry.desktop: entry for entry in plan.proved(present)}
        return [survivor(desktop, proved.get(desktop) or newest.get(desktop), self.location) for desktop in desktops]
