"""How the files of two disks differ, and why two builds of the same sources are not the same byte for byte."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatch
from typing import Literal

from deskyard.plan.image.difference import Difference


@dataclass(frozen=True)
class FileFacts:
    """A path of a disk: kind and permissions as six octal digits, `user:group`, size in bytes.

    `content` is the sha256 of a file, where a link leads, and nothing for folders and special files.
    """

    mode: str
    owner: str
    size: int
    content: str = ""


@dataclass(frozen=True)
class DiskFiles:
    """Every path of a disk, and of those that came with a Debian package, its name."""

    files: Mapping[str, FileFacts]
    packages: Mapping[str, str]


@dataclass(frozen=True)
class FileChange:
    """A path that the second of two disks has otherwise; `reason` is empty where none is known."""

    change: Literal["added", "removed", "content", "permission"]
    path: str
    size_bytes: tuple[int, int]
    reason: str = ""


def file_changes(first: DiskFiles, second: DiskFiles, packages: Difference) -> tuple[FileChange, ...]:
    """Every path that differs, sorted; `packages` is how the packages of the disks do."""
    names = {*packages.added, *packages.removed, *packages.changed}
    owned = {path for disk in (first, second) for path, package in disk.packages.items() if package in names}
    return tuple(_changes(first.files, second.files, owned))


def _changes(first: Mapping[str, FileFacts], second: Mapping[str, FileFacts], owned: set[str]) -> Iterator[FileChange]:
    for path in sorted(first.keys() | second.keys()):
        before, after = first.get(path), second.get(path)
        if before == after:
            continue
        size = (before.size if before else 0, after.size if after else 0)
        reason = OF_A_PACKAGE if path in owned else reason_of(path)
        if before is None or after is None:
            yield FileChange("added" if after else "removed", path, size, reason)
        else:
            same = (before.content, before.mode[:2]) == (after.content, after.mode[:2])
            yield FileChange("permission" if same else "content", path, size, reason)


def reason_of(path: str) -> str:
    """Why a path differs between two builds of the same sources; empty if that is not known."""
    return next((reason for pattern, reason in REASONS.items() if fnmatch(path, pattern)), "")


OF_A_PACKAGE = "of a package that differs"
# Found by comparing builds of one digest from bases that were bootstrapped at different times.
REASONS = {
    "/boot/grub/*.mod": "a copy of GRUB's own, made when it is installed",
    "/boot/grub/i386-pc/core.img": "made of GRUB's own when it is installed",
    "/boot/initrd.img-*": "made of what is installed",
    "/etc/ld.so.cache": "made of the libraries that are installed",
    "/var/cache/fontconfig/*": "holds the times of the folders of fonts",
    "/var/lib/dpkg/*": "what dpkg knows of its packages",
}
