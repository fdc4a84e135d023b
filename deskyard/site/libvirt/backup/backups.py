"""Makes backups of one domain, and takes it back to them."""

import contextlib
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from deskyard.errors import HostError
from deskyard.host.vm.tried_guest import TriedGuest
from deskyard.plan.backup import Moment
from deskyard.site.libvirt import daemon, moves, storage
from deskyard.site.libvirt.backup import export, swap, trial
from deskyard.site.libvirt.link import POOL_PATH
from deskyard.site.libvirt.warm import guest

# On the disk of the pool, and not in its list.
RESTORED = Path(f"{POOL_PATH}-restored")
IDENTITY_SECONDS = 600.0


class LibvirtBackups:
    """Backups of a domain of this machine's hypervisor; its disks are root's and QEMU's alone."""

    def __init__(self, domain: str) -> None:
        if os.geteuid() != 0:
            reason = "backups read the disks of machines, which are root's"
            raise HostError("user", os.geteuid(), reason, "run it as root, with the same DESKYARD_HOME")
        self._domain = domain

    @contextlib.contextmanager
    def moment(self, nonce: str) -> Iterator[Moment]:
        """Yield the disks as they are now; if it runs, it is given the nonce, and frozen for an instant."""
        with daemon.machine(self._domain) as machine, export.moment(machine, nonce) as found:
            yield found

    def require_room(self, needed: int) -> None:
        """Raise `SiteError` unless there is room for so many bytes of restored disks."""
        storage.require_room(needed)

    @contextlib.contextmanager
    def room(self, purpose: str, needed: int) -> Iterator[Path]:
        """A folder with room for so many bytes, gone afterwards; what a killed run left in it goes before."""
        folder = RESTORED / f"{self._domain}.{purpose}"
        shutil.rmtree(folder, ignore_errors=True)
        storage.require_room(needed)
        # QEMU's account has to pass.
        RESTORED.mkdir(mode=0o711, parents=True, exist_ok=True)
        folder.mkdir(mode=0o711)
        try:
            yield folder
        finally:
            shutil.rmtree(folder)

    @contextlib.contextmanager
    def scratch(self, disks: Mapping[str, Path]) -> Iterator[TriedGuest]:
        """A machine like it, without any NIC, started from these restored disks."""
        with (
            moves.listening([f"{self._domain}{trial.SUFFIX}"]) as heard,
            daemon.machine(self._domain) as machine,
            trial.booted(machine, disks, heard.end_from_outside) as guest,
        ):
            yield guest

    def renew(
        self, disks: Mapping[str, Path], prove: Callable[[TriedGuest], None], identity: Mapping[str, str]
    ) -> None:
        """Boot these restored disks without any NIC, have them proved, and make them another machine's."""
        with daemon.machine(self._domain) as machine, trial.started(machine, disks) as tried:
            prove(trial.answering(tried))
            guest.become_another(tried, identity, IDENTITY_SECONDS)

    def put_back(self) -> None:
        """Give it the content of before a restore that broke off; what was restored goes."""
        with daemon.machine(self._domain) as machine:
            swap.put_back(machine)

    def mend(self) -> None:
        """Put back what a restore has left torn; raises `SiteError` if the whole content of before was kept."""
        with daemon.machine(self._domain) as machine:
            swap.mend(machine)
            swap.require_settled(machine)

    @contextlib.contextmanager
    def swap(self, disks: Mapping[str, Path]) -> Iterator[None]:
        """Give it the content of these restored disks while it is off; if the block fails, its own is put back."""
        with daemon.machine(self._domain) as machine, swap.swapped(machine, disks):
            yield

    @contextlib.contextmanager
    def guest(self) -> Iterator[TriedGuest]:
        """The guest of the machine itself, once it has booted."""
        with daemon.machine(self._domain) as machine:
            yield trial.answering(machine)
