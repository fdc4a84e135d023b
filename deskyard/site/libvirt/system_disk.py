"""The system disk of a desktop: another one takes its place under the same name, and the one of before is kept.

A disk has the same name for the whole life of its machine, so neither a definition nor the engine's state ever changes.
The name always leads to a whole disk: it is given to another file in one step, while the machine is off.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import libvirt

from deskyard.errors import SiteError
from deskyard.host.lock import alone
from deskyard.plan.image.source import ImageSource
from deskyard.site.libvirt import daemon, documents, storage
from deskyard.site.libvirt.link import POOL_PATH, gone_is_fine


class LibvirtSystemDisk:
    """The system disk of one domain, by the name of its volume."""

    def __init__(self, domain: str) -> None:
        self._domain, self._name = domain, f"{domain}.qcow2"
        self._disk = Path(POOL_PATH, self._name)
        self._staged, self._kept = (Path(POOL_PATH, f"{domain}.{word}.qcow2") for word in storage.BESIDE)

    def image(self) -> str | None:
        """The image that it started from, as NAME-DIGEST; None if that cannot be told."""
        with daemon.connection() as link:
            found = storage.lookup(link, self._name)
            return None if found is None else storage.origin(link, found)

    def require_exchangeable(self) -> None:
        """Raise `SiteError` unless this process may give the disk's name to another file."""
        if not os.access(self._disk.parent, os.W_OK | os.X_OK):
            raise self._of_root()

    def stage(self, image: ImageSource, size_gib: int) -> None:
        """Make a disk of an image beside it; one that an earlier try left goes."""
        with daemon.connection() as link:
            storage.require_room()
            storage.remove(link, [self._staged.name])
            storage.overlay(
                link,
                self._staged.name,
                image=image.name,
                digest=image.digest,
                source=Path(image.disk),
                capacity=size_gib * documents.GIB,
            )

    def swap(self) -> None:
        """Let the staged disk take its place, and keep it; the machine is off, and no memory is kept."""
        with daemon.connection() as link, alone("libvirt-images"), self._explained():
            self._require_off(link)
            self._staged.stat()
            self._kept.unlink(missing_ok=True)
            os.link(self._disk, self._kept)
            self._staged.replace(self._disk)
            storage.refresh(storage.pool(link))

    def swap_back(self) -> None:
        """Let the kept disk take its place again; what was there goes. The machine is off, and no memory is kept."""
        with daemon.connection() as link, alone("libvirt-images"), self._explained():
            self._require_off(link)
            self._kept.replace(self._disk)
            storage.refresh(storage.pool(link))

    def has_kept(self) -> bool:
        """Whether the disk of before is kept, and another one is in its place."""
        with self._explained():
            return self._kept.exists() and not self._kept.samefile(self._disk)

    def forget(self) -> None:
        """Delete what lies beside it, staged or kept."""
        with daemon.connection() as link:
            storage.remove(link, [self._staged.name, self._kept.name])
            # One that gave its place back to the kept one is gone already, and its image may be nobody's.
            storage.drop_unused(link)

    def _require_off(self, link: Any) -> None:
        machine = storage.running_machine_with(link, str(self._disk))
        if machine is not None:
            raise SiteError("machine", machine.name(), "runs: its disk stays", "stop it first")
        with gone_is_fine():
            if link.lookupByName(self._domain).hasManagedSaveImage():
                # Its next start would go on from that, and write what it knows of this disk onto another.
                reason = "its memory is kept, which belongs to the disk that it has: that stays"
                remedy = "start it first, or drop its memory: desktop.stop --force"
                raise SiteError("machine", self._domain, reason, remedy)

    def _of_root(self) -> SiteError:
        reason = "its folder belongs to root, and a disk takes another's name there"
        return SiteError("disk", str(self._disk), reason, "run it again as root: sudo ./inv ...")

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except PermissionError as error:
            raise self._of_root() from error
        except libvirt.libvirtError as error:
            raise SiteError("disk", str(self._disk), f"libvirt: {error}", "mend that, then run it again") from error
