"""Starts, stops and pauses domains; what a domain is wanted to be is in its metadata."""

import time
from collections.abc import Callable
from functools import partial
from typing import Any
from xml.etree import ElementTree

import libvirt

from deskyard.errors import SiteError
from deskyard.host.deadline import Deadline
from deskyard.host.vm.clock import set_clock, shifted
from deskyard.plan.power import Power
from deskyard.site.libvirt import agent, console_log, storage
from deskyard.site.libvirt.backup import freeze, trial
from deskyard.site.libvirt.link import gone_is_fine

SHUTDOWN_SECONDS = 60.0
# Beside three other emulated machines on two processors a guest took more than a minute.
EMULATED_SHUTDOWN_SECONDS = 300.0
# An emulated guest whose memory was just read back takes some seconds to answer.
AGENT_SECONDS = 120.0
POLL_SECONDS = 0.5
METADATA, PREFIX = "urn:deskyard:power", "deskyard"


def desired(machine: Any) -> Power:
    """Read what a domain is wanted to be; one that nobody stopped or paused is wanted to run.

    So is one that is not defined yet: it goes on from a template at this moment, or is a template in the making.
    """
    try:
        text = machine.metadata(libvirt.VIR_DOMAIN_METADATA_ELEMENT, METADATA, libvirt.VIR_DOMAIN_AFFECT_CONFIG)
    except libvirt.libvirtError as error:
        if error.get_error_code() not in (libvirt.VIR_ERR_NO_DOMAIN_METADATA, libvirt.VIR_ERR_OPERATION_INVALID):
            raise
        return Power.RUNNING
    return Power(ElementTree.fromstring(text).get("desired", Power.RUNNING))


def want(machine: Any, power: Power) -> None:
    """Keep what a domain is wanted to be, and let it start with its host only if it is wanted to run."""
    mark = None if power is Power.RUNNING else f"<power desired='{power}'/>"
    flags = libvirt.VIR_DOMAIN_AFFECT_CONFIG
    if mark is not None or desired(machine) is not Power.RUNNING:
        machine.setMetadata(libvirt.VIR_DOMAIN_METADATA_ELEMENT, mark, PREFIX, METADATA, flags)
    machine.setAutostart(power is Power.RUNNING)


def mark(definition: ElementTree.Element, power: Power) -> None:
    """Write into a definition that is not in force what its domain is wanted to be, as `want` does in one that is."""
    metadata = definition.find("metadata")
    if metadata is None:
        metadata = ElementTree.SubElement(definition, "metadata")
    for before in metadata.findall(f"{{{METADATA}}}power"):
        metadata.remove(before)
    if power is not Power.RUNNING:
        ElementTree.SubElement(metadata, f"{{{METADATA}}}power", desired=power)


def state(machine: Any) -> str:
    """`running`, `paused`, `io-error`, `saved` or `stopped`."""
    now, reason = machine.state()
    if now == libvirt.VIR_DOMAIN_PAUSED:
        return "io-error" if reason == libvirt.VIR_DOMAIN_PAUSED_IOERROR else "paused"
    if machine.isActive():
        return "running"
    return "saved" if machine.hasManagedSaveImage() else "stopped"


def start(machine: Any, seconds: float = AGENT_SECONDS) -> None:
    """Let it run; if it goes on from kept memory, its clock is right at the end."""
    before = state(machine)
    if before == "running":
        return
    if before in ("paused", "io-error"):
        _resume(machine)
    else:
        machine.create()
    if before != "stopped":
        go_on(machine, seconds)


def require_room_again(machine: Any) -> None:
    """Raise `SiteError` unless it was halted for want of room, and its host has some again."""
    for disk, error in machine.diskErrors().items():
        if error == libvirt.VIR_DOMAIN_DISK_ERROR_UNSPEC:
            reason = f"its disk {disk} met an error that is no want of room"
            remedy = "see the log of its host's kernel, then run ./inv desktop.resume"
            raise SiteError("machine", machine.name(), reason, remedy)
    storage.require_room()


def go_on(machine: Any, seconds: float = AGENT_SECONDS) -> None:
    """Set the clock of a guest that goes on from kept memory, once its agent answers."""
    agent.wait(machine, seconds)
    # An agent that a killed backup left frozen runs no program.
    freeze.release(machine)
    set_clock(machine.name(), partial(_clock, machine), partial(_shift_clock, machine))


def shut_down(
    machine: Any, *, force: bool = False, seconds: float = SHUTDOWN_SECONDS, pause: Callable[[float], None] = time.sleep
) -> None:
    """Let the guest shut down, or pull its plug and drop the memory that was kept.

    Raises `SiteError` if the guest does not listen; it is left running.
    """
    if force:
        with gone_is_fine(libvirt.VIR_ERR_OPERATION_INVALID):
            machine.destroy()
        if machine.hasManagedSaveImage():
            machine.managedSaveRemove()
        return
    if not machine.isActive():
        return
    if state(machine) == "paused":
        # A halted guest hears nothing.
        _resume(machine)
    with gone_is_fine(libvirt.VIR_ERR_OPERATION_INVALID, libvirt.VIR_ERR_AGENT_UNRESPONSIVE):
        machine.shutdown()
    if not Deadline(seconds).wait_for(lambda: not machine.isActive(), POLL_SECONDS, pause):
        reason = f"did not shut down within {seconds:.0f} s; it still runs"
        raise SiteError("machine", machine.name(), reason, "look at its screen, or pull the plug with --force")


def pause(machine: Any, *, to_disk: bool) -> None:
    """Halt it as it is; with `to_disk` its memory is written beside its disk, and its process ends."""
    before = state(machine)
    if before == "stopped":
        raise SiteError("machine", machine.name(), "is off: there is nothing to pause", "start it first")
    if to_disk and before != "saved":
        storage.require_room(machine.maxMemory() * 1024)
        # Saved as running: the next start lets it go on.
        machine.managedSave(libvirt.VIR_DOMAIN_SAVE_RUNNING)
    elif before == "running":
        machine.suspend()


def forget(machine: Any) -> None:
    """Undefine a domain with everything that libvirt keeps of it, and what it wrote to its console; its disks stay."""
    flags = libvirt.VIR_DOMAIN_UNDEFINE_MANAGED_SAVE | libvirt.VIR_DOMAIN_UNDEFINE_SNAPSHOTS_METADATA
    if machine.listAllCheckpoints():
        # None of ours: a backup tool left them.
        flags |= libvirt.VIR_DOMAIN_UNDEFINE_CHECKPOINTS_METADATA
    name = machine.name()
    machine.undefineFlags(flags)
    for gone in (name, f"{name}{trial.SUFFIX}"):
        console_log.remove(gone)


def _resume(machine: Any) -> None:
    """Let its process go on; memory on disk is of before then, and would be torn from the disks at the next start.

    Both are there if libvirt's daemon was killed while it wrote the memory.
    """
    if machine.hasManagedSaveImage():
        machine.managedSaveRemove()
    machine.resume()


def _clock(machine: Any) -> float:
    now = machine.getTime()
    return float(now["seconds"]) + float(now["nseconds"]) / 1e9


def _shift_clock(machine: Any, seconds: float) -> None:
    # `setTime` would call hwclock, which the guest need not have: Debian 13 has it in a package of its own.
    code, output = agent.execute(machine, ["date", "--utc", "--set", shifted(seconds)])
    if code != 0:
        raise SiteError("machine", machine.name(), f"its clock cannot be set: {output.strip()}", "see its console")
