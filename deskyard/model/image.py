"""An image: what a golden disk is made of."""

from typing import Literal

from pydantic import Field

from deskyard.model.base import Declaration, DnsLabel


class VendorBase(Declaration):
    """A cloud image of the distribution."""

    url: str = Field(pattern=r"^https://", description="Where the qcow2 is.")
    sha512: str = Field(pattern=r"^[0-9a-f]{128}$", description="Its checksum.")


class BootstrapBase(Declaration):
    """A disk bootstrapped from the distribution's packages, where vendor images cannot be had."""

    suite: str = Field(pattern=r"^[a-z]+$", description="Debian suite.")
    mirror: str = Field(pattern=r"^https?://", description="Debian mirror.")
    packages: tuple[str, ...] = Field(description="What makes it a bootable cloud guest.")


class Base(Declaration):
    """The disk a build starts from: the vendor's, else a bootstrapped one."""

    vendor: VendorBase
    bootstrap: BootstrapBase


class Image(Declaration):
    """`images/<name>/image.yaml`."""

    name: DnsLabel = Field(description="Name of the image: the name of its folder.")
    version: str = Field(pattern=r"^\d+\.\d+\.\d+$", description="Version, three numbers.")
    description: str = Field(description="What the image is, one sentence.")
    architecture: Literal["x86_64"] = Field("x86_64", description="CPU architecture.")
    disk_gib: int = Field(ge=3, le=40, description="Size of the disk, GiB; a desktop's disk grows to its tier's.")
    base: Base = Field(description="What the build starts from.")
    roles: tuple[str, ...] = Field(min_length=1, description="Ansible roles, in order.")
