"""Entries of the file system, as callers read them."""

import grp
import os
import pwd
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from deskyard.computer.answers import work as answers
from deskyard.computer.work.paths import refusals, shown

FILE = "file"
DIRECTORY = "directory"
OTHER = "other"
MOST_ENTRIES = 10_000


@dataclass(frozen=True)
class Entry:
    """A file, directory or link; `type` is that of a link's target, `other` where it leads nowhere."""

    name: str
    path: str
    type: str
    size: int
    mode: int
    permissions: str
    owner: str
    group: str
    modified: datetime
    link: str | None

    def described(self) -> answers.Entry:
        """The entry as an answer shows it."""
        return {
            "name": self.name, "path": self.path, "type": self.type, "size": self.size, "mode": f"{self.mode:04o}",
            "permissions": self.permissions, "owner": self.owner, "group": self.group,
            "modified": self.modified.isoformat(timespec="microseconds"), "link": self.link,
        }  # fmt: skip


def look(path: Path) -> Entry:
    """The entry at a path; raises `Problem` where there is none."""
    with refusals(path):
        seen = path.lstat()
    link, kind = None, seen.st_mode
    if stat.S_ISLNK(kind):
        link = os.path.realpath(path)
        try:
            kind = path.stat().st_mode
        except OSError:
            kind = 0
    return Entry(
        name=shown(path.name) or "/",
        path=shown(str(path)),
        type=FILE if stat.S_ISREG(kind) else DIRECTORY if stat.S_ISDIR(kind) else OTHER,
        size=seen.st_size,
        mode=stat.S_IMODE(seen.st_mode),
        permissions=stat.filemode(seen.st_mode),
        owner=_owner(seen.st_uid),
        group=_group(seen.st_gid),
        modified=datetime.fromtimestamp(seen.st_mtime, UTC),
        link=None if link is None else shown(link),
    )


def below(root: Path, depth: int) -> tuple[list[Entry], bool]:
    """The entries of a directory down to a depth, by name, and whether there are too many to list them all."""
    entries: list[Entry] = []
    for path in _walk(root, depth):
        if len(entries) == MOST_ENTRIES:
            return entries, True
        if os.path.lexists(path):
            entries.append(look(path))
    return entries, False


def _walk(root: Path, depth: int) -> Iterator[Path]:
    with refusals(root), os.scandir(root) as found:
        children = sorted(found, key=lambda child: child.name)
    for child in children:
        yield root / child.name
        if depth > 1 and child.is_dir(follow_symlinks=False) and os.access(child.path, os.R_OK | os.X_OK):
            yield from _walk(root / child.name, depth - 1)


def _owner(number: int) -> str:
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)


def _group(number: int) -> str:
    try:
        return grp.getgrgid(number).gr_name
    except KeyError:
        return str(number)
