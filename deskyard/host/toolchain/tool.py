"""The programs themselves: which versions are good, where their official releases are, what to do without one."""

from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Literal

Source = Literal["PATH", "release", "go modules", "distribution"]


@dataclass(frozen=True)
class Release:
    """An official release archive; `member` is the program inside it, or its name if there is nothing else in it.

    Without a checksum its user has to give one.
    """

    url: str
    sha256: str | None
    member: str


@dataclass(frozen=True)
class GoModule:
    """A module folder of this tree from which `go build` makes the program.

    `generator` is run first, with these arguments, where the program carries files that are written by the build.
    """

    folder: str
    package: str
    version_variable: str
    generator: tuple[str, ...] = ()


@dataclass(frozen=True)
class Tool:
    """A program, pinned. `minimum` and `below` bound what is accepted from PATH.

    `on_demand`: only some sites need it, so it is got when it is named. `plugin`: Pulumi's engine starts it.
    """

    name: str
    version: str
    minimum: tuple[int, ...]
    below: tuple[int, ...]
    release: Release | None = None
    go_module: GoModule | None = None
    distribution_package: str | None = None
    program: str = ""
    version_argument: str = "version"
    on_demand: bool = False
    plugin: bool = False

    @property
    def file(self) -> str:
        """The name of the program's file."""
        return self.program or self.name


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

# Plays the ACME server in tests; nothing else needs it.
PEBBLE = Tool(
    name="pebble",
    version="2.10.1",
    minimum=(2, 8),
    below=(3,),
    go_module=GoModule(
        folder="tools/pebble",
        package="github.com/letsencrypt/pebble/v2/cmd/pebble",
        version_variable="main.version",
    ),
)

# Pulumi's package for Proxmox VE: PyPI's pulumi-proxmoxve asks for the plugin of exactly its own version.
# The checksum of its release could not be looked up, and none is pinned unseen: whoever prefers the release to the
# build, which go.sum verifies, names the checksum they trust.
PROXMOXVE = Tool(
    name="proxmoxve",
    version="8.6.0",
    minimum=(8, 6, 0),
    below=(8, 6, 1),
    release=Release(
        url="https://github.com/muhlba91/pulumi-proxmoxve/releases/download/v8.6.0/"
        "pulumi-resource-proxmoxve-v8.6.0-linux-amd64.tar.gz",
        sha256=None,
        member="pulumi-resource-proxmoxve",
    ),
    go_module=GoModule(
        folder="tools/proxmoxve",
        package="./plugin",
        version_variable="deskyard.dev/tools/proxmoxve.Version",
        generator=("./generate", "schema", "--out", "plugin"),
    ),
    program="pulumi-resource-proxmoxve",
    version_argument="-version",
    on_demand=True,
    plugin=True,
)

# Keeps backups. Debian 12's is too old: before 0.17 it saves what a producer that died left as if it were whole.
RESTIC = Tool(
    name="restic",
    version="0.18.1",
    minimum=(0, 17),
    below=(0, 20),
    release=Release(
        url="https://github.com/restic/restic/releases/download/v0.18.1/restic_0.18.1_linux_amd64.bz2",
        sha256="680838f19d67151adba227e1570cdd8af12c19cf1735783ed1ba928bc41f363d",
        member="restic",
    ),
    go_module=GoModule(
        folder="tools/restic",
        package="github.com/restic/restic/cmd/restic",
        version_variable="main.version",
    ),
    on_demand=True,
)

TOOLS = MappingProxyType({tool.name: tool for tool in (PULUMI, PACKER, PROXMOXVE, RESTIC)})
BASIC = tuple(tool.name for tool in TOOLS.values() if not tool.on_demand)
TEST_TOOLS = MappingProxyType({PEBBLE.name: PEBBLE})
