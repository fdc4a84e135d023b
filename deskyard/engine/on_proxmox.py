"""The backend of a Proxmox VE cluster."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from ipaddress import IPv4Network

from deskyard.declaration import declaration
from deskyard.declaration.declaration import Declared
from deskyard.declaration.promise import Heard
from deskyard.engine import leftovers, network_guard, preflight
from deskyard.engine.change import Change
from deskyard.engine.leftovers import StateIds
from deskyard.host.progress import say
from deskyard.model.site import Site
from deskyard.plan.proxmox.backup_note import Keeper
from deskyard.plan.proxmox.workspace import ClusterPlan
from deskyard.plan.warm import Templates
from deskyard.plan.workspace import GATEWAY, DesktopPlan, WorkspacePlan
from deskyard.site.finding import Finding
from deskyard.site.proxmox import plugin, retry
from deskyard.site.proxmox.client import connect
from deskyard.site.proxmox.doctor import doctor
from deskyard.site.proxmox.life import remnants
from deskyard.site.proxmox.life.backups import ClusterArchive
from deskyard.site.proxmox.life.disposables import ClusterDisposables
from deskyard.site.proxmox.life.record import ClusterRecord
from deskyard.site.proxmox.machines import ClusterMachines, runs
from deskyard.site.proxmox.underlay import ClusterUnderlay
from deskyard.site.remnant import Remnant

TRIES, PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 4, 5.0, 20.0


class ProxmoxBackend:
    """Workspaces on a cluster, which others plan on and change at the same time."""

    def __init__(self, site: Site) -> None:
        self._site = site

    def engine_environment(self) -> dict[str, str]:
        """The token of the plugin, and whom it trusts."""
        return plugin.plugin_environment(self._site)

    def check(self, declared: Declared) -> None:
        """Tools, templates, firewall and the networks of others."""
        preflight.check_on_cluster(declared)

    def networks(self) -> list[IPv4Network]:
        """The one that its gateways stand in."""
        return [self._site.cluster.uplink.network]

    def guard(self, declared: Declared, state_ids: Callable[[], StateIds], steps: Sequence[Change]) -> None:
        """Stop what would replace the network below machines, or move a NIC that the token may not move."""
        network_guard.check(declared, state_ids, steps)

    def clear(self, name: str, state_ids: Callable[[], StateIds]) -> None:
        """Take away machines and networks that were made and are not in the engine's state."""
        leftovers.clear(self._site, name, state_ids())

    def pauses(self) -> Iterator[float]:
        """Some: a lock may be another's, a node away, an id just taken."""
        return retry.pauses(PAUSE_SECONDS, LONGEST_PAUSE_SECONDS, TRIES)

    def prepare_starts(self, declared: Declared, new: Sequence[DesktopPlan], *, make: Templates) -> None:
        """Prepare nothing: no machine of a cluster goes on from the memory of another one."""
        if make is Templates.ASKED:
            say("    --warm: desktops of a cluster boot; none can go on from the memory of another one")

    def replan(self, declared: Declared) -> Declared:
        """Planned on the cluster anew: somebody may have been faster with an id, and so with an address."""
        return declaration.read(declared.workspace.name)

    def open_way(self, plan: WorkspacePlan) -> None:
        """Nothing: the gateway has an address of the site's network."""

    def prepare_destroy(self, name: str, state_ids: Callable[[], StateIds]) -> None:
        """Clear what the engine does not know, so that it does not stand in the way."""
        self.clear(name, state_ids)

    def answers(self) -> bool:
        """True: a cluster that is away says so when it is asked."""
        return True

    def gateway_runs(self, workspace: str) -> bool:
        """Whether its machine runs, wherever it is."""
        return runs(self._site, workspace, GATEWAY)

    def machines(self, plan: WorkspacePlan) -> ClusterMachines:
        """The machines of a workspace on all nodes."""
        return ClusterMachines(plan, self._site)

    def archive(self, workspace: str) -> ClusterArchive:
        """The cluster's own backups of its machines."""
        return ClusterArchive(connect(self._site), self._site.name, workspace)

    def disposables(self, workspace: str) -> ClusterDisposables:
        """The machines at its seats; each is planned when it is made, beside what other tasks are about to make."""

        def planned() -> ClusterPlan:
            found = declaration.read(workspace, Heard(self._site.name)).on_cluster
            assert found is not None
            return found

        return ClusterDisposables(connect(self._site), self._site.name, workspace, planned)

    def remnants(self, workspace: str, *, settled: bool = False) -> list[Remnant]:
        """The machines in which backups were restored, or that carried a desktop's disks."""
        client = connect(self._site)
        if settled:
            remnants.wait_for_tasks(client)
        return remnants.remnants(client, Keeper(self._site.name, workspace))

    def underlay(self, declared: Declared) -> ClusterUnderlay:
        """The layers as the API tells of them, with the machines at seats that are there."""
        plan, client = declared.on_cluster, connect(self._site)
        assert plan is not None
        if plan.seats:
            there = ClusterRecord(client, self._site.name, declared.plan.name).found()
            present = {vm.owner.machine: vm for seat, vm in plan.seats.items() if seat in there}
            plan = replace(plan, desktops={**plan.desktops, **present})
        return ClusterUnderlay(plan, client)

    def examine(self) -> list[Finding]:
        """Check what the cluster is fit for."""
        return doctor.examine(self._site)
