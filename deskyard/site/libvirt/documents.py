"""The XML that libvirt is given."""

from collections.abc import Mapping, Sequence
from ipaddress import IPv4Network
from typing import Any
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from deskyard.plan.account import HOME_SERIAL

# Emulated machines: one CPU model that recent kernels boot on (QEMU's own `max` panics them).
EMULATED_CPU = "Nehalem"
# Intel's and AMD's: no desktop is a hypervisor, whatever the host passes on.
NESTED = ("vmx", "svm")
MIB, GIB = 1024**2, 1024**3
# Microseconds, as libvirt has it if nothing is said.
CPU_PERIOD = 100_000
SYSTEM, SEED, HOME = "vda", "vdb", "vdc"  # the devices of a machine's disks
BROADCAST = "ff:ff:ff:ff:ff:ff"
# The Plan's MAC addresses all start so; no group address does.
MACHINES = {"dstmacaddr": "02:00:00:00:00:00", "dstmacmask": "ff:00:00:00:00:00"}


def network(name: str, bridge: str, cidr: str, host_address: str | None) -> str:
    """A workspace network (no address of the host on it), or an uplink with NAT if the host has an address."""
    head = [_element("name", text=name), _element("bridge", {"name": bridge, "stp": "off", "delay": "0"})]
    if host_address is None:
        return _text(_element("network", {}, *head, _element("dns", {"enable": "no"})))
    address = {"address": host_address, "netmask": str(IPv4Network(cidr).netmask)}
    return _text(_element("network", {}, *head, _element("forward", {"mode": "nat"}), _element("ip", address)))


def desktop_filter(name: str, gateway_mac: str, gateway_address: str, *, peers: bool, uuid: str | None = None) -> str:
    """A desktop talks to its gateway alone, as itself alone: every other frame is dropped, both ways.

    So there is no IPv6, no multicast, no VLAN tag, no frame to or from a neighbour, even if all else is open. With
    `peers`, IPv4 to and from other machines of the network passes too, but never an answer of a DHCP server. `uuid` is
    that of the filter which these rules replace.
    """
    own = {"srcmacaddr": "$MAC"}
    own_arp = {**own, "arpsrcmacaddr": "$MAC", "arpsrcipaddr": "$IP"}
    to_gateway, from_gateway = {"dstmacaddr": gateway_mac}, {"srcmacaddr": gateway_mac}
    to_all = {"dstmacaddr": BROADCAST}
    discovery = {
        **to_all,
        "dstipaddr": "255.255.255.255",
        "protocol": "udp",
        "srcportstart": "68",
        "dstportstart": "67",
    }
    accepted = [
        ("out", "arp", {**own_arp, **to_all, "arpdstipaddr": gateway_address, "opcode": "Request"}),
        ("out", "arp", {**own_arp, **to_gateway, "arpdstipaddr": gateway_address}),
        ("out", "ip", {**own, **to_gateway, "srcipaddr": "$IP"}),
        ("out", "ip", {**own, "srcipaddr": "0.0.0.0", **discovery}),
        ("out", "ip", {**own, "srcipaddr": "$IP", **discovery}),
        ("in", "arp", {**from_gateway, "arpsrcmacaddr": gateway_mac, "arpsrcipaddr": gateway_address}),
        ("in", "ip", from_gateway),
    ]
    rules = []
    if peers:
        rules.append(_rule("drop", "out", 100, "ip", {"protocol": "udp", "srcportstart": "67"}))
        accepted += [
            ("out", "arp", {**own_arp, "opcode": "Request"}),
            ("out", "arp", {**own_arp, "opcode": "Reply"}),
            ("out", "ip", {**own, **MACHINES, "srcipaddr": "$IP"}),
            ("in", "arp", {"opcode": "Request"}),
            ("in", "arp", {"opcode": "Reply"}),
            ("in", "ip", MACHINES),
        ]
    rules += [_rule("accept", direction, 200, kind, match) for direction, kind, match in accepted]
    rules.append(_rule("drop", "inout", 900, "mac", {}))
    return _filter(name, uuid, rules)


def gateway_filter(name: str, uuid: str | None = None) -> str:
    """Own MAC, own ARP answers, IPv4 of any source (it routes), nothing else; `uuid` as for a desktop."""
    rules = [
        _element("filterref", {"filter": "no-mac-spoofing"}),
        _element("filterref", {"filter": "no-arp-spoofing"}),
        _rule("accept", "inout", -650, "mac", {"protocolid": "ipv4"}),
        _rule("accept", "inout", -500, "mac", {"protocolid": "arp"}),
        _element("filterref", {"filter": "no-other-l2-traffic"}),
    ]
    return _filter(name, uuid, rules)


def pool(name: str, path: str) -> str:
    """A folder that holds volumes."""
    mode = _element("permissions", {}, _element("mode", text="0711"))
    target = _element("target", {}, _element("path", text=path), mode)
    return _text(_element("pool", {"type": "dir"}, _element("name", text=name), target))


def volume(name: str, capacity: int, volume_format: str, backing: str | None = None, mode: str = "0600") -> str:
    """A volume; with `backing`, an overlay of that qcow2."""
    permissions = _element("permissions", {}, _element("mode", text=mode))
    parts = [
        _element("name", text=name),
        _element("capacity", {"unit": "bytes"}, text=str(capacity)),
        _element("target", {}, _element("format", {"type": volume_format}), permissions),
    ]
    if backing:
        below = (_element("path", text=backing), _element("format", {"type": "qcow2"}))
        parts.append(_element("backingStore", {}, *below))
    return _text(_element("volume", {}, *parts))


def interface(nic: Mapping[str, Any]) -> str:
    """A NIC with its filter; `isolated` keeps it from the other isolated NICs of its bridge."""
    return _text(_interface(nic))


def disk_limits(
    *,
    disk_iops: int | None = None,
    disk_mib_per_second: int | None = None,
    disk_burst_iops: int | None = None,
    disk_burst_mib_per_second: int | None = None,
    disk_burst_seconds: int | None = None,
) -> dict[str, int]:
    """The limits of a disk per second, reading and writing each, in libvirt's words; 0 is no limit. QEMU holds it."""
    limits = {}
    for name, cap, burst in (
        ("bytes_sec", (disk_mib_per_second or 0) * MIB, (disk_burst_mib_per_second or 0) * MIB),
        ("iops_sec", disk_iops or 0, disk_burst_iops or 0),
    ):
        for way in ("read", "write"):
            limits[f"{way}_{name}"] = cap
            limits[f"{way}_{name}_max"] = burst
            # QEMU refuses a length without a burst.
            limits[f"{way}_{name}_max_length"] = (disk_burst_seconds or 1) if burst else 0
    return limits


def domain(
    *,
    name: str,
    uuid: str,
    vcpus: int,
    memory_mib: int,
    accelerator: str,
    disk: str,
    home: str | None = None,
    cpu_percent: int | None = None,
    seed: str,
    interfaces: Sequence[Mapping[str, Any]],
    console_log: str,
    **disk_caps: int | None,
) -> str:
    """A machine without display or balloon: serial console into a bounded log, guest agent, random numbers.

    `disk_caps` are those of `disk_limits`.

    libvirt writes the exact machine type in place of `q35` when it defines the domain, so it stays fixed.
    """
    kvm = accelerator == "kvm"
    limits = disk_limits(**disk_caps)
    timers = ({"name": "rtc", "tickpolicy": "catchup"}, {"name": "hpet", "present": "no"})
    machine_type = _element("type", {"arch": "x86_64", "machine": "q35"}, text="hvm")
    return _text(
        _element(
            "domain",
            {"type": "kvm" if kvm else "qemu"},
            _element("name", text=name),
            _element("uuid", text=uuid),
            # Its kernel learns by it that it goes on as another machine, or from another time.
            _element("genid"),
            _element("memory", {"unit": "MiB"}, text=str(memory_mib)),
            # KSM would merge equal pages of two machines, and the time of a write would tell of it.
            _element("memoryBacking", {}, _element("nosharepages")),
            _element("vcpu", text=str(vcpus)),
            *([] if cpu_percent is None else [_cpu_time(cpu_percent)]),
            _cpu(kvm=kvm),
            _element("os", {}, machine_type, _element("boot", {"dev": "hd"})),
            _element("features", {}, _element("acpi"), _element("apic")),
            _element("clock", {"offset": "utc"}, *(_element("timer", timer) for timer in timers)),
            _element("on_poweroff", text="destroy"),
            _element("on_reboot", text="restart"),
            _element("on_crash", text="restart"),
            _element(
                "devices",
                {},
                _disk(disk, SYSTEM, limits),
                _seed(seed),
                *([_disk(home, HOME, limits)] if home else []),
                *(_interface(nic) for nic in interfaces),
                *_other_devices(console_log),
            ),
        )
    )


def cpu_quota(percent: int | None) -> int:
    """The microseconds that a machine may run in each period; -1 is no limit."""
    return -1 if percent is None else percent * CPU_PERIOD // 100


def console_log(domain: str) -> str:
    """Where libvirt writes the serial console; virtlogd bounds its size."""
    return f"/var/log/libvirt/qemu/{domain}-console.log"


def _cpu_time(percent: int) -> Element:
    """All threads of the machine together: those of its processors, and those that emulate the rest."""
    quota = _element("global_quota", text=str(cpu_quota(percent)))
    return _element("cputune", {}, _element("global_period", text=str(CPU_PERIOD)), quota)


def _cpu(*, kvm: bool) -> Element:
    if kvm:
        off = [_element("feature", {"policy": "disable", "name": name}) for name in NESTED]
        return _element("cpu", {"mode": "host-model"}, *off)
    model = _element("model", {"fallback": "forbid"}, text=EMULATED_CPU)
    return _element("cpu", {"mode": "custom", "match": "exact"}, model)


def home_disk(path: str, limits: Mapping[str, int]) -> str:
    """The volume of /home as a disk: the guest knows it by its serial number."""
    return _text(_disk(path, HOME, limits))


def _disk(path: str, device: str, limits: Mapping[str, int]) -> Element:
    tuning = {"cache": "none", "io": "threads", "discard": "unmap", "detect_zeroes": "unmap"}
    parts = [
        _element("driver", {"name": "qemu", "type": "qcow2", **tuning}),
        _element("source", {"file": path}),
        _element("target", {"dev": device, "bus": "virtio"}),
    ]
    if device == HOME:
        parts.append(_element("serial", text=HOME_SERIAL))
    limited = [_element(limit, text=str(value)) for limit, value in limits.items() if value]
    if limited:
        parts.append(_element("iotune", {}, *limited))
    return _element("disk", {"type": "file", "device": "disk"}, *parts)


def _seed(path: str) -> Element:
    return _element(
        "disk",
        {"type": "file", "device": "disk"},
        _element("driver", {"name": "qemu", "type": "raw"}),
        _element("source", {"file": path}),
        _element("target", {"dev": SEED, "bus": "virtio"}),
        _element("readonly"),
    )


def _interface(nic: Mapping[str, Any]) -> Element:
    address, cap = _element("parameter", {"name": "IP", "value": nic["address"]}), nic.get("mib_per_second")
    return _element(
        "interface",
        {"type": "network"},
        _element("mac", {"address": nic["mac"]}),
        _element("source", {"network": nic["network"]}),
        _element("model", {"type": "virtio"}),
        *([_element("port", {"isolated": "yes"})] if nic["isolated"] else []),
        _element("filterref", {"filter": nic["filter"]}, address),
        *([] if cap is None else [_bandwidth(cap)]),
    )


def _bandwidth(mib_per_second: int) -> Element:
    """To the guest, and from it, each; libvirt has these in KiB per second."""
    average = {"average": str(mib_per_second * 1024)}
    return _element("bandwidth", {}, _element("inbound", average), _element("outbound", average))


def _other_devices(console_log: str) -> list[Element]:
    log = _element("log", {"file": console_log, "append": "on"})
    agent = _element("target", {"type": "virtio", "name": "org.qemu.guest_agent.0"})
    random = _element("backend", {"model": "random"}, text="/dev/urandom")
    screen = _element("model", {"type": "vga", "vram": "16384", "heads": "1"})
    return [
        _element("serial", {"type": "pty"}, log, _element("target", {"port": "0"})),
        _element("console", {"type": "pty"}, _element("target", {"type": "serial", "port": "0"})),
        _element("channel", {"type": "unix"}, agent),
        _element("rng", {"model": "virtio"}, random),
        _element("video", {}, screen),
        _element("memballoon", {"model": "none"}),
    ]


def _filter(name: str, uuid: str | None, rules: Sequence[Element]) -> str:
    own = [_element("uuid", text=uuid)] if uuid else []
    return _text(_element("filter", {"name": name, "chain": "root"}, *own, *rules))


def _rule(action: str, direction: str, priority: int, kind: str, match: Mapping[str, str]) -> Element:
    rule = {"action": action, "direction": direction, "priority": str(priority)}
    return _element("rule", rule, _element(kind, match))


def _element(
    tag: str, attributes: Mapping[str, str] | None = None, *children: Element, text: str | None = None
) -> Element:
    element = Element(tag, dict(attributes or {}))
    element.text = text
    element.extend(children)
    return element


def _text(element: Element) -> str:
    return ElementTree.tostring(element, encoding="unicode")
