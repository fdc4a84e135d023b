"""The hypervisor of this machine, for the provider."""

from typing import Any, ClassVar

import libvirt

from deskyard.site.libvirt.daemon import URI
from deskyard.site.libvirt.kinds.domain import DomainKind
from deskyard.site.libvirt.kinds.gateway_settings import LibvirtGatewaySettingsKind
from deskyard.site.libvirt.kinds.network import FilterKind, NetworkKind
from deskyard.site.libvirt.kinds.volume import SeedKind, VolumeKind
from deskyard.site.resource.kind import Backend, Kind


class LibvirtBackend(Backend):
    """libvirt at one address; the connection is opened at the first use and again when it broke."""

    kinds: ClassVar[dict[str, Kind[Any]]] = {
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
