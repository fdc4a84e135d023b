"""A machine of libvirt: its disk, what its first boot reads, and itself. Decides nothing."""

from collections.abc import Sequence

import pulumi

from deskyard.model.tier import Tier
from deskyard.plan.first_boot import FirstBoot
from deskyard.plan.image.source import ImageSource
from deskyard.plan.workspace import MachinePlan
from deskyard.site.libvirt.kinds import parts, resources


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
        f"{name}-disk", **parts.system(plan, image, template), opts=pulumi.ResourceOptions.merge(opts, disk_opts)
    )
    home, own = None, parts.home(plan, template)
    if own is not None:
        home = resources.Volume(f"{name}-home", **own, opts=pulumi.ResourceOptions.merge(opts, disk_opts))
    seed = resources.Seed(f"{name}-seed", **parts.seed(plan, first_boot), opts=opts)
    return resources.Domain(
        f"{name}-machine",
        **parts.hardware(plan, accelerator, caps, first_boot, template),
        disk=disk.path,
        home=home.path if home else None,
        seed=seed.path,
        interfaces=interfaces,
        opts=opts,
    )
