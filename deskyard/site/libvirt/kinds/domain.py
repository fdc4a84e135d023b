"""Virtual machines."""

from collections.abc import Mapping
from typing import Any, ClassVar
from xml.etree import ElementTree

import libvirt

from deskyard.errors import SiteError
from deskyard.plan.power import Power
from deskyard.plan.warm import BOOTS
from deskyard.site.libvirt import documents, power
from deskyard.site.libvirt.backup import swap
from deskyard.site.libvirt.kinds.inputs import DomainInputs, NicInputs
from deskyard.site.libvirt.limits import memory
from deskyard.site.libvirt.limits.starts import turn
from deskyard.site.libvirt.link import gone_is_fine
from deskyard.site.libvirt.warm import restoring
from deskyard.site.resource.cancellation import CANCELLATION
from deskyard.site.resource.kind import Kind
from deskyard.site.resource.values import Values

DISK_CAPS = (
    "disk_iops",
    "disk_mib_per_second",
    "disk_burst_iops",
    "disk_burst_mib_per_second",
    "disk_burst_seconds",
)


class DomainKind(Kind[DomainInputs]):
    """`deskyard:libvirt:Domain`: a machine. Its data is in its disk, so stopping or replacing it loses nothing."""

    replaces: ClassVar[frozenset[str]] = frozenset({"name", "accelerator", "disk"})
    # A machine of before has the UUID that libvirt gave it, and keeps it; how it started matters once.
    ignored: ClassVar[frozenset[str]] = frozenset({"machine_uuid", "warm"})
    desired: ClassVar[Values] = {"running": True, "plugged": True}
    computed: ClassVar[tuple[str, ...]] = ("uuid", "running", "plugged", "console_log", "started")

    def needs_replacement(self, state: Values, inputs: DomainInputs, changed: list[str]) -> list[str]:
        """Another network needs a new machine: the old network cannot go while a machine is plugged into it."""
        replaced = super().needs_replacement(state, inputs, changed)
        if "interfaces" in changed and _plugs(state) != _plugs(inputs):
            replaced.append("interfaces")
        return replaced

    def create(self, link: Any, inputs: DomainInputs) -> tuple[str, Values]:
        """Define and start it; one that an interrupted run left is stopped and defined anew."""
        self.delete(link, inputs["name"], dict(inputs))
        machine, started = _started(link, inputs)
        machine.setAutostart(True)
        return inputs["name"], {**_outputs(link, machine), "started": started}

    def read(self, link: Any, identity: str, state: Values) -> Values | None:
        """Read the domain's hardware as defined now, and whether it runs or is wanted off."""
        found = None
        with gone_is_fine():
            found = link.lookupByName(identity)
        if found is None:
            return None
        xml = found.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE)
        return {**state, **_hardware(xml, state), **_outputs(link, found)}

    def update(self, link: Any, identity: str, state: Values, inputs: DomainInputs) -> Values:
        """Memory, CPUs and disks change at its next start, NICs at once; start it if it is wanted to run."""
        machine = link.lookupByName(identity)
        root = ElementTree.fromstring(machine.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE))
        wanted = ElementTree.fromstring(_document(inputs))
        for tag in ("memory", "currentMemory", "vcpu", "cputune"):
            for element in root.findall(tag):
                root.remove(element)
        for tag in ("memory", "vcpu", "cputune"):
            root.extend(wanted.findall(tag))
        devices = root.find("devices")
        assert devices is not None
        if state.get("home") != inputs.get("home"):
            _replace_home(devices, inputs)
        if state.get("interfaces") != inputs["interfaces"]:
            _replace_interfaces(machine, devices, inputs["interfaces"])
        link.defineXML(ElementTree.tostring(root, encoding="unicode"))
        machine = link.lookupByName(identity)
        if any(state.get(cap) != inputs.get(cap) for cap in DISK_CAPS):
            _throttle(machine, inputs)
        if machine.isActive() and state.get("cpu_percent") != inputs.get("cpu_percent"):
            quota = {
                "global_period": documents.CPU_PERIOD,
                "global_quota": documents.cpu_quota(inputs.get("cpu_percent")),
            }
            machine.setSchedulerParametersFlags(quota, libvirt.VIR_DOMAIN_AFFECT_LIVE)
        if power.desired(machine) is Power.RUNNING:
            if machine.isActive() and not _plugged(link, machine):
                # Its networks were stopped under it; only a start plugs it in again.
                stop(machine)
            swap.mend(machine)
            power.start(machine)
        return {**_outputs(link, machine), "started": state.get("started")}

    def delete(self, link: Any, identity: str, state: Values) -> None:
        """Shut it down (pull the plug if the guest does not listen) and forget it; its disks stay."""
        with gone_is_fine(libvirt.VIR_ERR_OPERATION_INVALID):
            stop(link.lookupByName(identity))
        with gone_is_fine():
            power.forget(link.lookupByName(identity))


def _started(link: Any, inputs: DomainInputs) -> tuple[Any, str]:
    """The machine, defined and running, and how it started: from its template, or by booting if that cannot be."""
    document, warm = _document(inputs), inputs.get("warm")
    word = BOOTS
    memory.note(inputs["name"])
    if warm is not None:
        try:
            with turn():
                return restoring.start(link, document, warm), f"went on from {warm['template']}"
        except (SiteError, OSError, libvirt.libvirtError) as error:
            word = f"{BOOTS}, since it could not go on from {warm['template']}: {error}"
    machine = link.defineXML(document)
    machine.create()
    return machine, word


def stop(machine: Any, seconds: float = power.SHUTDOWN_SECONDS) -> None:
    """Ask the guest to shut down, wait, then pull the plug."""
    try:
        power.shut_down(machine, seconds=seconds, pause=CANCELLATION.pause)
    except SiteError:
        machine.destroy()


def _plugs(values: Mapping[str, Any]) -> list[Any]:
    interfaces = values.get("interfaces")
    if not isinstance(interfaces, list):
        return [interfaces]
    return [(nic["mac"], nic["network"]) for nic in interfaces]


def _document(inputs: DomainInputs) -> str:
    return documents.domain(
        name=inputs["name"],
        uuid=inputs["machine_uuid"],
        vcpus=inputs["vcpus"],
        memory_mib=inputs["memory_mib"],
        accelerator=inputs["accelerator"],
        disk=inputs["disk"],
        home=inputs.get("home"),
        cpu_percent=inputs.get("cpu_percent"),
        seed=inputs["seed"],
        interfaces=inputs["interfaces"],
        console_log=documents.console_log(inputs["name"]),
        **_caps(inputs),
    )


def _outputs(link: Any, machine: Any) -> Values:
    awake = power.desired(machine) is Power.RUNNING
    return {
        "uuid": machine.UUIDString(),
        # Who wanted it off or paused gets no drift for it; nor is it one that the host has no room.
        "running": power.state(machine) in ("running", "io-error") or not awake,
        "plugged": not machine.isActive() or not awake or _plugged(link, machine),
        "console_log": documents.console_log(machine.name()),
    }


def _plugged(link: Any, machine: Any) -> bool:
    """False if a network was stopped under the running machine: started again, it knows nothing of its NIC."""
    uuid = machine.UUIDString()
    for source in ElementTree.fromstring(machine.XMLDesc(0)).iterfind("./devices/interface/source"):
        try:
            ports = link.networkLookupByName(source.get("network")).listAllPorts()
        except libvirt.libvirtError:
            return False
        owners = {ElementTree.fromstring(port.XMLDesc(0)).findtext("./owner/uuid") for port in ports}
        if uuid not in owners:
            return False
    return True


def _hardware(xml: str, state: Values) -> Values:
    """The inputs as the definition has them."""
    root = ElementTree.fromstring(xml)
    kib = int(root.findtext("memory") or 0)
    disks = {
        target.get("dev"): source.get("file")
        for disk in root.iterfind("./devices/disk")
        if (target := disk.find("target")) is not None and (source := disk.find("source")) is not None
    }
    return {
        "vcpus": int(root.findtext("vcpu") or 0),
        "memory_mib": kib // 1024,
        "accelerator": "kvm" if root.get("type") == "kvm" else "tcg",
        "disk": disks.get(documents.SYSTEM),
        "seed": disks.get(documents.SEED),
        "home": disks.get(documents.HOME),
        **_disk_caps(root),
        "cpu_percent": _cpu_percent(root),
        "interfaces": [_interface(element) for element in root.iterfind("./devices/interface")],
    }


def _disk_caps(root: ElementTree.Element) -> Values:
    """The caps of its disks as the inputs have them; all have the same, reading and writing."""
    written = [disk for disk in root.iterfind("./devices/disk") if disk.find("readonly") is None]
    limits = [{limit.tag: int(limit.text or 0) for limit in disk.iterfind("./iotune/*")} for disk in written]

    def least(name: str, unsaid: int = 0) -> int:
        return min((caps.get(f"{way}_{name}", unsaid) for caps in limits for way in ("read", "write")), default=0)

    bursts = [name for name in ("bytes_sec_max", "iops_sec_max") if least(name)]
    return {
        "disk_iops": least("iops_sec") or None,
        "disk_mib_per_second": least("bytes_sec") // documents.MIB or None,
        "disk_burst_iops": least("iops_sec_max") or None,
        "disk_burst_mib_per_second": least("bytes_sec_max") // documents.MIB or None,
        # libvirt keeps the length of a burst that was lifted, as 1, and QEMU's is 1 where none is said.
        "disk_burst_seconds": min((least(f"{name}_length", 1) for name in bursts), default=None),
    }


def _cpu_percent(root: ElementTree.Element) -> int | None:
    quota, period = (int(root.findtext(f"./cputune/global_{name}") or 0) for name in ("quota", "period"))
    return quota * 100 // (period or documents.CPU_PERIOD) if quota > 0 else None


def _throttle(machine: Any, inputs: DomainInputs) -> None:
    """Hold the disks to their caps, at once where the machine runs with them; 0 lifts one."""
    limits = _limits(inputs)
    for scope in (libvirt.VIR_DOMAIN_AFFECT_CONFIG, libvirt.VIR_DOMAIN_AFFECT_LIVE)[: 1 + machine.isActive()]:
        kind = libvirt.VIR_DOMAIN_XML_INACTIVE if scope == libvirt.VIR_DOMAIN_AFFECT_CONFIG else 0
        for target in ElementTree.fromstring(machine.XMLDesc(kind)).iterfind("./devices/disk/target"):
            if target.get("dev") in (documents.SYSTEM, documents.HOME):
                machine.setBlockIoTune(target.get("dev"), limits, scope)


def _limits(inputs: DomainInputs) -> dict[str, int]:
    return documents.disk_limits(**_caps(inputs))


def _caps(inputs: DomainInputs) -> Values:
    given: Values = dict(inputs)
    return {cap: given.get(cap) for cap in DISK_CAPS}


def _replace_home(devices: ElementTree.Element, inputs: DomainInputs) -> None:
    """Put the volume of /home into the definition, or take it out."""
    for disk in devices.findall(f"disk/target[@dev='{documents.HOME}']/.."):
        devices.remove(disk)
    home = inputs.get("home")
    if home:
        devices.append(ElementTree.fromstring(documents.home_disk(home, _limits(inputs))))


def _interface(element: ElementTree.Element) -> Values:
    def attribute(path: str, name: str) -> str | None:
        found = element.find(path)
        return None if found is None else found.get(name)

    found: Values = {
        "mac": attribute("mac", "address"),
        "network": attribute("source", "network"),
        "filter": attribute("filterref", "filter"),
        "address": attribute("filterref/parameter[@name='IP']", "value"),
        "isolated": attribute("port", "isolated") == "yes",
    }
    # The narrower way of both: who was given more than the Plan has it shows as drift.
    caps = [attribute(f"bandwidth/{way}", "average") for way in ("inbound", "outbound")]
    return found if caps == [None, None] else {**found, "mib_per_second": min(int(cap or 0) for cap in caps) // 1024}


def _replace_interfaces(machine: Any, devices: ElementTree.Element, wanted: list[NicInputs]) -> None:
    """Put the wanted NICs into the definition, and into the running machine where they differ."""
    present = devices.findall("interface")
    for element in present:
        devices.remove(element)
    for nic in wanted:
        devices.append(ElementTree.fromstring(documents.interface(nic)))
    if not machine.isActive():
        return
    live = ElementTree.fromstring(machine.XMLDesc(0)).findall("./devices/interface")
    by_mac = {_interface(element)["mac"]: element for element in live}
    for mac, element in by_mac.items():
        if mac not in {nic["mac"] for nic in wanted}:
            machine.detachDeviceFlags(ElementTree.tostring(element, encoding="unicode"), libvirt.VIR_DOMAIN_AFFECT_LIVE)
    for nic in wanted:
        xml = documents.interface(nic)
        if nic["mac"] not in by_mac:
            machine.attachDeviceFlags(xml, libvirt.VIR_DOMAIN_AFFECT_LIVE)
        elif _interface(by_mac[nic["mac"]]) != nic:
            machine.updateDeviceFlags(xml, libvirt.VIR_DOMAIN_AFFECT_LIVE)
