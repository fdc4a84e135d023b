"""The Plan of a workspace: every address, name and rule, worked out once."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from ipaddress import IPv4Address, IPv4Network
from typing import Any, Literal

from deskyard.computer.recording.asked import Asked
from deskyard.errors import ConfigError
from deskyard.model.base import Declaration
from deskyard.model.care import BackupSchedule
from deskyard.model.customise import AgentProgram
from deskyard.model.idle import Idle
from deskyard.model.site import Site
from deskyard.model.tier import Tier
from deskyard.model.workspace import Desktop, Workspace
from deskyard.plan.egress import denied_networks, plan_egress
from deskyard.plan.names import domain, mac_address, machine_uuid, seat_domain, short_id
from deskyard.wire import gateway_settings
from deskyard.wire.gateway_settings import Acme, Settings
from deskyard.wire.routes import ROUTES

GATEWAY = "gateway"  # among the machines of a workspace; no desktop has this name
GATEWAY_IMAGE, DESKTOP_IMAGE = "gateway", "desktop"
IMAGES = (GATEWAY_IMAGE, DESKTOP_IMAGE)
GATEWAY_VCPUS = 1
GATEWAY_MEMORY_MIB = 768
GATEWAY_DISK_GIB = 4
FIRST_HOST, LAST_HOST = 10, 126
HTTPS = 443
UPLINK_HOST, UPLINK_GATEWAY = 249, 250

Accelerator = Literal["kvm", "tcg"]


@dataclass(frozen=True)
class NetworkPlan:
    """A libvirt network: `workspace` (isolated, no host address) or `uplink` (NAT, host and gateway only)."""

    kind: Literal["workspace", "uplink"]
    name: str
    bridge: str
    cidr: str
    host_address: str | None
    gateway_address: str


@dataclass(frozen=True)
class FilterPlan:
    """A filter of what a NIC on the workspace network may send and get, enforced by the hypervisor frame by frame."""

    name: str
    kind: Literal["desktop", "desktop-peers", "gateway"]
    gateway_mac: str
    gateway_address: str


@dataclass(frozen=True)
class MachinePlan:
    """The hardware of a virtual machine; sizes in MiB and GiB. Only desktops have a volume of /home."""

    domain: str
    uuid: str
    hostname: str
    image: str
    vcpus: int
    memory_mib: int
    disk_gib: int
    home_gib: int | None


@dataclass(frozen=True)
class DesktopPlan:
    """A desktop: its tier with all its caps, its machine, its address, its routes (name -> port of the machine)."""

    name: str
    tier: str
    caps: Tier
    machine: MachinePlan
    mac: str
    address: str
    routes: dict[str, int]
    isolated: bool
    idle: Idle | None = None  # when it is stopped because nobody uses it
    agent: AgentProgram | Literal["none"] | None = None  # whom tasks go to; None: OpenClaw, where the image has it
    recording: Asked | None = None  # what is kept of its screen; None: it is not recorded
    backup: BackupSchedule | Literal["never"] | None = None  # how often it is backed up; None: by hand, and as it goes
    keep: tuple[str, ...] = ()  # what of /etc outlives an exchange of its system

    @property
    def awaited(self) -> list[str]:
        """The routes that answer when the desktop is ready, whatever build of its image it has."""
        return [route for route in self.routes if ROUTES[route].awaited]


@dataclass(frozen=True)
class Door:
    """Where a gateway stands in the network of its site: by default behind this machine, which leads a port to it."""

    bridge: str
    network: IPv4Network
    address: str
    router: str
    resolvers: tuple[str, ...]
    operators: tuple[str, ...]
    port: int
    forwarder: str | None = None  # the address of the machine that leads a port to it


@dataclass(frozen=True)
class GatewayPlan:
    """The gateway: its machine, two NICs, and its settings."""

    machine: MachinePlan
    uplink_mac: str
    workspace_mac: str
    uplink_address: str
    workspace_address: str
    listen: str
    port: int
    url: str
    settings: Settings

    @property
    def has_own_address(self) -> bool:
        """Whether it stands in the network of its site, as on a cluster; else this machine leads a port to it."""
        return self.settings.forwarder is None


@dataclass(frozen=True)
class WorkspacePlan:
    """Everything the stack creates for one workspace; of the seats it creates what the gateway knows of them."""

    name: str
    site: str
    accelerator: Accelerator
    network: NetworkPlan
    uplink: NetworkPlan
    desktop_filter: FilterPlan
    gateway_filter: FilterPlan
    gateway: GatewayPlan
    desktops: tuple[DesktopPlan, ...]
    seats: tuple[DesktopPlan, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """The Plan as plain data, for `--json` and golden files."""
        plain = asdict(self)
        for desktop in (*plain["desktops"], *plain["seats"]):
            desktop |= {key: each.model_dump() for key, each in desktop.items() if isinstance(each, Declaration)}
        return plain

    def machines(self) -> dict[str, MachinePlan]:
        """The machines of gateway and desktops, by name."""
        return {GATEWAY: self.gateway.machine, **{desktop.name: desktop.machine for desktop in self.desktops}}

    def desktop(self, name: str) -> DesktopPlan:
        """The desktop called `name`; raises `ConfigError` with the known names, and for a seat."""
        if any(seat.name == name for seat in self.seats):
            reason = "has lifetime: task: what is made there is never kept, moved or changed, only released"
            raise ConfigError("desktop", name, reason, f"see ./inv pool.list {self.name}")
        return self._named(name, self.desktops)

    def seat(self, name: str) -> DesktopPlan:
        """The seat called `name`; raises `ConfigError` with the known names."""
        if not self.seats:
            reason = f"is no seat: workspace {self.name} declares none"
            raise ConfigError("seat", name, reason, "write a desktop with lifetime: task into its file")
        return self._named(name, self.seats)

    def reached(self, name: str) -> DesktopPlan:
        """The desktop or seat called `name`: the gateway leads to both alike."""
        return self._named(name, (*self.desktops, *self.seats))

    def _named(self, name: str, among: Sequence[DesktopPlan]) -> DesktopPlan:
        for desktop in among:
            if desktop.name == name:
                return desktop
        names = ", ".join(desktop.name for desktop in among)
        raise ConfigError("desktop", name, f"is not in workspace {self.name}", f"choose one of: {names}")


def plan_workspace(
    workspace: Workspace,
    site: Site,
    accelerator: Accelerator,
    door: Door | None = None,
    host: Sequence[IPv4Address] = (),
) -> WorkspacePlan:
    """Work out the Plan; raises `ConfigError` for a tier the site does not have.

    `door` is where the gateway stands if it has an address of the site's network; else this machine leads to it.
    `host` are the addresses of the machine that it runs on, as far as they are known.
    """
    door = door or _private_door(workspace)
    addresses = _addresses(workspace)
    network, uplink = _networks(workspace, door)
    every = tuple(
        _desktop(desktop, index, workspace, site, accelerator, addresses[desktop.name])
        for index, desktop in enumerate(workspace.desktops)
    )
    kept = {desktop.name for desktop in workspace.persistent()}
    gateway = _gateway(workspace, site, network, door, every, denied_networks(site, host))
    return WorkspacePlan(
        name=workspace.name,
        site=site.name,
        accelerator=accelerator,
        network=network,
        uplink=uplink,
        desktop_filter=_filter(network, gateway, "desktop-peers" if workspace.peers == "open" else "desktop"),
        gateway_filter=_filter(network, gateway, "gateway"),
        gateway=gateway,
        desktops=tuple(desktop for desktop in every if desktop.name in kept),
        seats=tuple(desktop for desktop in every if desktop.name not in kept),
    )


def desktop_subnet(network: IPv4Network) -> IPv4Network:
    """The first half of the workspace's /24."""
    return next(network.subnets(prefixlen_diff=1))


def uplink_subnet(network: IPv4Network) -> IPv4Network:
    """The last eight addresses of the workspace's /24."""
    return list(network.subnets(new_prefix=29))[-1]


def _private_door(workspace: Workspace) -> Door:
    """A network of gateway and host alone, in the last eight addresses of the workspace's /24."""
    base = workspace.network.network_address
    host = str(base + UPLINK_HOST)
    return Door(
        bridge=f"dyu{short_id(workspace.site, workspace.name)}",
        network=uplink_subnet(workspace.network),
        address=str(base + UPLINK_GATEWAY),
        router=host,
        resolvers=(host,),
        operators=(f"{host}/32",),
        port=workspace.gateway_port,
        forwarder=host,
    )


def _networks(workspace: Workspace, door: Door) -> tuple[NetworkPlan, NetworkPlan]:
    tag = short_id(workspace.site, workspace.name)
    base = workspace.network.network_address
    network = NetworkPlan(
        kind="workspace",
        name=f"deskyard-{workspace.name}",
        bridge=f"dyw{tag}",
        cidr=str(desktop_subnet(workspace.network)),
        host_address=None,
        gateway_address=str(base + 1),
    )
    uplink = NetworkPlan(
        kind="uplink",
        name=f"deskyard-{workspace.name}.uplink",
        bridge=door.bridge,
        cidr=str(door.network),
        host_address=door.router,
        gateway_address=door.address,
    )
    return network, uplink


def _filter(
    network: NetworkPlan, gateway: GatewayPlan, kind: Literal["desktop", "desktop-peers", "gateway"]
) -> FilterPlan:
    role = kind.partition("-")[0]
    return FilterPlan(f"{network.name}-{role}", kind, gateway.workspace_mac, gateway.workspace_address)


def _addresses(workspace: Workspace) -> dict[str, IPv4Address]:
    """Addresses that stay when other desktops come and go, save where two names collide."""
    numbers = {d.name: d.host_number for d in workspace.desktops if d.host_number is not None}
    taken = set(numbers.values())
    span = LAST_HOST - FIRST_HOST + 1
    for desktop in sorted(workspace.desktops, key=lambda d: d.name):
        if desktop.name in numbers:
            continue
        start = int(short_id(workspace.name, desktop.name), 16)
        free = (FIRST_HOST + (start + probe) % span for probe in range(span))
        numbers[desktop.name] = next(number for number in free if number not in taken)
        taken.add(numbers[desktop.name])
    base = workspace.network.network_address
    return {name: base + number for name, number in numbers.items() if number is not None}


def _desktop(
    desktop: Desktop,
    index: int,
    workspace: Workspace,
    site: Site,
    accelerator: Accelerator,
    address: IPv4Address,
) -> DesktopPlan:
    tiers = site.all_tiers()
    if desktop.tier not in tiers:
        names = ", ".join(tiers)
        field = f"desktops[{index}].tier"
        raise ConfigError(field, desktop.tier, f"is no tier of site {site.name}", f"choose one of: {names}")
    tier = tiers[desktop.tier]
    routes = {route.name: route.port for route in ROUTES.values()}
    name_of = domain if desktop.lifetime == "persistent" else seat_domain
    machine = MachinePlan(
        domain=name_of(workspace.name, desktop.name),
        uuid=machine_uuid(workspace.site, workspace.name, desktop.name),
        hostname=desktop.name,
        image=_image(desktop, index, workspace),
        vcpus=vcpus(tier.vcpus, accelerator),
        memory_mib=tier.memory_mib,
        disk_gib=tier.disk_gib,
        home_gib=tier.home_gib,
    )
    mac = mac_address(workspace.site, workspace.name, desktop.name)
    isolated = workspace.peers == "closed"
    idle = None if desktop.idle == "never" or desktop.lifetime == "task" else desktop.idle or tier.idle
    agent = desktop.agent or workspace.agent
    recording = _recording(desktop, index, workspace, tier)
    backup = None if desktop.lifetime == "task" else desktop.backup or tier.backup
    keep = tuple(dict.fromkeys((*workspace.keep, *desktop.keep)))
    return DesktopPlan(
        name=desktop.name,
        tier=desktop.tier,
        caps=tier,
        machine=machine,
        mac=mac,
        address=str(address),
        routes=routes,
        isolated=isolated,
        idle=idle,
        agent=agent,
        recording=recording,
        backup=backup,
        keep=keep,
    )


def _recording(desktop: Desktop, index: int, workspace: Workspace, tier: Tier) -> Asked | None:
    recording = desktop.recording or workspace.recording
    if recording is None or recording == "off":
        return None
    if recording.asked.size_bytes * 2 > tier.home_gib << 30:
        field = "recording.size" if desktop.recording is None else f"desktops[{index}].recording.size"
        reason = f"is more than half of /home ({tier.home_gib} GiB) of desktop {desktop.name}"
        remedy = f"write {tier.home_gib * 512}MiB or less, or choose a tier with a larger home_gib"
        raise ConfigError(field, recording.size, reason, remedy)
    return recording.asked


def _image(desktop: Desktop, index: int, workspace: Workspace) -> str:
    image = desktop.image or workspace.image
    if image == GATEWAY_IMAGE:
        field = "image" if desktop.image is None else f"desktops[{index}].image"
        raise ConfigError(field, image, "is no image of desktops", f"choose {DESKTOP_IMAGE} or a custom image")
    return image


def vcpus(wanted: int, accelerator: Accelerator) -> int:
    """QEMU's emulation panics recent kernels with more than one CPU, so emulated machines get one."""
    return 1 if accelerator == "tcg" else wanted


def _acme(site: Site) -> Acme | None:
    acme = site.certificate.acme if site.certificate else None
    return Acme(acme.directory, acme.email, str(acme.ca or "")) if acme else None


def _gateway(
    workspace: Workspace,
    site: Site,
    network: NetworkPlan,
    door: Door,
    desktops: tuple[DesktopPlan, ...],
    denied: tuple[str, ...],
) -> GatewayPlan:
    hostname = f"{workspace.name}.{site.domain}"
    origin = f"https://{hostname}" if door.port == HTTPS else f"https://{hostname}:{door.port}"
    uplink_mac = mac_address(workspace.site, workspace.name, "", "uplink")
    workspace_mac = mac_address(workspace.site, workspace.name, "", "workspace")
    settings = Settings(
        workspace=workspace.name,
        origin=origin,
        hostname=hostname,
        uplink_mac=uplink_mac,
        uplink_address=door.address,
        uplink_prefix=door.network.prefixlen,
        host_address=door.router,
        resolvers=door.resolvers,
        operators=door.operators,
        forwarder=door.forwarder,
        workspace_mac=workspace_mac,
        workspace_address=network.gateway_address,
        workspace_prefix=IPv4Network(network.cidr).prefixlen,
        egress=workspace.egress,
        denied_networks=denied,
        egress_rules=plan_egress(workspace, site, {d.address: d.caps for d in desktops}),
        desktops=tuple(
            gateway_settings.Desktop(d.name, d.mac, d.address, dict(d.routes), d.recording is not None)
            for d in desktops
        ),
        acme=_acme(site),
    )
    machine = MachinePlan(
        domain=domain(workspace.name, GATEWAY),
        uuid=machine_uuid(workspace.site, workspace.name, GATEWAY),
        hostname=f"{workspace.name}-gateway",
        image=GATEWAY_IMAGE,
        vcpus=GATEWAY_VCPUS,
        memory_mib=GATEWAY_MEMORY_MIB,
        disk_gib=GATEWAY_DISK_GIB,
        home_gib=None,
    )
    return GatewayPlan(
        machine=machine,
        uplink_mac=uplink_mac,
        workspace_mac=workspace_mac,
        uplink_address=door.address,
        workspace_address=network.gateway_address,
        listen=site.listen,
        port=door.port,
        url=origin,
        settings=settings,
    )
