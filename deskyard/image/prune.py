"""Removes builds of images that newer ones took the place of, with the templates that were made of them."""

import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from deskyard.errors import ConfigError
from deskyard.host.lock import alone
from deskyard.host.places import places, tree
from deskyard.image import warm
from deskyard.image.store import store
from deskyard.image.store.store import BuiltImage
from deskyard.plan.image.image import image_names
from deskyard.site.libvirt import daemon
from deskyard.site.libvirt.warm import templates


@dataclass
class Pruned:
    """The builds that went, or would go, with the bytes that their folders take, and the names of templates."""

    builds: list[dict[str, Any]] = field(default_factory=list)
    templates: list[str] = field(default_factory=list)

    @property
    def size(self) -> int:
        """The bytes of all builds."""
        return sum(int(build["bytes"]) for build in self.builds)


def prune(name: str | None, keep: int, *, dry_run: bool) -> Pruned:
    """Remove the builds of an image, or of all, beyond the `keep` newest; that of the current sources always stays.

    Desktops and workspaces stay as they are: their disks lie above copies in the hypervisor's pool. Raises
    `ConfigError` for a name that is no image here, or fewer than one build to keep.
    """
    if keep < 1:
        raise ConfigError("keep", keep, "leaves no build to start from", "keep 1 or more")
    there = sorted(path.name for path in places().images.glob("[!.]*") if path.is_dir())
    if name is not None and name not in {*there, *image_names(tree())}:
        raise ConfigError("image", name, "is no image here", f"choose: {', '.join(there)}")
    done = Pruned()
    for image in there if name is None else [name]:
        with alone(f"image-{image}", waiting=f"another task builds image {image}: waiting for its end"):
            _prune(image, keep, done, dry_run=dry_run)
    return done


def _prune(image: str, keep: int, done: Pruned, *, dry_run: bool) -> None:
    going = superseded(image, keep)
    digests = {built.digest for built in going}
    fallen = [template.name for template in warm.listed(image) if _loses_its_image(template.fit.digest, image, digests)]
    done.builds += [_row(built) for built in going]
    done.templates += fallen
    if dry_run:
        return
    # Templates first: one whose image is gone would be chosen by nobody, and keep its memory on the disk.
    if fallen:
        with daemon.connection() as link:
            for template in fallen:
                templates.remove(link, template)
    for built in going:
        shutil.rmtree(built.disk.parent)


def superseded(image: str, keep: int) -> list[BuiltImage]:
    """The builds of an image beyond the `keep` newest, of which that of the current sources is one."""
    current = store.find(image) if image in image_names(tree()) else None
    others = [built for built in store.all_built(image) if current is None or built.digest != current.digest]
    return others[keep - 1 if current else keep :]


def _loses_its_image(digest: str, image: str, going: set[str]) -> bool:
    return digest in going or store.load(image, digest) is None


def _row(built: BuiltImage) -> dict[str, Any]:
    return {
        "name": built.name,
        "digest": built.digest,
        "built_at": built.manifest.get("built_at"),
        "bytes": _bytes(built.disk.parent),
    }


def _bytes(folder: Path) -> int:
    """The bytes that a folder takes on the disk: files with holes take less than they are long."""
    return sum(path.lstat().st_blocks * 512 for path in folder.rglob("*"))
