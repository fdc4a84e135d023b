"""A workspace: its networks, its gateway, its desktops. Decides nothing: all values are in the Plan."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import pulumi

from deskyard.plan.first_boot import desktop_first_boot, gateway_first_boot
from deskyard.plan.image.source import ImageSource
from deskyard.plan.workspace import WorkspacePlan
from stacks.libvirt.desktop import Desktop, DesktopArgs
from stacks.libvirt.gateway import Gateway, GatewayArgs
from stacks.libvirt.network import Network, NetworkArgs


@dataclass(frozen=True)
class WorkspaceArgs:
    """The Plan, the images by name, and what the site adds: key, domain, certificate.

    `templates` are what new desktops go on from, by their names; the others boot.
    """

    plan: WorkspacePlan
    images: Mapping[str, ImageSource]
    management_key: str
    domain_name: str
    certificate: Mapping[str, str] | None = None
    templates: Mapping[str, str] = field(default_factory=dict)


class Workspace(pulumi.ComponentResource):
    """A workspace of one tenant: its network, gateway and desktops."""

    url: pulumi.Output[str]
    desktops: dict[str, Desktop]

    def __init__(self, name: str, args: WorkspaceArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("deskyard:workspace:Workspace", name, None, opts)
        child = pulumi.ResourceOptions(parent=self)
        plan = args.plan
        network = Network(name, NetworkArgs(plan.network, plan.uplink, plan.desktop_filter, plan.gateway_filter), child)
        gateway = Gateway(
            f"{name}-gateway",
            GatewayArgs(
                plan=plan.gateway,
                site=plan.site,
                domain_name=args.domain_name,
                accelerator=plan.accelerator,
                image=args.images[plan.gateway.machine.image],
                first_boot=gateway_first_boot(plan.gateway, args.management_key),
                network=network,
                certificate=args.certificate,
            ),
            child,
        )
        self.desktops = {
            desktop.name: Desktop(
                f"{name}-desktop-{desktop.name}",
                DesktopArgs(
                    plan=desktop,
                    accelerator=plan.accelerator,
                    image=args.images[desktop.machine.image],
                    first_boot=desktop_first_boot(desktop, args.management_key),
                    network=network,
                    template=args.templates.get(desktop.name),
                ),
                # What goes on asks for its address at once: the gateway has to be there before it.
                pulumi.ResourceOptions(parent=self, depends_on=[gateway]) if desktop.name in args.templates else child,
            )
            for desktop in plan.desktops
        }
        self.url = gateway.url
        self.register_outputs({"url": self.url})
