"""A site: one hypervisor estate."""

import re
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path
from typing import Any, Literal, Self
from urllib.parse import unquote

from pydantic import Field, field_validator, model_validator
from pydantic_core import PydanticCustomError

from deskyard.errors import ConfigError
from deskyard.model.base import Declaration, DnsLabel
from deskyard.model.egress import ReachableNetwork
from deskyard.model.proxmox import Cluster
from deskyard.model.quotas import Quotas
from deskyard.model.tier import TIERS, Tier

_SFTP_URL = r"sftp://([A-Za-z0-9._-]+@)?([A-Za-z0-9._-]+|\[[0-9A-Fa-f:]+\])(:[0-9]{1,5})?/"
_S3 = r"s3:(https?://)?([A-Za-z0-9.-]+|\[[0-9A-Fa-f:]+\])(:[0-9]{1,5})?/[A-Za-z0-9][A-Za-z0-9._-]{2,62}(/|$)"
_S3_KEYS = "its keys come from the environment, AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
_SSH_KEY = "let a key without passphrase in instead (ssh-copy-id), and name it in ~/.ssh/config"
_BACKUPS = rf"^(/|sftp:([A-Za-z0-9._-]+@)?[A-Za-z0-9._-]+:|{_SFTP_URL}|{_S3})[A-Za-z0-9._/+-]*$"
# A host, with its port if it has one: what may stand before the path of an address, behind a user's name.
_HOST = re.compile(r"([^:@/\[\]]*|\[[0-9A-Fa-f:]*\])(:[0-9]*)?")
_BEGINNING = re.compile(r"(?P<beginning>([A-Za-z0-9]+:)?(https?:)?(//)?)(?P<rest>.*)", re.DOTALL)
_QUERY = re.compile(r"([^?#]*)([?#]?)(.*)", re.DOTALL)


class Acme(Declaration):
    """A server that gives certificates to who answers on a name (RFC 8555), such as Let's Encrypt or step-ca."""

    directory: str = Field(
        pattern=r"^https://[a-z0-9]([a-z0-9.-]{0,250}[a-z0-9])?(:[1-9][0-9]{0,4})?(/[A-Za-z0-9._~/-]{0,200})?$",
        description="The server's directory; whoever names it here agrees to the server's terms of use.",
    )
    email: str = Field(
        pattern=r"^[A-Za-z0-9._%+-]{1,64}@[A-Za-z0-9.-]{1,180}$",
        description="Whom the server tells of what needs attention.",
    )
    ca: Path | None = Field(
        None, description="PEM file of the authority that signed the server's own certificate, if it is no public one."
    )


class Certificate(Declaration):
    """A certificate of the operator's choice instead of one from the site's own authority: files, or a server."""

    chain: Path | None = Field(None, description="PEM file: certificate, then its intermediates.")
    key: Path | None = Field(None, description="PEM file with the private key.")
    acme: Acme | None = Field(None, description="Instead of files: gateways order and renew their own from here.")

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if self.acme is not None and (self.chain is not None or self.key is not None):
            raise ValueError("acme and files are both given -> keep acme, or chain and key")
        if self.acme is None and (self.chain is None or self.key is None):
            raise ValueError("names no whole source -> give chain and key, or acme with directory and email")
        return self


class ObjectStore(Declaration):
    """How backups reach the S3 server that their address names; what is left out is found out, or the usual."""

    region: str | None = Field(
        None, pattern=r"^[A-Za-z0-9-]{1,63}$", description="Region of the bucket; the server says it if left out."
    )
    path_style: bool | None = Field(
        None,
        description="Whether the bucket stands in the path (true), or before the host (false), as Amazon has it. "
        "Left out: the usual one of that server.",
    )
    ca: Path | None = Field(None, description="PEM file of the authority that signed the server's certificate.")
    credentials_file: Path | None = Field(
        None,
        description="File with the keys as AWS's tools have them, below [default]: aws_access_key_id and "
        "aws_secret_access_key; readable by its owner alone. Left out: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY.",
    )


class Site(Declaration):
    """Where workspaces run. The built-in site `local` is this machine with libvirt."""

    name: DnsLabel = Field("local", description="Name of the site.")
    backend: Literal["libvirt", "proxmox"] = Field(
        "libvirt", description="libvirt: this machine. proxmox: the cluster described below proxmox."
    )
    proxmox: Cluster | None = Field(None, description="The cluster of a site with backend proxmox.")
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
        description="Networks that desktops may reach all the same, as of an internal server; an address of the host.",
    )
    egress_denied: tuple[IPv4Network, ...] = Field(
        (),
        max_length=50,
        description="Further networks that no desktop may reach, as public ones of your LAN; the host's are known.",
    )
    backups: str | None = Field(
        None,
        pattern=_BACKUPS,
        description="Where backups go, a folder for each workspace: /srv/backups, sftp:user@host:/srv/backups or "
        "s3:https://host/bucket/prefix. A folder has to be there. This machine's state folder if left out.",
    )
    backups_s3: ObjectStore | None = Field(None, description="How to reach the bucket of an s3: address of backups.")
    tiers: dict[str, Tier] = Field(default_factory=dict, description="Further tiers of this site.")
    quotas: Quotas = Field(
        default_factory=Quotas,
        description="The most that workspaces may ask for, on backend libvirt; a cluster has its own.",
    )

    @field_validator("backups", mode="before")
    @classmethod
    def _backups_hold_no_secret(cls, address: Any) -> Any:
        """Refuse an address with a password or a key in it: it would be in command lines, messages and logs."""
        shown = without_secret(address) if isinstance(address, str) else address
        if shown != address:
            reason = "holds a password or a key, which everybody on this machine could read while a backup runs"
            instead = _S3_KEYS if address.startswith("s3:") else _SSH_KEY
            remedy = f"take it out of the address: {instead}"
            words = {"reason": reason, "remedy": remedy, "shown": shown}
            raise PydanticCustomError("secret", "{reason} -> {remedy}", words)
        return address

    @model_validator(mode="after")
    def _bucket_is_named(self) -> Self:
        if self.backups_s3 is not None and not (self.backups or "").startswith("s3:"):
            raise ValueError("backups_s3 says how to reach a bucket, and backups names none -> write backups: s3:...")
        if self.backups_s3 is not None and self.backups_s3.ca and (self.backups or "").startswith("s3:http://"):
            raise ValueError("backups_s3.ca is for TLS, and backups has none -> write s3:https://..., or leave ca out")
        return self

    @model_validator(mode="after")
    def _backend_is_described(self) -> Self:
        if self.backend == "proxmox" and self.proxmox is None:
            raise ValueError("backend proxmox needs its cluster -> add proxmox: with endpoint, uplink and zone")
        if self.backend != "proxmox" and self.proxmox is not None:
            raise ValueError("proxmox is described, but backend is libvirt -> write backend: proxmox")
        return self

    @model_validator(mode="after")
    def _quotas_have_their_place(self) -> Self:
        if self.backend == "proxmox" and self.quotas != Quotas():
            raise ValueError("quotas of a cluster stand in another place -> write them below proxmox: quotas")
        return self

    @model_validator(mode="after")
    def _acme_reaches_the_gateway(self) -> Self:
        if self.certificate is None or self.certificate.acme is None:
            return self
        if self.domain == "localhost" or self.domain.endswith(".localhost"):
            reason = "certificate.acme cannot be with domain localhost: its server looks the name up, and finds itself"
            raise ValueError(f"{reason} -> give the site a domain whose names lead to its gateways")
        if self.backend == "libvirt" and IPv4Address(self.listen).is_loopback:
            reason = f"certificate.acme cannot be with listen {self.listen}: its server could not ask the gateways"
            raise ValueError(f"{reason} -> listen on an address that it reaches")
        return self

    @property
    def cluster(self) -> Cluster:
        """The cluster of a site with backend proxmox; raises `ConfigError` for a site without one."""
        if self.proxmox is None:
            raise ConfigError("site", self.name, "is no Proxmox VE cluster", "name a site with backend: proxmox")
        return self.proxmox

    def all_tiers(self) -> dict[str, Tier]:
        """The built-in tiers and the site's own."""
        return {**TIERS, **self.tiers}


def without_secret(address: str) -> str:
    """An address of backups without what may be a password or a key; the same if there is none."""
    if address.startswith("/"):
        return address
    beginning, rest = _BEGINNING.fullmatch(unquote(address)).group("beginning", "rest")  # type: ignore[union-attr]
    # No path has an `@`: what stands before the last one says who comes.
    who, at, where = rest.rpartition("@")
    place, mark, _ = _QUERY.match(where).groups()  # type: ignore[union-attr]
    user, colon, _ = who.partition(":")
    is_sftp = beginning.startswith("sftp:")
    if at and (colon or not is_sftp):
        return f"{beginning}{user if is_sftp else ''}:***@{place}"
    # Behind a host is its port; in `sftp:host:folder`, its folder.
    host = place.partition("/")[0]
    if not _HOST.fullmatch(host) and not (beginning == "sftp:" and host.count(":") == 1):
        return f"{beginning}{who}{at}***"
    return f"{beginning}{who}{at}{place}{mark}***" if mark else address
