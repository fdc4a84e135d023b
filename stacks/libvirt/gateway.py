"""The gateway: disk, seed, machine with two NICs, and its settings. A new image replaces it: it keeps no user data."""

from collections.abc import Mapping
from dataclasses import dataclass

import pulumi

from deskyard.plan.first_boot import FirstBoot
from deskyard.plan.image.source import ImageSource
from deskyard.plan.workspace import GatewayPlan
from deskyard.site.libvirt.kinds import resources
from stacks.libvirt.machine import machine
from stacks.libvirt.network import Network


@dataclass(frozen=True)
class GatewayArgs:
    """The gateway of a workspace; `certificate` names the operator's own files, else the site's authority signs."""

    plan: GatewayPlan
    site: str
    domain_name: str
    accelerator: str
    image: ImageSource
    first_boot: FirstBoot
    network: Network
    certificate: Mapping[str, str] | None


class Gateway(pulumi.ComponentResource):
    """The only door of a workspace."""

    url: pulumi.Output[str]
    host_key: pulumi.Output[str]

    def __init__(self, name: str, args: GatewayArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("deskyard:workspace:Gateway", name, None, opts)
        child = pulumi.ResourceOptions(parent=self)
        domain = machine(
            name, args.plan.machine, args.accelerator, args.image, args.first_boot, _interfaces(args), child
        )
        settings = resources.GatewaySettings(
            f"{name}-settings",
            site=args.site,
            workspace=args.plan.settings.workspace,
            domain=domain.name,
            machine=domain.uuid,
            domain_name=args.domain_name,
            settings=args.plan.settings.as_dict(),
            certificate=args.certificate,
            opts=child,
        )
        self.url = pulumi.Output.from_input(args.plan.url)
        self.host_key = settings.host_key
        self.register_outputs({"url": self.url, "host_key": self.host_key})


def _interfaces(args: GatewayArgs) -> list[resources.Interface]:
    # Neither port is isolated: desktops are, and a port that is not isolated is the only one they can reach.
    return [
        {
            "mac": args.plan.uplink_mac,
            "network": args.network.uplink,
            "filter": "clean-traffic",
            "address": args.plan.uplink_address,
            "isolated": False,
        },
        {
            "mac": args.plan.workspace_mac,
            "network": args.network.workspace,
            "filter": args.network.gateway_filter,
            "address": args.plan.workspace_address,
            "isolated": False,
        },
    ]
