"""The layers below a workspace, as a cluster's API tells of them. It is only asked; nothing is written."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from deskyard.errors import SiteError
from deskyard.plan.isolation import cluster as comparison
from deskyard.plan.isolation.cluster import SeenLayers, SeenVm
from deskyard.plan.isolation.probe import HostFacts
from deskyard.plan.proxmox.firewall import IPTABLES, NFTABLES
from deskyard.plan.proxmox.view import read_view
from deskyard.plan.proxmox.workspace import ClusterPlan
from deskyard.plan.workspace import WorkspacePlan
from deskyard.site.proxmox.client import quoted
from deskyard.site.proxmox.machine import vm_path

# What listens on a node besides the services that every host is tried for: its proxy for consoles.
NODE_PORTS = (3128,)


class Api(Protocol):
    """The part of a client that asks a cluster."""

    def get(self, path: str, /, **params: object) -> Any:
        """The answer of one path."""


@dataclass(frozen=True)
class ClusterUnderlay:
    """The cluster below one workspace; `plan` has its machines at seats as far as they are there."""

    plan: ClusterPlan
    client: Api

    def inside(self) -> list[str]:
        """Nothing: there is no way onto a node, so what people may reach is tried from here."""
        return []

    def facts(self, plans: Sequence[WorkspacePlan]) -> HostFacts:
        """The addresses of the nodes, and the programs that compile the firewall where its machines run."""
        rows = self.client.get("cluster/status")
        addresses = sorted(str(row["ip"]) for row in rows if row.get("type") == "node" and row.get("ip"))
        nodes = sorted({node for node, _ in _places(self.client, self.plan).values()})
        options = (self.client.get(f"nodes/{node}/firewall/options") for node in nodes)
        programs = {NFTABLES if int(option.get("nftables") or 0) else IPTABLES for option in options}
        return HostFacts(tuple(addresses), NODE_PORTS, tuple(sorted(programs)))

    def findings(self) -> list[str]:
        """List all that the API tells otherwise than planned."""
        try:
            return comparison.differences(self.plan, look(self.client, self.plan))
        except SiteError as error:
            return [f"cluster: its rules could not be read: {error.reason}"]

    def not_examined(self) -> list[str]:
        """The parts that only a shell on the nodes would show."""
        return [f"cluster: {part}" for part in comparison.NOT_EXAMINED]

    def versions(self) -> dict[str, str]:
        """Of the cluster."""
        return {"proxmox": str(self.client.get("version").get("version"))}

    def images(self) -> dict[str, str]:
        """Nothing: of a linked clone only some storages tell where it came from."""
        return {}


def look(client: Api, plan: ClusterPlan) -> SeenLayers:
    """Ask for everything that is compared; a machine is asked for where it runs now."""
    found = _places(client, plan)
    nodes = sorted({node for node, _ in found.values()})
    return SeenLayers(
        datacenter=client.get("cluster/firewall/options"),
        nodes={node: client.get(f"nodes/{node}/firewall/options") for node in nodes},
        vnets=client.get("cluster/sdn/vnets", pending=True),
        machines={name: seen_machine(client, vm_path(*place)) for name, place in found.items()},
    )


def _places(client: Api, plan: ClusterPlan) -> dict[str, tuple[str, int]]:
    """Node and id of each machine of the Plan that the cluster has."""
    view = read_view(client.get("cluster/resources", type="vm"), (), {})
    places = {machine.vm_id: machine.node for machine in view.machines}
    return {vm.owner.machine: (places[vm.vm_id], vm.vm_id) for vm in plan.machines() if vm.vm_id in places}


def seen_machine(client: Api, path: str) -> SeenVm:
    """Ask for everything of one machine that is compared."""
    firewall = f"{path}/firewall"
    sets = [str(row["name"]) for row in client.get(f"{firewall}/ipset")]
    return SeenVm(
        config=client.get(f"{path}/config", current=True),
        next_start=client.get(f"{path}/config"),
        options=client.get(f"{firewall}/options"),
        rules=client.get(f"{firewall}/rules"),
        ipsets={name: client.get(f"{firewall}/ipset/{quoted(name)}") for name in sets},
    )
