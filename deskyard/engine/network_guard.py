"""Stops a run on a cluster that would cut machines off from their network, before anything is touched.

The API removes a VNet below running machines without a word, and refuses to move a NIC whose old bridge the token may
not use: a bridge that is no VNet any more is one of the zone `localnetwork` (qemu-server, check_bridge_access).
"""

from collections.abc import Callable, Sequence

from deskyard.declaration.declaration import Declared
from deskyard.engine.change import GONE, VM, Change
from deskyard.engine.leftovers import VNET, StateIds
from deskyard.errors import ConfigError, SiteError
from deskyard.plan.proxmox.workspace import VmPlan
from deskyard.plan.workspace import GATEWAY
from deskyard.site.proxmox import sdn
from deskyard.site.proxmox.client import Client, connect
from deskyard.site.proxmox.machine import node_of, vm_path
from deskyard.site.proxmox.wiring import bridges

USE = "SDN.Use"


def check(declared: Declared, state_ids: Callable[[], StateIds], steps: Sequence[Change]) -> None:
    """Raise `ConfigError` if the network would be replaced below machines, `SiteError` if a NIC could not be moved."""
    assert declared.on_cluster is not None
    if any(step.type == VNET and step.operation in GONE for step in steps) and state_ids().machines:
        name = declared.workspace.name
        reason = f"this run would replace the network of {name} below its machines, which would be cut off"
        remedy = "put zone and tags of the site back as they were, or destroy the workspace first"
        raise ConfigError(f"site {declared.site.name}: proxmox.zone", declared.site.cluster.zone.name, reason, remedy)
    moved = {
        step.name
        for step in steps
        if step.type == VM and any(difference.startswith("network") for difference in step.differences)
    }
    mine = [vm for vm in declared.on_cluster.machines() if _resource(declared, vm) in moved]
    if mine:
        _require_old_bridges(connect(declared.site), mine)


def _require_old_bridges(client: Client, machines: Sequence[VmPlan]) -> None:
    zones = {str(row["vnet"]): str(row.get("zone") or "") for row in sdn.vnets(client) if row.get("state") != "deleted"}
    for vm in machines:
        node = node_of(client, vm.vm_id)
        config = {} if node is None else client.get(f"{vm_path(node, vm.vm_id)}/config")
        planned = {nic.bridge for nic in vm.nics}
        for bridge in bridges(config):
            path = f"/sdn/zones/{zones.get(bridge) or 'localnetwork'}/{bridge}"
            if bridge not in planned and USE not in client.get("access/permissions", path=path).get(path, {}):
                reason = f"the NIC of {vm.owner.vm_name} is on {bridge}, and the token may not take it from there"
                user = client.token.id.partition("!")[0]
                remedy = f"pveum acl modify {path} --users {user} --roles DeskyardUplink   # until it is moved"
                raise SiteError("token", client.token.id, reason, remedy)


def _resource(declared: Declared, vm: VmPlan) -> str:
    """The name of its machine among the resources."""
    part = GATEWAY if vm.owner.machine == GATEWAY else f"desktop-{vm.owner.machine}"
    return f"{declared.workspace.name}-{part}-machine"
