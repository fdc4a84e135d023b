"""Reads the root file system of a disk that nobody has booted, with debugfs, which mounts nothing."""

import json
from pathlib import Path

from deskyard.errors import BuildError
from deskyard.host.command import run
from deskyard.host.facts import find_program

SECTOR = 512
LINUX_ROOT_TYPES = {"0FC63DAF-8483-4772-8E79-3D69D8477DE4", "4F68BCE3-E8CD-4DB1-96E7-FBCAF984B709"}
SECONDS = 60.0
UNREADABLE = "has no root file system that can be read"


class RootFileSystem:
    """The root file system of a raw disk; raises `BuildError` if it cannot be read."""

    def __init__(self, disk: Path) -> None:
        table = run([_program("sfdisk"), "--json", str(disk)], timeout=SECONDS, check=False)
        if table.code:
            raise BuildError("disk", disk.name, UNREADABLE, "look at its partition table")
        partitions = json.loads(table.stdout)["partitiontable"]["partitions"]
        roots = [partition for partition in partitions if partition["type"].upper() in LINUX_ROOT_TYPES]
        if not roots:
            raise BuildError("disk", disk.name, UNREADABLE, "look at its partition table")
        # The program that reads it, and what it calls the file system.
        self.reader = [_program("debugfs")]
        self.device = f"{disk}?offset={roots[0]['start'] * SECTOR}"
        # Without this, a disk that cannot be read would look clean.
        if not self.text("/etc/passwd").startswith("root:"):
            raise BuildError("disk", disk.name, UNREADABLE, "look at its root partition with debugfs")

    def names(self, folder: str) -> set[str]:
        """The names in a folder; empty if there is no such folder."""
        entries = [line.split("/") for line in self._ask(f"ls -p {folder}").splitlines() if line.startswith("/")]
        return {entry[5] for entry in entries} - {".", "..", "lost+found"}

    def text(self, path: str) -> str:
        """The text of a file; empty if there is none."""
        return self._ask(f"cat {path}")

    def _ask(self, request: str) -> str:
        return run([*self.reader, "-R", request, self.device], timeout=SECONDS).stdout


def _program(name: str) -> str:
    return find_program(name) or name
