"""The Plan of a workspace on a cluster: what the Plan of every backend leaves open. Pure."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from deskyard.model.proxmox import Cluster
from deskyard.model.quotas import Quotas
from deskyard.model.site import Site
from deskyard.model.tier import DiskBurst, Tier
from deskyard.model.workspace import Desktop, Workspace
from deskyard.plan import quota
from deskyard.plan.names import SEAT_SUFFIX
from deskyard.plan.power import Power
from deskyard.plan.proxmox.claims import Claims, claim
from deskyard.plan.proxmox.firewall import FirewallPlan, desktop_firewall, gateway_firewall
from deskyard.plan.proxmox.home_tag import home_of, with_home
from deskyard.plan.proxmox.placement import Need, place
from deskyard.plan.proxmox.power_tag import power_of, with_power
from deskyard.plan.proxmox.seat_words import seat_owner
from deskyard.plan.proxmox.system_tag import Systems, image_of_template
from deskyard.plan.proxmox.view import WORKSPACE_POOLS, ClusterView, Owner, SeenMachine, pool_of, template_for
from deskyard.plan.workspace import GATEWAY, HTTPS, DesktopPlan, Door, MachinePlan, WorkspacePlan, plan_workspace


@dataclass(frozen=True)
class NicPlan:
    """A NIC: on the bridge of the uplink or on the VNet; `config` is what cloud-init is told of it."""

    bridge: str
    mac: str
    config: str
    router: str | None = None
    vlan: int | None = None
    mib_per_second: int | None = None


@dataclass(frozen=True)
class VmPlan:
    """A machine of the cluster.

    `power` is what it is wanted to be, and `systems` of which image it is, as it shows itself: that is kept with the
    machine, and nowhere declared. So is that a desktop of before has no volume of /home: it is planned without.
    """

    owner: Owner
    vm_id: int
    node: str
    template: int
    template_node: str
    machine: MachinePlan
    storage: str
    nics: tuple[NicPlan, ...]
    resolvers: tuple[str, ...]
    firewall: FirewallPlan
    disk_iops: int | None
    disk_mib_per_second: int | None
    disk_burst: DiskBurst | None = None
    cpu_percent: int | None = None
    power: Power = Power.RUNNING
    systems: Systems = field(default_factory=Systems)

    @property
    def tags(self) -> tuple[str, ...]:
        """In the order in which the cluster keeps them."""
        own = with_power(("deskyard", self.owner.tag), self.power)
        return self.systems.among(with_home(own, self.machine.home_gib))

    @property
    def cpu_limit(self) -> float:
        """The processors that it may use at the same time; never more than it has."""
        processors = float(self.machine.vcpus)
        return processors if self.cpu_percent is None else min(processors, self.cpu_percent / 100)

    @property
    def on_boot(self) -> bool:
        """Whether it starts with its node: what is wanted off stays off."""
        return self.power is Power.RUNNING


@dataclass(frozen=True)
class VnetPlan:
    """The workspace's network in the zone of the site."""

    name: str
    zone: str
    tag: int | None
    alias: str


@dataclass(frozen=True)
class ClusterPlan:
    """The resources that the stack creates on a cluster for a workspace."""

    endpoint: str
    pool: str
    operator_group: str | None
    vnet: VnetPlan
    gateway: VmPlan
    desktops: dict[str, VmPlan]
    # Where a machine at a seat is, or would be made now; for the others why there is no place.
    seats: dict[str, VmPlan] = field(default_factory=dict)
    no_room: dict[str, str] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """As plain data, for `--json` and golden files."""
        return asdict(self)

    def machines(self) -> list[VmPlan]:
        """Gateway and desktops."""
        return [self.gateway, *self.desktops.values()]


def plan_on_cluster(workspace: Workspace, site: Site, view: ClusterView) -> tuple[WorkspacePlan, ClusterPlan]:
    """Work out both Plans; raises `ConfigError` if the site has no place for the workspace."""
    cluster = site.cluster
    names = [_machine_name(desktop) for desktop in workspace.desktops]
    claims = claim(site.name, cluster, workspace.name, names, view)
    plan = plan_workspace(workspace, site, "kvm", _door(cluster, claims))
    _check_quotas(plan, site, view)
    placed = place(site.name, cluster, _needs(plan), view, _spare_needs(plan))
    vnet = VnetPlan(
        name=claims.vnet,
        zone=cluster.zone.name,
        tag=None if cluster.zone.kind == "simple" else claims.tag,
        alias=pool_of(site.name, workspace.name),
    )
    maker = _Maker(plan, site, cluster, claims, placed.nodes, view)
    return plan, ClusterPlan(
        endpoint=str(cluster.endpoint).rstrip("/"),
        pool=vnet.alias,
        operator_group=cluster.operator_group,
        vnet=vnet,
        gateway=maker.gateway(),
        desktops={desktop.name: maker.desktop(desktop, desktop.name) for desktop in plan.desktops},
        seats={
            seat.name: maker.desktop(seat, name)
            for seat in plan.seats
            if (name := seat_owner(site.name, workspace.name, seat.name).machine) in placed.nodes
        },
        no_room={name.removesuffix(SEAT_SUFFIX): why for name, why in placed.no_room.items()},
    )


def _machine_name(desktop: Desktop) -> str:
    """As its owner's tag calls the machine of a desktop, or the one at a seat."""
    return desktop.name if desktop.lifetime == "persistent" else f"{desktop.name}{SEAT_SUFFIX}"


def _door(cluster: Cluster, claims: Claims) -> Door:
    uplink = cluster.uplink
    return Door(
        bridge=uplink.bridge,
        network=uplink.network,
        address=claims.uplink_address,
        router=str(uplink.router),
        resolvers=tuple(map(str, uplink.resolvers)),
        operators=tuple(map(str, uplink.operators or (uplink.network,))),
        port=HTTPS,
    )


def _needs(plan: WorkspacePlan) -> list[Need]:
    needs = [_need(Owner(plan.site, plan.name, name), machine) for name, machine in plan.machines().items()]
    # The big ones first: what is small still fits afterwards.
    return sorted(needs, key=lambda need: (need.owner.machine != GATEWAY, -need.memory_mib, need.owner.machine))


def _spare_needs(plan: WorkspacePlan) -> list[Need]:
    """Of the machines at seats, which are made one after another; without a place for one the others go on."""
    return [_need(seat_owner(plan.site, plan.name, seat.name), seat.machine) for seat in plan.seats]


def _need(owner: Owner, machine: MachinePlan) -> Need:
    return Need(owner, machine.image, machine.vcpus, machine.memory_mib, machine.disk_gib + (machine.home_gib or 0))


def _check_quotas(plan: WorkspacePlan, site: Site, view: ClusterView) -> None:
    """Raise `ConfigError` if the workspace, or all together, would have more than the site grants."""
    if site.cluster.quotas == Quotas():
        # Nothing is bounded: the machines of the whole cluster need not be counted.
        return
    quota.require_own(f"site {site.name}: proxmox.quotas", site.cluster.quotas, plan)
    mine = {machine.vm_id for machine in view.machines_of(site.name, plan.name)}
    others = [machine for machine in view.of_site(site.name) if not machine.template and machine.vm_id not in mine]
    desktops = [machine for machine in others if not _is_gateway(machine)]
    # A machine may be made at each seat at any time.
    own = [*plan.machines().values(), *(seat.machine for seat in plan.seats)]
    homes = [*(home_of(machine.tags) for machine in others), *(machine.home_gib for machine in own)]
    counted: list[SeenMachine | MachinePlan] = [*others, *own]
    sizes = [(machine.vcpus, machine.memory_mib, machine.disk_gib) for machine in counted]
    vcpus, memory_mib, disk_gib = (sum(column) for column in zip(*sizes, strict=True))
    asked = {
        "desktops": len(desktops) + len(plan.desktops) + len(plan.seats),
        "vcpus": vcpus,
        "memory_gib": quota.gib(memory_mib),
        "disk_gib": disk_gib + sum(home or 0 for home in homes),
    }
    quota.require(f"site {site.name}: proxmox.quotas", site.cluster.quotas, asked, plan.name)


def _is_gateway(machine: SeenMachine) -> bool:
    """By its tag; by its name where it has no tag of its own yet."""
    tags = [tag for tag in machine.tags if tag.startswith(WORKSPACE_POOLS)]
    for tag in tags:
        if tag.endswith(f".{GATEWAY}"):
            return True
    return not tags and machine.name.startswith(f"{GATEWAY}.")


@dataclass(frozen=True)
class _Maker:
    """Puts machines together from the parts of the Plan."""

    plan: WorkspacePlan
    site: Site
    cluster: Cluster
    claims: Claims
    nodes: Mapping[str, str]
    view: ClusterView

    def gateway(self) -> VmPlan:
        plan, uplink, settings = self.plan.gateway, self.cluster.uplink, self.plan.gateway.settings
        outside = NicPlan(
            bridge=uplink.bridge,
            mac=plan.uplink_mac,
            config=f"{settings.uplink_address}/{settings.uplink_prefix}",
            router=settings.host_address,
            vlan=uplink.vlan,
        )
        inside = NicPlan(
            bridge=self.claims.vnet,
            mac=plan.workspace_mac,
            config=f"{settings.workspace_address}/{settings.workspace_prefix}",
        )
        rules = gateway_firewall(self.plan)
        return self._vm(GATEWAY, plan.machine, (outside, inside), rules, None)

    def desktop(self, desktop: DesktopPlan, name: str) -> VmPlan:
        settings = self.plan.gateway.settings
        # Nothing is leased: rules that let DHCP pass would come before the look at the MAC address.
        nic = NicPlan(
            bridge=self.claims.vnet,
            mac=desktop.mac,
            config=f"{desktop.address}/{settings.workspace_prefix}",
            router=settings.workspace_address,
            mib_per_second=desktop.caps.network_mib_per_second,
        )
        return self._vm(name, desktop.machine, (nic,), desktop_firewall(self.plan, desktop), desktop.caps)

    def _vm(
        self,
        name: str,
        machine: MachinePlan,
        nics: tuple[NicPlan, ...],
        firewall: FirewallPlan,
        tier: Tier | None,
    ) -> VmPlan:
        node, settings = self.nodes[name], self.plan.gateway.settings
        owner = Owner(self.plan.site, self.plan.name, name)
        seen = self.view.machine_of(owner)
        # A machine that exists does not need its template any more, which may have been taken away.
        template_node, template = template_for(self.cluster, self.view, machine.image, node) or (node, 0)
        return VmPlan(
            owner=owner,
            vm_id=self.claims.vm_ids[name],
            node=node,
            template=template,
            template_node=template_node,
            machine=replace(machine, home_gib=None) if seen and seen.vm_id in self.view.homeless else machine,
            storage=self.cluster.storages.disks,
            nics=nics,
            resolvers=settings.resolvers if name == GATEWAY else (settings.workspace_address,),
            firewall=firewall,
            disk_iops=tier.disk_iops if tier else None,
            disk_mib_per_second=tier.disk_mib_per_second if tier else None,
            disk_burst=tier.disk_burst if tier else None,
            cpu_percent=tier.cpu_percent if tier else None,
            power=power_of(seen.tags) if seen else Power.RUNNING,
            systems=Systems() if name == GATEWAY else self._systems(seen, owner, template),
        )

    def _systems(self, seen: SeenMachine | None, owner: Owner, template: int) -> Systems:
        """Read what the machine says of its system; of one that is not whole yet, what it is cloned from."""
        if seen is not None and owner.tag in seen.tags:
            return Systems.of(seen.tags)
        held = next((machine.tags for machine in self.view.machines if machine.vm_id == template), ())
        return Systems(image_of_template(held))
