"""Inputs of the kinds of a cluster, as plain values: `resources.py` sends the same names."""

from typing import TypedDict


class AppliedNetworkInputs(TypedDict):
    """A VNet that has to be in force; `digest` stands for all that is configured of it."""

    site: str
    vnet: str
    digest: str


class PowerInputs(TypedDict):
    """A machine that is to run with a disk of this size, protected from removal if it holds data."""

    site: str
    node: str
    vm_id: int
    protected: bool
    disk: str
    disk_gib: int
