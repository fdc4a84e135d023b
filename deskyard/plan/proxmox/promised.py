"""Machines that somebody is about to make on a cluster: who plans meanwhile takes none of their places. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil

from deskyard.plan.proxmox.placement import DISK_PART
from deskyard.plan.proxmox.view import ClusterView, Owner, SeenMachine, SeenStorage
from deskyard.plan.proxmox.workspace import VmPlan


@dataclass(frozen=True)
class Promised:
    """A machine as the cluster will show it, whose it is, and the storage that its disks will be on with their size."""

    owner: Owner
    machine: SeenMachine
    storage: str
    disks_gib: int


def promised(vm: VmPlan) -> Promised:
    """The promise of a machine that is planned."""
    size = vm.machine
    shown = SeenMachine(
        vm_id=vm.vm_id,
        node=vm.node,
        name=vm.owner.vm_name,
        pool=vm.owner.pool,
        tags=vm.tags,
        running=True,
        template=False,
        vcpus=size.vcpus,
        memory_mib=size.memory_mib,
        disk_gib=size.disk_gib,
    )
    return Promised(vm.owner, shown, vm.storage, size.disk_gib + (size.home_gib or 0))


def with_promised(view: ClusterView, promises: Sequence[Promised]) -> ClusterView:
    """The cluster as it will be once all that is promised is there.

    A fresh clone has the size of its template for some seconds, so what is there already counts by the larger one.
    """
    machines = list(view.machines)
    storages = list(view.storages)
    for promise in promises:
        wanted = promise.machine
        found = view.machine_of(promise.owner)
        if found is None:
            storages = [_after(storage, promise) for storage in storages]
            machines.append(wanted)
        else:
            vcpus, memory = max(found.vcpus, wanted.vcpus), max(found.memory_mib, wanted.memory_mib)
            machines[machines.index(found)] = replace(found, vcpus=vcpus, memory_mib=memory)
    return replace(view, machines=tuple(machines), storages=tuple(storages))


def _after(storage: SeenStorage, promise: Promised) -> SeenStorage:
    if storage.name != promise.storage or not (storage.shared or storage.node == promise.machine.node):
        return storage
    return replace(storage, free_gib=max(0, storage.free_gib - ceil(promise.disks_gib * DISK_PART)))
