"""A desktop: disk, seed and machine. Its disk is protected and never follows a new image by itself."""

from dataclasses import dataclass
from typing import Any

import pulumi

from deskyard.plan.first_boot import FirstBoot
from deskyard.plan.image.source import ImageSource
from deskyard.plan.workspace import DesktopPlan
from deskyard.site.libvirt.kinds import parts
from stacks.libvirt.machine import machine
from stacks.libvirt.network import Network


@dataclass(frozen=True)
class DesktopArgs:
    """A desktop of a workspace."""

    plan: DesktopPlan
    accelerator: str
    image: ImageSource
    first_boot: FirstBoot
    network: Network
    # What a new one goes on from; else it boots.
    template: str | None = None


class Desktop(pulumi.ComponentResource):
    """A desktop whose NIC is bound to its address, its port isolated unless peers are open."""

    uuid: pulumi.Output[str]
    console_log: pulumi.Output[str]

    def __init__(self, name: str, args: DesktopArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("deskyard:workspace:Desktop", name, None, opts)
        interface: Any = parts.nic(args.plan, args.network.workspace, args.network.desktop_filter)
        domain = machine(
            name,
            args.plan.machine,
            args.accelerator,
            args.image,
            args.first_boot,
            [interface],
            pulumi.ResourceOptions(parent=self),
            disk_opts=pulumi.ResourceOptions(protect=True, ignore_changes=["image", "digest", "source"]),
            caps=args.plan.caps,
            template=args.template,
        )
        self.uuid, self.console_log = domain.uuid, domain.console_log
        self.register_outputs({"uuid": self.uuid, "console_log": self.console_log})
