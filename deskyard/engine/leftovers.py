"""Leftovers of an interrupted run on a cluster: made, but not yet known to Pulumi's state.

A machine is protected before its first start, so that one without protection that stands still has never run: it is
removed and made again. Whatever runs or is protected may be somebody's work and is never touched: either the state was
lost, or the same workspace was made from elsewhere.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from deskyard.engine.change import VM
from deskyard.errors import SiteError
from deskyard.host.progress import say
from deskyard.model.site import Site
from deskyard.plan.proxmox.seat_words import is_at_a_seat
from deskyard.plan.proxmox.view import ClusterView, SeenMachine, pool_of
from deskyard.site.proxmox import sdn
from deskyard.site.proxmox.client import Client, connect, quoted
from deskyard.site.proxmox.machine import is_running, vm_path
from deskyard.site.proxmox.machines import look
from deskyard.site.proxmox.task import wait_removal

VNET, POOL = "proxmoxve:sdn/vnet:Vnet", "proxmoxve:index/poolLegacy:PoolLegacy"
RULES = "proxmoxve:firewall/rulesLegacy:RulesLegacy"
IPSET = "proxmoxve:firewall/ipsetLegacy:IpsetLegacy"
REMOVE_SECONDS = 300.0


@dataclass(frozen=True)
class StateIds:
    """Ids in Pulumi's state of what is on a cluster: machines, VNets, pools, and which machines have a firewall.

    `rules` are the ids of machines whose rules it holds, `sets` those of machines with the name of a set.
    """

    machines: Collection[str]
    vnets: Collection[str]
    pools: Collection[str]
    rules: Collection[str] = ()
    sets: Collection[tuple[str, str]] = ()


def state_ids(resources: list[dict[str, Any]]) -> StateIds:
    """Read from the resources of a state what they are on the cluster."""
    ids = {kind: [str(r.get("id")) for r in resources if r["type"] == kind] for kind in (VM, VNET, POOL)}
    rules = [_vm_id(r) for r in resources if r["type"] == RULES]
    sets = [(_vm_id(r), str(r["inputs"]["name"])) for r in resources if r["type"] == IPSET]
    return StateIds(ids[VM], ids[VNET], ids[POOL], rules, sets)


def clear(site: Site, workspace: str, state: StateIds) -> list[str]:
    """Remove what is ours, holds nothing and is not in the state; answers the names of what was removed.

    Raises `SiteError` for what holds something, and for a machine of the state that is another one by now.
    """
    client = connect(site)
    view = look(client, {}, site.name, workspace)
    _require_own(site, workspace, view, state)
    pool = pool_of(site.name, workspace)
    removed, gone = [], set()
    for machine in view.machines_of(site.name, workspace):
        # Those are made without the engine, and have a record of their own.
        if is_at_a_seat(machine):
            continue
        if str(machine.vm_id) not in state.machines and not machine.template:
            _require_empty(client, machine, workspace)
            _remove(client, machine)
            removed.append(machine.name)
            gone.add(machine.vm_id)
        elif not machine.running and not machine.template:
            removed += _clear_unfinished(client, machine, state)
    for vnet in view.vnets:
        # Somebody may have given the network of others our name: the API removes one below machines without a word.
        if vnet.alias == pool and vnet.name not in state.vnets and not view.on_network(vnet.name) - gone:
            # One that is removed already has only to come into force.
            if not vnet.leaving:
                client.delete(f"cluster/sdn/vnets/{vnet.name}")
            removed.append(vnet.name)
    for row in client.get("pools"):
        if row.get("poolid") == pool and pool not in state.pools:
            client.delete("pools", poolid=pool)
            removed.append(pool)
    if any(vnet.name in removed for vnet in view.vnets):
        sdn.apply(client)
    if removed:
        say(f"    cleared what an interrupted run left: {', '.join(removed)}")
    return removed


def _require_own(site: Site, workspace: str, view: ClusterView, state: StateIds) -> None:
    """An id is free once its machine is gone: whoever has it now must not be taken for the one that the state means."""
    own = {machine.vm_id for machine in view.machines_of(site.name, workspace)}
    for machine in view.machines:
        if str(machine.vm_id) in state.machines and machine.vm_id not in own:
            whose = f"in the pool {machine.pool}" if machine.pool else "in no pool"
            reason = f"is {machine.name} {whose}, and no machine of {workspace} any more"
            remedy = "give it back its pool and tags if it is; if not, take it out of the state: pulumi state delete"
            raise SiteError("machine", machine.vm_id, reason, remedy)


def _clear_unfinished(client: Client, machine: SeenMachine, state: StateIds) -> list[str]:
    """Remove what is not whole of a machine that the state holds and that stands still, if it holds nothing.

    The provider keeps a machine whose creation broke behind its clone, and later only updates it, which gives a desktop
    no first boot: it is made again.
    """
    config = client.get(f"{vm_path(machine.node, machine.vm_id)}/config")
    if int(config.get("protection") or 0) or is_running(client, machine.node, machine.vm_id):
        return []
    if not has_first_boot(config):
        _require_unlocked(machine, config)
        _remove(client, machine)
        return [machine.name]
    return _clear_firewall(client, machine, state)


def has_first_boot(config: Mapping[str, Any]) -> bool:
    """Whether a machine was given what its first boot reads: a drive of cloud-init, keys and addresses."""
    drive = any(key.startswith("ide") and "cloudinit" in str(value) for key, value in config.items())
    return drive and "sshkeys" in config and "ipconfig0" in config


def _remove(client: Client, machine: SeenMachine) -> None:
    wait_removal(client, client.delete(vm_path(machine.node, machine.vm_id), purge=True), REMOVE_SECONDS)


def _clear_firewall(client: Client, machine: SeenMachine, state: StateIds) -> list[str]:
    """Rules and sets of a machine that has never run: the provider makes them whole or, over others, not at all."""
    path, vm_id = vm_path(machine.node, machine.vm_id), str(machine.vm_id)
    removed = []
    if vm_id not in state.rules:
        # Each that goes moves the others up.
        for _ in client.get(f"{path}/firewall/rules"):
            client.delete(f"{path}/firewall/rules/0")
            removed.append(f"a rule of {machine.name}")
    for row in client.get(f"{path}/firewall/ipset"):
        if (vm_id, str(row["name"])) not in state.sets:
            for member in client.get(f"{path}/firewall/ipset/{row['name']}"):
                client.delete(f"{path}/firewall/ipset/{row['name']}/{quoted(member['cidr'])}")
            client.delete(f"{path}/firewall/ipset/{row['name']}")
            removed.append(f"set {row['name']} of {machine.name}")
    return removed


def _vm_id(resource: dict[str, Any]) -> str:
    return str(int(resource["inputs"]["vmId"]))


def _require_empty(client: Client, machine: SeenMachine, workspace: str) -> None:
    config = client.get(f"{vm_path(machine.node, machine.vm_id)}/config")
    if int(config.get("protection") or 0) or is_running(client, machine.node, machine.vm_id):
        reason = f"{machine.name} ({machine.vm_id}) exists, but Pulumi's state does not know it"
        remedy = "bring back the state it was made with, choose another name, or remove the machine in the cluster"
        raise SiteError("workspace", workspace, reason, remedy)
    _require_unlocked(machine, config)


def _require_unlocked(machine: SeenMachine, config: Mapping[str, Any]) -> None:
    if config.get("lock"):
        reason = f"{machine.name} ({machine.vm_id}) is locked: {config['lock']}"
        remedy = f"see whether a task still works on it; if none does: qm unlock {machine.vm_id} on {machine.node}"
        raise SiteError("machine", machine.vm_id, reason, remedy)
