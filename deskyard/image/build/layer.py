"""The build of a custom image: it starts from a built image and brings packages, files, roles."""

import tarfile
from io import BytesIO
from pathlib import Path
from typing import Any, cast

from deskyard.host.command import run
from deskyard.host.places import tree
from deskyard.image.base.base_disk import BaseDisk
from deskyard.image.store.store import BuiltImage
from deskyard.model.image import AnyBase, CustomImage
from deskyard.plan.image.image import BaseKind, disk_gib, image_variables, role_folder
from deskyard.plan.image.layer import layer_files
from deskyard.plan.image.package_snapshot import snapshot_variables

ROLE = "image_layer"
# Files of one digest are the same in every build, their times too: 2020-01-01.
FILE_TIME = 1577836800


def kind_of(parent: BuiltImage) -> BaseKind:
    """The kind of base disk that a built image started from in the end."""
    return cast(BaseKind, parent.manifest["base"]["kind"])


def parent_disk(image: CustomImage, parent: BuiltImage, scratch: Path) -> BaseDisk:
    """The disk of the image that this one starts from, in the size that this one has; it is read, never written."""
    disk = scratch / "parent.qcow2"
    size = f"{disk_gib(image, tree())}G"
    run(["qemu-img", "create", "-q", "-f", "qcow2", "-b", str(parent.disk), "-F", "qcow2", str(disk), size], timeout=60)
    return BaseDisk(kind_of(parent), parent.digest, disk)


def layer_variables(image: CustomImage, base: AnyBase, scratch: Path) -> dict[str, Any]:
    """The variables of the roles that make the image, whose lineage starts from a base."""
    return {
        "image_name": image.name,
        "image_roles": [ROLE, *image.roles],
        "image_layer_refresh_packages": bool(image.packages or image.roles),
        "image_layer_packages": list(image.packages),
        "image_layer_archive": str(_archive(image, scratch)) if image.files else "",
        # The build VM is thrown away: services start when the image does. A role without services has no such variable.
        **{f"{role}_start": False for role in image.roles},
        **snapshot_variables(base),
        **image_variables(image, tree()),
    }


def own_roles(image: CustomImage) -> Path | None:
    """The folder of the image's own roles, if it uses one of them."""
    folder = tree() / "images" / image.name / "roles"
    return folder if any(role_folder(image, role, tree()).parent == folder for role in image.roles) else None


def _archive(image: CustomImage, scratch: Path) -> Path:
    """The image's files as root's. It holds no folder: those that are there keep their owners and modes."""
    path = scratch / "files.tar"
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as archive:
        for layer_file in layer_files(image, tree()):
            entry = tarfile.TarInfo(layer_file.path)
            entry.mode, entry.mtime = layer_file.mode & 0o777, FILE_TIME
            entry.uname = entry.gname = "root"
            if layer_file.link is not None:
                entry.type, entry.linkname, entry.mode = tarfile.SYMTYPE, layer_file.link, 0o777
                archive.addfile(entry)
                continue
            content = layer_file.source.read_bytes()
            entry.size = len(content)
            archive.addfile(entry, BytesIO(content))
    return path
