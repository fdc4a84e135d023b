"""The /home of a backup as a tree of names; whoever wrote it may have made it to harm who reads it.

No link is followed, a folder is read once however often it hangs in the tree, and no name is taken that no file can
have.
"""

import os
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from deskyard.errors import ConfigError
from deskyard.host.vm.ext4 import DamagedError, Entry, Ext4
from deskyard.plan.printable import printable

HOME = b"/home"
DEEPEST = 64
# A disk that is damaged all over is not read in so many pieces.
MOST_DAMAGED, MOST_LEFT = 100, 10_000


@dataclass(frozen=True)
class Node:
    """Something in the tree, by its path on the desktop."""

    path: bytes
    entry: Entry

    @property
    def kind(self) -> str:
        """Folder, file, link or other."""
        return self.entry.kind

    @property
    def shown(self) -> str:
        """Its path as a terminal may show it."""
        return shown(self.path)


@dataclass
class Tree:
    """The tree below /home; `left` names what is not in it, and why; `damaged` counts what of that cannot be read.

    `cut`: it was not read to its end, there is too much of it.
    """

    disk: Ext4
    home: Entry
    disk_size: int
    left: list[tuple[bytes, str]] = field(default_factory=list)
    damaged: int = 0
    cut: bool = False

    def find(self, path: str, target: str) -> Node:
        """The node at that path; raises `ConfigError` if there is no such thing, or a link is on the way to it."""
        node = Node(HOME, self.home)
        for part in require_path(path):
            if node.kind != "folder":
                there = f"{node.shown} is a {node.kind}"
                to = f", which leads to {shown(self.disk.link(node.entry))}" if node.kind == "link" else ""
                remedy = "name what it leads to: no link is followed" if to else f"take {node.shown} itself"
                raise ConfigError("path", path, there + to, remedy)
            below = {found.path.rpartition(b"/")[2]: found for found in self.within(node)}
            if part not in below:
                reason = f"there is no {printable(os.fsdecode(part))} in {node.shown} of this backup"
                raise ConfigError("path", path, reason, f"see what is there: ./inv backup.files {target} --path PATH")
            node = below[part]
        # What else was wrong on the way to it is not of it.
        self.left, self.damaged = [], 0
        return node

    def within(self, folder: Node) -> list[Node]:
        """The nodes in a folder, by name."""
        try:
            found = self.disk.folder(folder.entry.inode)
        except DamagedError as error:
            self.lose(folder.path, error.reason)
            return []
        if found.damaged:
            self.lose(folder.path, "a part of this folder cannot be read")
        nodes: dict[bytes, Node] = {}
        for entry in found.entries:
            if b"/" in entry.name or b"\0" in entry.name or entry.name in nodes:
                self.left.append((folder.path + b"/" + entry.name, "no file can have this name"))
                continue
            nodes[entry.name] = Node(folder.path + b"/" + entry.name, entry)
        return [nodes[name] for name in sorted(nodes)]

    def below(self, top: Node, most: int) -> Iterator[Node]:
        """Everything below a folder, each folder before what is in it, and no more than so much."""
        seen, waiting = {top.entry.inode}, deque([(top, 0)])
        count = 0
        while waiting and not self.cut:
            folder, depth = waiting.popleft()
            for node in self.within(folder):
                count += 1
                if count > most or len(self.left) > MOST_LEFT:
                    self.cut = True
                    return
                if node.kind == "folder":
                    if node.entry.inode in seen or depth == DEEPEST:
                        why = f"is more than {DEEPEST} folders deep" if depth == DEEPEST else "is in the tree elsewhere"
                        self.left.append((node.path, why))
                        continue
                    seen.add(node.entry.inode)
                    waiting.append((node, depth + 1))
                yield node

    def lose(self, path: bytes, why: str) -> None:
        """Note what cannot be read; raises `DamagedError` where it is too much to go on."""
        self.damaged += 1
        self.left.append((path, why))
        if self.damaged > MOST_DAMAGED:
            reason = f"more than {MOST_DAMAGED} files and folders cannot be read; {shown(path)} is the last of them"
            raise DamagedError("file system", "/home", reason, "take another backup, or name a folder that is whole")


def shown(path: bytes) -> str:
    """A path as a terminal may show it."""
    return printable(os.fsdecode(path), most=None)


def require_path(path: str) -> list[bytes]:
    """The names on the way to a path below /home; raises `ConfigError` for what is no such path."""
    parts = os.fsencode(path).rstrip(b"/").split(b"/")
    if parts[:2] != [b"", b"home"] or b".." in parts or b"." in parts or b"" in parts[2:]:
        raise ConfigError("path", path, "is not the plain path of something in /home", "give it as /home/agent/NAME")
    return parts[2:]
