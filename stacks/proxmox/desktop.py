"""A desktop: its machine. It is protected and never follows a new image by itself."""

from dataclasses import dataclass

import pulumi

from deskyard.plan.proxmox.workspace import VmPlan
from stacks.proxmox.machine import Machine


@dataclass(frozen=True)
class ClusterDesktopArgs:
    """A desktop of a workspace; `after` has to be there before its machine."""

    plan: VmPlan
    management_key: str
    after: list[pulumi.Resource]


class ClusterDesktop(pulumi.ComponentResource):
    """A desktop on the VNet; the hypervisor's firewall binds its NIC to its address and its gateway."""

    vm_id: pulumi.Output[int]

    def __init__(self, name: str, args: ClusterDesktopArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("deskyard:workspace:Desktop", name, None, opts)
        machine = Machine(name, args.plan, args.management_key, args.after, pulumi.ResourceOptions(parent=self))
        self.vm_id = machine.vm.vm_id
        self.register_outputs({"vm_id": self.vm_id})
