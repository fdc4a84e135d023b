"""Starts a restored domain apart from everything: a machine like the real one, without any NIC, gone with its block."""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

import libvirt

from deskyard.errors import DeskyardError, SiteError
from deskyard.host.deadline import Deadline
from deskyard.host.facts import available_memory_mib
from deskyard.host.vm.tried_guest import TriedGuest
from deskyard.plan.backup import NoVerdict
from deskyard.site.libvirt import agent, console_log
from deskyard.site.libvirt.link import gone_is_fine

# No desktop has a name with a dot.
SUFFIX = ".verify"
BOOT_SECONDS, POLL_SECONDS = 1500.0, 2.0
# Enough to boot; what else runs on the host keeps its own.
MOST_MEMORY_KIB, SPARE_MIB = 2 << 20, 512


def answering(machine: Any, seconds: float = BOOT_SECONDS) -> TriedGuest:
    """The guest of a machine once its agent answers; raises `SiteError` if the machine ends, or it takes too long."""

    def decided() -> bool:
        return not machine.isActive() or agent.answers(machine)

    if not Deadline(seconds).wait_for(decided, POLL_SECONDS) or not machine.isActive():
        reason = f"the restored machine did not boot within {seconds:.0f} s"
        raise SiteError("machine", machine.name(), reason, f"see {console_log.path(machine.name())}")
    return TriedGuest(partial(agent.execute, machine))


@contextlib.contextmanager
def booted(machine: Any, disks: Mapping[str, Path], ended: Callable[[], str]) -> Iterator[TriedGuest]:
    """The guest of a machine like it, started from these restored disks, once its agent answers.

    Raises `NoVerdict` if what fails has `ended` from outside, as by the end of its hypervisor.
    """
    with started(machine, disks) as tried:
        try:
            yield answering(tried)
        except (DeskyardError, libvirt.libvirtError) as error:
            if why := ended():
                reason = f"was ended while it was tried: {why}"
                raise NoVerdict("machine", f"{machine.name()}{SUFFIX}", reason, "run it again") from error
            raise


@contextlib.contextmanager
def started(machine: Any, disks: Mapping[str, Path]) -> Iterator[Any]:
    """A machine like it, started from these restored disks; raises `NoVerdict` if none can be started."""
    link, document = machine.connect(), trial(machine.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE), disks)
    needed = int(document.findtext("memory") or 0) // 1024 + SPARE_MIB
    if available_memory_mib() < needed:
        reason = f"{available_memory_mib()} MiB of memory are free, and the trial needs {needed}"
        raise NoVerdict("machine", machine.name(), reason, "stop a desktop meanwhile")
    name = str(document.findtext("name"))
    _end(link, name)
    console_log.remove(name)
    # It ends with this connection, however this process ends.
    try:
        tried = link.createXML(ElementTree.tostring(document, encoding="unicode"), libvirt.VIR_DOMAIN_START_AUTODESTROY)
    except libvirt.libvirtError as error:
        # No byte of what was restored has run yet.
        raise NoVerdict("machine", name, f"does not start: {error}", "mend that, then run it again") from error
    try:
        yield tried
    finally:
        # What it wrote stays: where the trial failed, that may say why. The next one begins without it. Where the
        # connection broke, it has ended with that.
        with contextlib.suppress(libvirt.libvirtError):
            _end(link, name)


def trial(xml: str, disks: Mapping[str, Path]) -> Element:
    """The document of a machine like that one: other disks, no NIC, no identity at the hypervisor."""
    root = ElementTree.fromstring(xml)
    devices, name, memory = root.find("devices"), root.find("name"), root.find("memory")
    assert devices is not None and name is not None and memory is not None
    name.text = f"{name.text}{SUFFIX}"
    memory.text = str(min(int(memory.text or 0), MOST_MEMORY_KIB))
    for tag in ("uuid", "metadata", "currentMemory"):
        for element in root.findall(tag):
            root.remove(element)
    for nic in devices.findall("interface"):
        devices.remove(nic)
    for disk in devices.findall("disk"):
        _replace(devices, disk, disks)
    for log in devices.iterfind("*/log"):
        log.set("file", str(console_log.path(name.text)))
    for channel in devices.findall("channel"):
        for source in channel.findall("source"):
            channel.remove(source)
    return root


def _replace(devices: Element, disk: Element, disks: Mapping[str, Path]) -> None:
    target, source, driver = disk.find("target"), disk.find("source"), disk.find("driver")
    if disk.find("readonly") is not None:
        return
    path = disks.get(str(target.get("dev"))) if target is not None else None
    if path is None or source is None or driver is None:
        devices.remove(disk)
        return
    source.set("file", str(path))
    driver.set("type", "raw")
    for element in (*disk.findall("backingStore"), *disk.findall("iotune")):
        disk.remove(element)


def _end(link: Any, name: str) -> None:
    with gone_is_fine(libvirt.VIR_ERR_OPERATION_INVALID):
        link.lookupByName(name).destroy()
