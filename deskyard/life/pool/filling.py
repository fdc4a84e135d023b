"""Keeps as many disposable desktops ready as a workspace declares; a timer calls it, or a person."""

from contextlib import ExitStack
from typing import Any

from deskyard.engine.backend import machines_of
from deskyard.errors import ConfigError, HostError
from deskyard.host.lock import alone
from deskyard.host.progress import say, step
from deskyard.life.pool.making import make
from deskyard.life.pool.pool import listed, opened
from deskyard.plan.pool.seat import State
from deskyard.plan.power import Power


def tidy(workspace: str) -> list[str]:
    """Remove what had its time, and where a pool is declared fill it again; the seats at which machines were made."""
    declared, seats = opened(workspace)
    if declared.workspace.pool is not None:
        return list(fill(workspace)["made"])
    seats.sweep(declared)
    return []


def fill(workspace: str) -> dict[str, Any]:
    """Remove what had its time, then make as many as are to wait, as far as there are free seats."""
    declared, seats = opened(workspace)
    pool = declared.workspace.pool
    if pool is None:
        raise ConfigError("pool", workspace, "is not declared", "write deskyard:pool: {size: 2} (docs/disposable.md)")
    if machines_of(declared.plan).desired().get(declared.plan.gateway.machine.domain) is not Power.RUNNING:
        say(f"    workspace {workspace} is not wanted to run: nothing is made")
        return {**listed(workspace), "made": [], "removed": []}
    made = []
    with alone(f"fill-{seats.site}-{workspace}", waiting=f"another task fills the pool of {workspace}: waiting"):
        removed = seats.sweep(declared)
        for seat in declared.plan.seats:
            there = seats.ledger.machines()
            if sum(seated.state is State.WAITING for seated in there.values()) >= pool.size:
                break
            with ExitStack() as held:
                try:
                    held.enter_context(seats.hold(seat.name))
                except HostError:
                    continue
                if not seats.is_free(seat.name):
                    continue
                with step(f"{workspace}/{seat.name}"):
                    make(seats, declared, seat, routes=True)
                made.append(seat.name)
    return {**listed(workspace), "made": made, "removed": removed}
