"""Clashes: what two workspaces would share that must be of one alone. Pure."""

from deskyard.plan.workspace import WorkspacePlan


def shared(first: WorkspacePlan, other: WorkspacePlan) -> dict[str, set[str]]:
    """By kind: the addresses, MACs, bridges and names of libvirt that both Plans claim.

    MACs and bridges are made from names and are short, so two names can have the same, if rarely.
    """
    mine, theirs = _claims(first), _claims(other)
    return {kind: both for kind, values in mine.items() if (both := values & theirs[kind])}


def _claims(plan: WorkspacePlan) -> dict[str, set[str]]:
    gateway, desktops = plan.gateway, (*plan.desktops, *plan.seats)
    return {
        "address": {
            gateway.workspace_address,
            gateway.uplink_address,
            plan.uplink.host_address or "",
            *(desktop.address for desktop in desktops),
        },
        "MAC": {gateway.workspace_mac, gateway.uplink_mac, *(desktop.mac for desktop in desktops)},
        "bridge": {plan.network.bridge, plan.uplink.bridge},
        "machine": {plan.gateway.machine.domain, *(desktop.machine.domain for desktop in desktops)},
        "network": {plan.network.name, plan.uplink.name},
        "filter": {plan.desktop_filter.name, plan.gateway_filter.name},
    }
