"""The networks of a workspace and the filters of its NICs. Addresses and rules come from the Plan."""

from dataclasses import dataclass

import pulumi

from deskyard.plan.workspace import NetworkPlan
from stacks.libvirt import resources


@dataclass(frozen=True)
class NetworkArgs:
    """The two networks of a workspace."""

    workspace: NetworkPlan
    uplink: NetworkPlan


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
        filters = {
            kind: resources.Filter(f"{name}-{kind}-filter", name=f"{args.workspace.name}-{kind}", kind=kind, opts=child)
            for kind in ("desktop", "gateway")
        }
        self.desktop_filter = filters["desktop"].name
        self.gateway_filter = filters["gateway"].name
        self.register_outputs({"workspace": self.workspace, "uplink": self.uplink})


def _network(name: str, plan: NetworkPlan, opts: pulumi.ResourceOptions) -> resources.Network:
    return resources.Network(
        name, name=plan.name, bridge=plan.bridge, cidr=plan.cidr, host_address=plan.host_address, opts=opts
    )
