"""Takes snapshots of desktops, and brings desktops back to them."""

import time
from contextlib import suppress
from dataclasses import asdict
from typing import Any

from deskyard.errors import SiteError
from deskyard.host import jump
from deskyard.host.jump import ClockJump
from deskyard.host.progress import say
from deskyard.life import power
from deskyard.life.moment import minute
from deskyard.life.power import Machine
from deskyard.plan import snapshot as plan
from deskyard.plan.power import Power
from deskyard.plan.snapshot import Snapshot
from deskyard.workspace import readiness


def create(target: str, wanted: Snapshot) -> dict[str, Any]:
    """Take a snapshot of a desktop: with its memory while it runs, of its disk alone while it is off.

    Snapshots that have expired are deleted before, unless the clock has jumped ahead.
    """
    machine = power.opened(target)
    with machine.alone():
        try:
            _delete_expired(machine)
        except ClockJump as jumped:
            say(f"    what has expired stays: the clock {jumped.reason} -> {jumped.remedy}")
        plan.check(wanted, machine.machines.snapshots(machine.domain), target)
        machine.machines.take_snapshot(machine.domain, wanted)
    return listing(target)


def listing(target: str) -> dict[str, Any]:
    """The snapshots of a desktop, the oldest first."""
    machine = power.opened(target)
    rows = [asdict(snapshot) for snapshot in machine.machines.snapshots(machine.domain)]
    return {"desktop": target, "most": plan.MOST, "snapshots": rows}


def restore(target: str, name: str, *, wait: bool = True) -> dict[str, Any]:
    """Bring a desktop back to a snapshot, and wait until its routes answer if it is wanted to run.

    One that is wanted off or paused is so again, though it went on from its memory. Without memory none is paused: one
    that was is off, and wanted so.
    """
    machine = power.opened(target)
    machines, domain = machine.machines, machine.domain
    with machine.alone(), machine.shown():
        found, before = plan.find(name, machines.snapshots(domain), target), machines.desired()[domain]
        wanted = _wanted_after(before, found)
        if found.memory or wanted is Power.RUNNING:
            # Before memory that is on disk is given up for it.
            machines.take_room(domain)
        if wanted is not before:
            machines.want(domain, wanted)
        try:
            machines.restore_snapshot(domain, name)
        except SiteError:
            # The first error is the one to show.
            with suppress(SiteError):
                gone = before is Power.PAUSED and machines.states()[domain]["state"] == "stopped"
                machines.want(domain, Power.OFF if gone else before)
            raise
        if wanted is Power.RUNNING:
            machines.start(domain)
        elif machines.states()[domain]["state"] == "running":
            if wanted is Power.OFF:
                machines.shut_down(domain, force=False)
            else:
                machines.pause(domain, to_disk=False)
    machine.say_what_is_old()
    if wanted is Power.RUNNING and wait:
        readiness.wait(machine.plan, desktops=[machine.plan.desktop(machine.name)])
    return machine.state()


def would_restore(target: str, name: str) -> dict[str, Any]:
    """The outcome that `restore` would have; nothing is touched."""
    machine = power.opened(target)
    present = machine.machines.snapshots(machine.domain)
    found = plan.find(name, present, target)
    later = [snapshot.name for snapshot in present if snapshot.made > found.made]
    wanted = _wanted_after(machine.machines.desired()[machine.domain], found)
    return {**machine.state(), "snapshot": asdict(found), "taken_after": later, "would_be": wanted}


def _wanted_after(wanted: Power, found: Snapshot) -> Power:
    """The power that a desktop is wanted to have once it is back: without memory there is nothing to pause."""
    return Power.OFF if wanted is Power.PAUSED and not found.memory else wanted


def would_text(found: dict[str, Any]) -> str:
    """The outcome of a restore that was not done, in a line for people."""
    row, after = found["snapshot"], ", ".join(found["taken_after"])
    goes = f"would go back to {row['name']} of {minute(row['made'])}, and be {found['would_be']}"
    return f"{power.text(found)}  {goes}; lost is what changed since, unless it is in: {after or 'no snapshot'}"


def expired(machine: Machine) -> list[Snapshot]:
    """The snapshots of a machine that need not be kept any more."""
    return [snapshot for snapshot in machine.machines.snapshots(machine.domain) if snapshot.is_over(time.time())]


def expire(machine: Machine) -> list[str]:
    """Delete those that have expired; a `HostError` if another task is at work there, or the clock jumped ahead."""
    with machine.alone(at_once=True):
        return _delete_expired(machine)


def delete(target: str, name: str) -> dict[str, Any]:
    """Delete a snapshot of a desktop."""
    machine = power.opened(target)
    with machine.alone():
        plan.find(name, machine.machines.snapshots(machine.domain), target)
        machine.machines.delete_snapshot(machine.domain, name)
    return listing(target)


def text(found: dict[str, Any]) -> str:
    """The snapshots of a desktop, a line for each."""
    lines = []
    for row in found["snapshots"]:
        made, ends = minute(row["made"]), row["expires"]
        until = f"  until {minute(ends)}" if ends is not None else ""
        holds = "interrupted" if row["interrupted"] else "disk and memory" if row["memory"] else "disk"
        lines.append(f"{row['name']}  {made}  {holds}{until}  {row['text']}".rstrip())
    return "\n".join(lines) or f"{found['desktop']} has no snapshots"


def _delete_expired(machine: Machine) -> list[str]:
    over = [snapshot.name for snapshot in expired(machine)]
    jumped = jump.look(machine.plan.name)
    if over and jumped is not None:
        raise jumped
    for name in over:
        machine.machines.delete_snapshot(machine.domain, name)
        say(f"    {machine.name}: snapshot {name} had expired and is deleted")
    return over
