"""The declared Proxmox VE cluster: how to reach it, and which part of it Deskyard may use."""

from ipaddress import IPv4Address, IPv4Network
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, HttpUrl, model_validator

from deskyard.model.base import Declaration
from deskyard.model.quotas import Quotas

NodeName = Annotated[
    str, Field(pattern=r"^[a-zA-Z0-9]([a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?$", description="Name of a node.")
]
StorageName = Annotated[
    str, Field(pattern=r"^[a-zA-Z][a-zA-Z0-9._-]{0,98}[a-zA-Z0-9]$", description="Name of a storage.")
]


class Nodes(Declaration):
    """Which nodes run desktops: these, or all without the excluded ones."""

    only: tuple[NodeName, ...] = Field((), max_length=32, description="These nodes; empty: every node of the cluster.")
    exclude: tuple[NodeName, ...] = Field((), max_length=32, description="Never these nodes.")
    spread: bool = Field(False, description="Put the desktops of a workspace on different nodes while there are some.")

    @model_validator(mode="after")
    def _one_rule(self) -> Self:
        if self.only and self.exclude:
            raise ValueError("only and exclude are both given -> name the nodes in one of them")
        return self

    def picks(self, name: str) -> bool:
        """Whether the node of this name runs desktops."""
        return name in self.only if self.only else name not in self.exclude


class Storages(Declaration):
    """Where images and disks are kept."""

    images: StorageName = Field("local", description="Storage for uploads; its content types must include import.")
    templates: StorageName | None = Field(None, description="Storage of the templates' disks; else that of the disks.")
    disks: StorageName = Field("local-lvm", description="Storage of desktops' disks; must do linked clones.")
    backups: StorageName | None = Field(
        None, description="Storage of desktops' backups; its content types must include backup. Without: no backups."
    )

    @property
    def of_templates(self) -> str:
        """Where a template's disk lies: a linked clone has to share its storage."""
        return self.templates or self.disks


class Uplink(Declaration):
    """The network on which gateways can be reached and through which they reach the internet."""

    bridge: str = Field("vmbr0", pattern=r"^[a-z][a-z0-9_.]{0,14}$", description="Bridge of every node.")
    vlan: int | None = Field(None, ge=1, le=4094, description="VLAN tag on that bridge.")
    network: IPv4Network = Field(description="The network of the bridge, as 192.0.2.0/24.")
    router: IPv4Address = Field(description="Default route of the gateways.")
    first: IPv4Address = Field(description="First address that gateways may take.")
    last: IPv4Address = Field(description="Last address that gateways may take.")
    resolvers: tuple[IPv4Address, ...] = Field(min_length=1, max_length=3, description="DNS servers of the gateways.")
    operators: tuple[IPv4Network, ...] = Field(
        (), max_length=16, description="Networks of the machines that run Deskyard; empty: the network itself."
    )

    @model_validator(mode="after")
    def _range_in_network(self) -> Self:
        for name in ("router", "first", "last"):
            address = getattr(self, name)
            if address not in self.network or address in (self.network[0], self.network[-1]):
                raise ValueError(f"{name} {address} is no host address of {self.network} -> choose one inside")
        if self.first > self.last:
            raise ValueError(f"first {self.first} lies behind last {self.last} -> exchange them")
        if self.first <= self.router <= self.last:
            raise ValueError(f"router {self.router} lies between first and last -> leave it out of the range")
        return self


class Zone(Declaration):
    """The SDN zone that holds one VNet per workspace."""

    kind: Literal["vxlan", "vlan", "simple"] = Field(
        "vxlan", description="vxlan: over IP between nodes. vlan: tags on a bridge. simple: one node alone."
    )
    name: str = Field(
        "deskyard", pattern=r"^[a-z][a-z0-9]{0,7}$", description="Name of the zone; at most 8 characters."
    )
    bridge: str | None = Field(None, pattern=r"^[a-z][a-z0-9_.]{0,14}$", description="vlan: bridge that carries tags.")
    peers: tuple[IPv4Address, ...] = Field((), max_length=64, description="vxlan: address of every node.")
    mtu: int = Field(1450, ge=576, le=9000, description="MTU inside; vxlan takes 50 bytes of the nodes' network.")
    first_tag: int = Field(100_000, ge=1, le=16_777_215, description="First tag that workspaces may take.")
    last_tag: int = Field(199_999, ge=1, le=16_777_215, description="Last tag that workspaces may take.")

    @model_validator(mode="after")
    def _fits_its_kind(self) -> Self:
        if self.kind == "vlan" and not self.bridge:
            raise ValueError("kind vlan needs a bridge -> add bridge: vmbr1 (VLAN aware)")
        if self.kind == "vlan" and self.last_tag > 4094:
            raise ValueError(f"last_tag {self.last_tag} is no VLAN -> choose first_tag and last_tag between 1 and 4094")
        if self.kind == "vxlan" and not self.peers:
            raise ValueError("kind vxlan needs peers -> list the address of every node")
        if self.first_tag > self.last_tag:
            raise ValueError(f"first_tag {self.first_tag} lies behind last_tag {self.last_tag} -> exchange them")
        return self


class Range(Declaration):
    """The VM ids that Deskyard may take."""

    first: int = Field(20_000, ge=100, le=999_999_999, description="First VM id.")
    last: int = Field(59_999, ge=100, le=999_999_999, description="Last VM id.")

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.first > self.last:
            raise ValueError(f"first {self.first} lies behind last {self.last} -> exchange them")
        return self


class Cluster(Declaration):
    """A Proxmox VE cluster, or one node."""

    endpoint: HttpUrl = Field(description="Address of the API, as https://pve1.example.org:8006.")
    ca: Path | None = Field(None, description="PEM file of the authority that signed the API's certificate.")
    fingerprint: str | None = Field(
        None,
        pattern=r"^([0-9A-Fa-f]{2}:){31}[0-9A-Fa-f]{2}$",
        description="SHA-256 fingerprint of the API's certificate, where no authority signs it.",
    )
    token_file: Path | None = Field(
        None,
        description="File with USER@REALM!NAME=SECRET, readable by its owner alone; else the variable "
        "DESKYARD_PROXMOX_TOKEN.",
    )
    nodes: Nodes = Field(default_factory=Nodes, description="Which nodes run desktops.")
    storages: Storages = Field(default_factory=Storages, description="Where images and disks are kept.")
    uplink: Uplink = Field(description="The gateways' way in and out.")
    zone: Zone = Field(description="The SDN zone of the workspaces.")
    vm_ids: Range = Field(default_factory=Range, description="VM ids that Deskyard may take.")
    quotas: Quotas = Field(default_factory=Quotas, description="The most that workspaces may ask for.")
    operator_group: str | None = Field(
        None,
        pattern=r"^[A-Za-z0-9._-]{1,64}$",
        description="Group of the cluster whose members may see, start, stop and back up machines, and use consoles.",
    )
    keep_images: int = Field(3, ge=1, le=50, description="Templates of one image that publishing keeps.")

    @model_validator(mode="after")
    def _verified(self) -> Self:
        if self.endpoint.scheme != "https":
            raise ValueError(f"endpoint {self.endpoint} is not https -> write https://")
        if self.ca and self.fingerprint:
            raise ValueError("ca and fingerprint are both given -> one of them verifies the API")
        return self
