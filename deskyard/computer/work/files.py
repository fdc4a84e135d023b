"""Reads, writes and changes files; whatever waits for a disk does so in a thread."""

import asyncio
import contextlib
import errno
import io
import os
import re
import secrets
import shutil
import stat
from collections.abc import AsyncIterable, AsyncIterator
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path

from deskyard.computer.problem import Problem
from deskyard.computer.work.entries import Entry, look
from deskyard.computer.work.paths import refusals

CHUNK = 1 << 18
DEEPEST = 64
# A write that is not done yet, beside its file; watches pass over it.
UNFINISHED = ".deskyard-write-"
RANGE = re.compile(r"bytes=(\d*)-(\d*)")


@dataclass(frozen=True)
class Opened:
    """A regular file that is open for reading; `size` is unknown (None) where the kernel makes it up as it is read."""

    file: io.FileIO
    size: int | None
    tag: str

    async def content(self, start: int, length: int | None) -> AsyncIterator[bytes]:
        """The file's bytes from a position on; the file is closed at the end."""
        try:
            left = length
            while left is None or left > 0:
                wanted = CHUNK if left is None else min(CHUNK, left)
                chunk = await asyncio.to_thread(os.pread, self.file.fileno(), wanted, start)
                if not chunk:
                    return
                start += len(chunk)
                left = None if left is None else left - len(chunk)
                yield chunk
        finally:
            self.file.close()


def open_file(path: Path) -> Opened:
    """Open a file for reading; what is not a regular file is refused, for it could block for ever."""
    with refusals(path):
        # Without O_NONBLOCK a pipe nobody writes to would hold us here.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    seen = os.fstat(descriptor)
    if not stat.S_ISREG(seen.st_mode):
        os.close(descriptor)
        reason = "is a directory" if stat.S_ISDIR(seen.st_mode) else "is not a regular file"
        raise Problem(HTTPStatus.BAD_REQUEST, "path", str(path), reason, "name a file")
    size = seen.st_size if seen.st_size or seen.st_blocks else None
    return Opened(io.FileIO(descriptor), size, f'"{seen.st_mtime_ns:x}-{seen.st_size:x}"')


def part(asked: str, size: int) -> tuple[int, int]:
    """Start and length of what a Range header asks for; raises `Problem` where the file has no such part."""
    remedy = f"ask for bytes=START-END within its {size} bytes"
    match = RANGE.fullmatch(asked.strip())
    if match is None or match.group(1) == match.group(2) == "":
        raise Problem(HTTPStatus.BAD_REQUEST, "range", asked, "is not a single range of bytes", remedy)
    first, last = match.groups()
    start = int(first) if first else max(0, size - int(last))
    end = min(int(last), size - 1) if first and last else size - 1
    if start > end:
        raise Problem(HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE, "range", asked, "is outside the file", remedy)
    return start, end - start + 1


async def write(path: Path, content: AsyncIterable[bytes], mode: int | None, parents: bool, overwrite: bool) -> Entry:
    """Write a file whole or not at all: beside its place first, on the disk, then renamed.

    A link is followed; an existing file keeps its permissions unless `mode` says others.
    """
    place = Path(os.path.realpath(path))
    if parents:
        with refusals(place.parent):
            await asyncio.to_thread(place.parent.mkdir, parents=True, exist_ok=True)
    mode = _permissions(place, mode, overwrite)
    unfinished = place.parent / f"{UNFINISHED}{secrets.token_hex(8)}"
    with refusals(place):
        descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with refusals(place):
            await _fill(descriptor, content)
            os.fchmod(descriptor, mode)
            await asyncio.to_thread(_settle, descriptor, unfinished, place, overwrite)
    except BaseException:
        with contextlib.suppress(OSError):
            unfinished.unlink()
        raise
    finally:
        os.close(descriptor)
    return look(path)


def _permissions(place: Path, mode: int | None, overwrite: bool) -> int:
    """The permissions that a written file gets; raises `Problem` where it cannot be written at all."""
    try:
        seen = place.stat()
    except OSError:
        return 0o644 if mode is None else mode
    if not overwrite:
        remedy = "choose another name, or say overwrite"
        raise Problem(HTTPStatus.CONFLICT, "path", str(place), "exists already", remedy)
    if not stat.S_ISREG(seen.st_mode):
        reason = "is a directory" if stat.S_ISDIR(seen.st_mode) else "is not a regular file"
        raise Problem(HTTPStatus.BAD_REQUEST, "path", str(place), reason, "name a file")
    if not os.access(place, os.W_OK):
        raise Problem(HTTPStatus.FORBIDDEN, "path", str(place), "may not be written", "choose a path that is yours")
    return stat.S_IMODE(seen.st_mode) if mode is None else mode


async def _fill(descriptor: int, content: AsyncIterable[bytes]) -> None:
    async for chunk in content:
        if chunk:
            await asyncio.to_thread(write_all, descriptor, chunk)


def write_all(descriptor: int, data: bytes) -> None:
    """Write all of it, however often the system takes only a part."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _settle(descriptor: int, unfinished: Path, place: Path, overwrite: bool) -> None:
    """Bring a finished file to its place so that it survives a loss of power."""
    os.fsync(descriptor)
    if overwrite:
        unfinished.replace(place)
    else:
        # Unlike a rename, a link never replaces what came to stand there meanwhile.
        os.link(unfinished, place)
        unfinished.unlink()
    directory = os.open(place.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def make_directory(path: Path, parents: bool) -> Entry:
    """Make a directory; one that is there already is refused."""
    with refusals(path):
        if parents:
            path.parent.mkdir(parents=True, exist_ok=True)
        path.mkdir()
    return look(path)


def move(source: Path, destination: Path, overwrite: bool) -> Entry:
    """Move a file or directory, also to another file system."""
    with refusals(source, "source"):
        source.lstat()
    with refusals(destination, "destination"):
        if not overwrite and os.path.lexists(destination):
            raise FileExistsError(errno.EEXIST, "exists")
        try:
            source.rename(destination)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            shutil.move(source, destination)
    return look(destination)


def remove(path: Path, recursive: bool) -> None:
    """Remove a file, a link or a directory; what a directory holds only where that is said."""
    with refusals(path):
        if not stat.S_ISDIR(path.lstat().st_mode):
            path.unlink()
            return
        # By whatever way it is named: the home, and what the home is in.
        home = Path(os.path.realpath(Path.home()))
        if Path(os.path.realpath(path)) in (home, *home.parents):
            remedy = "remove what stands in it, entry by entry"
            raise Problem(HTTPStatus.FORBIDDEN, "path", str(path), "is never removed as a whole", remedy)
        if recursive:
            shutil.rmtree(path)
        else:
            path.rmdir()
