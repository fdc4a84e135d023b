"""The memory of this machine, for machines that start: what is free, less what others that just started yet take.

A machine's memory is taken as its guest touches it, over minutes. Twelve desktops that are woken at once would each
find the same memory free, and the kernel would end one of them, or somebody else's, once all had booted.
"""

import time
from pathlib import Path
from typing import Any

import libvirt

from deskyard.host.facts import available_memory_mib
from deskyard.host.lock import alone
from deskyard.host.places import places
from deskyard.host.secret_file import leave_mark
from deskyard.plan.power import NoRoom

# An emulated desktop boots in three minutes, and takes less than half of the smallest tier by then.
TAKING_SECONDS, TAKEN_PART = 180.0, 0.5
REMEDY = "stop other desktops, or pause them with --to-disk; or choose a smaller tier"


def free_mib(link: Any) -> int:
    """Memory that a machine more may take, MiB."""
    return available_memory_mib() - sum(_yet_to_take(link, name) for name in _starting())


def take(machine: Any) -> None:
    """Count on a machine that starts now; raises `NoRoom`, and counts on none, if its memory is not free."""
    with alone("memory"):
        mark = _folder() / machine.name()
        mark.unlink(missing_ok=True)
        needed, free = machine.maxMemory() >> 10, free_mib(machine.connect())
        if needed > free:
            raise NoRoom("memory", f"{needed} MiB", f"{free} MiB are free for {machine.name()}", REMEDY)
        note(machine.name())


def note(name: str) -> None:
    """Count on a machine that starts, whatever is free."""
    leave_mark(_folder() / name)


def _folder() -> Path:
    return places().state / "starting"


def _starting() -> list[str]:
    """The machines that began to start a moment ago; the marks of others are removed."""
    names = []
    for mark in _folder().glob("*"):
        try:
            age = time.time() - mark.stat().st_mtime
        except FileNotFoundError:
            continue
        if 0 <= age < TAKING_SECONDS:
            names.append(mark.name)
        else:
            mark.unlink(missing_ok=True)
    return names


def _yet_to_take(link: Any, name: str) -> int:
    """Memory that a machine is expected to take and has not, MiB; nothing of one that is gone."""
    try:
        machine = link.lookupByName(name)
        taken = machine.memoryStats().get("rss", 0) if machine.isActive() else 0
        return max(0, int(machine.maxMemory() * TAKEN_PART) - taken) >> 10
    except libvirt.libvirtError:
        return 0
