"""Probes of a desktop on its own network: neighbours, its gateway's ports, frames that lie. Pure."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from deskyard.plan.isolation import frames
from deskyard.plan.isolation.cluster import rule_text
from deskyard.plan.isolation.forgeries import forgeries
from deskyard.plan.isolation.probe import GATEWAY, Catalogue, Expected, frame, machine, tcp, udp
from deskyard.plan.proxmox.firewall import desktop_firewall
from deskyard.plan.workspace import DesktopPlan, WorkspacePlan
from deskyard.wire.computer import HALT_PORT

# Every desktop is tried by so many neighbours.
NEIGHBOURS = 8
VNET = "cluster: VNet: is of this workspace alone"
GATEWAY_PORTS = (22, 53, 80, 443, 8700, 9999)


def peers(catalogue: Catalogue, desktop: DesktopPlan) -> None:
    """Neighbours of the same workspace: by connection, by datagram, and around the bridge through the gateway."""
    others = [other for other in catalogue.plan.desktops if other.name != desktop.name]
    at = next((n for n, other in enumerate(catalogue.plan.desktops) if other.name == desktop.name), 0)
    ring = (others[at:] + others[:at])[:NEIGHBOURS]
    closed = desktop.isolated
    guards = near_guards(catalogue.plan, desktop)
    for other in ring:
        expected: Expected = "refused" if closed else "reached"
        # Neighbours that may reach each other may be of an image of before, where nothing listens to halt the agent.
        for port in (22, *other.routes.values(), *((HALT_PORT,) if closed else ())):
            action, what = tcp(other.address, port), f"port {port} of {other.name}"
            catalogue.add(desktop, "peers", what, action, expected, guards, (14,), ("open", "refused"))
        seen = (f"{machine(catalogue.plan, other.name)}/workspace/in",)
        catalogue.add(
            desktop,
            "peers",
            f"a datagram to {other.name}",
            partial(udp, other.address, 4789),
            expected,
            guards,
            (7,),
            witnesses=seen,
        )
        through = _hairpin(catalogue.plan, desktop, other)
        rules = ("gateway: chain forward: ip daddr @denied jump refuse", "gateway: chain forward: policy drop")
        what = f"a packet to {other.name} by way of the gateway"
        catalogue.add(desktop, "peers", what, through, "refused", rules, (3,), witnesses=seen)


def gateway_ports(catalogue: Catalogue, desktop: DesktopPlan) -> None:
    """The gateway's own ports: what the Plan opens and nothing else."""
    gateway = catalogue.plan.gateway
    rule = ("gateway: chain input: policy drop; chain from_workspace opens DHCP and DNS alone",)
    opened = {53} | ({80, 443} if catalogue.mode == "locked" else set())
    for port in GATEWAY_PORTS:
        for address in (gateway.workspace_address, gateway.uplink_address):
            fine = address == gateway.workspace_address and port in opened
            if fine and port != 53:
                continue  # what it does with names is the topic `egress`
            what = f"port {port} of the gateway at {address}"
            end: Expected = "reached" if fine else "refused"
            # A reset is what its firewall answers a desktop with.
            catalogue.add(desktop, "gateway", what, tcp(address, port), end, rule, (14,), ("open",))


def spoofing(catalogue: Catalogue, desktop: DesktopPlan) -> None:
    """Frames that lie, and protocols that nobody allowed."""
    near, truth = near_guards(catalogue.plan, desktop), truth_guards(catalogue.plan, desktop)
    far = catalogue.far_watchers()
    sources = ("gateway: chain forward: ether saddr . ip saddr @desktops", "gateway: chain forward: policy drop")
    others = tuple(
        catalogue.at(other.name, "workspace/in") for other in catalogue.plan.desktops if other.name != desktop.name
    )
    ways: dict[str, tuple[str, tuple[str, ...], tuple[str, ...]]] = {
        "its neighbours": ("network", near, (*others, *far)),
        "the gateway": ("network", truth, (catalogue.at(GATEWAY, "workspace/in"),)),
        "the uplink": ("outside", (), (catalogue.at(GATEWAY, "uplink/out"), *far)),
    }
    # What is known to reach neighbours must reach no other workspace all the same.
    apart = {**ways, "its neighbours": ("network", near, others), "other workspaces": ("network", (VNET,), far)}
    for forgery in forgeries(desktop, catalogue.plan):
        passes = bool(set(forgery.passes_under) & set(catalogue.facts.programs))
        for where, (place, guards, witnesses) in (apart if passes else ways).items():
            if (
                forgery.place == place
                and witnesses
                and (where == "the gateway" or place == "outside" or forgery.to_all)
            ):
                catalogue.add(
                    desktop,
                    "spoofing",
                    f"{forgery.what} -> {where}",
                    partial(frame, forgery.make),
                    "known" if passes and where != "other workspaces" else "refused",
                    (*forgery.guards, *(guards or (() if forgery.guards else (*truth, *sources)))),
                    forgery.threats,
                    witnesses=witnesses,
                )


def shouting(catalogue: Catalogue, ours: WorkspacePlan, desktop: DesktopPlan, others: Sequence[str]) -> None:
    """Lies to all, heard in no other workspace."""
    start, guards = machine(ours, desktop.name), (f"bridge: {ours.network.bridge} is of this workspace alone",)
    for forgery in forgeries(desktop, ours):
        if forgery.to_all:
            what, action = f"{forgery.what} -> other workspaces", partial(frame, forgery.make)
            catalogue.put(start, "spoofing", what, action, "refused", guards, forgery.threats, (), tuple(others))


def near_guards(plan: WorkspacePlan, desktop: DesktopPlan) -> tuple[str, ...]:
    """The guards between a desktop and the others of its network."""
    if plan.gateway.has_own_address:
        neighbours = [rule_text(rule) for rule in desktop_firewall(plan, desktop).rules if rule.comment == "neighbours"]
        rules = tuple(f"cluster: {desktop.name}: {rule}" for rule in neighbours)
        return rules or truth_guards(plan, desktop)
    port = f"port: {desktop.name} isolated on bridge {plan.network.bridge}"
    return (*truth_guards(plan, desktop), port) if desktop.isolated else truth_guards(plan, desktop)


def truth_guards(plan: WorkspacePlan, desktop: DesktopPlan) -> tuple[str, ...]:
    """The guards that keep a desktop to its own addresses."""
    if plan.gateway.has_own_address:
        return tuple(f"cluster: {desktop.name}: {what}" for what in ("IP set ipfilter-net0", "option macfilter"))
    return (f"filter: {plan.desktop_filter.name} on the NIC of {desktop.name}",)


def _hairpin(plan: WorkspacePlan, desktop: DesktopPlan, other: DesktopPlan) -> Callable[[bytes], dict[str, Any]]:
    def action(mark: bytes) -> bytes:
        packet = frames.ipv4(desktop.address, other.address, frames.UDP, frames.udp(4000, 9, mark))
        return frames.ethernet(plan.gateway.workspace_mac, desktop.mac, frames.IPV4, packet)

    return partial(frame, action)
