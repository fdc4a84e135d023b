"""The catalogue of `workspace.verify`: every probe with its expected end and the rules that see to it. Pure."""

from collections.abc import Sequence
from functools import partial

from deskyard.plan.isolation import beyond as beyond
from deskyard.plan.isolation import near as near
from deskyard.plan.isolation.cluster import rule_text
from deskyard.plan.isolation.probe import (
    GATEWAY,
    HERE,
    HOST,
    Catalogue,
    HostFacts,
    Probe,
    dns,
    machine,
    ping,
    tcp,
    udp,
    watched,
)
from deskyard.plan.proxmox.firewall import gateway_firewall
from deskyard.plan.workspace import DesktopPlan, WorkspacePlan
from deskyard.wire.routes import DESKTOP


def probes(plan: WorkspacePlan, facts: HostFacts, mark: str, against: WorkspacePlan | None = None) -> tuple[Probe, ...]:
    """Everything that is tried, in the order of its numbers; `mark` is the prefix of this run's marks."""
    catalogue = Catalogue(plan, facts, mark, against)
    for desktop in plan.desktops:
        _must_work(catalogue, desktop)
        near.peers(catalogue, desktop)
        near.gateway_ports(catalogue, desktop)
        beyond.host_ports(catalogue, desktop)
        beyond.private_ranges(catalogue, desktop)
        beyond.egress(catalogue, desktop)
        near.spoofing(catalogue, desktop)
    _from_the_gateway(catalogue)
    _from_the_host(catalogue)
    if against is not None:
        for desktop in plan.desktops:
            beyond.strangers(catalogue, plan, desktop, against)
        for desktop in against.desktops:
            beyond.strangers(catalogue, against, desktop, plan)
    return tuple(catalogue.probes)


def between(plans: Sequence[WorkspacePlan], mark: str) -> tuple[Probe, ...]:
    """From the first desktop of each workspace: everything of every other, and frames that nobody else may see."""
    catalogue = Catalogue(plans[0], HostFacts(), mark, None)
    places = {plan.name: [f"{name}/{nic}/in" for name, nics in watched(plan).items() for nic in nics] for plan in plans}
    # A workspace may have seats alone, and nobody at them.
    for ours in [plan for plan in plans if plan.desktops]:
        desktop = ours.desktops[0]
        for theirs in plans:
            if theirs.name != ours.name:
                beyond.strangers(catalogue, ours, desktop, theirs, beyond.FOREIGN_PORTS[:1])
        others = [place for name, found in places.items() if name != ours.name for place in found]
        near.shouting(catalogue, ours, desktop, others)
    return tuple(catalogue.probes)


def _must_work(catalogue: Catalogue, desktop: DesktopPlan) -> None:
    """Names, and the watchers themselves: a watcher that sees nothing would make every refusal look good."""
    at = catalogue.plan.gateway.workspace_address
    rule = ("gateway: chain from_workspace: ... udp dport 53 accept",)
    for name, address in ((desktop.name, desktop.address), (GATEWAY, at)):
        action = dns(at, name)
        catalogue.add(desktop, "names", f"the gateway knows {name}", action, "reached", rule, reached_by=(address,))
    catalogue.add(
        desktop,
        "watchers",
        "the gateway's watcher sees an honest datagram",
        partial(udp, at, 53),
        "reached",
        rule,
        witnesses=(catalogue.at(GATEWAY, "workspace/in"),),
    )


def _from_the_gateway(catalogue: Catalogue) -> None:
    """Add what the gateway tries: its routes to the desktops are open, and nothing else is."""
    start = machine(catalogue.plan, GATEWAY)
    routes = ("gateway: chain output: ip daddr . tcp dport @routes ct state new accept",)
    output = ("gateway: chain output: policy drop",)
    for desktop in catalogue.plan.desktops:
        for route, port in {"ssh": 22, **desktop.routes}.items():
            what = f"route {route} of {desktop.name}"
            # Nobody may listen there in a desktop of an older image: then it is the desktop itself that refuses.
            open_to = ("open",) if route in ("ssh", *desktop.awaited) else ("open", "refused")
            catalogue.put(start, "routes", what, tcp(desktop.address, port), "reached", routes, reached_by=open_to)
        what = f"a port of {desktop.name} that is no route"
        action = tcp(desktop.address, 9999)
        catalogue.put(start, "routes", what, action, "refused", output, reached_by=("open", "refused"))
        catalogue.put(
            start,
            "watchers",
            f"{desktop.name}'s watcher sees the gateway",
            partial(ping, desktop.address),
            "reached",
            ("gateway: chain output: icmp type echo-request accept",),
            witnesses=(f"{machine(catalogue.plan, desktop.name)}/workspace/in",),
        )
    host = catalogue.plan.uplink.host_address or ""
    for port in (22, 8006, 16509):
        action = tcp(host, port)
        catalogue.put(start, "host", f"port {port} of the host", action, "refused", output, (14,), ("open", "refused"))


def _from_the_host(catalogue: Catalogue) -> None:
    """The door answers; the gateway's other ports do not, not even to the host."""
    gateway = catalogue.plan.gateway
    name = gateway.settings.hostname
    address, ways = gateway.listen, ["host: the forward to the gateway"]
    if gateway.has_own_address:
        rules = [rule_text(rule) for rule in gateway_firewall(catalogue.plan).rules if rule.comment == "the door"]
        address, ways = gateway.uplink_address, [f"cluster: gateway: {rule}" for rule in rules]
    door = {"do": "tls", "address": address, "port": gateway.port, "name": name}
    catalogue.put(HERE, "door", f"the door of {catalogue.plan.name}", door, "reached", tuple(ways), (), ("handshake",))
    ssh, way = tcp(gateway.uplink_address, 22), ("gateway: chain input: ip saddr host ... tcp dport 22 accept",)
    catalogue.put(HOST, "door", "the host manages its gateway", ssh, "reached", way, (), ("open",))
    rule = ("gateway: chain input: policy drop",)
    # Port 80 is where an ACME server looks for the gateway, if it is to have its certificate from one.
    asked = gateway.settings.acme is not None
    if asked:
        action, way = tcp(gateway.uplink_address, 80), ("gateway: chain input: ... tcp dport 80 jump https",)
        catalogue.put(HOST, "door", "an ACME server asks the gateway", action, "reached", way, (), ("open",))
    for port in (53, *(() if asked else (80,)), DESKTOP.port, 8700, 9999):
        action = tcp(gateway.uplink_address, port)
        what = f"port {port} of the gateway's uplink"
        catalogue.put(HOST, "gateway", what, action, "refused", rule, (14,), ("open", "refused"))
