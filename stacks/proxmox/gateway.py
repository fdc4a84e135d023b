"""The gateway: its machine with two NICs, and its settings. A new image replaces it: it keeps no user data."""

from collections.abc import Mapping
from dataclasses import dataclass

import pulumi

from deskyard.plan.proxmox.workspace import VmPlan
from deskyard.plan.workspace import GatewayPlan
from deskyard.site.proxmox.kinds.resources import GatewaySettings
from stacks.proxmox.machine import Machine


@dataclass(frozen=True)
class ClusterGatewayArgs:
    """The gateway of a workspace. Without settings it is never configured: there is no guest."""

    plan: GatewayPlan
    vm: VmPlan
    management_key: str
    domain_name: str
    certificate: Mapping[str, str] | None
    after: list[pulumi.Resource]
    with_settings: bool = True


class ClusterGateway(pulumi.ComponentResource):
    """The only door of a workspace, at its own address of the site's network."""

    url: pulumi.Output[str]

    def __init__(self, name: str, args: ClusterGatewayArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("deskyard:workspace:Gateway", name, None, opts)
        child = pulumi.ResourceOptions(parent=self)
        machine = Machine(name, args.vm, args.management_key, args.after, child)
        if args.with_settings:
            GatewaySettings(
                f"{name}-settings",
                site=args.vm.owner.site,
                workspace=args.plan.settings.workspace,
                vm_id=machine.vm.vm_id,
                start=machine.power.start,
                domain_name=args.domain_name,
                settings=args.plan.settings.as_dict(),
                certificate=args.certificate,
                opts=child,
            )
        self.url = pulumi.Output.from_input(args.plan.url)
        self.register_outputs({"url": self.url})
