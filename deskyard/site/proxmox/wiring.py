"""Which machine is on which network: the list of a cluster's machines does not say, each one's configuration does."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace

from deskyard.errors import SiteError
from deskyard.plan.proxmox.claims import own_vnet
from deskyard.plan.proxmox.view import ClusterView, Owner, SeenMachine, pool_of
from deskyard.plan.workspace import GATEWAY
from deskyard.site.proxmox.client import Client
from deskyard.site.proxmox.each import ask_each
from deskyard.site.proxmox.machine import vm_path

_NIC, _BRIDGE = re.compile(r"net(\d+)"), re.compile(r"(?:^|,)bridge=([^,]+)")


def bridges(config: Mapping[str, object]) -> tuple[str, ...]:
    """The bridges of the NICs in the configuration of a machine or container, in the order of the NICs."""
    nics = sorted((int(found[1]), str(value)) for key, value in config.items() if (found := _NIC.fullmatch(key)))
    return tuple(found[1] for _, nic in nics if (found := _BRIDGE.search(nic)))


def wired(client: Client, view: ClusterView, site: str, workspace: str) -> ClusterView:
    """The view with what tells the VNet of a workspace: one call where its gateway is there and its alias as made.

    All machines of the cluster are asked only where a VNet was made for the workspace and none of its own is on it.
    """
    gateway = view.machine_of(Owner(site, workspace, GATEWAY))
    view = _asked(client, view, [gateway] if gateway else [])
    if own_vnet(site, workspace, view) is None or not view.wires:
        view = _asked(client, view, view.machines_of(site, workspace))
    own = {vnet.name for vnet in view.vnets if vnet.alias == pool_of(site, workspace)}
    if own - {bridge for wires in view.wires.values() for bridge in wires}:
        view = _asked(client, view, (machine for machine in view.machines if not machine.template))
    return view


def _asked(client: Client, view: ClusterView, machines: Iterable[SeenMachine]) -> ClusterView:
    """The view with the NICs of these machines, too."""
    new = [machine for machine in machines if machine.vm_id not in view.wires]
    found = ask_each(new, lambda machine: _of(client, machine))
    return replace(view, wires={**view.wires, **{machine.vm_id: nics for machine, nics in found if nics is not None}})


def _of(client: Client, machine: SeenMachine) -> tuple[str, ...] | None:
    path = vm_path(machine.node, machine.vm_id)
    try:
        return bridges(client.get(f"{path.replace('/qemu/', '/lxc/') if machine.container else path}/config"))
    except SiteError:
        # It is gone by now, or its node is away: then nothing is known of it.
        return None
