"""The networks of a workspace and the filters of its NICs. Addresses and rules come from the Plan."""

from dataclasses import dataclass

import pulumi

from deskyard.plan.workspace import FilterPlan, NetworkPlan
from deskyard.site.libvirt.kinds import resources


@dataclass(frozen=True)
class NetworkArgs:
    """The two networks of a workspace, and the filters of the NICs on the first."""

    workspace: NetworkPlan
    uplink: NetworkPlan
    desktop_filter: FilterPlan
    gateway_filter: FilterPlan


class Network(pulumi.ComponentResource):
    """Workspace network, uplink, and what NICs on the workspace network may send."""

    workspace: pulumi.Output[str]
    uplink: pulumi.Output[str]
    desktop_filter: pulumi.Output[str]
    gateway_filter: pulumi.Output[str]

    def __init__(self, name: str, args: NetworkArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("deskyard:workspace:Network", name, None, opts)
        child = pulumi.ResourceOptions(parent=self)
        self.workspace = _network(f"{name}-workspace", args.workspace, child).name
        self.uplink = _network(f"{name}-uplink", args.uplink, child).name
        self.desktop_filter = _filter(f"{name}-desktop-filter", args.desktop_filter, child).name
        self.gateway_filter = _filter(f"{name}-gateway-filter", args.gateway_filter, child).name
        self.register_outputs({"workspace": self.workspace, "uplink": self.uplink})


def _network(name: str, plan: NetworkPlan, opts: pulumi.ResourceOptions) -> resources.Network:
    return resources.Network(
        name, name=plan.name, bridge=plan.bridge, cidr=plan.cidr, host_address=plan.host_address, opts=opts
    )


def _filter(name: str, plan: FilterPlan, opts: pulumi.ResourceOptions) -> resources.Filter:
    return resources.Filter(
        name,
        name=plan.name,
        kind=plan.kind,
        gateway_mac=plan.gateway_mac,
        gateway_address=plan.gateway_address,
        opts=opts,
    )
