"""The clusters of declared sites, for the provider."""

from typing import Any, ClassVar

from deskyard.proxmox.client import Client, connect
from deskyard.run import declaration
from stacks.provider.kind import Backend, Kind
from stacks.proxmox.applied import AppliedNetworkKind
from stacks.proxmox.gateway_settings import ClusterGatewaySettingsKind
from stacks.proxmox.power import PowerKind


class ClusterBackend(Backend):
    """One client per site; each resource names its site."""

    kinds: ClassVar[dict[str, Kind]] = {
        "Power": PowerKind(),
        "AppliedNetwork": AppliedNetworkKind(),
        "GatewaySettings": ClusterGatewaySettingsKind(),
    }

    def __init__(self) -> None:
        self._clients: dict[str, Client] = {}

    def open(self) -> Any:
        """What finds the client of a site."""
        return self.client

    def client(self, site: str) -> Client:
        """The API of a site's cluster."""
        if site not in self._clients:
            self._clients[site] = connect(declaration.read_site(site))
        return self._clients[site]
