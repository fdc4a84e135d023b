"""Examines a site: what its backend is fit for, and the seats of its workspaces. Nothing is changed."""

from collections.abc import Iterator

from deskyard.declaration import declaration
from deskyard.engine.backend import backend_of
from deskyard.errors import DeskyardError
from deskyard.model.site import Site
from deskyard.plan.pool.seat import State
from deskyard.site.finding import Finding, ok, warning
from deskyard.workspace import seating


def examine(site: Site) -> list[Finding]:
    """Every finding about a site, the good ones too."""
    backend = backend_of(site)
    findings = backend.examine()
    answered = all(finding.state != "error" for finding in findings if finding.name in ("api", "hypervisor"))
    return [*findings, *(_seats(site) if answered else ())]


def _seats(site: Site) -> Iterator[Finding]:
    """Remains of killed tasks at seats, and pools that are not full; a workspace with mistakes is another matter."""
    seats, left, short = 0, 0, 0
    for name in declaration.stack_names():
        try:
            if declaration.read_workspace(name).site != site.name:
                continue
            declared = declaration.read(name)
            found = seating.left(declared)
            at = seating.seats_of(declared)
        except DeskyardError:
            continue
        for seat, why in found.items():
            left += 1
            mend = f"{seating.remedy(name, seat)}, or {_fill(name)}, which removes all such"
            yield warning(
                "seat", f"{name}/{seat}: {why}", "it takes memory and its seat, and has somebody's data", mend
            )
        seats += len(declared.plan.seats)
        pool = declared.workspace.pool
        waiting = 0 if at is None else [row.state for row in at.ledger.machines().values()].count(State.WAITING)
        if pool is not None and at is not None and waiting < pool.size:
            short += 1
            why = "whoever claims one may have to wait until it is made"
            yield warning("pool", f"{waiting} of {pool.size} desktops of {name} wait", why, _fill(name))
    if seats and not left:
        yield ok("seat", f"no task left anything at the {seats} seats of the workspaces declared here")
    if seats and not short:
        yield ok("pool", "every pool is full")


def _fill(workspace: str) -> str:
    return f"./inv pool.fill {workspace}"
