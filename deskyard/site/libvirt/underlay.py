"""The layers below a workspace, as libvirt and the kernel of this machine tell of them."""

import contextlib
import json
import platform
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from ipaddress import IPv4Network
from typing import Any
from xml.etree import ElementTree

import libvirt

from deskyard.host import addresses as host_addresses
from deskyard.host.command import run
from deskyard.plan.isolation.probe import HostFacts
from deskyard.plan.workspace import DesktopPlan, WorkspacePlan
from deskyard.site.libvirt import daemon, storage

# RFC 5737: addresses of documents and tests; in a namespace they stand for the world outside.
DOCUMENTATION = tuple(IPv4Network(block) for block in ("192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24"))


@dataclass(frozen=True)
class LibvirtUnderlay:
    """The hypervisor of this machine, below one workspace."""

    plan: WorkspacePlan

    def inside(self) -> list[str]:
        """The start of a command line that runs on the host, where its bridges are."""
        return daemon.inside()

    def facts(self, plans: Sequence[WorkspacePlan]) -> HostFacts:
        """Look what the host offers to be attacked."""
        return host_facts(plans)

    def findings(self) -> list[str]:
        """Filters and ports that are not as planned."""
        with daemon.connection() as link:
            return list(_hypervisor(link, self.plan))

    def not_examined(self) -> list[str]:
        """Nothing: all that holds here is asked."""
        return []

    def versions(self) -> dict[str, str]:
        """Of the programs that the layers are made of."""
        with daemon.connection() as link:
            numbers = {"libvirt": link.getLibVersion(), "qemu": link.getVersion()}
        versions = {name: f"{n // 1_000_000}.{n // 1000 % 1000}.{n % 1000}" for name, n in numbers.items()}
        return {**versions, "kernel": platform.release(), "python": platform.python_version()}

    def images(self) -> dict[str, str]:
        """Of each machine: the image (name and digest) that its disk started from."""
        found = {}
        with daemon.connection() as link:
            for machine in self.plan.machines().values():
                with contextlib.suppress(libvirt.libvirtError):
                    root = ElementTree.fromstring(link.lookupByName(machine.domain).XMLDesc(0))
                    disk = root.find("./devices/disk/source")
                    volume = link.storageVolLookupByPath(disk.get("file") if disk is not None else "")
                    found[machine.domain] = storage.origin(link, volume) or "?"
        return found


def host_facts(plans: Sequence[WorkspacePlan]) -> HostFacts:
    """The addresses of this machine, and the ports that programs listen on beyond loopback.

    A private hypervisor lives in a namespace with addresses and ports of its own; this machine's are outside of it.
    """
    inside = daemon.inside()
    own = host_addresses.addresses()
    there = [
        address for address in host_addresses.addresses(inside) if not any(address in block for block in DOCUMENTATION)
    ]
    # The ways between host and gateways first: they are the shortest.
    uplinks = [address for address in map(str, there) if address in {plan.uplink.host_address for plan in plans}]
    addresses = dict.fromkeys((*uplinks, *map(str, own), *map(str, there)))
    return HostFacts(tuple(addresses), tuple(sorted({*host_addresses.ports(inside), *host_addresses.ports()})))


def _hypervisor(link: Any, plan: WorkspacePlan) -> Iterator[str]:
    """The definitions of the filters, and each desktop's NIC: filter, address, isolation, in libvirt and the kernel."""
    from deskyard.site.libvirt.kinds.network import FilterKind

    for filter_ in (plan.desktop_filter, plan.gateway_filter):
        seen = FilterKind().read(link, filter_.name, asdict(filter_))
        if seen is None or seen["kind"] != filter_.kind:
            yield f"filter: {filter_.name}: {'is missing' if seen is None else 'was changed by hand'}"
    shown = json.loads(run([*daemon.inside(), "bridge", "-details", "-json", "link"], timeout=20).stdout or "[]")
    ports = {port["ifname"]: port for port in shown}
    for desktop in (*plan.desktops, *plan.seats):
        with contextlib.suppress(libvirt.libvirtError):
            root = ElementTree.fromstring(link.lookupByName(desktop.machine.domain).XMLDesc(0))
            yield from _nics(root, desktop, plan, ports)
            continue
        if desktop in plan.desktops:
            yield f"port: {desktop.name} does not run"


def _nics(root: ElementTree.Element, desktop: DesktopPlan, plan: WorkspacePlan, ports: dict[str, Any]) -> Iterator[str]:
    nics = root.findall("./devices/interface")
    if len(nics) != 1:
        yield f"port: {desktop.name} has {len(nics)} NICs, not one"
    for nic in nics:
        rules, address = nic.find("filterref"), nic.find("filterref/parameter[@name='IP']")
        if rules is None or rules.get("filter") != plan.desktop_filter.name:
            yield f"filter: {plan.desktop_filter.name} on the NIC of {desktop.name}: is missing"
        elif address is None or address.get("value") != desktop.address:
            yield f"filter: {plan.desktop_filter.name} on the NIC of {desktop.name}: is for another address"
        target = nic.find("target")
        port = ports.get(target.get("dev", "") if target is not None else "", {})
        if port.get("master") != plan.network.bridge:
            yield f"port: {desktop.name} is not on bridge {plan.network.bridge}"
        if desktop.isolated and port.get("isolated") is not True:
            yield f"port: {desktop.name} isolated on bridge {plan.network.bridge}: is missing"
