"""The clusters of declared sites, for the provider."""

from typing import Any, ClassVar

from deskyard.site.files import read_site
from deskyard.site.proxmox.client import Client, connect
from deskyard.site.proxmox.kinds.gateway_settings import ClusterGatewaySettingsKind
from deskyard.site.proxmox.kinds.home import HomeKind
from deskyard.site.proxmox.kinds.network import AppliedNetworkKind
from deskyard.site.proxmox.kinds.power import PowerKind
from deskyard.site.resource.kind import Backend, Kind


class ClusterBackend(Backend):
    """Keeps a client per site; each resource names its site."""

    kinds: ClassVar[dict[str, Kind[Any]]] = {
        "Home": HomeKind(),
        "Power": PowerKind(),
        "AppliedNetwork": AppliedNetworkKind(),
        "GatewaySettings": ClusterGatewaySettingsKind(),
    }

    def __init__(self) -> None:
        self._clients: dict[str, Client] = {}

    def open(self) -> Any:
        """The function that finds the client of a site."""
        return self.client

    def client(self, site: str) -> Client:
        """The API of a site's cluster."""
        if site not in self._clients:
            self._clients[site] = connect(read_site(site))
        return self._clients[site]
