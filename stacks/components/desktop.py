"""A desktop: disk, seed and machine. Its disk is protected and never follows a new image by itself."""

from dataclasses import dataclass

import pulumi

from deskyard.plan.first_boot import FirstBoot
from deskyard.plan.workspace import DesktopPlan
from stacks.components.image import ImageSource
from stacks.components.network import Network
from stacks.libvirt import resources


@dataclass(frozen=True)
class DesktopArgs:
    """A desktop of a workspace."""

    plan: DesktopPlan
    accelerator: str
    image: ImageSource
    first_boot: FirstBoot
    network: Network


class Desktop(pulumi.ComponentResource):
    """One NIC, on the workspace network: bound to its address, its port isolated unless peers are open."""

    uuid: pulumi.Output[str]
    console_log: pulumi.Output[str]

    def __init__(self, name: str, args: DesktopArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("deskyard:workspace:Desktop", name, None, opts)
        child = pulumi.ResourceOptions(parent=self)
        machine = args.plan.machine
        disk = resources.Volume(
            f"{name}-disk",
            name=f"{machine.domain}.qcow2",
            image=args.image.name,
            digest=args.image.digest,
            source=args.image.disk,
            size_gib=machine.disk_gib,
            opts=pulumi.ResourceOptions(parent=self, protect=True, ignore_changes=["image", "digest", "source"]),
        )
        seed = resources.Seed(
            f"{name}-seed",
            name=f"{machine.domain}-seed.iso",
            meta_data=args.first_boot.meta_data,
            user_data=args.first_boot.user_data,
            network_config=args.first_boot.network_config,
            opts=child,
        )
        domain = resources.Domain(
            f"{name}-machine",
            name=machine.domain,
            vcpus=machine.vcpus,
            memory_mib=machine.memory_mib,
            accelerator=args.accelerator,
            disk=disk.path,
            seed=seed.path,
            interfaces=[
                {
                    "mac": args.plan.mac,
                    "network": args.network.workspace,
                    "filter": args.network.desktop_filter,
                    "address": args.plan.address,
                    "isolated": args.plan.isolated,
                }
            ],
            opts=child,
        )
        self.uuid, self.console_log = domain.uuid, domain.console_log
        self.register_outputs({"uuid": self.uuid, "console_log": self.console_log})
