"""The programs themselves: which versions are good, where their official releases are, what to do without one."""

from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Literal

Source = Literal["PATH", "release", "go modules", "distribution"]


@dataclass(frozen=True)
class Release:
    """An official release archive; `member` is the program inside it."""

    url: str
    sha256: str
    member: str


@dataclass(frozen=True)
class GoModule:
    """A module folder of this tree from which `go build` makes the program."""

    folder: str
    package: str
    version_variable: str


@dataclass(frozen=True)
class Tool:
    """A program, pinned. `minimum` and `below` bound what is accepted from PATH."""

    name: str
    version: str
    minimum: tuple[int, ...]
    below: tuple[int, ...]
    release: Release
    go_module: GoModule | None = None
    distribution_package: str | None = None


@dataclass(frozen=True)
class FoundTool:
    """A program that is there."""

    name: str
    version: str
    source: Source
    path: Path


PULUMI = Tool(
    name="pulumi",
    version="3.253.0",
    minimum=(3, 200),
    below=(4,),
    release=Release(
        url="https://get.pulumi.com/releases/sdk/pulumi-v3.253.0-linux-x64.tar.gz",
        sha256="33161e521280e6c77395a46344dba5ff9c118a90df254801e662087143b4d1ac",
        member="pulumi/pulumi",
    ),
    go_module=GoModule(
        folder="tools/pulumi",
        package="github.com/pulumi/pulumi/pkg/v3/cmd/pulumi",
        version_variable="github.com/pulumi/pulumi/sdk/v3/go/common/version.Version",
    ),
)

# 1.8 is the last series that carries the qemu and ansible plugins inside the program: one download, one checksum.
# 1.6 is Debian 12's, and good enough: HCL2 with the same two plugins.
PACKER = Tool(
    name="packer",
    version="1.8.6",
    minimum=(1, 6, 6),
    below=(1, 10),
    release=Release(
        url="https://releases.hashicorp.com/packer/1.8.6/packer_1.8.6_linux_amd64.zip",
        sha256="57d0411e578aea62918d36ed186951139d5d49d44b76e5666d1fbf2427b385ae",
        member="packer",
    ),
    distribution_package="packer",
)

TOOLS = MappingProxyType({tool.name: tool for tool in (PULUMI, PACKER)})
