"""Says of a desktop whose tier has smaller disks now what would have to be freed: a disk never shrinks."""

from deskyard.engine.backend import Machines
from deskyard.errors import ConfigError, SiteError
from deskyard.plan.workspace import DesktopPlan, WorkspacePlan

GIB = 1 << 30
# Of a disk its file system keeps so much, in percent: for itself, and for root.
KEPT_BY_FILE_SYSTEM = 7


def require_none(plan: WorkspacePlan, machines: Machines) -> None:
    """Raise `ConfigError` for the first desktop that has a larger disk than its tier says."""
    present = machines.desired()
    for index, desktop in enumerate(plan.desktops):
        domain, machine = desktop.machine.domain, desktop.machine
        if domain not in present:
            continue
        sizes = machines.disk_sizes(domain)
        wanted = {"/": machine.disk_gib, "/home": machine.home_gib}
        cut = {mount: size for mount, size in wanted.items() if size is not None and size < sizes.get(mount, 0)}
        if cut:
            reason = "; ".join(f"the disk of {mount} has {sizes[mount]} GiB, the tier {cut[mount]}" for mount in cut)
            field = f"Pulumi.{plan.name}.yaml: desktops[{index}].tier"
            remedy = _remedy(plan, desktop, cut, _held(machines, domain))
            raise ConfigError(field, desktop.tier, f"{reason}: no disk shrinks", remedy)


def room_of(size_gib: int) -> int:
    """The bytes that a file system on a disk of this size takes."""
    return size_gib * GIB * (100 - KEPT_BY_FILE_SYSTEM) // 100


def _held(machines: Machines, domain: str) -> dict[str, int]:
    try:
        return machines.held(domain)
    except SiteError:
        # Off, or it does not answer.
        return {}


def _remedy(plan: WorkspacePlan, desktop: DesktopPlan, cut: dict[str, int], held: dict[str, int]) -> str:
    target, freed = f"{plan.name}/{desktop.name}", []
    for mount, size in cut.items():
        used, most = held.get(mount), room_of(size)
        if used is None:
            freed.append(f"start it to learn what {mount} holds")
        elif used > most:
            freed.append(f"free {_mib(used - most)} MiB in {mount}, which holds {_mib(used)}")
        else:
            freed.append(f"what {mount} holds, {_mib(used)} MiB, fits")
    move = f"./inv backup.run {target}, declare another desktop with the smaller tier, then ./inv backup.get {target}"
    return f"keep the tier of before; or {', '.join(freed)}, and move: {move} /home/agent/NAME --to {plan.name}/OTHER"


def _mib(size: int) -> int:
    return -(-size // (1 << 20))
