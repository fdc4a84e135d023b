"""The way out of a workspace: where no desktop may go, which names have which address, how fast."""

from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network

from deskyard.errors import ConfigError
from deskyard.model.site import Site
from deskyard.model.tier import Tier
from deskyard.model.workspace import Workspace
from deskyard.wire.egress_list import parse
from deskyard.wire.egress_rules import EgressRules, Forward, forwards

DENIED_NETWORKS = (
    "0.0.0.0/8",  # this network
    "10.0.0.0/8",  # private (RFC 1918)
    "100.64.0.0/10",  # carrier-grade NAT (RFC 6598); holds 100.100.100.200, a metadata address
    "127.0.0.0/8",  # loopback
    "168.63.129.16/32",  # a cloud's metadata and wire server
    "169.254.0.0/16",  # link-local; holds 169.254.169.254, the usual metadata address
    "172.16.0.0/12",  # private
    "192.0.0.0/24",  # protocol assignments
    "192.168.0.0/16",  # private
    "198.18.0.0/15",  # benchmarking (RFC 2544), used inside companies
    "224.0.0.0/3",  # multicast, reserved, broadcast
)
FORWARD_NETWORKS = ((128, 26), (192, 27), (224, 28), (240, 29))
"""The second half of the workspace's /24 without the uplink: first address and prefix of each part."""


def denied_networks(site: Site, host: Sequence[IPv4Address] = ()) -> tuple[str, ...]:
    """Where a desktop may never go, whatever its egress mode: what the site adds, and the addresses of its host."""
    named = (*DENIED_NETWORKS, *(str(network) for network in site.egress_denied))
    networks = [IPv4Network(network) for network in named]
    return (*named, *(f"{address}/32" for address in host if not any(address in network for network in networks)))


def plan_egress(workspace: Workspace, site: Site, tiers: dict[str, Tier]) -> EgressRules:
    """Work out the way out; `tiers` maps the address of each desktop to its tier."""
    base = workspace.network.network_address
    networks = tuple(f"{base + first}/{prefix}" for first, prefix in FORWARD_NETWORKS)
    for exception in site.egress_exceptions:
        if exception.overlaps(workspace.network):
            reason = f"overlaps the network of workspace {workspace.name} ({workspace.network})"
            raise ConfigError("egress_exceptions", str(exception), reason, "name a narrower network")
    return EgressRules(
        allow=workspace.egress_allow,
        forwards=_forwards(workspace, networks),
        forward_networks=networks,
        exceptions=tuple(str(network) for network in site.egress_exceptions),
        ask=workspace.egress_ask,
        rates={address: tier.connections_per_second for address, tier in tiers.items()},
    )


def _forwards(workspace: Workspace, networks: tuple[str, ...]) -> tuple[Forward, ...]:
    entries = [parse(text) for text in workspace.egress_allow]
    names = {entry.name for entry in entries if entry.needs_forward}
    room = sum(IPv4Network(network).num_addresses for network in networks)
    if len(names) > room:
        reason = f"has {len(names)} names with a port of their own; a workspace has addresses for {room}"
        raise ConfigError("egress_allow", None, reason, "take some away, or divide the work among workspaces")
    return forwards(entries, networks)
