"""Lets machines go on that their hypervisor halted for want of room, once there is room again."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from deskyard.engine.backend import Machines
from deskyard.errors import HostError, SiteError
from deskyard.plan.power import Power
from deskyard.plan.printable import printable
from deskyard.plan.workspace import GATEWAY, WorkspacePlan
from deskyard.workspace import turn

HALTED = "io-error"


@dataclass
class Halted:
    """A machine that was found halted: whether it went on, what it waits for, what is wrong with it."""

    machine: str
    went_on: bool = False
    waits: str = ""
    trouble: str = ""


def go_on(plan: WorkspacePlan, machines: Machines, desktop: str | None, *, dry_run: bool = False) -> list[Halted]:
    """Let the halted machines of a workspace go on: the gateway first, then one desktop, or all and those at seats.

    What a person paused, or wants off or paused, is left alone.
    """
    domains = {name: machine.domain for name, machine in plan.machines().items()}
    if desktop is not None:
        domains = {name: domains[name] for name in (GATEWAY, plan.desktop(desktop).name)}
    else:
        domains |= {seat.name: seat.machine.domain for seat in plan.seats}
    found = []
    for name in _halted(machines, domains.items()):
        row = Halted(name)
        try:
            # Before each: the one before it may have taken the room.
            machines.require_room_again(domains[name])
            if dry_run:
                row.waits = "there is room again: it would go on"
            else:
                row.went_on = _let_go_on(plan, machines, name, domains[name])
        except (SiteError, HostError) as error:
            if error.field == "lock":
                row.waits = "another task is at work there"
            else:
                row.trouble = printable(f"was halted: {error.reason.splitlines()[0]} -> {error.remedy}")
        if row.went_on or row.waits or row.trouble:
            found.append(row)
    return found


def line(workspace: str, row: Mapping[str, Any]) -> str:
    """How a machine that was halted fares, in a line for people."""
    return f"{workspace}/{row['machine']}  {row['trouble'] or row['waits'] or 'goes on: its host has room again'}"


def _let_go_on(plan: WorkspacePlan, machines: Machines, name: str, domain: str) -> bool:
    """Whether it was still halted when its turn came, and goes on."""
    with turn.of(plan, name, at_once=True):
        if not _halted(machines, [(name, domain)]):
            return False
        machines.start(domain)
    return True


def _halted(machines: Machines, domains: Iterable[tuple[str, str]]) -> list[str]:
    states = machines.states()
    there = [(name, states[domain]) for name, domain in domains if domain in states]
    return [name for name, state in there if (state["state"], state["desired"]) == (HALTED, Power.RUNNING)]
