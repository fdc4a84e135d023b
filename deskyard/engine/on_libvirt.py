"""The backend of this machine: libvirt and QEMU."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from ipaddress import IPv4Network
from typing import TYPE_CHECKING

import libvirt

from deskyard.declaration.declaration import Declared
from deskyard.engine import preflight
from deskyard.engine.change import Change
from deskyard.errors import DeskyardError
from deskyard.host.progress import say
from deskyard.host.vm.accelerator import accelerator
from deskyard.model.site import Site
from deskyard.plan.names import domain
from deskyard.plan.warm import Templates, none_of
from deskyard.plan.workspace import GATEWAY, DesktopPlan, WorkspacePlan
from deskyard.site.finding import Finding
from deskyard.site.libvirt import daemon, doctor, forward
from deskyard.site.libvirt.backup.remnants import remnants
from deskyard.site.libvirt.forward import Forward
from deskyard.site.libvirt.machines import LibvirtMachines, active_domains
from deskyard.site.libvirt.underlay import LibvirtUnderlay
from deskyard.site.libvirt.warm.disposables import LibvirtDisposables
from deskyard.site.remnant import Remnant

if TYPE_CHECKING:
    from deskyard.engine.leftovers import StateIds


class LibvirtBackend:
    """Workspaces on this machine; an interrupted run leaves nothing that the next `up` does not adopt."""

    def __init__(self, site: Site) -> None:
        self._site = site

    def engine_environment(self) -> dict[str, str]:
        """Nothing: the provider finds the hypervisor by itself."""
        return {}

    def check(self, declared: Declared) -> None:
        """Programs, images, ports and memory of this machine; starts its hypervisor."""
        preflight.check(declared)
        daemon.up(declared.plan.accelerator)
        preflight.check_with_hypervisor(declared)

    def networks(self) -> list[IPv4Network]:
        """Those that this machine reaches, and libvirt's; starts its hypervisor."""
        daemon.up(accelerator(self._site.accelerator))
        return preflight.networks()

    def guard(self, declared: Declared, state_ids: Callable[[], "StateIds"], steps: Sequence[Change]) -> None:
        """Nothing: no step cuts a machine off here."""

    def clear(self, name: str, state_ids: Callable[[], "StateIds"]) -> None:
        """Nothing is left."""

    def pauses(self) -> Iterator[float]:
        """None: what fails here does not pass by itself."""
        return iter(())

    def prepare_starts(self, declared: Declared, new: Sequence[DesktopPlan], *, make: Templates) -> None:
        """Make templates if that is wanted, and say which desktops go on from one, or why they boot."""
        if make is not Templates.KEPT:
            # Late: who asks for a state makes no machines, and needs nothing that does.
            from deskyard.image import warm

            for image, tier in sorted({(desktop.machine.image, desktop.tier) for desktop in new}):
                try:
                    warm.make(image, declared.site, tier)
                except DeskyardError as error:
                    if make is Templates.ASKED:
                        raise
                    say(f"    no template of image {image} for tier {tier}: {error.reason.splitlines()[0]}")
        starts = declared.starts()
        for desktop in new:
            start = starts.get(desktop.name) or none_of(desktop.machine.image)
            how = f"boots: {start.reason}" if start.template is None else f"goes on from {start.template}"
            say(f"    {desktop.name} {how}")

    def replan(self, declared: Declared) -> Declared:
        """The same: its Plan follows from names."""
        return declared

    def open_way(self, plan: WorkspacePlan) -> None:
        """Lead a port of this machine to the gateway."""
        Forward(plan.site, plan.name, plan.gateway.listen, plan.gateway.port, plan.gateway.uplink_address).open()

    def prepare_destroy(self, name: str, state_ids: Callable[[], "StateIds"]) -> None:
        """Close the port, and stop the machines at once: there is nothing to shut down for."""
        daemon.up(accelerator(self._site.accelerator))
        forward.close(self._site.name, name)
        with daemon.connection() as link:
            for machine in link.listAllDomains(libvirt.VIR_CONNECT_LIST_DOMAINS_ACTIVE):
                if machine.name().startswith(domain(name, "")):
                    with contextlib.suppress(libvirt.libvirtError):
                        machine.destroy()

    def answers(self) -> bool:
        """Whether the hypervisor runs."""
        return daemon.answers()

    def gateway_runs(self, workspace: str) -> bool:
        """Whether its domain is active."""
        return domain(workspace, GATEWAY) in active_domains()

    def machines(self, plan: WorkspacePlan) -> LibvirtMachines:
        """The domains of a workspace."""
        return LibvirtMachines(plan)

    def archive(self, workspace: str) -> None:
        """None: their disks are read into a repository of our own."""

    def disposables(self, workspace: str) -> LibvirtDisposables:
        """The domains at its seats."""
        return LibvirtDisposables(workspace)

    def remnants(self, workspace: str, *, settled: bool = False) -> list[Remnant]:
        """The folders in which disks were restored."""
        return remnants(workspace)

    def underlay(self, declared: Declared) -> LibvirtUnderlay:
        """The layers as libvirt and this kernel tell of them."""
        return LibvirtUnderlay(declared.plan)

    def examine(self) -> list[Finding]:
        """Check what this machine is fit for."""
        return doctor.examine(self._site)
