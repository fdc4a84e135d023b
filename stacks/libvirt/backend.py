"""The hypervisor of this machine, for the provider."""

from typing import Any, ClassVar

import libvirt

from deskyard.run.hypervisor import URI
from stacks.libvirt.gateway_settings import LibvirtGatewaySettingsKind
from stacks.libvirt.machine import DomainKind
from stacks.libvirt.network import FilterKind, NetworkKind
from stacks.libvirt.volume import SeedKind, VolumeKind
from stacks.provider.kind import Backend, Kind


class LibvirtBackend(Backend):
    """libvirt at one address; the connection is opened at the first use and again when it broke."""

    kinds: ClassVar[dict[str, Kind]] = {
        "Network": NetworkKind(),
        "Filter": FilterKind(),
        "Volume": VolumeKind(),
        "Seed": SeedKind(),
        "Domain": DomainKind(),
        "GatewaySettings": LibvirtGatewaySettingsKind(),
    }
    errors: ClassVar[tuple[type[Exception], ...]] = (libvirt.libvirtError,)

    def __init__(self, uri: str = URI) -> None:
        libvirt.registerErrorHandler(lambda _context, _error: None, None)
        self._uri = uri
        self._link: Any = None

    def open(self) -> Any:
        """A connection that works."""
        if self._link is None or not self._link.isAlive():
            self._link = libvirt.open(self._uri)
        return self._link
