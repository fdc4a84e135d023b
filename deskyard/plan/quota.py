"""Quotas: what workspaces of a site ask for, together and each, against what the site grants. Pure."""

from collections.abc import Collection, Iterable, Mapping

from deskyard.errors import ConfigError
from deskyard.model.pool import Pool
from deskyard.model.quotas import Quotas
from deskyard.plan.workspace import MachinePlan, WorkspacePlan


def totals(plans: Iterable[WorkspacePlan]) -> dict[str, int]:
    """Add up what workspaces ask for, by the names of quotas: gateways count, disks at their full size."""
    plans = list(plans)
    machines = [machine for plan in plans for machine in plan.machines().values()]
    # A machine may be made at each seat at any time.
    machines += [seat.machine for plan in plans for seat in plan.seats]
    return {
        "desktops": sum(len(plan.desktops) + len(plan.seats) for plan in plans),
        "vcpus": sum(machine.vcpus for machine in machines),
        "memory_gib": gib(sum(machine.memory_mib for machine in machines)),
        "disk_gib": sum(machine.disk_gib + (machine.home_gib or 0) for machine in machines),
    }


def ahead(plan: WorkspacePlan, pool: Pool | None, there: Collection[str]) -> list[MachinePlan]:
    """The machines that the pool still makes ahead, if those of these names are there."""
    if pool is None:
        return []
    free = [seat.machine for seat in plan.seats if seat.machine.domain not in there]
    return free[: max(0, pool.size - (len(plan.seats) - len(free)))]


def require(field: str, quotas: Quotas, asked: Mapping[str, int], workspace: str) -> None:
    """Raise `ConfigError` for the first quota that would be passed with a workspace."""
    for name, total in asked.items():
        limit = getattr(quotas, name)
        if limit is not None and total > limit:
            reason = f"would be {total} with workspace {workspace}; the site grants {limit}"
            remedy = "declare less, destroy a workspace, or raise the quota in the site's file"
            raise ConfigError(f"{field}.{name}", limit, reason, remedy)


def require_own(field: str, quotas: Quotas, plan: WorkspacePlan) -> None:
    """Raise `ConfigError` for the first thing of which a workspace asks for more than the site grants each."""
    for name, total in totals([plan]).items():
        limit = getattr(quotas.each_workspace, name)
        if limit is not None and total > limit:
            reason = f"workspace {plan.name} asks for {total}; the site grants each workspace {limit}"
            remedy = "declare fewer desktops or smaller tiers, or raise it in the site's file"
            raise ConfigError(f"{field}.each_workspace.{name}", limit, reason, remedy)


def gib(mib: int) -> int:
    """Whole GiB that hold so many MiB."""
    return -(-mib // 1024)
