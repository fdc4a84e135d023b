"""Takes snapshots of desktops, and brings desktops back to them."""

import time
from dataclasses import asdict
from typing import Any

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

    Snapshots that have expired are deleted before.
    """
    machine = power.opened(target)
    with machine.alone():
        present = _expire(machine)
        plan.check(wanted, present, target)
        machine.machines.take_snapshot(machine.domain, wanted)
    return listing(target)


def listing(target: str) -> dict[str, Any]:
    """The snapshots of a desktop, the oldest first."""
    machine = power.opened(target)
    rows = [asdict(snapshot) for snapshot in machine.machines.snapshots(machine.domain)]
    return {"desktop": target, "most": plan.MOST, "snapshots": rows}


def restore(target: str, name: str, *, wait: bool = True) -> dict[str, Any]:
    """Bring a desktop back to a snapshot, and wait until its routes answer if it is wanted to run."""
    machine = power.opened(target)
    with machine.alone():
        plan.find(name, machine.machines.snapshots(machine.domain), target)
        machine.machines.restore_snapshot(machine.domain, name)
        runs = machine.machines.desired()[machine.domain] is Power.RUNNING
        if runs:
            machine.machines.start(machine.domain)
    machine.say_what_is_old()
    if runs and wait:
        readiness.wait(machine.plan, desktops=[machine.plan.desktop(machine.name)])
    return machine.state()


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
        holds = "disk and memory" if row["memory"] else "disk"
        lines.append(f"{row['name']}  {made}  {holds}{until}  {row['text']}".rstrip())
    return "\n".join(lines) or f"{found['desktop']} has no snapshots"


def _expire(machine: Machine) -> list[Snapshot]:
    """Delete what has expired; returns what is left."""
    present = machine.machines.snapshots(machine.domain)
    over = [snapshot for snapshot in present if snapshot.is_over(time.time())]
    for snapshot in over:
        machine.machines.delete_snapshot(machine.domain, snapshot.name)
        say(f"    {snapshot.name} had expired and is deleted")
    return [snapshot for snapshot in present if snapshot not in over]
