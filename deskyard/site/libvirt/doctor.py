"""Examines this machine as a site without changing anything, and says what has to be mended."""

from collections.abc import Iterator

from deskyard.errors import SiteError
from deskyard.host.facts import available_memory_mib
from deskyard.model.site import Site
from deskyard.site.finding import Finding, error, ok, warning
from deskyard.site.libvirt import daemon, storage
from deskyard.site.libvirt.limits import caps
from deskyard.site.libvirt.link import POOL_PATH


def examine(site: Site) -> list[Finding]:
    """Every finding about this machine, the good ones too."""
    return [*_hypervisor(), *_memory(site), *_storage(), *_caps()]


def _hypervisor() -> Iterator[Finding]:
    found = daemon.state()
    if found.running:
        yield ok("hypervisor", f"libvirt {found.version} answers, {len(found.domains)} machines run")
    else:
        yield error("hypervisor", "nothing answers", "no machine runs, and none can be asked", "./inv site.up")


def _memory(site: Site) -> Iterator[Finding]:
    smallest, free = min(tier.memory_mib for tier in site.all_tiers().values()), available_memory_mib()
    if free < smallest:
        mend = "stop or release desktops, or choose smaller tiers"
        yield warning("memory", f"{free} MiB are available", f"no desktop of {smallest} MiB can be started", mend)
    else:
        yield ok("memory", f"{free} MiB are available")


def _caps() -> Iterator[Finding]:
    """The findings on the caps of a tier that cannot be held on this site."""
    lacking = caps.not_held()
    for cap, reason in lacking.items():
        yield warning("caps", f"{cap} cannot be held: {reason}", "a tier with it is refused here", caps.REMEDIES[cap])
    if not lacking:
        untried = "".join(f"; {cap}: only root can try" for cap in caps.not_tried())
        yield ok("caps", f"every cap of a tier can be held{untried}")


def _storage() -> Iterator[Finding]:
    try:
        storage.require_room()
    except SiteError as short:
        why = "no new disk, snapshot or backup is made, and machines that write are paused in the end"
        yield warning("storage", short.reason, why, short.remedy)
    else:
        yield ok("storage", f"{POOL_PATH} has room")
