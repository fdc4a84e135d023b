"""The head of the file in which libvirt saves a machine's memory: read, and written anew for another machine.

The file is a head (fixed numbers, the machine's XML, a cookie), then QEMU's stream, which knows neither name nor UUID.
libvirt reads it once and in order, so whoever feeds it may put another head before the same stream.
"""

import struct
from dataclasses import dataclass, replace
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from deskyard.errors import SiteError

MAGIC, VERSION = b"LibvirtQemudSave", 2
# Magic; version, length of the texts, whether it ran, compression, place of the cookie; fourteen that nobody uses.
NUMBERS = struct.Struct("<16s5I14I")
RUNNING, RAW = 1, 0
# What a machine's own document says of a disk that the hardware in its memory does not know.
OF_A_DISK = ("source", "iotune")


@dataclass(frozen=True)
class Head:
    """The XML of the machine that was saved, and the cookie in which libvirt keeps what else it needs."""

    xml: str
    cookie: str
    runs: bool = True
    compression: int = RAW


def size(start: bytes) -> int:
    """How long the head is, told by its first bytes; behind it QEMU's stream begins."""
    return NUMBERS.size + _numbers(start)[1]


def parse(head: bytes) -> Head:
    """The head of a saved machine, parsed; raises `SiteError` for one that is of no known form."""
    _, length, runs, compression, cookie_at, *_ = _numbers(head)
    texts = head[NUMBERS.size : NUMBERS.size + length]
    if len(texts) < length or cookie_at > length:
        raise _unknown("it is cut off")
    cookie = texts[cookie_at:] if cookie_at else b""
    return Head(_text(texts), _text(cookie), bool(runs), compression)


def write(head: Head) -> bytes:
    """The same as bytes."""
    xml = head.xml.encode() + b"\0"
    cookie = head.cookie.encode() + b"\0" if head.cookie else b""
    cookie_at = len(xml) if cookie else 0
    numbers = (VERSION, len(xml) + len(cookie), int(head.runs), head.compression, cookie_at)
    return NUMBERS.pack(MAGIC, *numbers, *([0] * 14)) + xml + cookie


def for_machine(head: Head, wanted: str) -> Head:
    """The head under which a machine with the document `wanted` goes on from the same memory.

    Name, UUID, generation, caps, disks and the console's log are that machine's; all other hardware is that
    of the template, whose memory knows it.
    """
    root, own = ElementTree.fromstring(head.xml), ElementTree.fromstring(wanted)
    for tag in ("name", "uuid", "genid", "cputune"):
        _replace(root, tag, own.findall(tag))
    disks = {_target(disk): disk for disk in own.iterfind("./devices/disk")}
    for disk in root.iterfind("./devices/disk"):
        if _target(disk) not in disks:
            raise _unknown(f"it has a disk {_target(disk)}, which the machine lacks")
        for tag in OF_A_DISK:
            _replace(disk, tag, disks[_target(disk)].findall(tag))
        # Which files are below a disk is read from the disk.
        _replace(disk, "backingStore", [])
    log = own.find("./devices/serial/log")
    for device in (*root.iterfind("./devices/serial"), *root.iterfind("./devices/console")):
        _replace(device, "log", [] if log is None else [log])
    for channel in root.iterfind("./devices/channel[@type='unix']"):
        _replace(channel, "source", [])
    return replace(head, xml=ElementTree.tostring(root, encoding="unicode"), runs=True)


def _numbers(start: bytes) -> tuple[int, ...]:
    if len(start) < NUMBERS.size:
        raise _unknown("it is cut off")
    magic, *numbers = NUMBERS.unpack_from(start)
    if magic != MAGIC or numbers[0] != VERSION:
        raise _unknown("it is of another form")
    return tuple(numbers)


def _unknown(reason: str) -> SiteError:
    return SiteError("template", None, f"the saved memory cannot be used: {reason}", "make the template anew")


def _text(texts: bytes) -> str:
    return texts.split(b"\0", 1)[0].decode()


def _target(disk: Element) -> str | None:
    target = disk.find("target")
    return None if target is None else target.get("dev")


def _replace(parent: Element, tag: str, wanted: list[Element]) -> None:
    for element in parent.findall(tag):
        parent.remove(element)
    parent.extend(wanted)
