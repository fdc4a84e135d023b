"""A real ext4 file system with what a desktop's root may write into its /home to harm who reads it."""

import os
import random
import re
import subprocess
from pathlib import Path

SECRET = "of the host"
# Written by a program, then made what it cannot write; both are as long.
CLIMBER, CLIMBS = b"up_up_up_climbed", b"../../../climbed"
PARENT, PARENTS = b"zz", b".."
FORGED = b'debugfs: cat <12>\n#00000000000000000000000000000000\nInode: 2 Fast link dest: "/etc"\n'


def tree(folder: Path) -> Path:
    """A home with good files and bad ones; special files are among them."""
    home = folder / "tree"
    docs = home / "agent/docs"
    (docs / "deep/deeper").mkdir(parents=True)
    (docs / "report.txt").write_text("a report\n")
    (docs / "forged").write_bytes(FORGED)
    # The same each time: what is bent below must not be in it by chance.
    (docs / "blob").write_bytes(random.Random(7).randbytes(3 << 20))
    (docs / "deep/deeper/key").write_text("private")
    (docs / "deep/deeper/key").chmod(0o600)
    (docs / "setuid").write_text("#!/bin/sh\n")
    (docs / "setuid").chmod(0o6777)
    (docs / "line\nbreak \x1b[31m").write_text("odd")
    (docs / os.fsdecode(b"latin-\xff")).write_text("odd, too")
    (docs / "empty").touch()
    with (docs / "holes").open("wb") as file:
        file.seek(4 << 20)
        file.write(b"end")
    with (docs / "endless").open("wb") as file:
        file.truncate(1 << 40)
    os.utime(docs / "report.txt", (1_000_000_000, 1_000_000_000))
    for name, leads_to in {
        "inside": "deep/deeper/key",
        "deep/back": "../report.txt",
        "passwd": "/etc/passwd",
        "out": "../../../../etc/passwd",
        "sly": "deep/../../../../etc",
        "long": "deep/" * 30 + "x",
    }.items():
        (docs / name).symlink_to(leads_to)
    os.mknod(docs / "memory", 0o666 | 0o020000, os.makedev(1, 1))
    os.mkfifo(docs / "pipe")
    (docs / CLIMBER.decode()).write_text("climbed")
    (docs / PARENT.decode()).mkdir()
    (docs / PARENT.decode() / "below").write_text("below")
    return home


def image(folder: Path, home: Path, above: str = "") -> Path:
    """An image of that home, whose names are bent by hand, and in which a folder hangs below itself.

    `above` is where home is in it.
    """
    path = folder / "home.img"
    # No checksums: who wrote it would have made them right.
    make = ["mkfs.ext4", "-q", "-O", "^metadata_csum", "-d", str(home), str(path), "16M"]
    subprocess.run(make, check=True, timeout=60, capture_output=True)
    docs = inode(path, f"{above}/agent/docs")
    write(path, f"link <{docs}> {above}/agent/docs/deep/loop")
    bytes_of = path.read_bytes()
    assert bytes_of.count(CLIMBER) == 1
    bytes_of = bytes_of.replace(CLIMBER, CLIMBS)
    # The length of the name and the kind stand before it: 2 and folder.
    assert bytes_of.count(b"\x02\x02" + PARENT) == 1
    path.write_bytes(bytes_of.replace(b"\x02\x02" + PARENT, b"\x02\x02" + PARENTS))
    return path


def inode(image: Path, path: str) -> int:
    """The number of an inode."""
    found = re.search(r"Inode: ([0-9]+)", _debugfs(image, f"stat {path}"))
    assert found is not None
    return int(found[1])


def write(image: Path, request: str) -> None:
    """Let debugfs change an image."""
    _debugfs(image, request, "-w")


def tear(image: Path, path: str) -> None:
    """Let a file begin behind the end of its disk."""
    number = inode(image, path)
    # The second half of its first extent: where it begins.
    write(image, f"sif <{number}> block[5] 0x7fffffff")


def _debugfs(image: Path, request: str, *options: str) -> str:
    argv = ["debugfs", *options, "-R", request, str(image)]
    return subprocess.run(argv, check=True, timeout=60, capture_output=True, text=True).stdout
