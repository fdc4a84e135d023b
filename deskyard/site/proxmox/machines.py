"""The machines of a workspace on a cluster: how they are, and what they showed before they failed."""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

from deskyard.errors import SiteError
from deskyard.host.vm.agent_answer import HELD, held
from deskyard.model.site import Site
from deskyard.plan.power import Load, Power
from deskyard.plan.proxmox.backup_note import Keeper
from deskyard.plan.proxmox.power_tag import wish_of
from deskyard.plan.proxmox.seat_words import seat_owner
from deskyard.plan.proxmox.system_tag import Systems
from deskyard.plan.proxmox.view import ClusterView, Owner, SeenMachine, read_view
from deskyard.plan.snapshot import Snapshot
from deskyard.plan.workspace import WorkspacePlan
from deskyard.site.proxmox import listing, sdn, templates
from deskyard.site.proxmox.agent import ClusterAgent
from deskyard.site.proxmox.client import Client, connect
from deskyard.site.proxmox.each import ask_each
from deskyard.site.proxmox.kinds.disk_size import disk_size_gib
from deskyard.site.proxmox.life import sight
from deskyard.site.proxmox.life.home import HOME_DISK, has_home, promise, with_homeless
from deskyard.site.proxmox.life.power import MachinePower, state_of
from deskyard.site.proxmox.life.snapshots import MachineSnapshots
from deskyard.site.proxmox.life.system_disk import ClusterSystemDisk
from deskyard.site.proxmox.machine import DISK, is_running, vm_path
from deskyard.site.proxmox.moves import ClusterMoves
from deskyard.site.proxmox.wiring import wired


def look(
    client: Client, digests: Mapping[str, Sequence[str]], site: str = "", workspace: str | None = None
) -> ClusterView:
    """The cluster as it shows itself now; of a workspace that is named its network too, and who has no volume of /home.

    `digests` are those that a template of an image may have, the best first.
    """
    rows, vnets = listing.resources(client), sdn.vnets(client)
    published = templates.published(rows, client.cluster)
    found = {}
    for image, wanted in digests.items():
        by_digest = (templates.by_node(published, image, digest) for digest in wanted)
        found[image] = next((nodes for nodes in by_digest if nodes), {})
    view = read_view(rows, vnets, found)
    return view if workspace is None else with_homeless(client, wired(client, view, site, workspace), site, workspace)


def runs(site: Site, workspace: str, machine: str) -> bool:
    """Whether a machine of a workspace runs, asked by names alone."""
    client = connect(site)
    view = read_view(client.get("cluster/resources", type="vm"), (), {})
    found = view.machine_of(Owner(site.name, workspace, machine))
    return found is not None and is_running(client, found.node, found.vm_id)


class ClusterMachines:
    """The machines of a workspace, as status and readiness ask for them, and as they are moved."""

    def __init__(self, plan: WorkspacePlan, site: Site) -> None:
        self._site, self._client = site, connect(site)
        self._disk_storage = site.cluster.storages.disks
        # What the cluster did not let be written yet: see `MachinePower.want`.
        self._unwritten: dict[str, Power] = {}
        view = read_view(self._client.get("cluster/resources", type="vm"), (), {})
        owners = {machine.domain: Owner(plan.site, plan.name, name) for name, machine in plan.machines().items()}
        owners |= {seat.machine.domain: seat_owner(plan.site, plan.name, seat.name) for seat in plan.seats}
        self._owners = owners
        mine = {domain: view.machine_of(owner) for domain, owner in owners.items()}
        self._found = {domain: machine for domain, machine in mine.items() if machine is not None}
        self._view, self._plan = view, plan

    def states(self) -> dict[str, dict[str, Any]]:
        """State, what it is wanted to be, and size of each machine that is there."""
        return {
            domain: state for (domain, _), state in ask_each(self._found.items(), lambda item: self._state(item[1]))
        }

    def is_there(self, desktop: str) -> bool:
        """Whether a desktop had a machine when these were looked up, declared or not."""
        return self._view.machine_of(Owner(self._plan.site, self._plan.name, desktop)) is not None

    @contextmanager
    def moves(self) -> Iterator[ClusterMoves]:
        """Hear what they do from now on, with machines that are made meanwhile."""
        yield ClusterMoves(lambda: sight.states(self._site, self._owners))

    def desired(self) -> dict[str, Power]:
        """Read what each machine that is there is wanted to be."""
        asked = ask_each(self._found, lambda domain: self._power(domain).desired())
        return dict(asked)

    def loads(self, domains: Sequence[str]) -> dict[str, Load]:
        """The load of each of these machines, as the daemon of its node counts it (pvestatd, every ten seconds).

        `cpu` is the part of the machine's CPUs that it took since the count before (`vmstatus` of qemu-server's
        PVE/QemuServer.pm). A machine's own status is no source: whoever answers counts from its own last answer.
        """
        rows = {row.get("vmid"): row for row in self._client.get("cluster/resources", type="vm")}
        mine = {domain: rows.get(machine.vm_id, {}) for domain, machine in self._found.items() if domain in domains}
        return {domain: _load(row) for domain, row in mine.items() if row.get("status") == "running"}

    def disk_sizes(self, domain: str) -> dict[str, int]:
        """The sizes of its disks, GiB, by what lies on them."""
        machine = self._machine(domain)
        config = self._client.get(f"{vm_path(machine.node, machine.vm_id)}/config")
        home = {"/home": disk_size_gib(config, HOME_DISK)} if has_home(config) else {}
        return {"/": disk_size_gib(config, DISK), **home}

    def held(self, domain: str) -> dict[str, int]:
        """The bytes that its guest's file systems hold, told by its agent."""
        machine = self._machine(domain)
        agent = ClusterAgent(self._client, machine.node, machine.vm_id)
        return held(*agent.execute(HELD), agent.name)

    def promise_home(self, domain: str, size_gib: int) -> None:
        """Have the next `workspace.up` make a volume of /home for a desktop of before."""
        promise(self._client, self._machine(domain), self._disk_storage, size_gib)

    def want(self, domain: str, power: Power) -> None:
        """Keep with the machine what it is wanted to be; if its memory is on disk, as soon as it has left it."""
        self._unwritten.pop(domain, None)
        if not self._power(domain).want(power):
            self._unwritten[domain] = power

    def mend_wishes(self, domains: Collection[str]) -> None:
        """Write anew what these are wanted to be where a task was killed that took one of them back to a snapshot."""
        found = [domain for domain in domains if domain in self._found]
        ask_each(found, lambda domain: self._power(domain).mend_wish())

    def take_room(self, domain: str) -> None:
        """None is looked for: machines were placed where the full sizes of all fit, whether they run or not."""

    def require_room_again(self, domain: str) -> None:
        """Raise `SiteError` unless the storage of its disk has room again. What halted it the API does not say."""
        self._power(domain).require_room_again()

    def start(self, domain: str) -> None:
        """Let it run, from its memory if that was kept; then its clock is right."""
        power = self._power(domain)
        goes_on = power.let_run()
        self._write(domain)
        if goes_on:
            power.set_clock()

    def shut_down(self, domain: str, *, force: bool) -> None:
        """Let the guest shut down, or pull the plug and drop kept memory."""
        power = self._power(domain)
        if force:
            power.pull_plug()
        else:
            power.shut_down()
        self._write(domain)

    def pause(self, domain: str, *, to_disk: bool) -> None:
        """Halt it as it is; its memory is kept by its process, or where its disk is."""
        self._power(domain).pause(self._disk_storage if to_disk else None)

    def stopped(self) -> list[str]:
        """Machines of the workspace that do not run."""
        asked = ask_each(self._found.items(), lambda item: self._runs(item[1]))
        running = {domain for (domain, _), runs in asked if runs}
        return [domain for domain in self._owners if domain not in running]

    def host_key(self, domain: str) -> str:
        """The SSH host key of a machine, told by its agent."""
        machine = self._machine(domain)
        return ClusterAgent(self._client, machine.node, machine.vm_id).host_key()

    def snapshots(self, domain: str) -> list[Snapshot]:
        """The snapshots of a machine, the oldest first."""
        return self._snapshots(domain).listed()

    def take_snapshot(self, domain: str, wanted: Snapshot) -> None:
        """Take a snapshot: with the memory of a machine that runs, or of one that is off."""
        self._snapshots(domain).take(wanted)

    def restore_snapshot(self, domain: str, name: str) -> None:
        """Bring a machine back to a snapshot; what it is wanted to be stays, and its clock is right."""
        if self._snapshots(domain).restore(name):
            self._power(domain).set_clock()

    def delete_snapshot(self, domain: str, name: str) -> None:
        """Delete a snapshot of a machine; the others stay whole."""
        self._snapshots(domain).delete(name)

    def images(self) -> dict[str, str]:
        """Of each machine that tells: the image that its tags name."""
        found = {domain: Systems.of(machine.tags).image for domain, machine in self._found.items()}
        return {domain: image for domain, image in found.items() if image is not None}

    def system(self, domain: str) -> ClusterSystemDisk:
        """The system disk of a machine; raises `SiteError` for one without a volume of /home beside it."""
        machine, owner = self._machine(domain), self._owners[domain]
        if not has_home(self._client.get(f"{vm_path(machine.node, machine.vm_id)}/config")):
            reason = "was made with /home on its system disk, which is not exchanged"
            remedy = f"run ./inv desktop.migrate-home {owner.workspace}/{owner.machine} first"
            raise SiteError("machine", domain, reason, remedy)
        return ClusterSystemDisk(self._client, Keeper(owner.site, owner.workspace), owner.machine, machine)

    def backups(self, domain: str) -> NoReturn:
        """None: a cluster keeps whole machines in a storage of its own (life.backups), and reads out no disk."""
        reason = "a cluster makes backups of whole machines; none of its disks is read from here"
        raise SiteError("machine", domain, reason, "./inv backup.run, which asks the cluster")

    def keep_evidence(self, folder: Path, domains: Collection[str]) -> None:
        """Save what the API tells: configuration, state and the last tasks. Console and screen need a node's shell."""
        for domain, machine in ((domain, self._found[domain]) for domain in domains if domain in self._found):
            path = vm_path(machine.node, machine.vm_id)
            answers = {}
            for name, place, params in (
                ("config", f"{path}/config", {}),
                ("status", f"{path}/status/current", {}),
                ("tasks", f"nodes/{machine.node}/tasks", {"vmid": machine.vm_id, "limit": 20}),
            ):
                try:
                    answers[name] = self._client.get(place, **params)
                except SiteError as error:
                    answers[name] = str(error)
            (folder / f"{domain}.json").write_text(json.dumps(answers, indent=2, sort_keys=True) + "\n")

    def _machine(self, domain: str) -> SeenMachine:
        if domain not in self._found:
            raise SiteError("machine", domain, "is not in the cluster", "run ./inv workspace.up")
        return self._found[domain]

    def _power(self, domain: str) -> MachinePower:
        machine = self._machine(domain)
        return MachinePower(self._client, machine.node, machine.vm_id)

    def _write(self, domain: str) -> None:
        """Write what it is wanted to be, if that had to wait."""
        if domain in self._unwritten:
            self.want(domain, self._unwritten[domain])

    def _runs(self, machine: SeenMachine) -> bool:
        return is_running(self._client, machine.node, machine.vm_id)

    def _state(self, machine: SeenMachine) -> dict[str, Any]:
        status = self._client.get(f"{vm_path(machine.node, machine.vm_id)}/status/current")
        # Each option as it is, and as it will be after the next start.
        rows = self._client.get(f"{vm_path(machine.node, machine.vm_id)}/pending")
        options = {row.get("key"): row.get("pending", row.get("value")) for row in rows}
        waits = any(row.get("key") in ("cores", "memory") and "pending" in row for row in rows)
        return {
            "state": state_of(status),
            "desired": wish_of(options),
            "restart_needed": status.get("status") == "running" and waits,
            "vcpus": int(options.get("cores") or 1) * int(options.get("sockets") or 1),
            "memory_mib": int(str(options.get("memory") or 0)),
            "node": machine.node,
            "vm_id": machine.vm_id,
        }

    def _snapshots(self, domain: str) -> MachineSnapshots:
        machine = self._found.get(domain)
        if machine is None:
            raise SiteError("machine", domain, "is not in the cluster", "run ./inv workspace.up")
        return MachineSnapshots(self._client, machine.node, machine.vm_id)


def _load(row: Mapping[str, Any]) -> Load:
    network = int(row.get("netin") or 0) + int(row.get("netout") or 0)
    return Load(network, processors=float(row.get("cpu") or 0) * int(row.get("maxcpu") or 1))
