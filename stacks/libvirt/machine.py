"""A machine of libvirt: its disk, what its first boot reads, and itself. Decides nothing."""

from collections.abc import Sequence

import pulumi

from deskyard.model.tier import Tier
from deskyard.plan.first_boot import FirstBoot
from deskyard.plan.image.source import ImageSource
from deskyard.plan.warm import HOME, SYSTEM, disk_name, identity
from deskyard.plan.workspace import MachinePlan
from deskyard.site.libvirt.kinds import resources


def machine(
    name: str,
    plan: MachinePlan,
    accelerator: str,
    image: ImageSource,
    first_boot: FirstBoot,
    interfaces: Sequence[resources.Interface],
    opts: pulumi.ResourceOptions,
    disk_opts: pulumi.ResourceOptions | None = None,
    caps: Tier | None = None,
    template: str | None = None,
) -> resources.Domain:
    """The resources of one machine, all below the component that `opts` names; `disk_opts`, `caps` are its disks'.

    A new one goes on from `template`, if that is given.
    """
    disk = resources.Volume(
        f"{name}-disk",
        name=f"{plan.domain}.qcow2",
        image=image.name,
        digest=image.digest,
        source=image.disk,
        size_gib=plan.disk_gib,
        template=disk_name(template, SYSTEM) if template else None,
        opts=pulumi.ResourceOptions.merge(opts, disk_opts),
    )
    home = None
    if plan.home_gib is not None:
        home = resources.Volume(
            f"{name}-home",
            name=f"{plan.domain}.home.qcow2",
            size_gib=plan.home_gib,
            template=disk_name(template, HOME) if template else None,
            opts=pulumi.ResourceOptions.merge(opts, disk_opts),
        )
    seed = resources.Seed(
        f"{name}-seed",
        name=f"{plan.domain}-seed.iso",
        meta_data=first_boot.meta_data,
        user_data=first_boot.user_data,
        network_config=first_boot.network_config,
        opts=opts,
    )
    return resources.Domain(
        f"{name}-machine",
        name=plan.domain,
        machine_uuid=plan.uuid,
        vcpus=plan.vcpus,
        memory_mib=plan.memory_mib,
        accelerator=accelerator,
        disk=disk.path,
        home=home.path if home else None,
        disk_iops=caps.disk_iops if caps else None,
        disk_mib_per_second=caps.disk_mib_per_second if caps else None,
        seed=seed.path,
        interfaces=interfaces,
        warm={"template": template, **identity(first_boot)} if template else None,
        opts=opts,
    )
