"""How the seats of a workspace are: as `workspace.status`, `pool.list`, `workspace.verify` and `site.check` tell it."""

from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime
from typing import Any

from deskyard.declaration.declaration import Declared
from deskyard.engine.backend import backend_of
from deskyard.plan.pool.seat import Seated, State
from deskyard.plan.workspace import DesktopPlan
from deskyard.workspace.seats import Seats

FREE: dict[str, Any] = {"state": State.FREE, "since": None, "made_from": None, "by": None, "until": None, "run": False}

NOT_DECLARED = "not declared any more"


def seats_of(declared: Declared) -> Seats | None:
    """The seats of a workspace; None where there cannot be any."""
    disposables = backend_of(declared.site).disposables(declared.plan.name)
    return None if disposables is None else Seats(declared.site.name, declared.plan.name, disposables)


def rows(declared: Declared, seats: Seats, routes: Mapping[str, Any] | None = None) -> list[dict[str, Any]]:
    """A row for each seat, and for each at which something is though it is not declared any more.

    `routes` are those of the gateway's status; without it they are left out. `spent` says why what is there has to go,
    and `remedy` how.
    """
    planned = {seat.name: seat for seat in declared.plan.seats}
    there = seats.ledger.machines()
    if not planned and not there and not seats.disposables.there():
        return []
    spent = seats.spent(declared)
    found = []
    for name in dict.fromkeys((*planned, *there, *spent)):
        row = {"name": name, **FREE, **(_of_machine(there[name]) if name in there else {})}
        row |= described(planned[name]) if name in planned else {}
        row |= {"spent": spent.get(name), "remedy": remedy(declared.plan.name, name) if name in spent else None}
        if routes is not None:
            answers = routes.get(name, {})
            awaited = planned[name].awaited if name in planned else []
            ready = bool(awaited) and all(answers.get(route, {}).get("ready") for route in awaited)
            row |= {"routes": answers, "ready": ready and row["state"] in (State.WAITING, State.CLAIMED)}
        found.append(row)
    return found


def lines(workspace: str, row: Mapping[str, Any]) -> list[str]:
    """A row as text: who has its machine and until when, and how it goes if it is nobody's."""
    has = f" by {row['by']} until {when(row['until'])}" if row["by"] else ""
    since = f" since {when(row['since'])}" if row["since"] and not row["by"] else ""
    answers = f", {'ready' if row['ready'] else 'not ready'}" if row["since"] and "ready" in row else ""
    size = f"{row['address']}  {row['made_from'] or row['image']}, {row['tier']}" if "address" in row else NOT_DECLARED
    said = [f"{workspace}/{row['name']}  {row['state']}{has}{since}{answers}  {size}"]
    return (
        [*said, f"  {row['spent']}: goes with the next pool.fill; at once: {row['remedy']}"] if row["spent"] else said
    )


def when(moment: float) -> str:
    """A moment on this machine's clock."""
    return datetime.fromtimestamp(moment).strftime("%Y-%m-%d %H:%M:%S")


def described(seat: DesktopPlan) -> dict[str, Any]:
    """The declared image, tier and address of a seat."""
    return {"image": seat.machine.image, "tier": seat.tier, "address": seat.address}


def remedy(workspace: str, seat: str) -> str:
    """How what is at a seat, and nobody's, is removed."""
    return f"./inv desktop.release {workspace}/{seat}"


def left(declared: Declared) -> dict[str, str]:
    """Why what is at a seat is nobody's though it was somebody's, or was being made, by its seat."""
    seats = seats_of(declared)
    if seats is None:
        return {}
    there = seats.ledger.machines()
    waiting = {name for name, seated in there.items() if seated.state is State.WAITING}
    return {name: why for name, why in seats.spent(declared).items() if name not in waiting}


def _of_machine(seated: Seated) -> dict[str, Any]:
    known = {"state": seated.state, "since": seated.since, "made_from": seated.image or None}
    return known | (asdict(seated.claim) if seated.claim else {})
