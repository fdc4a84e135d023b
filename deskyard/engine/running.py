"""Whether the machines of a workspace run."""

from deskyard.engine.backend import backend_of, machines_of
from deskyard.errors import SiteError
from deskyard.model.site import Site
from deskyard.plan.workspace import WorkspacePlan
from deskyard.site.files import read_site


def stopped_machines(plan: WorkspacePlan) -> list[str]:
    """Machines of the workspace that do not run."""
    return machines_of(plan).stopped()


def require_gateway(site: Site, workspace: str) -> None:
    """Raise `SiteError` unless the gateway of a workspace runs; nothing is planned for it."""
    backend = backend_of(site)
    if not backend.answers() or not backend.gateway_runs(workspace):
        raise _not_up(workspace)


def require_running(plan: WorkspacePlan, desktop: str | None = None) -> None:
    """Raise `SiteError` unless the gateway runs, and with it the desktop if one is named."""
    dead = not backend_of(read_site(plan.site)).answers()
    stopped = [] if dead else stopped_machines(plan)
    if dead or plan.gateway.machine.domain in stopped:
        raise _not_up(plan.name)
    if desktop is not None and plan.reached(desktop).machine.domain in stopped:
        target = f"{plan.name}/{desktop}"
        seat = any(seat.name == desktop for seat in plan.seats)
        start = f"./inv desktop.run {plan.name}" if seat else f"./inv desktop.start {target}"
        raise SiteError("desktop", target, "does not run", f"run {start}")


def _not_up(workspace: str) -> SiteError:
    return SiteError("workspace", workspace, "is not up", f"run ./inv workspace.up {workspace}")
