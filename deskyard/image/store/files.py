"""Lists every file of an image's disk and what is in it, without booting or mounting the disk."""

import hashlib
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from fnmatch import fnmatch
from pathlib import Path
from typing import IO

from deskyard.errors import BuildError
from deskyard.host.command import run
from deskyard.host.deadline import Alarm
from deskyard.host.places import places
from deskyard.host.progress import say
from deskyard.host.vm.root_file_system import SECONDS, RootFileSystem
from deskyard.image.store.store import BuiltImage
from deskyard.plan.image.file_diff import DiskFiles, FileFacts

ROOT = 2  # the inode of / in every ext4
FOLDER, REGULAR, LINK = "04", "10", "12"
# A shorter one stands in the inode itself, and `stat` tells it.
LONGEST_FAST_LINK = 59
PIECE = 1 << 20
# Where dpkg keeps which paths a package brought, one a line.
PACKAGE_LISTS = "/var/lib/dpkg/info/*.list"
READ_SECONDS = 1800.0


def list_files(built: BuiltImage) -> DiskFiles:
    """List what is on a built image's disk; raises `BuildError` if it cannot be read."""
    say(f"==> read the files of {built.name}@{built.digest}")
    places().cache.mkdir(parents=True, exist_ok=True)
    # A raw disk is large, if sparse: where caches lie, not where temporary files do.
    with tempfile.TemporaryDirectory(prefix="files-", dir=places().cache) as folder:
        raw = Path(folder) / "disk.raw"
        run(["qemu-img", "convert", "-O", "raw", str(built.disk), str(raw)], timeout=READ_SECONDS)
        return read_files(RootFileSystem(raw))


def read_files(root: RootFileSystem) -> DiskFiles:
    """Read what is in a root file system; of folders and special files there is no content."""
    found = _walk(root)
    lists = {_package(path): inode for path, (inode, _) in found.items() if fnmatch(path, PACKAGE_LISTS)}
    owned = dict(zip(lists, _answers(root, [f"cat <{inode}>" for inode in lists.values()]), strict=True))
    return DiskFiles(_facts(root, found), {path: name for name, paths in owned.items() for path in paths})


def _package(path: str) -> str:
    """The name of the package that a list is of: NAME.list, or NAME:ARCHITECTURE.list."""
    return path.rpartition("/")[2].removesuffix(".list").partition(":")[0]


def _facts(root: RootFileSystem, found: dict[str, tuple[int, FileFacts]]) -> dict[str, FileFacts]:
    fast = {inode for inode, facts in found.values() if _is_fast_link(facts)}
    contents = {inode: facts.size for inode, facts in found.values() if facts.mode.startswith((REGULAR, LINK))}
    content = _targets(root, fast) | _digests(root, {i: size for i, size in contents.items() if i not in fast})
    return {
        path: FileFacts(facts.mode, facts.owner, facts.size, content.get(inode, ""))
        for path, (inode, facts) in found.items()
    }


def _is_fast_link(facts: FileFacts) -> bool:
    return facts.mode.startswith(LINK) and facts.size <= LONGEST_FAST_LINK


def _walk(root: RootFileSystem) -> dict[str, tuple[int, FileFacts]]:
    """Inode and facts of each path, without its content; folders of the same depth are asked for at once."""
    found: dict[str, tuple[int, FileFacts]] = {}
    folders = {ROOT: ""}
    while folders:
        below = {}
        for inode, lines in zip(folders, _answers(root, [f"ls -p <{inode}>" for inode in folders]), strict=True):
            for line in lines:
                if not line.startswith("/"):
                    continue
                _, number, mode, user, group, name, size, _ = line.split("/")
                if name in ("", ".", ".."):
                    continue
                path, facts = f"{folders[inode]}/{name}", FileFacts(mode[-6:], f"{user}:{group}", int(size or 0))
                found[path] = (int(number), facts)
                if facts.mode.startswith(FOLDER):
                    below[int(number)] = path
        folders = below
    return found


def _targets(root: RootFileSystem, links: Iterable[int]) -> dict[int, str]:
    """Where each link leads that stands in its inode."""
    inodes, mark = sorted(links), "Fast link dest: "
    answers = _answers(root, [f"stat <{inode}>" for inode in inodes])
    return {
        inode: "".join(line.removeprefix(mark).strip('"') for line in lines if line.startswith(mark))
        for inode, lines in zip(inodes, answers, strict=True)
    }


def _answers(root: RootFileSystem, requests: list[str]) -> list[list[str]]:
    """The lines with which debugfs answers each request; it repeats a request before its answer."""
    with _script(requests) as script:
        lines = run([*root.reader, "-f", script, root.device], timeout=SECONDS * 10).stdout.splitlines()
    answers: list[list[str]] = []
    for line in lines:
        if len(answers) < len(requests) and line == f"debugfs: {requests[len(answers)]}":
            answers.append([])
        elif answers:
            answers[-1].append(line)
    return answers


def _digests(root: RootFileSystem, sizes: dict[int, int]) -> dict[int, str]:
    """The sha256 of what is in each inode."""
    found = {}
    with _script([f"cat <{inode}>" for inode in sorted(sizes)]) as script:
        argv = [*root.reader, "-f", script, root.device]
        with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
            try:
                assert process.stdout is not None
                with Alarm(READ_SECONDS, process.kill):
                    for inode in sorted(sizes):
                        found[inode] = _digest(process.stdout, inode, sizes[inode])
            finally:
                process.kill()
    return found


def _digest(out: IO[bytes], inode: int, size: int) -> str:
    digest, left = hashlib.sha256(), size
    if out.readline() == f"debugfs: cat <{inode}>\n".encode():
        while left and (piece := out.read(min(left, PIECE))):
            digest.update(piece)
            left -= len(piece)
        if not left:
            return digest.hexdigest()
    raise BuildError("disk", f"inode {inode}", "could not be read to its end", "look at the disk with debugfs")


@contextmanager
def _script(requests: Iterable[str]) -> Iterator[str]:
    """A file of requests, for debugfs takes no more of them on its command line than one."""
    with tempfile.NamedTemporaryFile("w", suffix=".debugfs") as file:
        file.write("".join(f"{request}\n" for request in requests))
        file.flush()
        yield file.name
