"""Machines at the seats of a workspace on this machine's hypervisor: made without the engine, removed whole.

They are what the engine would make of the same Plan, on the same network with the same filter. Their names, and those
of their disks, are such that no desktop that is kept can have one.
"""

import contextlib
from collections.abc import Mapping
from typing import Any
from xml.etree import ElementTree

import libvirt

from deskyard.errors import SiteError
from deskyard.host.facts import GIB
from deskyard.plan.first_boot import FirstBoot
from deskyard.plan.image.source import ImageSource
from deskyard.plan.names import seat_domain, seat_of
from deskyard.plan.power import NoRoom
from deskyard.plan.workspace import DesktopPlan, WorkspacePlan
from deskyard.site.libvirt import daemon, power, storage
from deskyard.site.libvirt.kinds import parts
from deskyard.site.libvirt.limits import memory
from deskyard.site.libvirt.link import gone_is_fine

# Of its disks, what a machine of minutes or hours is likely to write.
FIRST_PART = 0.05
METADATA, PREFIX = "urn:deskyard:seat", "seat"


class LibvirtDisposables:
    """The disposable machines of one workspace."""

    def __init__(self, workspace: str) -> None:
        self._workspace = workspace

    def record(self) -> None:
        """None: libvirt has no step that compares and sets, and one machine's disk is enough."""

    def there(self) -> set[str]:
        """The seats at which something is: a machine, or a disk of one."""
        if not daemon.answers():
            return set()
        with daemon.connection() as link:
            names = [machine.name() for machine in link.listAllDomains()]
            disks = [name for name in storage.volume_names(link) if name.endswith(storage.DISK)]
            names += [name.removesuffix(storage.DISK).removesuffix(".home") for name in disks]
        return {seat for name in names if (seat := seat_of(self._workspace, name)) is not None}

    def marks(self) -> dict[str, dict[str, str]]:
        """Of each machine that runs: what is kept with it, by its seat; nothing for one that is being made."""
        if not daemon.answers():
            return {}
        with daemon.connection() as link:
            running = link.listAllDomains(libvirt.VIR_CONNECT_LIST_DOMAINS_ACTIVE)
            found = {seat_of(self._workspace, machine.name()): machine for machine in running}
            return {seat: _mark(machine) for seat, machine in found.items() if seat is not None}

    def mark(self, seat: str, words: Mapping[str, str]) -> None:
        """Keep words with the machine at a seat, in place of those before."""
        with daemon.machine(seat_domain(self._workspace, seat)) as machine:
            kind, flags = libvirt.VIR_DOMAIN_METADATA_ELEMENT, libvirt.VIR_DOMAIN_AFFECT_CONFIG
            text = ElementTree.tostring(ElementTree.Element("seat", dict(words)), encoding="unicode")
            machine.setMetadata(kind, text, PREFIX, METADATA, flags)

    def require_room(self, seat: DesktopPlan) -> None:
        """Memory for it, and room for what it writes at first: its disks are overlays, and grow."""
        machine = seat.machine
        with daemon.connection() as link:
            free = memory.free_mib(link)
        if machine.memory_mib > free:
            reason = f"{free} MiB are free for {machine.domain}"
            remedy = "release other machines (./inv pool.list), stop desktops, or choose a smaller tier"
            raise NoRoom("memory", f"{machine.memory_mib} MiB", reason, remedy)
        storage.require_room(int((machine.disk_gib + (machine.home_gib or 0)) * GIB * FIRST_PART))

    def make(
        self,
        plan: WorkspacePlan,
        seat: DesktopPlan,
        image: ImageSource | None,
        first_boot: FirstBoot,
        template: str | None,
    ) -> str:
        """Make the machine of a seat, of which nothing is there; says how it started."""
        assert image is not None
        # Late: who claims a machine makes none, and does not wait for what the engine's resources import.
        from deskyard.site.libvirt.kinds.domain import DomainKind
        from deskyard.site.libvirt.kinds.volume import SeedKind, VolumeKind

        machine, caps = seat.machine, seat.caps
        nic = parts.nic(seat, plan.network.name, plan.desktop_filter.name)
        hardware: Any = parts.hardware(machine, plan.accelerator, caps, first_boot, template)
        system: Any = parts.system(machine, image, template)
        home: Any = parts.home(machine, template)
        seed: Any = parts.seed(machine, first_boot)
        self.require_room(seat)
        with daemon.connection() as link:
            try:
                hardware["disk"] = VolumeKind().create(link, system)[1]["path"]
                if home is not None:
                    hardware["home"] = VolumeKind().create(link, home)[1]["path"]
                hardware["seed"] = SeedKind().create(link, seed)[1]["path"]
                hardware["interfaces"] = [nic]
                _, state = DomainKind().create(link, hardware)
                # Who waits for it, or works at it, knows nothing of a restart of the host: it ends with that.
                link.lookupByName(machine.domain).setAutostart(False)
            except libvirt.libvirtError as error:
                raise SiteError("machine", machine.domain, str(error), "mend the cause, then run it again") from error
        return str(state["started"])

    def remove(self, seat: str) -> None:
        """Remove the machine at a seat with all its data, whatever of it is there."""
        domain = seat_domain(self._workspace, seat)
        with daemon.connection() as link:
            with gone_is_fine(libvirt.VIR_ERR_OPERATION_INVALID):
                link.lookupByName(domain).destroy()
            with gone_is_fine():
                power.forget(link.lookupByName(domain))
            storage.remove(link, [f"{domain}.qcow2", f"{domain}.home.qcow2", f"{domain}-seed.iso"])


def _mark(machine: Any) -> dict[str, str]:
    kind, flags = libvirt.VIR_DOMAIN_METADATA_ELEMENT, libvirt.VIR_DOMAIN_AFFECT_CONFIG
    with contextlib.suppress(libvirt.libvirtError):
        return dict(ElementTree.fromstring(machine.metadata(kind, METADATA, flags)).attrib)
    return {}
