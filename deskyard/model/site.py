"""A site: one hypervisor estate."""

from ipaddress import IPv4Network
from pathlib import Path
from typing import Literal

from pydantic import Field

from deskyard.model.base import Declaration, DnsLabel
from deskyard.model.egress import ReachableNetwork
from deskyard.model.tier import TIERS, Tier


class Certificate(Declaration):
    """A certificate the operator brings, instead of one from the site's own authority."""

    chain: Path = Field(description="PEM file: certificate, then its intermediates.")
    key: Path = Field(description="PEM file with the private key.")


class Site(Declaration):
    """Where workspaces run. The built-in site `local` is this machine with libvirt."""

    name: DnsLabel = Field("local", description="Name of the site.")
    backend: Literal["libvirt"] = Field("libvirt", description="Hypervisor of the site.")
    domain: str = Field(
        "localhost",
        pattern=r"^[a-z0-9]([a-z0-9.-]{0,180}[a-z0-9])?$",
        description="DNS domain: the gateway of workspace W answers as W.<domain>. *.localhost is this machine.",
    )
    listen: str = Field("127.0.0.1", description="Address on which gateways can be reached.")
    accelerator: Literal["auto", "kvm", "tcg"] = Field(
        "auto", description="auto: kvm where a guest truly boots with it, else emulation."
    )
    certificate: Certificate | None = Field(None, description="Own certificate; else the site's own authority.")
    egress_exceptions: tuple[ReachableNetwork, ...] = Field(
        (),
        max_length=50,
        description="Private networks that desktops may reach all the same, such as that of an internal server.",
    )
    egress_denied: tuple[IPv4Network, ...] = Field(
        (),
        max_length=50,
        description="Further networks that no desktop may reach: public addresses of the host and of your LAN.",
    )
    tiers: dict[str, Tier] = Field(default_factory=dict, description="Further tiers of this site.")

    def all_tiers(self) -> dict[str, Tier]:
        """The built-in tiers and the site's own."""
        return {**TIERS, **self.tiers}
