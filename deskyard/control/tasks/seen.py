"""Seats as the ledger of a workspace has them, and the rows of the database that say so."""

import contextlib
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from deskyard.agent import task
from deskyard.control.store.connection import Link
from deskyard.control.store.upsert import put
from deskyard.control.tasks.target import claimed
from deskyard.control.usage import sight
from deskyard.declaration.declaration import Declared
from deskyard.errors import ConfigError
from deskyard.host.places import tree
from deskyard.plan.pool.seat import Seated, State
from deskyard.plan.workspace import DesktopPlan
from deskyard.workspace import seating

# What a seat has of its own, and what a desktop there has besides.
SEAT = ("name", "tier", "image", "address", "state", "since", "machine", "claimed_by", "operation_id", "until")
DESKTOP = ("name", "tier", "image", "address", "agent", "routes", "machine", "until")


def read(declared: Declared, *, machines: bool = False) -> dict[str, Any]:
    """The declared seats with what is there, and as of when: before the ledger was read.

    With `machines` the hypervisor is asked which of them run.
    """
    at = time.time()
    seats = seating.seats_of(declared)
    there = seats.ledger.machines() if seats is not None else {}
    runs = seats.disposables.marks() if machines and seats is not None and there else None
    rows = [_row(seat, there.get(seat.name)) for seat in declared.plan.seats]
    return {"at": at, "rows": [row | {"runs": None if runs is None else row["name"] in runs} for row in rows]}


def nothing() -> dict[str, Any]:
    """No seats are declared any more."""
    return {"at": time.time(), "rows": []}


def write(link: Link, workspace: str, seen: Mapping[str, Any]) -> None:
    """Write down how the seats are, and that there is a desktop where somebody has it; an older word changes nothing.

    Whoever reads the ledger may be overtaken by who claims: what was read later counts.
    """
    with link.transaction():
        # As everywhere: desktops are locked before their workspace.
        sight.hold(link, workspace)
        # A moment that lies ahead is of before the clock was set back.
        query = """update workspace set seats_at = to_timestamp(%s) where id = %s
            and (seats_at is null or seats_at <= to_timestamp(%s) or seats_at > now()) returning id"""
        if link.execute(query, [seen["at"], workspace, seen["at"]]).fetchone() is None:
            return
        rows = seen["rows"]
        names = [row["name"] for row in rows]
        link.execute("delete from seat where workspace_id = %s and not name = any(%s)", [workspace, names])
        for row in rows:
            put(link, "seat", {"id": f"{workspace}.{row['name']}", "workspace_id": workspace, **_of(row, SEAT)})
        _write_desktops(link, workspace, [row for row in rows if row["state"] == State.CLAIMED])


def agent_of(desktop: DesktopPlan, image: str) -> str | None:
    """Which agent takes what is said to a desktop of an image; None if that cannot be read."""
    # An image whose declaration is wrong is told of where it is needed.
    with contextlib.suppress(ConfigError):
        return task.kind_of(desktop.agent, image, tree())
    return None


def _write_desktops(link: Link, workspace: str, had: list[dict[str, Any]]) -> None:
    """A desktop for a task is there while somebody has it; another machine at the same seat is another desktop."""
    link.execute(
        """update desktop set gone_at = now() where workspace_id = %s and lifetime = 'task' and gone_at is null
        and not (name, machine) in (select * from unnest(%s::text[], %s::text[]))""",
        [workspace, [row["name"] for row in had], [row["machine"] for row in had]],
    )
    for row in had:
        id = f"{workspace}.{row['name']}"
        query = "select 1 from desktop where id = %s and gone_at is null and lifetime = 'task'"
        # It was of use when it was given; whether it runs since, its hypervisor says when it is asked.
        new = {} if link.execute(query, [id]).fetchone() else {"state": "ready", "detail": "", "state_at": _now()}
        values = {"id": id, "workspace_id": workspace, **_of(row, DESKTOP), **new}
        values |= {"lifetime": "task", "claimed_by_operation": row["operation_id"], "wanted": "running"}
        put(link, "desktop", {**values, "gone_at": None})
        if row["runs"] is not None:
            state = "ready" if row["runs"] else "stopped"
            query = """update desktop set state = %s, detail = '', state_at = now(), generation = generation + 1
                where id = %s and state <> %s"""
            link.execute(query, [state, id, state])


def _of(row: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: row[name] for name in names}


def _row(seat: DesktopPlan, seated: Seated | None) -> dict[str, Any]:
    actor, operation = claimed(seated.claim.by) if seated is not None and seated.claim is not None else (None, None)
    return {
        "name": seat.name,
        "tier": seat.tier,
        "image": seat.machine.image,
        "address": seat.address,
        "agent": agent_of(seat, seat.machine.image),
        "routes": list(seat.routes),
        "state": State.FREE if seated is None else seated.state,
        "since": moment(seated.since) if seated is not None else None,
        "machine": seated.number if seated is not None else None,
        "claimed_by": actor,
        "operation_id": operation,
        "until": moment(seated.claim.until) if seated is not None and seated.claim is not None else None,
    }


def moment(at: float) -> str:
    """A Unix time as the API has it."""
    return datetime.fromtimestamp(at, UTC).isoformat()


def _now() -> str:
    return datetime.now(UTC).isoformat()
