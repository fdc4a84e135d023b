"""Backups of desktops in a repository of our own: each disk read as of one moment."""

import secrets
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from deskyard.engine.backend import Backups, Guest, Staged
from deskyard.errors import DeskyardError
from deskyard.host.progress import say, step
from deskyard.life.backup.home.disk import home_of
from deskyard.life.backup.home.tree import Tree
from deskyard.life.backup.repository import Repository
from deskyard.life.backup.shown import Outdated, known_nonce
from deskyard.life.moment import minute
from deskyard.life.power import Machine
from deskyard.plan import backup as plan
from deskyard.plan.backup import Backup, Disk


class InRepository:
    """The backups of a workspace in its repository."""

    def __init__(self, repository: Repository) -> None:
        self._repository = repository

    @property
    def location(self) -> str:
        """The repository's place."""
        return self._repository.location

    @property
    def has_place(self) -> bool:
        """Whether one was ever kept: its key is made with the repository."""
        return self._repository.key.exists()

    def present(self, desktop: str | None) -> list[Backup]:
        """The whole backups of a desktop, or of all, the oldest first."""
        return plan.backups(self._repository.snapshots(), desktop)

    def make(self, machine: Machine, target: str) -> dict[str, Any]:
        """Make a backup: of all disks as of one moment. It is listed once every byte is kept."""
        backups, repository = machine.machines.backups(machine.domain), self._repository
        with machine.alone(at_once=True):
            repository.require_room(0)
            if repository.prepare():
                _show_key(repository)
            present = self.present(machine.name)
            nonce, made = secrets.token_hex(16), int(time.time())
            name = plan.free_name(made, present)
            wanted = Backup(name, machine.name, made, running=True, nonce=nonce)
            with backups.moment(nonce) as moment:
                if moment.running:
                    say(f"    its file systems stood still for {moment.frozen_seconds:.2f} s")
                else:
                    wanted = replace(wanted, running=False, nonce=known_nonce(present, target))
                repository.require_room(sum(source.used for source in moment.sources))
                for source in moment.sources:
                    with step(f"read {source.target}"):
                        disk, added = repository.keep(source, machine.name, name)
                    wanted = replace(wanted, disks=(*wanted.disks, disk), added=wanted.added + added)
            repository.finish(wanted)
        done = {"desktop": target, "frozen_seconds": round(moment.frozen_seconds, 3), "backup": asdict(wanted)}
        return {**done, "location": repository.location}

    def note(self, backup: Backup) -> None:
        """Write down whether it is proved."""
        self._repository.tag(backup)

    @contextmanager
    def trial(self, machine: Machine, found: Backup) -> Iterator[Callable[[], AbstractContextManager[Guest]]]:
        """Room for a machine in which a backup is booted."""
        backups = machine.machines.backups(machine.domain)
        with backups.room("verify", found.used) as folder:
            self._repository.prepare()

            @contextmanager
            def booted() -> Iterator[Guest]:
                with backups.scratch(self._restored(found, folder)) as guest:
                    yield guest

            yield booted

    def mend(self, machine: Machine) -> None:
        """Bring a restore that broke off to its end; raises `SiteError` if somebody has to choose between contents."""
        machine.machines.backups(machine.domain).mend()

    @contextmanager
    def staged(self, machine: Machine, found: Backup) -> Iterator[Staged]:
        """The disks of a backup, restored beside those of its desktop."""
        backups = machine.machines.backups(machine.domain)
        with backups.room("restore", 2 * found.used) as folder:
            self._repository.prepare()
            yield _Staged(backups, self._restored(found, folder))

    def require_copies(self, machine: Machine, found: Backup) -> None:
        """Raise an error unless there is room to restore a backup once more."""
        machine.machines.backups(machine.domain).require_room(2 * found.used)

    @contextmanager
    def copied(
        self, machine: Machine, found: Backup, to: str, prove: Callable[[Guest], None], identity: Mapping[str, str]
    ) -> Iterator[Callable[[Machine], Staged]]:
        """The disks of a backup, restored beside its desktop and made another's; of which the machine is named then."""
        backups = machine.machines.backups(machine.domain)
        with backups.room(f"copy-{to}", 2 * found.used) as folder:
            self._repository.prepare()
            disks = self._restored(found, folder)
            with step("boot it without a network, and make it another desktop"):
                backups.renew(disks, prove, identity)

            def into(copy: Machine) -> Staged:
                its = copy.machines.backups(copy.domain)
                # Of a run that was killed: what it had given the new desktop is given once more.
                its.put_back()
                return _Staged(its, disks)

            yield into

    @contextmanager
    def home(self, machine: Machine, found: Backup) -> Iterator[Tree]:
        """The file tree of /home in a backup, whose disks are restored for it one at a time."""
        backups = machine.machines.backups(machine.domain)
        with backups.room("files", found.used) as folder:
            # What everybody may read in there, nobody else reaches.
            folder.chmod(0o700)
            self._repository.prepare()
            with home_of(found, partial(self._disk, folder)) as tree:
                yield tree

    def outdated(self, desktop: str, policy: Mapping[str, int]) -> Outdated:
        """The backups of a desktop that a policy does not keep, and disks of backups that were interrupted."""
        present = self.present(desktop)
        outdated = self._repository.outdated(desktop, policy) if present else []
        doomed = plan.spared([entry for entry in present if entry.manifest in outdated], present)
        left = plan.leftovers(self._repository.snapshots(), desktop)
        return Outdated(present, doomed, len(left), lambda: self._drop(doomed, left))

    def survivors(self, desktops: Sequence[str]) -> list[str]:
        """Of each desktop: its newest verified backup, which stays, or that there is none."""
        try:
            snapshots = self._repository.snapshots()
        except DeskyardError as error:
            return [f"its backups cannot be looked at: {error.reason.splitlines()[0]}"]
        lines = []
        for desktop in desktops:
            proved = plan.proved(plan.backups(snapshots, desktop))
            what = "no verified backup"
            if proved:
                what = f"a verified backup of {minute(proved[-1].made)} stays, in {self.location}"
            lines.append(f"{desktop}: {what}")
        return lines

    def _drop(self, doomed: Sequence[Backup], left: Sequence[str]) -> None:
        repository = self._repository
        repository.prepare()
        # Manifests first: what is half gone is no backup.
        repository.forget([entry.manifest for entry in doomed])
        repository.forget([*(disk.snapshot for entry in doomed for disk in entry.disks), *left])
        with step("delete what nothing holds any more"):
            repository.prune()

    def _restored(self, found: Backup, folder: Path) -> dict[str, Path]:
        return {disk.target: self._disk(folder, disk) for disk in found.disks}

    def _disk(self, folder: Path, disk: Disk) -> Path:
        with step(f"restore {disk.target}"):
            return self._repository.restore(disk, folder)


@dataclass(frozen=True)
class _Staged:
    """Restored disks, and the machine that may get them."""

    backups: Backups
    disks: Mapping[str, Path]

    def swap(self) -> AbstractContextManager[None]:
        return self.backups.swap(self.disks)

    def guest(self) -> AbstractContextManager[Guest]:
        return self.backups.guest()


def _show_key(repository: Repository) -> None:
    """Once, and only to a person: a log would keep it."""
    say(f"    the key of this workspace's backups is {repository.key}: without it they cannot be read")
    if sys.stderr.isatty():
        say(f"    keep a copy in your safe, it is not shown again: {repository.key.read_text()}")
    else:
        say("    keep a copy of that file in your safe")
