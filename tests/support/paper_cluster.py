"""A cluster on paper: shows itself, and refuses an id or a VNet that somebody has, as Proxmox VE does."""

from dataclasses import dataclass, field
from typing import Any

from deskyard.model.site import Site
from deskyard.model.workspace import Workspace
from deskyard.plan.proxmox.view import ClusterView, SeenMachine, SeenNode, SeenStorage, SeenVnet
from deskyard.plan.proxmox.workspace import ClusterPlan, VmPlan, plan_on_cluster
from deskyard.plan.workspace import WorkspacePlan

IMAGES = ("gateway", "desktop")


class RefusedError(Exception):
    """The cluster says that it exists already."""


def rack(**changes: Any) -> Site:
    """A site with room for a thousand gateways."""
    cluster: dict[str, Any] = {
        "endpoint": "https://pve1.example.org:8006",
        "uplink": {
            "network": "198.18.0.0/20",
            "router": "198.18.0.1",
            "first": "198.18.1.0",
            "last": "198.18.8.255",
            "resolvers": ["198.18.0.2"],
        },
        "zone": {"kind": "vxlan", "peers": ["192.0.2.1"]},
        **changes,
    }
    return Site.check(
        {"name": "rack", "backend": "proxmox", "domain": "desks.example.org", "proxmox": cluster}, "rack.yaml"
    )


def workspace(name: str, *desktops: str, **changes: Any) -> Workspace:
    """A workspace of that site; its network follows from its name."""
    number = sum(ord(letter) * (index + 1) for index, letter in enumerate(name)) % 65536
    values = {
        "name": name,
        "site": "rack",
        "network": f"10.{number >> 8}.{number & 255}.0/24",
        "desktops": [{"name": desktop} for desktop in desktops or ("dev1",)],
        **changes,
    }
    return Workspace.check(values, "test")


@dataclass
class PaperCluster:
    """Nodes, and what was made on them."""

    nodes: int = 3
    memory_gib: int = 512
    vcpus: int = 64
    free_gib: int = 20_000
    machines: dict[int, SeenMachine] = field(default_factory=dict)
    vnets: dict[str, SeenVnet] = field(default_factory=dict)

    def view(self) -> ClusterView:
        """What it shows at this moment."""
        names = [f"pve{number}" for number in range(1, self.nodes + 1)]
        return ClusterView(
            nodes=tuple(SeenNode(name, True, self.vcpus, self.memory_gib * 1024) for name in names),
            machines=tuple(self.machines.values()),
            storages=tuple(SeenStorage(name, "local-lvm", False, self.free_gib) for name in names),
            vnets=tuple(self.vnets.values()),
            templates={image: {name: 100 + index for index, name in enumerate(names)} for image in IMAGES},
        )

    def plan(self, declared: Workspace, site: Site | None = None) -> tuple[WorkspacePlan, ClusterPlan]:
        """Plan on what it shows now."""
        return plan_on_cluster(declared, site or rack(), self.view())

    def make(self, plan: ClusterPlan) -> None:
        """Make what is missing, one thing after the other; raises `RefusedError` at the first that somebody has."""
        self.make_vnet(plan)
        for machine in plan.machines():
            self.make_machine(machine)

    def make_vnet(self, plan: ClusterPlan) -> None:
        wanted = plan.vnet
        found = self.vnets.get(wanted.name)
        if found is not None and found.alias != wanted.alias:
            raise RefusedError(wanted.name)
        self.vnets[wanted.name] = SeenVnet(wanted.name, wanted.zone, wanted.tag, wanted.alias)

    def make_machine(self, vm: VmPlan) -> None:
        found = self.machines.get(vm.vm_id)
        if found is not None and vm.owner.tag not in found.tags:
            raise RefusedError(vm.vm_id)
        size = vm.machine
        self.machines[vm.vm_id] = SeenMachine(
            vm.vm_id,
            vm.node,
            vm.owner.vm_name,
            vm.owner.pool,
            vm.tags,
            True,
            False,
            size.vcpus,
            size.memory_mib,
            size.disk_gib,
        )
