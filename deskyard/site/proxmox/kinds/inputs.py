"""Inputs of the kinds of a cluster, as plain values: `resources.py` sends the same names."""

from typing import TypedDict


class AppliedNetworkInputs(TypedDict):
    """A VNet that has to be in force; `digest` stands for all that is configured of it."""

    site: str
    vnet: str
    digest: str


class DiskCaps(TypedDict, total=False):
    """The caps of a tier, as far as it has them: the fields of `drive.Caps`."""

    disk_iops: int
    disk_mib_per_second: int
    disk_burst_iops: int
    disk_burst_mib_per_second: int
    disk_burst_seconds: int


class HomeInputs(DiskCaps):
    """A machine that is to have a volume of /home of this size, made in `storage`, with the caps of its tier."""

    site: str
    node: str
    vm_id: int
    storage: str
    size_gib: int


class PowerInputs(DiskCaps):
    """A machine that is to run with a disk of this size and the caps of its tier; protected if it holds data."""

    site: str
    node: str
    vm_id: int
    protected: bool
    disk: str
    disk_gib: int
