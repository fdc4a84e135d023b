"""The disks of a domain as of one moment, each to be read from a program's standard output."""

import contextlib
import shlex
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import libvirt

from deskyard.errors import SiteError
from deskyard.host.deadline import Deadline
from deskyard.plan.backup import Moment, Source
from deskyard.site.libvirt import power, storage
from deskyard.site.libvirt.backup import content, freeze
from deskyard.site.libvirt.backup.content import Disk, disks

SCRATCH = ".backup-scratch"
SOCKET = "deskyard-backup.sock"
END_SECONDS, END_PAUSE = 120.0, 0.05


@contextlib.contextmanager
def moment(machine: Any, nonce: str) -> Iterator[Moment]:
    """The domain's disks as they are now: a running one is frozen for an instant, and given the nonce before."""
    state = power.state(machine)
    if state not in ("running", "stopped"):
        reason = f"is {state}: its disks alone would be torn from its memory"
        raise SiteError("machine", machine.name(), reason, "resume it, or stop it, first")
    found = disks(machine)
    if state == "stopped":
        yield Moment(False, 0.0, [_source(machine, disk, _of_file(disk.path)) for disk in found])
        return
    storage.require_room()
    with job(machine, found) as socket:
        seconds = freeze.hold(machine, nonce, partial(begin, machine, found, socket))
        yield Moment(True, seconds, [_source(machine, disk, read(disk, socket)) for disk in found])


@contextlib.contextmanager
def job(machine: Any, found: Sequence[Disk]) -> Iterator[Path]:
    """The socket of a backup job that is begun in the block, ended with it; one that a killed run left is ended."""
    socket = _socket(machine)
    _end(machine, found, socket)
    try:
        yield socket
    finally:
        _end(machine, found, socket)


def begin(machine: Any, found: Sequence[Disk], socket: Path) -> None:
    """Begin the job: from now on QEMU keeps what each disk held before it is overwritten.

    Without a checkpoint: a bitmap would break snapshots with memory, and be broken by each crash.
    """
    root = ElementTree.Element("domainbackup", mode="pull")
    ElementTree.SubElement(root, "server", transport="unix", socket=str(socket))
    listed = ElementTree.SubElement(root, "disks")
    wanted = {disk.target: disk for disk in found}
    for target in ElementTree.fromstring(machine.XMLDesc(0)).iterfind("./devices/disk/target"):
        name = str(target.get("dev"))
        if name not in wanted:
            ElementTree.SubElement(listed, "disk", name=name, backup="no")
            continue
        disk = ElementTree.SubElement(listed, "disk", name=name, backup="yes", type="file", exportname=name)
        ElementTree.SubElement(disk, "scratch", file=str(_scratch(wanted[name])))
    machine.backupBegin(ElementTree.tostring(root, encoding="unicode"), None, 0)


def read(disk: Disk, socket: Path) -> list[str]:
    """The command line that writes a disk of a running job to standard output."""
    return ["nbdcopy", f"nbd+unix:///{disk.target}?socket={socket}", "-"]


def _source(machine: Any, disk: Disk, argv: list[str]) -> Source:
    return Source(disk.target, int(machine.blockInfo(disk.target)[0]), content.used(disk.path), argv)


def _of_file(path: Path) -> list[str]:
    return ["nbdcopy", "--", "[", "qemu-nbd", "--read-only", "--format=qcow2", str(path), "]", "-"]


def _end(machine: Any, found: Sequence[Disk], socket: Path) -> None:
    running = _running(machine)
    if running is not None:
        server = running.find("server")
        if server is None or server.get("socket") != str(socket):
            reason = "another tool makes a backup of it"
            raise SiteError("machine", machine.name(), reason, f"virsh domjobabort {shlex.quote(machine.name())}")
        with contextlib.suppress(libvirt.libvirtError):
            machine.abortJob()
        # It is only asked to end: until QEMU has let go of each disk, whatever comes next would be refused.
        if not Deadline(END_SECONDS).wait_for(lambda: _running(machine) is None, END_PAUSE):
            reason = f"its backup job did not end within {END_SECONDS:.0f} s"
            raise SiteError("machine", machine.name(), reason, "run it again; it ends a job that is left")
    for disk in found:
        _scratch(disk).unlink(missing_ok=True)


def _running(machine: Any) -> ElementTree.Element | None:
    """The backup job of a machine; none if it has none, or is off."""
    with contextlib.suppress(libvirt.libvirtError):
        return ElementTree.fromstring(machine.backupGetXMLDesc())
    return None


def _scratch(disk: Disk) -> Path:
    return disk.path.with_name(disk.path.name + SCRATCH)


def _socket(machine: Any) -> Path:
    """Beside that of its agent: there QEMU's account may make one, and nobody else."""
    for channel in ElementTree.fromstring(machine.XMLDesc(0)).iterfind("./devices/channel/source[@path]"):
        return Path(str(channel.get("path"))).with_name(SOCKET)
    raise SiteError("machine", machine.name(), "has no guest agent", "run ./inv workspace.up")
