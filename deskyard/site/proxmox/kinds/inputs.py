"""Inputs of the kinds of a cluster, as plain values: `resources.py` sends the same names."""

from typing import NotRequired, TypedDict


class AppliedNetworkInputs(TypedDict):
    """A VNet that has to be in force; `digest` stands for all that is configured of it."""

    site: str
    vnet: str
    digest: str


class HomeInputs(TypedDict):
    """A machine that is to have a volume of /home of this size, made in `storage`, with the caps of its tier."""

    site: str
    node: str
    vm_id: int
    storage: str
    size_gib: int
    disk_iops: NotRequired[int]
    disk_mib_per_second: NotRequired[int]
    disk_burst_iops: NotRequired[int]
    disk_burst_mib_per_second: NotRequired[int]


class PowerInputs(TypedDict):
    """A machine that is to run with a disk of this size and the caps of its tier; protected if it holds data."""

    site: str
    node: str
    vm_id: int
    protected: bool
    disk: str
    disk_gib: int
    disk_iops: NotRequired[int]
    disk_mib_per_second: NotRequired[int]
    disk_burst_iops: NotRequired[int]
    disk_burst_mib_per_second: NotRequired[int]
