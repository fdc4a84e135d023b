"""A machine whose guest witnesses what becomes of its data: `witness.S` writes numbered records, in order, and says so.

It is made as the engine would make it, small and without a desktop; nothing in it answers as a guest agent.
"""

import json
import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from deskyard.host.deadline import Deadline
from deskyard.host.vm.accelerator import accelerator
from deskyard.plan.first_boot import desktop_first_boot
from deskyard.plan.image.source import ImageSource
from deskyard.plan.workspace import WorkspacePlan
from deskyard.site.libvirt import daemon, documents, power
from deskyard.site.libvirt.kinds import parts
from deskyard.site.libvirt.kinds.domain import DomainKind
from deskyard.site.libvirt.kinds.volume import SeedKind, VolumeKind
from deskyard.site.libvirt.link import POOL_PATH
from deskyard.site.resource.kind import Kind
from deskyard.site.resource.values import Values
from tests.desktop.lab import planned

SOURCE = Path(__file__).with_name("witness.S")
CONSOLES = Path("/var/log/libvirt/qemu")
RECORD, SECTOR, IMAGE_BYTES = 16 << 10, 512, 1 << 20
# An emulated machine beside others; what it waits for is said as soon as it is so.
SECONDS, PAUSE = 240.0, 0.05
DISKS = (documents.SYSTEM, documents.HOME)


def plan(*names: str) -> WorkspacePlan:
    """Workspace `lab` with these desktops, by default dev1 and dev2, each as small as can be."""
    found = planned(*(names or ("dev1", "dev2")))
    desktops = tuple(
        replace(desktop, machine=replace(desktop.machine, vcpus=1, memory_mib=64, disk_gib=1, home_gib=1))
        for desktop in found.desktops
    )
    return replace(found, desktops=desktops, accelerator=accelerator("auto"))


def image(folder: Path, digest: str, *, paced: bool = True) -> ImageSource:
    """An image of the guest; `paced` it writes a record at each tick of its clock."""
    source, linked, raw, disk = (folder / f"{digest}.{suffix}" for suffix in ("o", "bin", "raw", "qcow2"))
    run = partial(subprocess.run, check=True, timeout=60)
    run(["as", "--32", f"--defsym=PACED={int(paced)}", "-o", source, SOURCE])
    run(["ld", "-m", "elf_i386", "-Ttext", "0x7c00", "--oformat", "binary", "-o", linked, source])
    raw.write_bytes(linked.read_bytes().ljust(IMAGE_BYTES, b"\0"))
    run(["qemu-img", "convert", "-O", "qcow2", raw, disk])
    return ImageSource("witness", digest, str(disk))


@contextmanager
def adapted() -> Iterator[None]:
    """The product as it is, for a guest of one sector: no agent answers in it, and it finds /home by the firmware.

    Its NIC keeps its MAC and leads nowhere: to apply the rules of a filter takes libvirt seconds at each start and end.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(documents, "domain", partial(_fitting, documents.domain))
        patch.setattr(power, "go_on", lambda *_: None)
        yield


def make(name: str, source: ImageSource) -> list[tuple[Kind[Any], Values]]:
    """Make a desktop of the workspace; what was made, and its state."""
    found = plan(name)
    desktop, first_boot = found.desktop(name), desktop_first_boot(found.desktop(name), "")
    made: list[tuple[Kind[Any], Values]] = []

    def create(kind: Kind[Any], inputs: Any) -> Any:
        state = {**inputs, **kind.create(link, inputs)[1]}
        made.append((kind, state))
        return state

    with daemon.connection() as link, adapted():
        hardware = parts.hardware(desktop.machine, found.accelerator, None, first_boot, None)
        hardware["disk"] = create(VolumeKind(), parts.system(desktop.machine, source, None))["path"]
        hardware["home"] = create(VolumeKind(), parts.home(desktop.machine, None))["path"]
        hardware["seed"] = create(SeedKind(), parts.seed(desktop.machine, first_boot))["path"]
        hardware["interfaces"] = [parts.nic(desktop, found.network.name, found.desktop_filter.name)]
        create(DomainKind(), hardware)
    return made


def said(domain: str) -> list[tuple[str, int]]:
    """What a guest has said so far: a letter and a number, each; see `witness.S`."""
    try:
        text = (CONSOLES / f"{domain}-console.log").read_text()
    except FileNotFoundError:
        return []
    # The last line may be on its way.
    lines = text.replace("\r", "").rpartition("\n")[0].splitlines()
    return [(line[0], int(line[1:], 16)) for line in lines]


def last(domain: str, letter: str = "k") -> int:
    """The last number that a guest said with that letter; 0 if it has not."""
    return next((number for what, number in reversed(said(domain)) if what == letter), 0)


def await_more(domain: str, count: int = 3) -> int:
    """Wait until a guest has said that it kept so many records more; the last one's number."""
    begun = len(said(domain))
    heard = Deadline(SECONDS).wait_for(lambda: len(said(domain)) >= begun + count + 1, PAUSE)
    assert heard, f"{domain} has said nothing more: {said(domain)[-3:]}"
    return last(domain)


def records(disk: Path) -> tuple[list[int], list[int]]:
    """The numbers of the whole records on a disk that nothing writes to, and those of which a part is there."""
    with tempfile.TemporaryDirectory() as folder, Path(folder, "raw").open("w+b") as raw:
        subprocess.run(["qemu-img", "convert", "-O", "raw", disk, raw.name], check=True, timeout=60)
        whole, torn = list[int](), list[int]()
        for number in _numbers(raw.fileno()):
            found = os.pread(raw.fileno(), RECORD, number * RECORD)
            (whole if found == number.to_bytes(4, "little") * (RECORD // 4) else torn).append(number)
    return whole, torn


def faults(disk: Path) -> list[str]:
    """What `qemu-img check` finds wrong with a disk, leaks too."""
    done = subprocess.run(["qemu-img", "check", "--output=json", disk], capture_output=True, timeout=60, check=False)
    found = json.loads(done.stdout)
    kinds = ("corruptions", "check-errors", "leaks")
    return [f"{disk.name}: {found[kind]} {kind}" for kind in kinds if found.get(kind)]


def disks(domain: str) -> tuple[Path, Path]:
    """The files of a machine's system disk and of its /home."""
    return Path(POOL_PATH, f"{domain}.qcow2"), Path(POOL_PATH, f"{domain}.home.qcow2")


def _numbers(file: int) -> Iterator[int]:
    """The places of records at which something is."""
    end, place = os.fstat(file).st_size, RECORD
    while place < end:
        try:
            place = max(place, os.lseek(file, place, os.SEEK_DATA) // RECORD * RECORD)
        except OSError:
            return
        if any(os.pread(file, RECORD, place)):
            yield place // RECORD
        place += RECORD


def _fitting(make_document: Any, **values: Any) -> str:
    """The firmware shows a guest of one sector the disks alone from which it may boot: both, the system first."""
    root = ElementTree.fromstring(make_document(**values))
    system = root.find("os")
    assert system is not None
    for boot in system.findall("boot"):
        system.remove(boot)
    for disk in root.iterfind("./devices/disk"):
        target = disk.find("target")
        if target is not None and target.get("dev") in DISKS:
            order = str(DISKS.index(str(target.get("dev"))) + 1)
            disk.append(ElementTree.Element("boot", order=order))
    for nic in root.iterfind("./devices/interface"):
        nic.set("type", "user")
        for element in [*nic.findall("source"), *nic.findall("port"), *nic.findall("filterref")]:
            nic.remove(element)
    return ElementTree.tostring(root, encoding="unicode")
