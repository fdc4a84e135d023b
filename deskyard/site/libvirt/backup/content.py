"""The disks that a domain writes, and the files that hold them."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from deskyard.host.command import run

LONG_SECONDS = 6 * 3600.0


@dataclass(frozen=True)
class Disk:
    """A disk that the domain writes: its name in the domain, and its file."""

    target: str
    path: Path


def disks(machine: Any) -> list[Disk]:
    """The disks that the domain writes; its seed is made anew from the declaration."""
    found = []
    for disk in ElementTree.fromstring(machine.XMLDesc(0)).iterfind("./devices/disk[@device='disk']"):
        kind, source, target = disk.find("driver"), disk.find("source"), disk.find("target")
        if kind is None or source is None or target is None or disk.find("readonly") is not None:
            continue
        if kind.get("type") == "qcow2" and source.get("file"):
            found.append(Disk(str(target.get("dev")), Path(str(source.get("file")))))
    return found


def used(path: Path) -> int:
    """How many bytes of a disk hold something, unpacked: images are packed."""
    answer = qemu_img("measure", "--force-share", "--output=json", "-O", "qcow2", "-f", "qcow2", str(path))
    return int(json.loads(answer)["required"])


def chain(path: Path) -> list[dict[str, Any]]:
    """A disk and what lies below it, as QEMU tells."""
    # A running domain holds its disk open.
    answer = qemu_img("info", "--force-share", "--backing-chain", "--output=json", str(path))
    layers: list[dict[str, Any]] = json.loads(answer)
    return layers


def qemu_img(*arguments: str) -> str:
    """Run qemu-img; what it printed."""
    return run(["qemu-img", *arguments], timeout=LONG_SECONDS).stdout
