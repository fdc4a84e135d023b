"""Our own resources on a cluster, typed for programs."""

from dataclasses import asdict
from typing import Unpack

import pulumi

from deskyard.site.proxmox.kinds.drive import Caps
from deskyard.site.resource import resources

PREFIX = "deskyard:proxmox:"


class AppliedNetwork(pulumi.CustomResource):
    """The SDN configuration is in force for this VNet; `digest` stands for all that is configured of it."""

    vnet: pulumi.Output[str]

    def __init__(
        self, resource_name: str, *, site: str, vnet: pulumi.Input[str], digest: str, opts: pulumi.ResourceOptions
    ) -> None:
        inputs = {"site": site, "vnet": vnet, "digest": digest, "applied": None}
        super().__init__(f"{PREFIX}AppliedNetwork", resource_name, inputs, opts)


class Home(pulumi.CustomResource):
    """The volume of /home of a machine, made in `storage`."""

    volume: pulumi.Output[str]

    def __init__(
        self,
        resource_name: str,
        *,
        site: str,
        node: pulumi.Input[str],
        vm_id: pulumi.Input[int],
        storage: str,
        size_gib: int,
        caps: Caps,
        opts: pulumi.ResourceOptions,
    ) -> None:
        inputs = {
            "site": site,
            "node": node,
            "vm_id": vm_id,
            "storage": storage,
            "size_gib": size_gib,
            **asdict(caps),
        }
        super().__init__(f"{PREFIX}Home", resource_name, {**inputs, "attached": None, "volume": None}, opts)


class Power(pulumi.CustomResource):
    """A machine that runs with a disk of this size and these caps, protected from removal if it holds data."""

    start: pulumi.Output[str]

    def __init__(
        self,
        resource_name: str,
        *,
        site: str,
        node: pulumi.Input[str],
        vm_id: pulumi.Input[int],
        protected: bool,
        disk: str,
        disk_gib: int,
        caps: Caps,
        opts: pulumi.ResourceOptions,
    ) -> None:
        inputs = {
            "site": site,
            "node": node,
            "vm_id": vm_id,
            "protected": protected,
            "disk": disk,
            "disk_gib": disk_gib,
            **asdict(caps),
        }
        outputs = {"running": None, "guarded": None, "start": None}
        super().__init__(f"{PREFIX}Power", resource_name, {**inputs, **outputs}, opts)


class GatewaySettings(resources.GatewaySettings):
    """The settings of a gateway of a cluster; `start` is another for each new one."""

    def __init__(
        self,
        resource_name: str,
        *,
        vm_id: pulumi.Input[int],
        start: pulumi.Input[str],
        opts: pulumi.ResourceOptions,
        **settings_inputs: Unpack[resources.SettingsInputs],
    ) -> None:
        super().__init__(PREFIX, resource_name, {"vm_id": vm_id, "start": start}, settings_inputs, opts)
