"""The inputs of the parts of one machine: the same for one that the engine makes and for one that a task makes."""

from typing import Any

from deskyard.model.tier import Tier
from deskyard.plan.first_boot import FirstBoot
from deskyard.plan.image.source import ImageSource
from deskyard.plan.warm import HOME, SYSTEM, disk_name, identity
from deskyard.plan.workspace import DesktopPlan, MachinePlan


def system(machine: MachinePlan, image: ImageSource, template: str | None) -> dict[str, Any]:
    """Its system disk; it starts as that of `template`, if that is given."""
    return {
        "name": f"{machine.domain}.qcow2",
        "image": image.name,
        "digest": image.digest,
        "source": image.disk,
        "size_gib": machine.disk_gib,
        "template": disk_name(template, SYSTEM) if template else None,
    }


def home(machine: MachinePlan, template: str | None) -> dict[str, Any] | None:
    """Its volume of /home, if it has one."""
    if machine.home_gib is None:
        return None
    return {
        "name": f"{machine.domain}.home.qcow2",
        "size_gib": machine.home_gib,
        "template": disk_name(template, HOME) if template else None,
    }


def seed(machine: MachinePlan, first_boot: FirstBoot) -> dict[str, Any]:
    """The disc of its first boot."""
    return {
        "name": f"{machine.domain}-seed.iso",
        "meta_data": first_boot.meta_data,
        "user_data": first_boot.user_data,
        "network_config": first_boot.network_config,
    }


def hardware(
    machine: MachinePlan, accelerator: str, caps: Tier | None, first_boot: FirstBoot, template: str | None
) -> dict[str, Any]:
    """The machine itself without its disks and NICs; `caps` are those of its disks and processors."""
    burst = caps.disk_burst if caps else None
    return {
        "name": machine.domain,
        "machine_uuid": machine.uuid,
        "vcpus": machine.vcpus,
        "memory_mib": machine.memory_mib,
        "accelerator": accelerator,
        "disk_iops": caps.disk_iops if caps else None,
        "disk_mib_per_second": caps.disk_mib_per_second if caps else None,
        "disk_burst_iops": burst.iops if burst else None,
        "disk_burst_mib_per_second": burst.mib_per_second if burst else None,
        "disk_burst_seconds": burst.seconds if burst else None,
        "cpu_percent": caps.cpu_percent if caps else None,
        "warm": {"template": template, **identity(first_boot)} if template else None,
    }


def nic(desktop: DesktopPlan, network: Any, rules: Any) -> dict[str, Any]:
    """A desktop's only NIC: bound to its address by a filter, its port isolated unless peers are open."""
    own = {
        "mac": desktop.mac,
        "network": network,
        "filter": rules,
        "address": desktop.address,
        "isolated": desktop.isolated,
    }
    # Machines of before have NICs without the word, which is no change.
    cap = desktop.caps.network_mib_per_second
    return own if cap is None else {**own, "mib_per_second": cap}
