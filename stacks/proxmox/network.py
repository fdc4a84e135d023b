"""The VNet of a workspace, in force on all nodes. The zone is the site's, and so is there before."""

from dataclasses import dataclass

import pulumi
from pulumi_proxmoxve import sdn

from deskyard.plan.names import short_id
from deskyard.plan.proxmox.workspace import VnetPlan
from deskyard.site.proxmox.kinds.resources import AppliedNetwork

# For every port or none: to isolate them would cut desktops off from a gateway on their node, too (pve-network,
# Zones/Plugin.pm, tap_plug). It is said, so that a network that an earlier version isolated is mended.
ISOLATED = False


@dataclass(frozen=True)
class ClusterNetworkArgs:
    """A VNet of a site."""

    plan: VnetPlan
    site: str


class ClusterNetwork(pulumi.ComponentResource):
    """A VNet; who may reach whom on it is up to the firewall of each machine."""

    vnet: pulumi.Output[str]
    applied: AppliedNetwork

    def __init__(self, name: str, args: ClusterNetworkArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("deskyard:workspace:Network", name, None, opts)
        plan = args.plan
        # What is removed has to be put into force as well, and this is removed last.
        cleared = sdn.Applier(
            f"{name}-cleared", on_create=False, on_destroy=True, opts=pulumi.ResourceOptions(parent=self)
        )
        vnet = sdn.Vnet(
            f"{name}-vnet",
            resource_id=plan.name,
            zone=plan.zone,
            tag=plan.tag,
            alias=plan.alias,
            isolate_ports=ISOLATED,
            vlan_aware=False,
            # Free text for administrators, once it is made.
            opts=pulumi.ResourceOptions(
                parent=self, depends_on=[cleared], delete_before_replace=True, ignore_changes=["alias"]
            ),
        )
        self.applied = AppliedNetwork(
            f"{name}-applied",
            site=args.site,
            vnet=vnet.resource_id,
            digest=short_id(plan.name, plan.zone, str(plan.tag), plan.alias),
            opts=pulumi.ResourceOptions(parent=self),
        )
        self.vnet = vnet.resource_id
        self.register_outputs({"vnet": self.vnet})
