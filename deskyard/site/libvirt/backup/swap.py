"""Gives a domain that is off the content of restored disks, under the names that its disks have."""

import contextlib
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import libvirt

from deskyard.errors import SiteError
from deskyard.host.lock import alone
from deskyard.host.progress import say
from deskyard.site.libvirt import power, storage
from deskyard.site.libvirt.backup.content import Disk, chain, disks, qemu_img


@contextlib.contextmanager
def swapped(machine: Any, restored: Mapping[str, Path]) -> Iterator[None]:
    """The domain has the restored content; if the block fails, it has its own again, and is off.

    Its snapshots lie in the content of before; libvirt forgets them when that goes.
    """
    found = disks(machine)
    mend(machine)
    require_settled(machine)
    _check(machine, found, restored)
    try:
        for disk in found:
            _make(disk, restored[disk.target], int(machine.blockInfo(disk.target)[0]))
        try:
            with alone("libvirt-images"):
                # All are kept before the first changes, so that `mend` can tell how far it came.
                for disk in found:
                    _kept(disk).hardlink_to(disk.path)
                for disk in found:
                    _fresh(disk).replace(disk.path)
            yield
        except BaseException:
            power.shut_down(machine, force=True)
            _take_back(found)
            raise
    finally:
        for disk in found:
            _fresh(disk).unlink(missing_ok=True)
        storage.refresh(storage.pool(machine.connect()))
    for snapshot in machine.listAllSnapshots():
        snapshot.delete(libvirt.VIR_DOMAIN_SNAPSHOT_DELETE_METADATA_ONLY)
    for disk in found:
        _kept(disk).unlink()
    # While it lists what is gone, no image is known to be unused.
    storage.refresh(storage.pool(machine.connect()))


def mend(machine: Any) -> None:
    """Put back what a restore that was killed between two disks has left torn: one of then beside one of now.

    The domain has not run so: it is off, and stays off until this was looked at.
    """
    found = disks(machine)
    new = [disk for disk in found if _kept(disk).exists() and not _kept(disk).samefile(disk.path)]
    if machine.isActive() or not new or not any(_fresh(disk).exists() for disk in found):
        return
    with alone("libvirt-images"):
        _take_back(new)
        for disk in found:
            _fresh(disk).unlink(missing_ok=True)
    say(f"    a restore of {machine.name()} was killed between two disks: it has its content of before again")


def put_back(machine: Any) -> None:
    """Give it the content of before, if a restore was killed behind its exchange: what was restored goes."""
    mend(machine)
    found = disks(machine)
    if not any(_kept(disk).exists() for disk in found):
        return
    power.shut_down(machine, force=True)
    with alone("libvirt-images"):
        _take_back(found)
        for disk in found:
            # To give a file the name that it has beside another takes neither away.
            for left in (_kept(disk), _fresh(disk)):
                left.unlink(missing_ok=True)
    storage.refresh(storage.pool(machine.connect()))


def _take_back(found: list[Disk]) -> None:
    """Give disks the content of before, as far as that is kept."""
    for disk in found:
        if _kept(disk).exists():
            _kept(disk).replace(disk.path)


def require_settled(machine: Any) -> None:
    """Raise `SiteError` if a restore was killed behind its exchange: somebody has to choose which content stays."""
    for disk in disks(machine):
        if _kept(disk).exists() and not _kept(disk).samefile(disk.path):
            reason = f"a restore was interrupted: {_kept(disk)} is what {disk.path.name} held before"
            remedy = f"while it is off: mv {_kept(disk)} {disk.path} to go back to that, or delete it"
            raise SiteError("machine", machine.name(), reason, remedy)


def _check(machine: Any, found: list[Disk], restored: Mapping[str, Path]) -> None:
    if {disk.target for disk in found} != set(restored):
        have, there = ", ".join(sorted(disk.target for disk in found)), ", ".join(sorted(restored))
        reason = f"it has the disks {have}, and the backup {there}"
        raise SiteError("machine", machine.name(), reason, "take a backup of a machine with the same disks")
    for disk in found:
        _kept(disk).unlink(missing_ok=True)


def _make(disk: Disk, raw: Path, capacity: int) -> None:
    """The restored disk beside the present one, on the same image, with what differs from that alone."""
    fresh = _fresh(disk)
    fresh.unlink(missing_ok=True)
    below = chain(disk.path)[0].get("full-backing-filename")
    size = str(max(capacity, raw.stat().st_size))
    qemu_img("create", "-q", "-f", "qcow2", "-b", str(raw), "-F", "raw", str(fresh), size)
    qemu_img("rebase", "-q", "-f", "qcow2", *(["-b", below, "-F", "qcow2"] if below else ["-b", ""]), str(fresh))
    own = disk.path.stat()
    os.chown(fresh, own.st_uid, own.st_gid)
    shutil.copymode(disk.path, fresh)


def _fresh(disk: Disk) -> Path:
    return disk.path.with_suffix(f".{storage.RESTORING[0]}.qcow2")


def _kept(disk: Disk) -> Path:
    return disk.path.with_suffix(f".{storage.RESTORING[1]}.qcow2")
