"""Watches of directories: what changes there, in order, for one reader each."""

import asyncio
import collections
import contextlib
import errno
import os
import secrets
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path

from deskyard.computer.problem import Problem
from deskyard.computer.work import inotify
from deskyard.computer.work.files import UNFINISHED
from deskyard.computer.work.paths import refusals, shown

MOST_WATCHES = 32
MOST_DIRECTORIES = 8192
MOST_CHANGES = 10_000
# A watch that nobody has asked for so long gives way to a new one.
FORGOTTEN_SECONDS = 600.0

CREATED, CHANGED, WRITTEN, REMOVED = "created", "changed", "written", "removed"
MOVED_AWAY, MOVED_HERE, ATTRIBUTES, LOST = "moved_away", "moved_here", "attributes", "lost"
KINDS = {
    inotify.CREATE: CREATED,
    inotify.MODIFY: CHANGED,
    inotify.CLOSE_WRITE: WRITTEN,
    inotify.DELETE: REMOVED,
    inotify.MOVED_FROM: MOVED_AWAY,
    inotify.MOVED_TO: MOVED_HERE,
    inotify.ATTRIB: ATTRIBUTES,
    inotify.OVERFLOW: LOST,
}


@dataclass(frozen=True)
class Change:
    """A change of an entry, by its path below the watched directory; kind `lost` means that some changes were lost."""

    kind: str
    path: str


class Watch:
    """A directory being watched, with all below it if `recursive`."""

    def __init__(self, root: Path, recursive: bool) -> None:
        self.root = root
        self._recursive = recursive
        self.is_kept = False  # it never gives way to a new one
        self.is_listened_to = False  # somebody waits for its changes
        self._changes: collections.deque[Change] = collections.deque()
        self._directories: dict[int, str] = {}
        self._hidden_moves: set[int] = set()
        self._woken = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self.asked = self._loop.time()
        self._queue = inotify.open_queue()
        try:
            with refusals(root):
                self._directories[inotify.add(self._queue, root)] = ""
            if recursive:
                self._add_below("", announce=False)
        except BaseException:
            os.close(self._queue)
            raise
        self._loop.add_reader(self._queue, self._read)

    def close(self) -> None:
        """Stop watching; the reader is told that there is nothing more."""
        if self._queue >= 0:
            self._loop.remove_reader(self._queue)
            os.close(self._queue)
            self._queue = -1
            self._woken.set()

    def taken(self) -> list[Change]:
        """Take the changes since the last time, up to this moment."""
        self.asked = self._loop.time()
        if self._queue >= 0:
            self._read()
        changes = list(self._changes)
        self._changes.clear()
        self._woken.clear()
        return changes

    async def next(self) -> list[Change]:
        """Wait for the next changes; empty when the watch is over."""
        self.is_listened_to = True
        try:
            while not (changes := self.taken()) and self._queue >= 0:
                await self._woken.wait()
        finally:
            self.is_listened_to = False
            self.asked = self._loop.time()
        return changes

    def _read(self) -> None:
        for happening in inotify.read(self._queue):
            self._take(happening)
            if self._queue < 0:
                return

    def _take(self, happening: inotify.Happening) -> None:
        if happening.mask & inotify.IGNORED:
            if self._directories.pop(happening.watch, None) == "":
                # The root is gone for good: one that is made anew in its place is another.
                self.close()
            return
        directory = self._directories.get(happening.watch, "")
        if happening.mask & (inotify.DELETE_SELF | inotify.MOVE_SELF | inotify.UNMOUNT):
            # Of a directory below the root, its parent has said so already.
            if directory == "":
                self._note(REMOVED, "")
            return
        path = str(Path(directory, happening.name))
        kind = KINDS[happening.mask & sum(KINDS)]
        if self._is_unfinished(happening):
            return
        if kind == MOVED_HERE and happening.cookie in self._hidden_moves:
            self._hidden_moves.discard(happening.cookie)
            kind = WRITTEN
        self._note(kind, path)
        if self._recursive and happening.mask & inotify.ISDIR and kind in (CREATED, MOVED_HERE):
            self._add_below(path, announce=True)

    def _is_unfinished(self, happening: inotify.Happening) -> bool:
        """Whether this is of a write that is under way; its last step is a move, known by its cookie."""
        if not happening.name.startswith(UNFINISHED):
            return False
        if happening.mask & inotify.MOVED_FROM:
            self._hidden_moves.add(happening.cookie)
        return True

    def _add_below(self, path: str, announce: bool) -> None:
        """Watch a directory and those below it; what is in a new one already came before we could see it come."""
        if path and not self._add(path):
            return
        with contextlib.suppress(OSError), os.scandir(self.root / path) as children:
            for child in children:
                below = str(Path(path, child.name))
                if announce and not child.name.startswith(UNFINISHED):
                    self._note(CREATED, below)
                if child.is_dir(follow_symlinks=False):
                    self._add_below(below, announce)
                elif announce and not child.name.startswith(UNFINISHED):
                    self._note(CHANGED, below)

    def _add(self, path: str) -> bool:
        if len(self._directories) >= MOST_DIRECTORIES:
            self._note(LOST, path)
            return False
        try:
            self._directories[inotify.add(self._queue, self.root / path)] = path
        except OSError as error:
            if error.errno == errno.ENOSPC:
                self._note(LOST, path)
            return False
        return True

    def _note(self, kind: str, path: str) -> None:
        change = Change(kind, shown(path))
        if self._changes and self._changes[-1] == change and kind != LOST:
            return
        if len(self._changes) >= MOST_CHANGES:
            self._changes.clear()
            change = Change(LOST, "")
        self._changes.append(change)
        self._woken.set()


class Watches:
    """The watches of the service: bounded, and all ended with it."""

    def __init__(self) -> None:
        self._open: dict[str, Watch] = {}

    def start(self, root: Path, recursive: bool) -> tuple[str, Watch]:
        """A new watch and its name."""
        if len(self._open) >= MOST_WATCHES:
            self._forget()
        name, watch = secrets.token_hex(8), Watch(root, recursive)
        self._open[name] = watch
        return name, watch

    def find(self, name: str) -> Watch:
        """The watch of a name; raises `Problem` where there is none."""
        if name not in self._open:
            raise Problem(HTTPStatus.NOT_FOUND, "watcher", name, "does not exist", "start a new one")
        return self._open[name]

    def stop(self, name: str) -> None:
        """End a watch; one that is over already, or gave way to another, may be ended again."""
        if watch := self._open.pop(name, None):
            watch.close()

    def stop_all(self) -> None:
        """End every watch."""
        for name in list(self._open):
            self.stop(name)

    def _forget(self) -> None:
        others = [name for name, watch in self._open.items() if not (watch.is_kept or watch.is_listened_to)]
        name = min(others, key=lambda name: self._open[name].asked, default=None)
        if name is None or asyncio.get_running_loop().time() - self._open[name].asked < FORGOTTEN_SECONDS:
            reason = f"would be more than {MOST_WATCHES} at once"
            raise Problem(HTTPStatus.TOO_MANY_REQUESTS, "watcher", None, reason, "end one that is not needed")
        self.stop(name)
