"""The hypervisor's firewall at each machine: the second guard, below the gateway's own. Pure.

Three programs compile these rules (`docs/cluster-isolation.md`), and the filter of addresses that comes with them holds
under two: so each rule that accepts names whose address it is about, and what no rule accepts is dropped by a rule, not
by the policy, which lets errors of ICMP pass. A rule without an address is compiled for IPv6 too.
"""

from dataclasses import dataclass, replace
from ipaddress import IPv4Address, IPv4Network
from typing import Literal
from urllib.parse import urlsplit

from deskyard.plan.workspace import HTTPS, DesktopPlan, WorkspacePlan

UPLINK, INSIDE = "net0", "net1"
# The programs that make kernel rules of these, one on each node: by iptables and ebtables, or by nftables.
IPTABLES, NFTABLES = "pve-firewall", "proxmox-firewall"


@dataclass(frozen=True)
class RulePlan:
    """A rule; the first that matches decides. Addresses may be lists, separated by commas."""

    direction: Literal["in", "out"]
    action: Literal["ACCEPT", "DROP"]
    comment: str
    iface: str | None = None
    source: str | None = None
    dest: str | None = None
    proto: str | None = None
    sport: str | None = None
    dport: str | None = None


# Each rule costs two calls, so these are few: all of IPv6 meets them, since no rule that accepts is compiled for it.
ALL_ELSE = (RulePlan("in", "DROP", "all else, IPv6 too"), RulePlan("out", "DROP", "all else, IPv6 too"))
# Nobody leases: DHCP between peers could only mislead. (The option `dhcp` accepts it before a look at MAC addresses.)
NO_DHCP = (
    RulePlan("in", "DROP", "DHCP", proto="udp", dport="67:68"),
    RulePlan("out", "DROP", "DHCP", proto="udp", dport="67:68"),
)


@dataclass(frozen=True)
class FirewallPlan:
    """The firewall of one machine; both policies are DROP. `own` maps a NIC to the only addresses it may send from."""

    ipfilter: bool
    own: dict[str, tuple[str, ...]]
    rules: tuple[RulePlan, ...]


def desktop_firewall(plan: WorkspacePlan, desktop: DesktopPlan) -> FirewallPlan:
    """A desktop is reached by its gateway alone, and sends to no neighbour unless peers are open."""
    gateway, settings, own = plan.network.gateway_address, plan.gateway.settings, desktop.address
    neighbours = plan.network.cidr
    # Frames for others are not for it, also where the bridge was made to believe that they are.
    rules = [
        RulePlan("in", "ACCEPT", "the gateway", source=gateway, dest=own),
        RulePlan("out", "ACCEPT", "the gateway", source=own, dest=gateway),
    ]
    if desktop.isolated:
        rules.append(RulePlan("out", "DROP", "neighbours", dest=neighbours))
    else:
        rules += [
            *NO_DHCP,
            RulePlan("in", "ACCEPT", "peers", source=neighbours, dest=own),
            RulePlan("out", "ACCEPT", "peers", source=own, dest=neighbours),
        ]
    way_out = _way_out(plan, settings.egress, own)
    return FirewallPlan(ipfilter=True, own={UPLINK: (own,)}, rules=(*rules, *way_out, *ALL_ELSE))


def gateway_firewall(plan: WorkspacePlan) -> FirewallPlan:
    """The gateway's own door and way out; what it forwards has any address, so no set binds its inner NIC.

    Answers from outside need no rule: they belong to connections that desktops began.
    """
    settings = plan.gateway.settings
    inside, door, own = plan.network.cidr, settings.uplink_address, plan.network.gateway_address
    resolvers = ",".join(settings.resolvers)
    names = RulePlan("out", "ACCEPT", "names", iface=UPLINK, source=door, dest=resolvers, dport="53")
    rules = [
        RulePlan("in", "ACCEPT", "the door", iface=UPLINK, dest=door, proto="tcp", dport=str(plan.gateway.port)),
        RulePlan(
            "in",
            "ACCEPT",
            "management",
            iface=UPLINK,
            source=",".join(settings.operators),
            dest=door,
            proto="tcp",
            dport="22",
        ),
        RulePlan("in", "ACCEPT", "desktops", iface=INSIDE, source=inside),
        RulePlan("out", "ACCEPT", "desktops", iface=INSIDE, source=own, dest=inside),
        replace(names, proto="udp"),
        replace(names, proto="tcp"),
    ]
    answers, order = _certificate_orders(plan)
    rules += answers
    if settings.egress != "none":
        rules += _exceptions(plan, UPLINK, door)
        order = [RulePlan("out", "ACCEPT", "the internet", iface=UPLINK, source=door)]
    if order:
        rules.append(_denied(plan, UPLINK))
        rules.append(RulePlan("out", "DROP", "the site's own network", iface=UPLINK, dest=plan.uplink.cidr))
        rules += order
    return FirewallPlan(ipfilter=False, own={UPLINK: (door,)}, rules=(*rules, *ALL_ELSE))


def _certificate_orders(plan: WorkspacePlan) -> tuple[list[RulePlan], list[RulePlan]]:
    """A gateway that orders its certificate: what may be reached wherever it is, and what of the internet.

    It is asked on port 80. A server that is known by its address alone may be in a private network; where one is that
    has a name is not known here.
    """
    settings = plan.gateway.settings
    if settings.acme is None:
        return [], []
    server = urlsplit(settings.acme.directory)
    door = settings.uplink_address
    asked = RulePlan("in", "ACCEPT", "ACME asks", iface=UPLINK, dest=door, proto="tcp", dport="80")
    order = RulePlan("out", "ACCEPT", "ACME", iface=UPLINK, source=door, proto="tcp", dport=str(server.port or HTTPS))
    try:
        return [asked, replace(order, dest=str(IPv4Address(server.hostname or "")))], []
    except ValueError:
        return [asked], [order]


def _way_out(plan: WorkspacePlan, egress: str, own: str) -> list[RulePlan]:
    """Where a desktop's packets may be meant for, by way of the gateway, which decides."""
    if egress == "open":
        return [
            *_exceptions(plan, None, own),
            _denied(plan, None),
            RulePlan("out", "ACCEPT", "the internet, by the gateway", source=own),
        ]
    if egress == "locked":
        # Names with a port of their own have an address of the gateway each.
        networks = ",".join(plan.gateway.settings.egress_rules.forward_networks)
        return [RulePlan("out", "ACCEPT", "names with a port", source=own, dest=networks)]
    return []


def _exceptions(plan: WorkspacePlan, iface: str | None, own: str) -> list[RulePlan]:
    found = ",".join(str(IPv4Network(exception)) for exception in plan.gateway.settings.egress_rules.exceptions)
    return [RulePlan("out", "ACCEPT", "the site's exceptions", iface=iface, source=own, dest=found)] if found else []


def _denied(plan: WorkspacePlan, iface: str | None) -> RulePlan:
    return RulePlan("out", "DROP", "private", iface=iface, dest=",".join(plan.gateway.settings.denied_networks))
