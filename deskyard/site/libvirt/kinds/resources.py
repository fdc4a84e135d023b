"""The provider's resources, typed for programs. All inputs are plain values or Outputs of other resources."""

from collections.abc import Mapping, Sequence
from typing import Any, NotRequired, TypedDict, Unpack

import pulumi

from deskyard.site.resource import resources

PREFIX = "deskyard:libvirt:"


class Interface(TypedDict):
    """A NIC: its network, and the filter that binds it to its address; with a cap only if it has one."""

    mac: str
    network: pulumi.Input[str]
    filter: pulumi.Input[str]
    address: str
    isolated: bool
    mib_per_second: NotRequired[int]


class Network(pulumi.CustomResource):
    """A bridge; with NAT and an address of the host if `host_address` is given."""

    name: pulumi.Output[str]

    def __init__(
        self,
        resource_name: str,
        *,
        name: str,
        bridge: str,
        cidr: str,
        host_address: str | None,
        opts: pulumi.ResourceOptions,
    ) -> None:
        inputs = {"name": name, "bridge": bridge, "cidr": cidr, "host_address": host_address, "active": None}
        super().__init__(f"{PREFIX}Network", resource_name, inputs, opts)


class Filter(pulumi.CustomResource):
    """A filter of what NICs may send and get; `kind` is `desktop`, `desktop-peers` or `gateway`."""

    name: pulumi.Output[str]

    def __init__(
        self,
        resource_name: str,
        *,
        name: str,
        kind: str,
        gateway_mac: str,
        gateway_address: str,
        opts: pulumi.ResourceOptions,
    ) -> None:
        inputs = {"name": name, "kind": kind, "gateway_mac": gateway_mac, "gateway_address": gateway_address}
        super().__init__(f"{PREFIX}Filter", resource_name, inputs, opts)


class Volume(pulumi.CustomResource):
    """A disk that starts as the image `image` of this `digest`, which lies at `source`; without an image, blank.

    With `template` it starts as that disk of a template.
    """

    path: pulumi.Output[str]

    def __init__(
        self,
        resource_name: str,
        *,
        name: str,
        image: str | None = None,
        digest: str | None = None,
        source: str | None = None,
        size_gib: int,
        template: str | None = None,
        opts: pulumi.ResourceOptions,
    ) -> None:
        inputs = {
            "name": name,
            "image": image,
            "digest": digest,
            "source": source,
            "size_gib": size_gib,
            "template": template,
        }
        super().__init__(f"{PREFIX}Volume", resource_name, {**inputs, "path": None}, opts)


class Seed(pulumi.CustomResource):
    """The disc that cloud-init reads at the first boot."""

    path: pulumi.Output[str]

    def __init__(
        self,
        resource_name: str,
        *,
        name: str,
        meta_data: Mapping[str, Any],
        user_data: Mapping[str, Any],
        network_config: Mapping[str, Any],
        opts: pulumi.ResourceOptions,
    ) -> None:
        inputs = {
            "name": name,
            "meta_data": dict(meta_data),
            "user_data": dict(user_data),
            "network_config": dict(network_config),
            "path": None,
        }
        super().__init__(f"{PREFIX}Seed", resource_name, inputs, opts)


class Domain(pulumi.CustomResource):
    """A virtual machine that runs."""

    name: pulumi.Output[str]
    uuid: pulumi.Output[str]
    console_log: pulumi.Output[str]

    def __init__(
        self,
        resource_name: str,
        *,
        name: str,
        machine_uuid: str,
        vcpus: int,
        memory_mib: int,
        accelerator: str,
        disk: pulumi.Input[str],
        home: pulumi.Input[str] | None,
        disk_iops: int | None,
        disk_mib_per_second: int | None,
        disk_burst_iops: int | None,
        disk_burst_mib_per_second: int | None,
        disk_burst_seconds: int | None,
        cpu_percent: int | None,
        seed: pulumi.Input[str],
        interfaces: Sequence[Interface],
        warm: Mapping[str, Any] | None,
        opts: pulumi.ResourceOptions,
    ) -> None:
        inputs = {
            "name": name,
            "machine_uuid": machine_uuid,
            "vcpus": vcpus,
            "memory_mib": memory_mib,
            "accelerator": accelerator,
            "disk": disk,
            "home": home,
            "disk_iops": disk_iops,
            "disk_mib_per_second": disk_mib_per_second,
            "disk_burst_iops": disk_burst_iops,
            "disk_burst_mib_per_second": disk_burst_mib_per_second,
            "disk_burst_seconds": disk_burst_seconds,
            "cpu_percent": cpu_percent,
            "seed": seed,
            "interfaces": list(interfaces),
            "warm": None if warm is None else dict(warm),
        }
        outputs = {"uuid": None, "running": None, "plugged": None, "console_log": None, "started": None}
        super().__init__(f"{PREFIX}Domain", resource_name, {**inputs, **outputs}, opts)


class GatewaySettings(resources.GatewaySettings):
    """The settings of a gateway of libvirt; `machine` is another for each new one."""

    def __init__(
        self,
        resource_name: str,
        *,
        domain: pulumi.Input[str],
        machine: pulumi.Input[str],
        opts: pulumi.ResourceOptions,
        **settings_inputs: Unpack[resources.SettingsInputs],
    ) -> None:
        super().__init__(PREFIX, resource_name, {"domain": domain, "machine": machine}, settings_inputs, opts)
