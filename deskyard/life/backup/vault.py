"""The seam between backups and where they are kept: a repository of our own, or the cluster in its own way."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from deskyard.engine.backend import Guest, Staged, archive_of
from deskyard.life.backup.archived import InArchive
from deskyard.life.backup.home.tree import Tree
from deskyard.life.backup.kept import InRepository
from deskyard.life.backup.repository import repository_of
from deskyard.life.backup.shown import Outdated
from deskyard.life.power import Machine
from deskyard.plan.backup import Backup

Boot = Callable[[], AbstractContextManager[Guest]]


class Vault(Protocol):
    """Where the backups of a workspace are kept."""

    @property
    def location(self) -> str:
        """The place, for people."""

    @property
    def has_place(self) -> bool:
        """Whether backups can be there: nothing is asked of the place itself."""

    def present(self, desktop: str | None) -> list[Backup]:
        """The whole backups of a desktop, or of all, the oldest first."""

    def make(self, machine: Machine, target: str) -> dict[str, Any]:
        """Make one, which is listed once all of it is kept; says what there is to know of it."""

    def note(self, backup: Backup) -> None:
        """Write down what is known of a backup by now: whether it is proved."""

    def trial(self, machine: Machine, found: Backup) -> AbstractContextManager[Boot]:
        """Room for a machine without any NIC in which a backup is booted; raises an error if there is none."""

    def mend(self, machine: Machine) -> None:
        """Bring a restore that broke off to its end; raises `SiteError`, with nothing touched, if that cannot be."""

    def staged(self, machine: Machine, found: Backup) -> AbstractContextManager[Staged]:
        """A backup restored beside its desktop; raises an error if there is no room, before anything is touched."""

    def require_copies(self, machine: Machine, found: Backup) -> None:
        """Raise an error unless another desktop can be made from a backup: there is room; touches nothing."""

    def copied(
        self, machine: Machine, found: Backup, to: str, prove: Callable[[Guest], None], identity: Mapping[str, str]
    ) -> AbstractContextManager[Callable[[Machine], Staged]]:
        """A backup restored for desktop `to`, proved, and with that one's identity; the block says whose it is then."""

    def home(self, machine: Machine, found: Backup) -> AbstractContextManager[Tree]:
        """The file tree of /home in a backup; raises `SiteError` where none of its files can be read."""

    def outdated(self, desktop: str, policy: Mapping[str, int]) -> Outdated:
        """The backups of a desktop that a policy does not keep, and those that were not finished."""

    def survivors(self, desktops: Sequence[str]) -> list[str]:
        """Of each desktop: which backup stays when the workspace goes, or that there is none."""


def vault_of(site: str, workspace: str) -> Vault:
    """Where the backups of a workspace are kept."""
    archive = archive_of(site, workspace)
    return InRepository(repository_of(site, workspace)) if archive is None else InArchive(archive)
