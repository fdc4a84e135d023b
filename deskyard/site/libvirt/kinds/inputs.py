"""Inputs of the kinds of libvirt, as plain values: `resources.py` sends the same names."""

from typing import Any, TypedDict


class NetworkInputs(TypedDict):
    """A bridge; with NAT if the host has an address."""

    name: str
    bridge: str
    cidr: str
    host_address: str | None


class FilterInputs(TypedDict):
    """A filter of what NICs may send and get; `kind` is `desktop`, `desktop-peers` or `gateway`."""

    name: str
    kind: str
    gateway_mac: str
    gateway_address: str


class _Start(TypedDict, total=False):
    image: str
    digest: str
    source: str
    template: str


class VolumeInputs(_Start):
    """A disk that starts as an image, which lies at `source`, or blank; or as `template`, a template's volume."""

    name: str
    size_gib: int


class SeedInputs(TypedDict):
    """The documents that cloud-init reads at the first boot."""

    name: str
    meta_data: dict[str, Any]
    user_data: dict[str, Any]
    network_config: dict[str, Any]


class _NicCap(TypedDict, total=False):
    mib_per_second: int


class NicInputs(_NicCap):
    """A NIC: its network, and the filter that binds it to its address; a cap of each direction only if it has one."""

    mac: str
    network: str
    filter: str
    address: str
    isolated: bool


class WarmInputs(TypedDict):
    """The template that a machine goes on from, and what of its first boot makes it itself."""

    template: str
    hostname: str
    instance: str
    manager: str
    keys: list[str]
    nic: str


class _IfAny(TypedDict, total=False):
    # Pulumi sends no empty values.
    disk_iops: int | None
    disk_mib_per_second: int | None
    disk_burst_iops: int | None
    disk_burst_mib_per_second: int | None
    disk_burst_seconds: int | None
    cpu_percent: int | None
    warm: WarmInputs | None


class _Home(TypedDict, total=False):
    home: str


class DomainInputs(_IfAny, _Home):
    """A machine; a volume of /home, caps, and a template to go on from only if it has some.

    It has its `uuid` from its creation.
    """

    name: str
    machine_uuid: str
    vcpus: int
    memory_mib: int
    accelerator: str
    disk: str
    seed: str
    interfaces: list[NicInputs]
