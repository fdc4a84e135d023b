"""Disks for tests, made without root: a partition table and an ext4 of a tree."""

import subprocess
from pathlib import Path

from deskyard.host.facts import find_program

START, MIB = 2048, 1 << 20


def raw_disk(tree: Path, raw: Path) -> Path:
    """Make a raw disk of 16 MiB with `tree` as its root file system."""
    with raw.open("wb") as file:
        file.truncate(16 * MIB)
    subprocess.run(
        [find_program("sfdisk") or "sfdisk", "-q", str(raw)],
        input=f"label: gpt\nstart={START}, type=L\n",
        text=True,
        check=True,
    )
    offset = f"offset={START * 512}"
    make_it = [find_program("mke2fs") or "mke2fs", "-q", "-F", "-t", "ext4", "-E", offset, "-d", str(tree)]
    subprocess.run([*make_it, str(raw), "12m"], check=True, stderr=subprocess.DEVNULL)
    return raw
