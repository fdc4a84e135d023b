"""Machines at the seats of a workspace on a cluster: made without the engine, with their firewall, and removed whole.

Each is what the engine would make of the same Plan: a linked clone that stands still until its firewall is as planned.
That it is, is asked of the cluster before its first start.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import quote

from deskyard.errors import SiteError
from deskyard.plan.account import MANAGER
from deskyard.plan.first_boot import FirstBoot
from deskyard.plan.image.source import ImageSource
from deskyard.plan.isolation.cluster import machine_differences
from deskyard.plan.names import SEAT_SUFFIX
from deskyard.plan.proxmox import seat_words
from deskyard.plan.proxmox.firewall import RulePlan
from deskyard.plan.proxmox.seat_words import GONE
from deskyard.plan.proxmox.view import read_view, tags_of
from deskyard.plan.proxmox.workspace import ClusterPlan, NicPlan, VmPlan
from deskyard.plan.workspace import DesktopPlan, WorkspacePlan
from deskyard.site.management_key import public_key
from deskyard.site.proxmox import listing
from deskyard.site.proxmox.client import Client
from deskyard.site.proxmox.kinds.disk_size import disk_size_gib
from deskyard.site.proxmox.kinds.drive import Caps, capped, drive_of, options_of, volume_of
from deskyard.site.proxmox.life import home
from deskyard.site.proxmox.life.home import HOME_DISK
from deskyard.site.proxmox.life.power import MachinePower
from deskyard.site.proxmox.life.record import ClusterRecord
from deskyard.site.proxmox.machine import CPU, DISK, OS_TYPE, vm_path
from deskyard.site.proxmox.task import finish, running, wait_removal, wait_task
from deskyard.site.proxmox.underlay import seen_machine

CLONE_SECONDS, CONFIG_SECONDS, REMOVE_SECONDS, RESIZE_SECONDS = 600.0, 600.0, 600.0, 600.0
SEED = "ide2"


class ClusterDisposables:
    """The disposable machines of one workspace; `planned` is where each would be made now."""

    def __init__(self, client: Client, site: str, workspace: str, planned: Callable[[], ClusterPlan]) -> None:
        self._client, self._site, self._workspace, self._planned = client, site, workspace, planned
        self._record = ClusterRecord(client, site, workspace)

    def record(self) -> ClusterRecord:
        """Who has which: kept in the cluster, with the machines."""
        return self._record

    def there(self) -> set[str]:
        """The seats at which a machine is, whole or not."""
        return set(self._record.found())

    def marks(self) -> dict[str, dict[str, str]]:
        """Of each machine that runs: what is kept with it, by its seat, as the record was read last.

        The nodes are asked which run: the cluster's list learns of a start some seconds later.
        """
        view = read_view(listing.resources(self._client), (), {})
        mine = view.machines_of(self._site, self._workspace)
        seats = [seat_words.seat_at(machine, self._site, self._workspace) for machine in mine if machine.running]
        seen = self._record.seen
        shown = {seat: seen.get(seat) for seat in seats if seat is not None}
        return {seat: words.mark() if words else {} for seat, words in shown.items()}

    def mark(self, seat: str, words: Mapping[str, str]) -> None:
        """Nothing: the record is with the machine."""

    def require_room(self, seat: DesktopPlan) -> None:
        """A node and a storage have room for it, as the cluster is now."""
        self._place(seat)

    def make(
        self,
        plan: WorkspacePlan,
        seat: DesktopPlan,
        image: ImageSource | None,
        first_boot: FirstBoot,
        template: str | None,
    ) -> str:
        """Make the machine of a seat, of which nothing is there; says how it started."""
        vm = self._place(seat)
        self._clone(vm, seat.name)
        self._configure(vm)
        self._require_alone(vm)
        self._firewall(vm)
        self._require_as_planned(vm)
        MachinePower(self._client, vm.node, vm.vm_id).let_run()
        return "boots"

    def remove(self, seat: str) -> None:
        """Remove the machine at a seat with all its data, if it is struck from the record; fine if there is none."""
        machine = self._record.found().get(seat)
        if machine is None:
            return
        path = vm_path(machine.node, machine.vm_id)
        for upid in running(self._client, machine.node, vmid=machine.vm_id):
            # How it ended is seen in what is there.
            with suppress(SiteError):
                wait_task(self._client, upid, CLONE_SECONDS)
        config = self._client.get(f"{path}/config")
        now = seat_words.read(config, seat)
        if now is not None and now.state != GONE:
            reason = "another task has made a machine there, or has claimed it"
            raise SiteError("seat", f"{self._workspace}/{seat}", reason, f"see ./inv pool.list {self._workspace}")
        if config.get("lock"):
            reason = f"is locked: {config['lock']}"
            remedy = f"see whether a task still works on it; if none does: qm unlock {machine.vm_id} on {machine.node}"
            raise SiteError("machine", machine.vm_id, reason, remedy)
        MachinePower(self._client, machine.node, machine.vm_id).pull_plug()
        wait_removal(self._client, self._client.delete(path, purge=True), REMOVE_SECONDS)

    def _place(self, seat: DesktopPlan) -> VmPlan:
        on_cluster = self._planned()
        if (vm := on_cluster.seats.get(seat.name)) is not None:
            return vm
        reason = on_cluster.no_room.get(seat.name, "is not declared")
        raise SiteError("seat", f"{self._workspace}/{seat.name}", reason, "release other machines, or add a node")

    def _clone(self, vm: VmPlan, seat: str) -> None:
        """A linked clone that says from its first moment on whose it is; an id is given to one only."""
        begun = self._record.begun[seat]
        template = vm_path(vm.template_node, vm.template)
        elsewhere = vm.node if vm.node != vm.template_node else None
        description = seat_words.written(begun, ())["description"]
        named = {"newid": vm.vm_id, "name": vm.owner.vm_name, "pool": vm.owner.pool, "description": description}
        finish(
            self._client, self._client.post(f"{template}/clone", full=False, target=elsewhere, **named), CLONE_SECONDS
        )

    def _configure(self, vm: VmPlan) -> None:
        path = vm_path(vm.node, vm.vm_id)
        config = self._client.get(f"{path}/config")
        words = seat_words.read(config, vm.owner.machine.removesuffix(SEAT_SUFFIX))
        tags = (*tags_of(config), *vm.tags)
        options = {
            **({"tags": ";".join(sorted({*tags}))} if words is None else seat_words.written(words, tags)),
            **_hardware(vm),
            **{f"net{number}": _nic(nic) for number, nic in enumerate(vm.nics)},
            **_first_boot(vm, public_key(self._site)),
            **_disks(self._client, vm, str(config[DISK])),
        }
        finish(self._client, self._client.post(f"{path}/config", **options, digest=config["digest"]), CONFIG_SECONDS)
        if disk_size_gib(config, DISK) < vm.machine.disk_gib:
            upid = self._client.put(f"{path}/resize", disk=DISK, size=f"{vm.machine.disk_gib}G")
            finish(self._client, upid, RESIZE_SECONDS)

    def _require_alone(self, vm: VmPlan) -> None:
        """Two operators may make a machine at one seat under two ids: neither has been started yet."""
        view = read_view(listing.resources(self._client), (), {})
        twins = [
            machine.vm_id
            for machine in view.machines
            if vm.owner.tag in machine.tags or (machine.pool == vm.owner.pool and machine.name == vm.owner.vm_name)
        ]
        if set(twins) != {vm.vm_id}:
            reason = f"another task makes a machine there at the same time (ids {', '.join(map(str, sorted(twins)))})"
            raise SiteError("seat", vm.owner.machine, reason, "run the command again")

    def _firewall(self, vm: VmPlan) -> None:
        path, plan = f"{vm_path(vm.node, vm.vm_id)}/firewall", vm.firewall
        for nic, addresses in plan.own.items():
            self._client.post(f"{path}/ipset", name=f"ipfilter-{nic}", comment="addresses that it may send from")
            for address in addresses:
                self._client.post(f"{path}/ipset/ipfilter-{nic}", cidr=address)
        # Each is put before those that are there.
        for rule in reversed(plan.rules):
            self._client.post(f"{path}/rules", **_rule(rule))
        drop, quiet = "DROP", "nolog"
        policies = {"policy_in": drop, "policy_out": drop, "log_level_in": quiet, "log_level_out": quiet}
        switches = {"enable": True, "macfilter": True, "ipfilter": plan.ipfilter, "dhcp": False, "ndp": False}
        self._client.put(f"{path}/options", **policies, **switches, radv=False)

    def _require_as_planned(self, vm: VmPlan) -> None:
        wrong = machine_differences(vm, seen_machine(self._client, vm_path(vm.node, vm.vm_id)))
        if wrong:
            reason = f"is not as planned before its first start: {'; '.join(wrong)}"
            raise SiteError("machine", vm.owner.vm_name, reason, "look who else changes it, then run it again")


def _hardware(vm: VmPlan) -> dict[str, object]:
    machine = vm.machine
    return {
        "cores": machine.vcpus,
        "sockets": 1,
        "cpulimit": f"{vm.cpu_limit:g}",
        "cpu": CPU,
        "numa": False,
        "memory": machine.memory_mib,
        "balloon": 0,
        "ostype": OS_TYPE,
        "agent": "enabled=1,fstrim_cloned_disks=1,type=virtio",
        # Who waits for it, or works at it, knows nothing of a restart of its node: it ends with that.
        "onboot": False,
    }


def _nic(nic: NicPlan) -> str:
    parts = [f"virtio={nic.mac.upper()}", f"bridge={nic.bridge}", "firewall=1"]
    parts += [f"tag={nic.vlan}"] if nic.vlan is not None else []
    parts += [f"rate={nic.mib_per_second}"] if nic.mib_per_second is not None else []
    return ",".join(parts)


def _first_boot(vm: VmPlan, key: str) -> dict[str, object]:
    """The cloud-init options of a machine, on a drive of its own."""
    addresses = {
        f"ipconfig{number}": f"ip={nic.config}" + (f",gw={nic.router}" if nic.router else "")
        for number, nic in enumerate(vm.nics)
    }
    names = {"nameserver": " ".join(vm.resolvers)} if vm.resolvers else {}
    return {
        SEED: f"{vm.storage}:cloudinit",
        "ciuser": MANAGER,
        "sshkeys": quote(key, safe=""),
        "ciupgrade": False,
        **addresses,
        **names,
    }


def _disks(client: Client, vm: VmPlan, system: str) -> dict[str, str]:
    """Both disks with the caps of its tier: the one that was cloned, and a blank one for /home."""
    caps = Caps.of(vm.disk_iops, vm.disk_mib_per_second, vm.disk_burst)
    drives = {DISK: drive_of(volume_of(system), capped({**options_of(system), "discard": "on"}, caps))}
    if (size := vm.machine.home_gib) is not None:
        drives[HOME_DISK] = home.new_drive(client, vm.node, vm.storage, size, home.options({}, caps))
    return drives


def _rule(rule: RulePlan) -> dict[str, Any]:
    wanted = {
        "type": rule.direction,
        "action": rule.action,
        "comment": rule.comment,
        "iface": rule.iface,
        "source": rule.source,
        "dest": rule.dest,
        "proto": rule.proto,
        "sport": rule.sport,
        "dport": rule.dport,
    }
    return {**wanted, "enable": True, "log": "nolog"}
