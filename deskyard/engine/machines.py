"""The machines of a workspace, wherever they run: how they are, and what they showed before they failed."""

from pathlib import Path
from typing import Any, Protocol

from deskyard.plan.workspace import WorkspacePlan
from deskyard.site.files import read_site
from deskyard.site.libvirt.machines import LibvirtMachines
from deskyard.site.proxmox.machines import ClusterMachines


class Machines(Protocol):
    """What is asked of them, by the names in the Plan."""

    def states(self) -> dict[str, dict[str, Any]]:
        """State and size of each machine that is there."""

    def stopped(self) -> list[str]:
        """Machines of the workspace that do not run."""

    def host_key(self, domain: str) -> str:
        """The SSH host key of a machine, told by its agent."""

    def keep_evidence(self, folder: Path) -> None:
        """Save what helps to find out why they failed."""


def machines_of(plan: WorkspacePlan) -> Machines:
    """The machines of a workspace on the backend of its site."""
    site = read_site(plan.site)
    return ClusterMachines(plan, site) if site.backend == "proxmox" else LibvirtMachines(plan)
