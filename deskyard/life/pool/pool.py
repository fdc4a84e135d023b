"""The pool of a workspace: disposable desktops that wait, booted, and are each claimed once."""

import time
from typing import Any

from deskyard.access.gateway_program import actor
from deskyard.declaration import declaration
from deskyard.declaration.declaration import Declared
from deskyard.engine.backend import backend_of
from deskyard.errors import ConfigError, SiteError
from deskyard.plan.pool import seat as seat_plan
from deskyard.plan.pool.seat import Claim, Seated, State
from deskyard.plan.workspace import DesktopPlan
from deskyard.site.ssh_link import SshLink
from deskyard.workspace import seating, turn
from deskyard.workspace.seats import Seats


def opened(workspace: str) -> tuple[Declared, Seats]:
    """A workspace and its seats; raises an error if it declares none, or nothing can be asked of them."""
    declared = declaration.read(workspace)
    backend = backend_of(declared.site)
    if not backend.answers():
        raise SiteError("site", declared.site.name, "its hypervisor does not run", "run ./inv site.up")
    disposables = backend.disposables(workspace)
    if disposables is None or not declared.plan.seats:
        raise ConfigError("desktops", workspace, "none has lifetime: task", "declare one (docs/disposable.md)")
    return declared, Seats(declared.site.name, workspace, disposables)


def candidates(declared: Declared, image: str | None, tier: str | None) -> list[DesktopPlan]:
    """The seats of an image and a tier; raises `ConfigError` if none is declared."""
    found = seat_plan.chosen(declared.plan.seats, image, tier)
    if not found:
        wanted = " and ".join(f"{what} {value}" for what, value in (("image", image), ("tier", tier)) if value)
        known = ", ".join(f"{seat.name} ({seat.machine.image}, {seat.tier})" for seat in declared.plan.seats)
        raise ConfigError(
            "desktops", None, f"none with lifetime: task has {wanted}", f"declare one; there are: {known}"
        )
    return found


def claim(workspace: str, image: str | None, tier: str | None, seconds: int) -> dict[str, Any]:
    """Give the desktop that has waited longest to whoever asks, for so long; nobody else ever gets it."""
    declared, seats = opened(workspace)
    among = {seat.name for seat in candidates(declared, image, tier)}
    taken = seats.take(declared, among, Claim(actor(), time.time() + seconds))
    if taken is None:
        remedy = f"./inv pool.fill {workspace}, or ./inv desktop.run {workspace} makes one now"
        raise SiteError("pool", workspace, "no desktop waits in it", remedy)
    return facts(declared, taken)


def drain(workspace: str) -> dict[str, Any]:
    """Remove all desktops that wait; those that somebody has stay."""
    declared, seats = opened(workspace)
    gone = []
    for seated in seats.ledger.machines().values():
        if seated.state is State.WAITING:
            with seats.hold(seated.seat), turn.of(declared.plan, seated.seat):
                gone += [seated.seat] if seats.remove(seated.seat, State.WAITING) else []
    return {**listed(workspace), "removed": gone}


def release(target: str) -> dict[str, Any]:
    """Remove the disposable desktop WORKSPACE/NAME with all its data; its seat is free for another."""
    workspace, _, name = target.partition("/")
    declared, seats = _seats(workspace)
    if seats is None or name not in {*seats.ledger.machines(), *seats.disposables.there()}:
        raise ConfigError("desktop", target, "is no disposable desktop that is there", "see ./inv pool.list")
    with seats.hold(name), turn.of(declared.plan, name):
        seats.remove(name)
    return {"workspace": workspace, "released": name}


def end(target: str, machine: str) -> bool:
    """Remove this machine at the seat WORKSPACE/NAME with all its data, as soon as nobody is at work there.

    False if it is gone: nothing is there by now, or another. What a killed task left of it is removed. A running task
    that has it is not waited for: a `HostError`.
    """
    workspace, _, name = target.partition("/")
    declared, seats = _seats(workspace)
    if seats is None or not _is_left(seats, name, machine):
        return False
    there = seats.ledger.machines().get(name)
    runs = there is not None and there.claim is not None and there.claim.run
    with seats.hold(name, at_once=runs), turn.of(declared.plan, name):
        # Whoever was waited for may have removed it, and somebody else have another there.
        is_left = _is_left(seats, name, machine)
        if is_left:
            seats.remove(name)
    return is_left


def require(target: str, machine: str) -> None:
    """Raise `ConfigError` unless this machine is at the seat WORKSPACE/NAME."""
    workspace, _, name = target.partition("/")
    _, seats = _seats(workspace)
    seated = None if seats is None else seats.ledger.machines().get(name)
    if seated is None or seated.number != machine:
        raise ConfigError("desktop", target, "is not the one that this was for, which is gone", "begin another task")


def _seats(workspace: str) -> tuple[Declared, Seats | None]:
    """A workspace and its seats, if there can be any: their machines may be there though none is declared any more."""
    declared = declaration.read(workspace)
    disposables = backend_of(declared.site).disposables(workspace)
    return declared, None if disposables is None else Seats(declared.site.name, workspace, disposables)


def _is_left(seats: Seats, name: str, machine: str) -> bool:
    seated = seats.ledger.machines().get(name)
    return name in seats.disposables.there() if seated is None else seated.number == machine


def listed(workspace: str) -> dict[str, Any]:
    """Each seat: free, or how its desktop is, and who has it."""
    declared, seats = opened(workspace)
    pool = declared.workspace.pool
    wanted = {"size": pool.size, "max_age": pool.max_age} if pool else None
    return {"workspace": workspace, "pool": wanted, "seats": seating.rows(declared, seats)}


def facts(declared: Declared, taken: Seated) -> dict[str, Any]:
    """The facts that whoever got a desktop has to know of it."""
    seat = declared.plan.seat(taken.seat)
    link = SshLink(declared.site.name, declared.workspace.name)
    assert taken.claim is not None
    return {
        "workspace": declared.workspace.name,
        "name": seat.name,
        "target": f"{declared.workspace.name}/{seat.name}",
        **seating.described(seat),
        "routes": sorted(seat.routes),
        "url": declared.plan.gateway.url,
        "ssh_config": str(link.config),
        "machine": taken.number,
        "by": taken.claim.by,
        "until": taken.claim.until,
    }


def line(found: dict[str, Any]) -> str:
    """The desktop that somebody got, in a line."""
    size = f"{found['address']}  {found['image']}, {found['tier']}"
    return f"{found['target']}  {size}  until {seating.when(found['until'])}"


def text(found: dict[str, Any]) -> str:
    """The seats, a line for each."""
    return "\n".join(line for row in found["seats"] for line in seating.lines(found["workspace"], row))
