"""Whether the disks of this machine have room for a build, found out before it begins."""

import shutil
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


def require_space(image: AnyImage, places: Places) -> None:
    """Raise `HostError` if a build of `image` would fill the file system of images or that of the cache."""
    filled = disk_gib(image, tree()) * FILLED
    needed: dict[int, tuple[Path, float]] = {}
    for folder, copies in ((places.images, COPIES), (places.bases, BASE_COPIES if _no_base(places) else 0)):
        there = _existing(folder)
        device = there.stat().st_dev
        path, before = needed.get(device, (there, 0.0))
        needed[device] = (path, before + copies * filled)
    for path, gib in needed.values():
        free = shutil.disk_usage(path).free / GIB
        if free < gib:
            reason = f"{free:.1f} GiB are free, building image {image.name} takes up to {gib:.1f} GiB"
            remedy = "free some space, or set DESKYARD_HOME to a folder on a larger disk"
            raise HostError("disk space", str(path), reason, remedy)


def _no_base(places: Places) -> bool:
    return not any(places.bases.glob("*/disk.qcow2"))


def _existing(folder: Path) -> Path:
    return next(path for path in (folder, *folder.parents) if path.exists())
