"""Checks before a workspace is touched: one clear error instead of a half-made workspace."""

import errno
import json
import shutil
import socket
from collections.abc import Collection, Iterator, Sequence
from ipaddress import IPv4Network
from pathlib import Path

from deskyard.declaration import declaration
from deskyard.declaration.declaration import Declared
from deskyard.errors import ConfigError, DeskyardError, HostError, SiteError
from deskyard.host import toolchain
from deskyard.host.command import run
from deskyard.host.facts import GIB, find_program
from deskyard.host.places import tree
from deskyard.model.quotas import Quotas
from deskyard.plan import quota
from deskyard.plan.clash import shared
from deskyard.plan.image.image import disk_gib, image_names, read_image
from deskyard.plan.power import NoRoom, Power
from deskyard.plan.workspace import GATEWAY, MachinePlan
from deskyard.site.libvirt import daemon, forward, storage
from deskyard.site.libvirt.limits import caps, memory
from deskyard.site.libvirt.link import gone_is_fine
from deskyard.site.libvirt.machines import LibvirtMachines, active_domains

PROGRAMS = ("socat", "ssh", "ip", "haproxy")
PRIVATE_PROGRAMS = ("libvirtd", "virtlogd", "nsenter", "unshare", "dnsmasq", "slirp4netns", "ebtables", "iptables")
IMAGES_FOLDER = Path("/var/lib/libvirt/images")
# Disks are overlays that grow: what a new one needs at once is a part of its size.
DISK_PART = 0.25


def check(declared: Declared) -> None:
    """Check all that can be known without the hypervisor: programs, images, other workspaces, the port."""
    _programs()
    # One that is not built is named.
    declared.image_sources()
    _image_disks(declared)
    _other_workspaces(declared)
    _clashes(declared)
    _quotas(declared)
    _port(declared)


def check_on_cluster(declared: Declared) -> None:
    """Check what a site on a cluster needs besides what planning has found: tools, templates, networks of others."""
    for tool in ("pulumi", "proxmoxve"):
        toolchain.locate(tool)
    assert declared.on_cluster is not None
    for machine in declared.on_cluster.machines():
        # A gateway follows its image; a desktop that exists needs no template.
        if machine.template == 0 and machine.owner.machine == GATEWAY:
            reason = f"no template of the gateway as it is in this tree is published for node {machine.node}"
            raise ConfigError(
                f"site {declared.site.name}",
                None,
                reason,
                f"run ./inv image.publish gateway --site {declared.site.name}",
            )
    _room_for_the_pool(declared)
    _image_disks(declared)
    if declared.site.cluster.uplink.network.overlaps(declared.workspace.network):
        reason = f"overlaps the uplink of site {declared.site.name} ({declared.site.cluster.uplink.network})"
        field = f"Pulumi.{declared.workspace.name}.yaml: network"
        raise ConfigError(field, str(declared.workspace.network), reason, "choose another /24")
    _other_workspaces(declared)
    _cluster_firewall(declared)


def _room_for_the_pool(declared: Declared) -> None:
    """The seats that the pool fills first have a place; without one for further seats, tasks wait for each other."""
    pool, on_cluster = declared.workspace.pool, declared.on_cluster
    assert on_cluster is not None
    short = [seat.name for seat in declared.plan.seats[: pool.size if pool else 0] if seat.name in on_cluster.no_room]
    if pool and short:
        reason = f"seat {short[0]} has no place: {on_cluster.no_room[short[0]]}"
        field = f"Pulumi.{declared.workspace.name}.yaml: pool.size"
        raise ConfigError(field, pool.size, reason, "choose a smaller pool, a smaller tier, or add a node")


def _image_disks(declared: Declared) -> None:
    """A desktop's disk starts as its image's and may grow, never shrink."""
    declared_images = image_names(tree())
    for index, written in enumerate(declared.workspace.desktops):
        desktop = declared.plan.reached(written.name)
        machine = desktop.machine
        needed = disk_gib(read_image(tree(), machine.image), tree()) if machine.image in declared_images else 0
        if machine.disk_gib < needed:
            field = f"Pulumi.{declared.workspace.name}.yaml: desktops[{index}].tier"
            reason = f"has disks of {machine.disk_gib} GiB, image {machine.image} needs {needed} GiB"
            raise ConfigError(field, desktop.tier, reason, "choose a larger tier, or an image with a smaller disk_gib")


def _cluster_firewall(declared: Declared) -> None:
    """Require the datacenter's switch: without it the rules of machines are kept and shown, but not in force."""
    # Late: it is asked of clusters alone.
    from deskyard.site.proxmox.client import connect

    if not int(connect(declared.site).get("cluster/firewall/options").get("enable") or 0):
        reason = "the datacenter's firewall is off: no rule of any machine would be in force"
        remedy = "pvesh set /cluster/firewall/options --enable 1   # allow SSH and 8006 from your network first"
        raise SiteError("firewall", declared.site.name, reason, remedy)


def check_with_hypervisor(declared: Declared) -> None:
    """Check what the running hypervisor knows: memory in use, disks, networks and routes of this machine."""
    # Machines of others come and go meanwhile: nothing more than its name is asked of each.
    running = active_domains()
    # Whoever stopped a desktop keeps it off: it takes no memory.
    wanted = LibvirtMachines(declared.plan).desired()
    resting = {domain for domain, power in wanted.items() if power is not Power.RUNNING}
    with daemon.connection() as link:
        free = memory.free_mib(link)
        volumes = storage.volume_names(link)
    new = [machine for machine in declared.plan.machines().values() if machine.domain not in running | resting]
    _memory(free, new, quota.ahead(declared.plan, declared.workspace.pool, running))
    _disk(declared, volumes)
    _routes(declared)
    _caps(declared)


def _caps(declared: Declared) -> None:
    """A machine with a cap that cannot be held here would be made, and then not start."""
    desktops = (*declared.plan.desktops, *declared.plan.seats)
    wanted = {cap: found for cap in caps.REMEDIES for found in desktops if getattr(found.caps, cap) is not None}
    for cap, reason in (caps.not_held() if wanted else {}).items():
        if cap in wanted:
            value = getattr(wanted[cap].caps, cap)
            raise HostError(f"tier {wanted[cap].tier}: {cap}", value, reason, caps.REMEDIES[cap])


def _programs() -> None:
    toolchain.locate("pulumi")
    needed = PROGRAMS if daemon.RUN_BY_SYSTEMD.exists() else PROGRAMS + PRIVATE_PROGRAMS
    for program in needed:
        if find_program(program) is None:
            raise HostError("program", program, "is not installed", "run ./inv host.prepare")


def _other_workspaces(declared: Declared) -> None:
    mine = declared.workspace
    for name in declaration.stack_names():
        if name == mine.name:
            continue
        network, port = network_and_port(name)
        if network is not None and network.overlaps(mine.network):
            reason = f"overlaps workspace {name!r} ({network})"
            remedy = "choose a /24 that no other workspace uses"
            raise ConfigError(f"Pulumi.{mine.name}.yaml: network", str(mine.network), reason, remedy)
        opened = [
            exception
            for exception in declared.site.egress_exceptions
            if network is not None and exception.overlaps(network)
        ]
        if opened:
            reason = f"holds the network of workspace {name!r} ({network}), which no other workspace may reach"
            remedy = "name narrower networks in the site's file"
            raise ConfigError(f"site {declared.site.name}: egress_exceptions", str(opened[0]), reason, remedy)
        if port == mine.gateway_port and declared.on_cluster is None:
            reason = f"is the gateway port of workspace {name!r} too"
            field = f"Pulumi.{mine.name}.yaml: gateway_port"
            raise ConfigError(field, mine.gateway_port, reason, "choose another port")


def _quotas(declared: Declared) -> None:
    """Check the quotas of the workspace, and of all of its site that are declared here without mistakes."""
    if declared.site.quotas == Quotas():
        return
    quota.require_own(f"site {declared.site.name}: quotas", declared.site.quotas, declared.plan)
    asked = quota.totals([declared.plan, *(other.plan for other in _neighbours(declared))])
    quota.require(f"site {declared.site.name}: quotas", declared.site.quotas, asked, declared.workspace.name)


def _clashes(declared: Declared) -> None:
    """MACs and bridges are made from names: that two names make the same is rare, and refused."""
    for other in _neighbours(declared):
        for kind, values in shared(declared.plan, other.plan).items():
            reason = f"has the {kind} {min(values)} in common with workspace {other.workspace.name!r}"
            field = f"Pulumi.{declared.workspace.name}.yaml"
            raise ConfigError(field, declared.workspace.name, reason, "rename the workspace or the desktop")


def _neighbours(declared: Declared) -> Iterator[Declared]:
    """The other workspaces of the site; the own mistakes of one are not the matter here."""
    for name in declaration.stack_names():
        if name != declared.workspace.name:
            try:
                other = declaration.read(name)
            except DeskyardError:
                continue
            if other.site.name == declared.site.name:
                yield other


def network_and_port(name: str) -> tuple[IPv4Network | None, object]:
    """The network and the port of a workspace as they are written, whatever else is wrong with it."""
    config = declaration.written(name)
    if config is None:
        return None, None
    port = config.get("deskyard:gateway_port", 8443)
    try:
        return IPv4Network(str(config.get("deskyard:network"))), port
    except ValueError:
        return None, port


def _port(declared: Declared) -> None:
    listen, port = declared.site.listen, declared.workspace.gateway_port
    if forward.is_open(declared.site.name, declared.workspace.name):
        return
    if (error := port_error(listen, port)) is not None:
        taken = error.errno == errno.EADDRINUSE
        reason = f"is taken on {listen} by another program" if taken else f"cannot be used: {error.strerror}"
        field = f"Pulumi.{declared.workspace.name}.yaml: gateway_port"
        raise HostError(field, port, reason, "end that program or choose another port") from error


def port_error(listen: str, port: int) -> OSError | None:
    """The error with which this machine refuses to listen on a port; None if it would."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((listen, port))
        except OSError as error:
            return error
    return None


def _disk(declared: Declared, there: Collection[str]) -> None:
    """Room for the disks that are new, and for the images below them; those of `there` are in the pool."""
    folder = IMAGES_FOLDER if IMAGES_FOLDER.exists() else Path("/")
    new = [machine for machine in declared.plan.machines().values() if f"{machine.domain}.qcow2" not in there]
    disks = {name.removesuffix(".qcow2") for name in there}
    new += quota.ahead(declared.plan, declared.workspace.pool, disks)
    if not new:
        return
    images = [
        image
        for image in declared.image_sources().values()
        if storage.base_marker(image.name, image.digest) not in there
    ]
    needed = sum(Path(image.disk).stat().st_size for image in images)
    needed += sum(int((machine.disk_gib + (machine.home_gib or 0)) * GIB * DISK_PART) for machine in new)
    free = shutil.disk_usage(folder).free
    if free < needed:
        reason = f"{free // GIB} GiB are free, {len(new)} new disk(s) need at least {-(-needed // GIB)} GiB"
        raise NoRoom("disk space", str(folder), reason, "free some space or declare fewer desktops")


def _memory(free: int, new: Sequence[MachinePlan], ahead: Sequence[MachinePlan] = ()) -> None:
    needed = sum(machine.memory_mib for machine in (*new, *ahead))
    if needed > free:
        pool = f", {len(ahead)} of them for the pool," if ahead else ""
        reason = f"{free} MiB are available, {len(new) + len(ahead)} machine(s) to start{pool} need {needed} MiB"
        raise NoRoom("memory", None, reason, "choose smaller tiers, fewer desktops, or stop other workspaces")


def _routes(declared: Declared) -> None:
    ours = {declared.plan.network.bridge, declared.plan.uplink.bridge}
    for network, device in _routed():
        if device not in ours and network.overlaps(declared.workspace.network):
            field = f"Pulumi.{declared.workspace.name}.yaml: network"
            reason = f"overlaps {network}, which this machine reaches through {device}"
            raise ConfigError(field, str(declared.workspace.network), reason, "choose another /24")
    for name, network in _libvirt_networks():
        if name not in (declared.plan.network.name, declared.plan.uplink.name) and network.overlaps(
            declared.workspace.network
        ):
            field = f"Pulumi.{declared.workspace.name}.yaml: network"
            reason = f"overlaps {network} of the libvirt network {name!r}"
            raise ConfigError(field, str(declared.workspace.network), reason, "choose another /24")


def networks() -> list[IPv4Network]:
    """The networks that this machine reaches, and those of libvirt; the hypervisor runs."""
    return [*(network for network, _ in _routed()), *(network for _, network in _libvirt_networks())]


def _routed() -> Iterator[tuple[IPv4Network, str]]:
    shown = run([*daemon.inside(), "ip", "-json", "-4", "route", "show"], timeout=10).stdout
    for route in json.loads(shown or "[]"):
        if route["dst"] != "default":
            yield IPv4Network(route["dst"], strict=False), route.get("dev", "?")


def _libvirt_networks() -> Iterator[tuple[str, IPv4Network]]:
    from xml.etree import ElementTree

    with daemon.connection() as link:
        for network in link.listAllNetworks():
            document = "<network/>"
            # Another workspace's may go meanwhile.
            with gone_is_fine():
                document = network.XMLDesc(0)
            for ip in ElementTree.fromstring(document).iterfind("ip"):
                address, mask = ip.get("address"), ip.get("netmask") or ip.get("prefix")
                if address and mask and ip.get("family", "ipv4") == "ipv4":
                    yield network.name(), IPv4Network(f"{address}/{mask}", strict=False)
