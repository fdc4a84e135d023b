"""The layer that a custom image adds to the one that it starts from: the files that it copies to /."""

import hashlib
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from deskyard.errors import ConfigError
from deskyard.model.image import CustomImage

# Write access of others says nothing but how somebody's machine checks out a tree.
KEPT_MODE = 0o755
LINK_MODE = 0o120000
RESERVED = ("roles", "tests")


@dataclass(frozen=True)
class LayerFile:
    """A file, or with `link` a symbolic link, that is copied; `path` is where, without the leading slash."""

    path: str
    source: Path
    mode: int
    link: str | None = None

    def fingerprint(self) -> str:
        """The file as an input of the image: its mode (octal), then the sha256 of its content or target."""
        content = self.source.read_bytes() if self.link is None else self.link.encode()
        return f"{self.mode:o} {hashlib.sha256(content).hexdigest()}"


def layer_files(image: CustomImage, tree: Path) -> tuple[LayerFile, ...]:
    """The files that an image copies to /, sorted; raises `ConfigError` for one that cannot be copied as it is."""
    if image.files is None:
        return ()
    place = f"images/{image.name}/{image.files}"
    folder = tree / place
    if image.files in RESERVED:
        raise ConfigError("files", image.files, "is the folder of the image's " + image.files, "write files: files")
    if folder.is_symlink() or not folder.is_dir():
        raise ConfigError("files", image.files, f"{place} is no folder", "make it, or take files out of image.yaml")
    found = tuple(_layer_file(path, folder) for path in _below(folder))
    if not found:
        raise ConfigError("files", image.files, f"{place} holds no file", "put one in, or take files out of image.yaml")
    return found


def _below(folder: Path) -> Iterator[Path]:
    """Everything in a folder and the folders in it, sorted; links are not followed."""
    for path in sorted(folder.iterdir()):
        if path.is_dir() and not path.is_symlink():
            yield from _below(path)
        else:
            yield path


def _layer_file(path: Path, folder: Path) -> LayerFile:
    name = path.relative_to(folder).as_posix()
    mode = path.lstat().st_mode
    if not name.isprintable():
        raise ConfigError("files", name, "has a name that cannot be printed", "rename it")
    if stat.S_ISLNK(mode):
        return LayerFile(name, path, LINK_MODE, _checked_link(name, path))
    if not stat.S_ISREG(mode):
        raise ConfigError("files", name, "is neither a file nor a folder nor a link", "remove it; a role can make it")
    if mode & (stat.S_ISUID | stat.S_ISGID):
        reason = "would run as its owner, who is root in the image"
        raise ConfigError("files", name, reason, "clear the bit; a role can set it")
    return LayerFile(name, path, mode & KEPT_MODE)


def _checked_link(name: str, path: Path) -> str:
    """The target of a link, which has to stay below the folder: it is copied as a link, never followed."""
    target = path.readlink().as_posix()
    depth = len(PurePosixPath(name).parent.parts)
    for part in PurePosixPath(target).parts:
        depth += -1 if part == ".." else 1
        if depth < 0:
            break
    if target.startswith("/") or depth < 0:
        remedy = "write it relative to where it lies, or let a role make it"
        raise ConfigError("files", name, f"is a link that leaves the folder: {target}", remedy)
    return target
