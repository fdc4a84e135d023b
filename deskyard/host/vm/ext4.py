"""Reads an ext4 file system that nobody trusts: a desktop's root wrote it.

It is never mounted: the kernel's own parser is not made for that. debugfs of e2fsprogs reads it in a sandbox, and what
it answers is as little trusted. It is asked for numbers of inodes, never for names; behind each answer it repeats a
mark that who wrote the file system cannot know.
"""

import contextlib
import os
import re
import secrets
import selectors
import stat
import subprocess
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from deskyard.errors import SiteError
from deskyard.host import sandbox
from deskyard.host.deadline import Alarm

ROOT = 2  # the inode of / in every ext4
CPU_SECONDS = 6 * 3600
ANSWER_SECONDS, BYTES_PER_SECOND = 120.0, 1 << 20
MOST_ANSWER, MOST_LINK, MOST_SAID = 16 << 20, 4096, 2000
PIECE = 1 << 16
_DEBUGFS = "/usr/sbin/debugfs"
# The name of a file may hold a newline; a place where none is, in a folder that was fuller, has none.
_ENTRY = re.compile(rb"/([0-9]+)/([0-7]{6})/(-?[0-9]+)/(-?[0-9]+)/(.{0,255}?)/([0-9]*)/\n", re.DOTALL)
_CHANGED = re.compile(rb"\n mtime: 0x([0-9a-f]{8})(?::([0-9a-f]{8}))?")
_SHORT_LINK = re.compile(rb'\nFast link dest: "(.*)"\n\Z', re.DOTALL)


class DamagedError(SiteError):
    """Something of a file system that cannot be read."""


@dataclass(frozen=True)
class Entry:
    """A name in a folder and what its inode says."""

    name: bytes
    inode: int
    mode: int
    user: int
    group: int
    size: int

    @property
    def kind(self) -> str:
        """The kind of the file: folder, file, link, or other (a device, a pipe, a socket)."""
        kinds = {stat.S_IFDIR: "folder", stat.S_IFREG: "file", stat.S_IFLNK: "link"}
        return kinds.get(stat.S_IFMT(self.mode), "other")


@dataclass(frozen=True)
class Folder:
    """The entries of a folder; less than all of them if it is damaged."""

    entries: list[Entry]
    damaged: bool


class Ext4:
    """An ext4 file system in a file of this machine, read for as long as its block lasts."""

    def __init__(self, image: Path, offset: int = 0) -> None:
        device = f"{sandbox.FILE}?offset={offset}" if offset else sandbox.FILE
        # -c: bitmaps are not read, which are of use to who writes alone.
        self._argv = sandbox.sandboxed([_DEBUGFS, "-c", "-f", "-", device], image, CPU_SECONDS)
        self._process: subprocess.Popen[bytes] | None = None
        self._image = image

    def __enter__(self) -> Self:
        sandbox.require([_DEBUGFS, "-V"], self._image)
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the program that reads it; the next question starts another."""
        process, self._process = self._process, None
        if process is not None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            with contextlib.suppress(BrokenPipeError):
                process.communicate()

    def features(self) -> set[str]:
        """Its features; none if it is no such file system, or its head is damaged."""
        try:
            answer, said = self._answer("features")
        except DamagedError:
            return set()
        return set() if said else set(answer.decode(errors="replace").partition(":")[2].split())

    def folder(self, inode: int) -> Folder:
        """The entries of a folder, without itself and the one above it."""
        answer, said = self._answer(f"ls -p <{inode}>")
        entries, place = [], 0
        while found := _ENTRY.match(answer, place):
            number, mode, user, group, name, size = found.groups()
            place = found.end()
            if int(number) and name not in (b"", b".", b".."):
                entries.append(Entry(name, int(number), int(mode, 8), int(user), int(group), int(size or 0)))
        return Folder(entries, bool(said or answer[place:].strip() or not place))

    def changed(self, entry: Entry) -> int:
        """When it was last written, in seconds since 1970."""
        return _moment(self._stat(entry))

    def link(self, entry: Entry) -> bytes:
        """Where a link leads; raises `DamagedError` if that cannot be told."""
        found = _SHORT_LINK.search(self._stat(entry))
        if found is not None:
            return found[1]
        if entry.size > MOST_LINK:
            raise self._damaged(f"inode {entry.inode} leads to {entry.size} bytes")
        return b"".join(self.content(entry))

    def content(self, entry: Entry) -> Generator[bytes, None, None]:
        """The bytes of a file, piece by piece; raises `DamagedError` behind the last one if they are not all of it."""
        read = 0
        seconds = ANSWER_SECONDS + entry.size / BYTES_PER_SECOND
        said: list[bytes] = []
        for piece in self._ask(f"cat <{entry.inode}>", entry.size, seconds, said):
            read += len(piece)
            yield piece
        if said or read != entry.size:
            raise self._damaged(f"inode {entry.inode} has {read} bytes of {entry.size}")

    def _stat(self, entry: Entry) -> bytes:
        answer, _ = self._answer(f"stat <{entry.inode}>")
        return answer

    def _answer(self, request: str) -> tuple[bytes, bytes]:
        said: list[bytes] = []
        return b"".join(self._ask(request, MOST_ANSWER, ANSWER_SECONDS, said)), b"".join(said)

    def _ask(self, request: str, most: int, seconds: float, said: list[bytes]) -> Iterator[bytes]:
        """The answer to a request, at most so long; `said` gets what is told of errors."""
        process = self._process or self._start()
        mark, echo = f"#{secrets.token_hex(16)}\n".encode(), f"debugfs: {request}\n".encode()
        done, length, held = False, 0, b""
        try:
            with Alarm(seconds, process.kill):
                _write(process, f"{request}\n".encode() + mark)
                for piece in _pieces(process, said):
                    held += piece
                    if echo:
                        if len(held) < len(echo):
                            continue
                        if not held.startswith(echo):
                            break
                        held, echo = held[len(echo) :], b""
                    done = held.endswith(mark)
                    # What may be the beginning of the mark is not given away.
                    ready, held = (held[: -len(mark)], b"") if done else (held[: -len(mark)], held[-len(mark) :])
                    length += len(ready)
                    if length > most:
                        done = False
                        break
                    if ready:
                        yield ready
                    if done:
                        break
            if not done:
                raise self._damaged(f"the answer to {request!r} has no end")
            said += _waiting(process)
        finally:
            if not done:
                self.close()

    def _start(self) -> "subprocess.Popen[bytes]":
        pipe = subprocess.PIPE
        process = subprocess.Popen(self._argv, stdin=pipe, stdout=pipe, stderr=pipe, bufsize=0)
        self._process = process
        # It says its name first, and why the file system does not open.
        said: list[bytes] = []
        for _ in self._ask("features", MOST_ANSWER, ANSWER_SECONDS, said):
            pass
        return process

    def _damaged(self, reason: str) -> DamagedError:
        return DamagedError("file system", self._image.name, reason, "take another backup, or leave that out")


def _write(process: "subprocess.Popen[bytes]", text: bytes) -> None:
    assert process.stdin is not None
    # One that has ended is found by what it does not answer.
    with contextlib.suppress(BrokenPipeError):
        process.stdin.write(text)


def _pieces(process: "subprocess.Popen[bytes]", said: list[bytes]) -> Iterator[bytes]:
    """The output of a process until it ends; its errors go to `said`, so that it never waits for a reader."""
    assert process.stdout is not None
    assert process.stderr is not None
    with selectors.DefaultSelector() as ready:
        ready.register(process.stdout, selectors.EVENT_READ)
        ready.register(process.stderr, selectors.EVENT_READ)
        while True:
            for key, _ in ready.select():
                piece = os.read(key.fd, PIECE)
                if key.fileobj is process.stdout:
                    if not piece:
                        return
                    yield piece
                elif not piece:
                    ready.unregister(process.stderr)
                elif sum(map(len, said)) < MOST_SAID:
                    said.append(piece)


def _waiting(process: "subprocess.Popen[bytes]") -> list[bytes]:
    """The error output of a process that nobody has read yet."""
    assert process.stderr is not None
    os.set_blocking(process.stderr.fileno(), False)
    found = []
    with contextlib.suppress(BlockingIOError):
        while piece := os.read(process.stderr.fileno(), PIECE):
            found.append(piece)
    return found


def _moment(facts: bytes) -> int:
    found = _CHANGED.search(facts)
    if found is None:
        return 0
    seconds = int(found[1], 16)
    # The first number is signed; two bits of the second go on where it ends, in 2038.
    seconds -= (seconds >> 31) << 32
    return seconds + ((int(found[2] or b"0", 16) & 3) << 32)
