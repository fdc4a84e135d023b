"""A workspace: a tenant with its own network, gateway and desktops."""

from ipaddress import IPv4Network
from typing import Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from deskyard.model.base import Declaration, DnsLabel
from deskyard.model.care import MOST_PATHS, BackupSchedule, Care, KeptPath
from deskyard.model.customise import AgentProgram, Customise, Recording
from deskyard.model.egress import AllowEntry, AskEntry
from deskyard.model.idle import Idle
from deskyard.model.keys import MAX_KEYS, Encrypted, encrypted
from deskyard.model.pool import Pool
from deskyard.wire.egress_list import MAX_ENTRIES

PRIVATE_BLOCKS = tuple(IPv4Network(block) for block in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"))


class Desktop(Declaration):
    """A desktop of a workspace: persistent, or a seat at which disposable ones are made."""

    name: DnsLabel = Field(description="Name of the desktop, unique in the workspace; a DNS label.")
    tier: str = Field("free", description="Tier that caps CPU, memory and disk: free, pro, max or one of the site.")
    image: DnsLabel | None = Field(None, description="Image of this desktop; that of the workspace if left out.")
    lifetime: Literal["persistent", "task"] = Field(
        "persistent",
        description="persistent: made by workspace.up, and kept until it is named for removal. task: a seat, at which "
        "desktop.run and the pool make desktops one after another; each goes with all its data when it is released.",
    )
    host_number: int | None = Field(
        None,
        ge=10,
        le=126,
        description="Last part of the desktop's address; chosen from the name if left out.",
    )
    keys: tuple[DnsLabel, ...] = Field(
        (),
        max_length=MAX_KEYS,
        repr=False,
        description="Names of the workspace's keys that this desktop gets, besides shared_keys.",
    )
    customise: Customise | None = Field(
        None, description="Files, environment and scripts of this desktop, laid over those of the workspace."
    )
    agent: AgentProgram | Literal["none"] | None = Field(
        None, description="The agent that its tasks go to; that of the workspace if left out. none: it has none."
    )
    idle: Idle | Literal["never"] | None = Field(
        None, description="When it is stopped because nobody uses it; as its tier says if left out. never: it is not."
    )
    backup: BackupSchedule | Literal["never"] | None = Field(
        None,
        description="How often care.run backs it up; as its tier says if left out. never: nor before it goes.",
    )
    recording: Recording | Literal["off"] | None = Field(
        None, description="Whether its screen is recorded; as its workspace says if left out. off: it is not."
    )
    keep: tuple[KeptPath, ...] = Field(
        (),
        max_length=MOST_PATHS,
        description="Files and folders of /etc that outlive desktop.upgrade, as far as somebody changed them.",
    )

    @model_validator(mode="after")
    def _ends_otherwise(self) -> Self:
        if self.lifetime == "task" and isinstance(self.idle, Idle):
            raise ValueError("idle is for desktops that are kept -> leave it out: desktop.release ends this one")
        if self.lifetime == "task" and isinstance(self.backup, BackupSchedule):
            raise ValueError("backup is for desktops that are kept -> leave it out: what is at a seat is for one task")
        return self


class Workspace(Declaration):
    """The declaration in `Pulumi.<workspace>.yaml`, without the `deskyard:` prefix of the keys."""

    name: DnsLabel = Field(description="Name of the workspace: the name of the stack.")
    site: DnsLabel = Field("local", description="Site that runs the workspace.")
    network: IPv4Network = Field(
        description="Private /24 of this workspace alone: first half desktops, last eight the gateway's uplink."
    )
    gateway_port: int = Field(
        8443,
        ge=1024,
        le=65535,
        description="TCP port on the site's listen address that leads to the gateway.",
    )
    egress: Literal["open", "locked", "none"] = Field(
        "open",
        description="open: the internet without private, metadata and host ranges. locked: only the names in "
        "egress_allow. none: nothing.",
    )
    egress_allow: tuple[AllowEntry, ...] = Field(
        (),
        max_length=MAX_ENTRIES,
        description="Names that a locked workspace reaches: docs.example.org, *.example.org (all names below it), "
        "git.example.org:22 (another port than the web's 80 and 443).",
    )
    egress_ask: tuple[AskEntry, ...] = Field(
        (),
        max_length=MAX_ENTRIES,
        description="Names that a locked workspace reaches when a person allows it: a connection is held, and "
        "./inv egress.ask shows it. api.stripe.com, *.example.com; on the web's ports alone.",
    )
    peers: Literal["closed", "open"] = Field(
        "closed", description="closed: desktops do not reach each other. open: desktops of this workspace may."
    )
    image: DnsLabel = Field(
        "desktop", description="Image that new desktops are made from: desktop, or a custom image of images/."
    )
    desktops: tuple[Desktop, ...] = Field(min_length=1, max_length=100, description="The desktops.")
    pool: Pool | None = Field(None, description="Desktops with lifetime: task that are booted ahead; none if left out.")
    keys: dict[DnsLabel, Encrypted] | None = Field(
        None,
        max_length=MAX_KEYS,
        repr=False,
        description="The owner's keys (anthropic, openai, any name), encrypted: ./inv desktop.set-key WORKSPACE NAME "
        "writes them. A desktop gets those that it names, and those of shared_keys. {} takes all keys back.",
    )
    shared_keys: tuple[DnsLabel, ...] = Field(
        (), max_length=MAX_KEYS, repr=False, description="Names of the keys that every desktop gets."
    )
    customise: Customise | None = Field(None, description="Files, environment and scripts of every desktop.")
    agent: AgentProgram | Literal["none"] | None = Field(
        None, description="The agent that the desktops' tasks go to; OpenClaw, where the image has it, if left out."
    )
    recording: Recording | Literal["off"] | None = Field(
        None, description="Whether the desktops' screens are recorded, and what is kept; off, if left out."
    )
    keep: tuple[KeptPath, ...] = Field(
        (), max_length=MOST_PATHS, description="What every desktop keeps of /etc, besides what it names itself."
    )
    care: Care | None = Field(
        None, description="Updates, restarts and clean-up by ./inv care.run; as it stands if left out."
    )

    @field_validator("network")
    @classmethod
    def _private_24(cls, network: IPv4Network) -> IPv4Network:
        if network.prefixlen != 24:
            raise ValueError("must be a /24 -> write for example 10.80.1.0/24")
        if not any(network.subnet_of(block) for block in PRIVATE_BLOCKS):
            raise ValueError("is not a private range -> take a /24 inside 10/8, 172.16/12 or 192.168/16")
        return network

    @field_validator("egress_allow", "egress_ask")
    @classmethod
    def _each_entry_once(cls, entries: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(entries))

    @field_validator("keys", mode="before")
    @classmethod
    def _no_key_in_plain_text(cls, keys: Any) -> Any:
        return encrypted(keys)

    @model_validator(mode="after")
    def _list_has_its_mode(self) -> Self:
        for key, entries in (("egress_allow", self.egress_allow), ("egress_ask", self.egress_ask)):
            if entries and self.egress != "locked":
                raise ValueError(
                    f"{key} has no meaning with egress: {self.egress} -> write egress: locked, or remove the list"
                )
        for entry in self.egress_ask:
            if entry in self.egress_allow:
                raise ValueError(f"{entry!r} is on egress_allow and on egress_ask -> keep it on the list that you mean")
        return self

    @model_validator(mode="after")
    def _unique_desktops(self) -> Self:
        seen: set[str] = set()
        for desktop in self.desktops:
            if desktop.name == "gateway":
                raise ValueError("'gateway' is the name of the workspace's gateway -> choose another desktop name")
            if desktop.name in seen:
                raise ValueError(f"desktop name {desktop.name!r} is used twice -> give each desktop its own name")
            seen.add(desktop.name)
        numbers = [desktop.host_number for desktop in self.desktops if desktop.host_number is not None]
        if len(numbers) != len(set(numbers)):
            raise ValueError("two desktops have the same host_number -> give each its own or leave it out")
        return self

    @model_validator(mode="after")
    def _pool_has_seats(self) -> Self:
        seats = len(self.desktops) - len(self.persistent())
        if self.pool is not None and self.pool.size > seats:
            raise ValueError(
                f"pool keeps {self.pool.size} desktops ready, and {seats} of the desktops have lifetime: task -> "
                "declare more of them, or a smaller size"
            )
        return self

    @model_validator(mode="after")
    def _known_keys(self) -> Self:
        choices = ", ".join(self.keys or ()) or "none"
        named = {f"keys of desktop {desktop.name!r}": desktop.keys for desktop in self.desktops}
        named["shared_keys"] = self.shared_keys
        for where, names in named.items():
            for place, name in enumerate(names):
                # It is not shown: somebody may have written the key itself where its name belongs.
                if name not in (self.keys or {}):
                    raise ValueError(
                        f"{where}: entry {place + 1} names no key of this workspace (it has: {choices}) -> "
                        f"correct the name, or first ./inv desktop.set-key {self.name} NAME"
                    )
        return self

    def persistent(self) -> tuple[Desktop, ...]:
        """The desktops that stay: all but the seats."""
        return tuple(desktop for desktop in self.desktops if desktop.lifetime == "persistent")

    def keys_of(self, desktop: Desktop) -> tuple[str, ...]:
        """The names of the keys that a desktop gets, in order."""
        return tuple(sorted({*self.shared_keys, *desktop.keys}))
