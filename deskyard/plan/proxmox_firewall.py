"""What the hypervisor's firewall lets pass at each machine: the second guard, below the gateway's own. Pure.

It works on addresses, not on frames: it cannot demand that a packet leaves by the gateway's MAC address, nor see ARP
between neighbours. For that there is `isolate_ports` on the VNet, within a node, and across nodes the rule here that
neighbours' addresses are refused both ways.
"""

from dataclasses import dataclass, replace
from ipaddress import IPv4Address, IPv4Network
from typing import Literal
from urllib.parse import urlsplit

from deskyard.plan.workspace import HTTPS, DesktopPlan, WorkspacePlan

UPLINK, INSIDE = "net0", "net1"


@dataclass(frozen=True)
class RulePlan:
    """One rule; the first that matches decides. Addresses may be lists, separated by commas."""

    direction: Literal["in", "out"]
    action: Literal["ACCEPT", "DROP"]
    comment: str
    iface: str | None = None
    source: str | None = None
    dest: str | None = None
    proto: str | None = None
    sport: str | None = None
    dport: str | None = None


@dataclass(frozen=True)
class FirewallPlan:
    """The firewall of one machine; both policies are DROP. `own` maps a NIC to the only addresses it may send from."""

    dhcp: bool
    ipfilter: bool
    own: dict[str, tuple[str, ...]]
    rules: tuple[RulePlan, ...]


def desktop_firewall(plan: WorkspacePlan, desktop: DesktopPlan) -> FirewallPlan:
    """A desktop is reached by its gateway alone, and sends to no neighbour unless peers are open."""
    gateway, settings = plan.network.gateway_address, plan.gateway.settings
    neighbours = plan.network.cidr
    rules = [
        RulePlan("in", "ACCEPT", "the gateway", source=gateway),
        RulePlan("out", "ACCEPT", "the gateway", dest=gateway),
    ]
    if not desktop.isolated:
        rules += [
            RulePlan("in", "DROP", "no DHCP server but the gateway", proto="udp", sport="67"),
            RulePlan("in", "ACCEPT", "peers", source=neighbours),
            RulePlan("out", "DROP", "no DHCP server but the gateway", proto="udp", sport="67"),
            RulePlan("out", "ACCEPT", "peers", dest=neighbours),
        ]
    else:
        rules.append(RulePlan("out", "DROP", "neighbours", dest=neighbours))
    return FirewallPlan(
        dhcp=True,
        ipfilter=True,
        own={UPLINK: (desktop.address,)},
        rules=(*rules, *_way_out(plan, settings.egress)),
    )


def gateway_firewall(plan: WorkspacePlan) -> FirewallPlan:
    """The gateway's own door and way out; what it forwards has any address, so its inner NIC is bound to none."""
    settings = plan.gateway.settings
    inside, door = plan.network.cidr, settings.uplink_address
    resolvers = ",".join(settings.resolvers)
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
        RulePlan("in", "ACCEPT", "DHCP", iface=INSIDE, proto="udp", sport="68", dport="67"),
        RulePlan("in", "ACCEPT", "desktops", iface=INSIDE, source=inside),
        RulePlan("out", "ACCEPT", "DHCP", iface=INSIDE, proto="udp", sport="67", dport="68"),
        RulePlan("out", "ACCEPT", "desktops", iface=INSIDE, dest=inside),
        RulePlan("out", "ACCEPT", "names", iface=UPLINK, dest=resolvers, proto="udp", dport="53"),
        RulePlan("out", "ACCEPT", "names", iface=UPLINK, dest=resolvers, proto="tcp", dport="53"),
    ]
    answers, order = _certificate_orders(plan)
    rules += answers
    if settings.egress != "none":
        rules += _exceptions(plan, UPLINK)
        order = [RulePlan("out", "ACCEPT", "the internet", iface=UPLINK)]
    if order:
        rules.append(_denied(plan, UPLINK))
        rules.append(RulePlan("out", "DROP", "the site's own network", iface=UPLINK, dest=plan.uplink.cidr))
        rules += order
    return FirewallPlan(dhcp=False, ipfilter=False, own={UPLINK: (door,)}, rules=tuple(rules))


def _certificate_orders(plan: WorkspacePlan) -> tuple[list[RulePlan], list[RulePlan]]:
    """A gateway that orders its certificate: what may be reached wherever it is, and what of the internet.

    It is asked on port 80. A server that is known by its address alone may be in a private network; where one is that
    has a name is not known here.
    """
    settings = plan.gateway.settings
    if settings.acme is None:
        return [], []
    server = urlsplit(settings.acme["directory"])
    asked = RulePlan("in", "ACCEPT", "ACME asks", iface=UPLINK, dest=settings.uplink_address, proto="tcp", dport="80")
    order = RulePlan("out", "ACCEPT", "ACME", iface=UPLINK, proto="tcp", dport=str(server.port or HTTPS))
    try:
        return [asked, replace(order, dest=str(IPv4Address(server.hostname or "")))], []
    except ValueError:
        return [asked], [order]


def _way_out(plan: WorkspacePlan, egress: str) -> list[RulePlan]:
    """Where a desktop's packets may be meant for, by way of the gateway, which decides."""
    if egress == "open":
        return [
            *_exceptions(plan, None),
            _denied(plan, None),
            RulePlan("out", "ACCEPT", "the internet, by the gateway"),
        ]
    if egress == "locked":
        # Names with a port of their own have an address of the gateway each.
        networks = ",".join(plan.gateway.settings.egress_rules.forward_networks)
        return [RulePlan("out", "ACCEPT", "names with a port", dest=networks)]
    return []


def _exceptions(plan: WorkspacePlan, iface: str | None) -> list[RulePlan]:
    found = [str(IPv4Network(one)) for one in plan.gateway.settings.egress_rules.exceptions]
    return [RulePlan("out", "ACCEPT", "the site's exceptions", iface=iface, dest=",".join(found))] if found else []


def _denied(plan: WorkspacePlan, iface: str | None) -> RulePlan:
    return RulePlan("out", "DROP", "private", iface=iface, dest=",".join(plan.gateway.settings.denied_networks))
