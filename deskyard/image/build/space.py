"""Whether the disks of this machine have room for a build, found out before it begins."""

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from deskyard.errors import HostError
from deskyard.host.facts import GIB
from deskyard.host.places import Places, tree
from deskyard.model.image import AnyImage
from deskyard.plan.image.image import disk_gib

# At its fullest a build holds the disk twice: as Packer left it, and as the raw copy that is looked into or the
# compressed one that is kept. Disks are sparse: what roles install fills about half of what is declared.
FILLED, COPIES = 0.5, 2
# A base disk that is not cached yet is made as a tree, a raw disk and a qcow2, one after the other.
BASE_COPIES = 2
# Before that, its tree is put together in the folder for temporary files, while the archive of it grows in the cache.
TEMPORARY_COPIES = 1
REMEDY = "free some space, or set DESKYARD_HOME to a folder on a larger disk"
TEMPORARY_REMEDY = "free some space, or set TMPDIR to a folder on a larger disk"


def temporary_folder() -> Path:
    """Where a build has what is large for a while: TMPDIR, or on disk, since /tmp is in memory on many a machine."""
    return Path(os.environ.get("TMPDIR") or "/var/tmp")


@contextlib.contextmanager
def large_files_on_disk() -> Iterator[None]:
    """Tell the programs of a build, which know /tmp alone, of the folder for temporary files."""
    before = os.environ.get("TMPDIR")
    os.environ["TMPDIR"] = str(temporary_folder())
    try:
        yield
    finally:
        if before is None:
            del os.environ["TMPDIR"]
        else:
            os.environ["TMPDIR"] = before


def require_space(image: AnyImage, places: Places, *, bootstraps: bool = True) -> None:
    """Raise `HostError` if a build of `image` would fill the file system of images, of the cache or of TMPDIR.

    Only a base disk that is bootstrapped from packages needs room in TMPDIR.
    """
    filled = disk_gib(image, tree()) * FILLED
    no_base = _no_base(places)
    needed: dict[int, tuple[Path, float, str]] = {}
    for folder, copies in ((places.images, COPIES), (places.bases, BASE_COPIES if no_base else 0)):
        there = _existing(folder)
        device = there.stat().st_dev
        path, before, remedy = needed.get(device, (there, 0.0, REMEDY))
        needed[device] = (path, before + copies * filled, remedy)
    there = _existing(temporary_folder())
    # On the cache's own file system the tree is gone before its second copy is made.
    if no_base and bootstraps and there.stat().st_dev not in needed:
        needed[there.stat().st_dev] = (there, TEMPORARY_COPIES * filled, TEMPORARY_REMEDY)
    for path, gib, remedy in needed.values():
        free = shutil.disk_usage(path).free / GIB
        if free < gib:
            reason = f"{free:.1f} GiB are free, building image {image.name} takes up to {gib:.1f} GiB"
            raise HostError("disk space", str(path), reason, remedy)


def _no_base(places: Places) -> bool:
    return not any(places.bases.glob("*/disk.qcow2"))


def _existing(folder: Path) -> Path:
    return next(path for path in (folder, *folder.parents) if path.exists())
