"""A workspace on a cluster: pool, VNet, gateway, desktops. Decides nothing: all values are in the Plan."""

from collections.abc import Mapping
from dataclasses import dataclass

import pulumi
import pulumi_proxmoxve as pve

from deskyard.plan.proxmox.workspace import ClusterPlan
from deskyard.plan.workspace import WorkspacePlan
from deskyard.site.proxmox.doctor.privileges import OPERATORS
from deskyard.site.proxmox.plugin import ROOTS_VARIABLE, TOKEN_VARIABLE
from stacks.proxmox.desktop import ClusterDesktop, ClusterDesktopArgs
from stacks.proxmox.gateway import ClusterGateway, ClusterGatewayArgs
from stacks.proxmox.network import ClusterNetwork, ClusterNetworkArgs

# The plugin alone sees these under the names that it reads: no other program of the run gets the token or the trust.
PLUGIN_VARIABLES = {TOKEN_VARIABLE: "PROXMOX_VE_API_TOKEN", ROOTS_VARIABLE: "SSL_CERT_FILE"}


@dataclass(frozen=True)
class ClusterWorkspaceArgs:
    """The Plan, the Plan on the cluster, and what the site adds: key, domain, certificate."""

    plan: WorkspacePlan
    on_cluster: ClusterPlan
    management_key: str
    domain_name: str
    certificate: Mapping[str, str] | None = None
    with_settings: bool = True


class ClusterWorkspace(pulumi.ComponentResource):
    """A workspace of one tenant: its network, gateway and desktops."""

    url: pulumi.Output[str]
    desktops: dict[str, ClusterDesktop]

    def __init__(self, name: str, args: ClusterWorkspaceArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        plan = args.on_cluster
        cluster = pve.Provider(
            f"{name}-cluster",
            endpoint=plan.endpoint,
            insecure=False,
            opts=pulumi.ResourceOptions(env_var_mappings=PLUGIN_VARIABLES),
        )
        opts = pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(providers=[cluster]))
        super().__init__("deskyard:workspace:Workspace", name, None, opts)
        child = pulumi.ResourceOptions(parent=self)
        pool = self._pool(name, plan)
        network = ClusterNetwork(name, ClusterNetworkArgs(plan.vnet, args.plan.site), child)
        after: list[pulumi.Resource] = [pool, network.applied]
        gateway = ClusterGateway(
            f"{name}-gateway",
            ClusterGatewayArgs(
                plan=args.plan.gateway,
                vm=plan.gateway,
                management_key=args.management_key,
                domain_name=args.domain_name,
                certificate=args.certificate,
                after=after,
                with_settings=args.with_settings,
            ),
            child,
        )
        self.desktops = {
            desktop: ClusterDesktop(
                f"{name}-desktop-{desktop}", ClusterDesktopArgs(vm, args.management_key, after), child
            )
            for desktop, vm in plan.desktops.items()
        }
        self.url = gateway.url
        self.register_outputs({"url": self.url})

    def _pool(self, name: str, plan: ClusterPlan) -> pulumi.Resource:
        child = pulumi.ResourceOptions(parent=self)
        pool = pve.PoolLegacy(f"{name}-pool", pool_id=plan.pool, comment="Made by Deskyard.", opts=child)
        if plan.operator_group is not None:
            pve.AclLegacy(
                f"{name}-operators",
                path=pool.pool_id.apply(lambda pool_id: f"/pool/{pool_id}"),
                role_id=OPERATORS,
                group_id=plan.operator_group,
                propagate=True,
                opts=child,
            )
        return pool
