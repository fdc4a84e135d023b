"""The XML that libvirt is given."""

from collections.abc import Sequence
from ipaddress import IPv4Network
from typing import Any
from xml.sax.saxutils import escape, quoteattr

# Emulated machines: one CPU model that recent kernels boot on (QEMU's own `max` panics them).
EMULATED_CPU = "<cpu mode='custom' match='exact'><model fallback='forbid'>Nehalem</model></cpu>"
HOST_CPU = "<cpu mode='host-model'/>"
MIB, GIB = 1024**2, 1024**3
BROADCAST = "ff:ff:ff:ff:ff:ff"
# The Plan's MAC addresses all start so; no group address does.
MACHINES = "dstmacaddr='02:00:00:00:00:00' dstmacmask='ff:00:00:00:00:00'"


def network(name: str, bridge: str, cidr: str, host_address: str | None) -> str:
    """A workspace network (no address of the host on it), or an uplink with NAT if the host has an address."""
    head = f"<name>{escape(name)}</name><bridge name={quoteattr(bridge)} stp='off' delay='0'/>"
    if host_address is None:
        return f"<network>{head}<dns enable='no'/></network>"
    netmask = IPv4Network(cidr).netmask
    ip = f"<ip address={quoteattr(host_address)} netmask='{netmask}'/>"
    return f"<network>{head}<forward mode='nat'/>{ip}</network>"


def desktop_filter(name: str, gateway_mac: str, gateway_address: str, *, peers: bool) -> str:
    """A desktop talks to its gateway alone, as itself alone: every other frame is dropped, both ways.

    So there is no IPv6, no multicast, no VLAN tag, no frame to or from a neighbour, even if all else is open. With
    `peers`, IPv4 to and from other machines of the network passes too, but never an answer of a DHCP server.
    """
    own = "srcmacaddr='$MAC'"
    own_arp = f"{own} arpsrcmacaddr='$MAC' arpsrcipaddr='$IP'"
    to_gateway, from_gateway = f"dstmacaddr='{gateway_mac}'", f"srcmacaddr='{gateway_mac}'"
    discovery = "protocol='udp' srcportstart='68' dstportstart='67'"
    accepted = [
        ("out", f"<arp {own_arp} dstmacaddr='{BROADCAST}' arpdstipaddr='{gateway_address}' opcode='Request'/>"),
        ("out", f"<arp {own_arp} {to_gateway} arpdstipaddr='{gateway_address}'/>"),
        ("out", f"<ip {own} {to_gateway} srcipaddr='$IP'/>"),
        ("out", f"<ip {own} dstmacaddr='{BROADCAST}' srcipaddr='0.0.0.0' dstipaddr='255.255.255.255' {discovery}/>"),
        ("out", f"<ip {own} dstmacaddr='{BROADCAST}' srcipaddr='$IP' dstipaddr='255.255.255.255' {discovery}/>"),
        ("in", f"<arp {from_gateway} arpsrcmacaddr='{gateway_mac}' arpsrcipaddr='{gateway_address}'/>"),
        ("in", f"<ip {from_gateway}/>"),
    ]
    rules = []
    if peers:
        rules.append(_rule("drop", "out", 100, "<ip protocol='udp' srcportstart='67'/>"))
        accepted += [
            ("out", f"<arp {own_arp} opcode='Request'/>"),
            ("out", f"<arp {own_arp} opcode='Reply'/>"),
            ("out", f"<ip {own} {MACHINES} srcipaddr='$IP'/>"),
            ("in", "<arp opcode='Request'/>"),
            ("in", "<arp opcode='Reply'/>"),
            ("in", f"<ip {MACHINES}/>"),
        ]
    rules += [_rule("accept", direction, 200, match) for direction, match in accepted]
    rules.append(_rule("drop", "inout", 900, "<mac/>"))
    return f"<filter name={quoteattr(name)} chain='root'>{''.join(rules)}</filter>"


def _rule(action: str, direction: str, priority: int, match: str) -> str:
    return f"<rule action='{action}' direction='{direction}' priority='{priority}'>{match}</rule>"


def gateway_filter(name: str) -> str:
    """Own MAC, own ARP answers, IPv4 of any source (it routes), nothing else."""
    return (
        f"<filter name={quoteattr(name)} chain='root'>"
        "<filterref filter='no-mac-spoofing'/>"
        "<filterref filter='no-arp-spoofing'/>"
        "<rule action='accept' direction='inout' priority='-650'><mac protocolid='ipv4'/></rule>"
        "<rule action='accept' direction='inout' priority='-500'><mac protocolid='arp'/></rule>"
        "<filterref filter='no-other-l2-traffic'/>"
        "</filter>"
    )


def pool(name: str, path: str) -> str:
    """A folder that holds volumes."""
    target = f"<target><path>{escape(path)}</path><permissions><mode>0711</mode></permissions></target>"
    return f"<pool type='dir'><name>{escape(name)}</name>{target}</pool>"


def volume(name: str, capacity: int, volume_format: str, backing: str | None = None, mode: str = "0600") -> str:
    """A volume; with `backing`, an overlay of that qcow2."""
    below = f"<backingStore><path>{escape(backing)}</path><format type='qcow2'/></backingStore>" if backing else ""
    target = f"<target><format type='{volume_format}'/><permissions><mode>{mode}</mode></permissions></target>"
    return f"<volume><name>{escape(name)}</name><capacity unit='bytes'>{capacity}</capacity>{target}{below}</volume>"


def interface(nic: dict[str, Any]) -> str:
    """One NIC with its filter; `isolated` keeps it from the other isolated NICs of its bridge."""
    isolated = "<port isolated='yes'/>" if nic["isolated"] else ""
    return (
        f"<interface type='network'><mac address={quoteattr(nic['mac'])}/>"
        f"<source network={quoteattr(nic['network'])}/><model type='virtio'/>{isolated}"
        f"<filterref filter={quoteattr(nic['filter'])}>"
        f"<parameter name='IP' value={quoteattr(nic['address'])}/></filterref></interface>"
    )


def iotune(iops: int | None, mib_per_second: int | None) -> str:
    """What a disk may do per second, reading and writing each; QEMU itself holds it to that."""
    limits = {
        "read_bytes_sec": (mib_per_second or 0) * MIB,
        "write_bytes_sec": (mib_per_second or 0) * MIB,
        "read_iops_sec": iops or 0,
        "write_iops_sec": iops or 0,
    }
    elements = "".join(f"<{name}>{limit}</{name}>" for name, limit in limits.items() if limit)
    return f"<iotune>{elements}</iotune>" if elements else ""


def domain(
    *,
    name: str,
    vcpus: int,
    memory_mib: int,
    accelerator: str,
    disk: str,
    disk_iops: int | None = None,
    disk_mib_per_second: int | None = None,
    seed: str,
    interfaces: Sequence[dict[str, Any]],
    console_log: str,
) -> str:
    """A machine without display or balloon: serial console into a bounded log, guest agent, random numbers.

    libvirt writes the exact machine type in place of `q35` when it defines the domain, so it stays fixed.
    """
    kvm = accelerator == "kvm"
    clock = "<timer name='rtc' tickpolicy='catchup'/><timer name='hpet' present='no'/>"
    return f"""<domain type='{"kvm" if kvm else "qemu"}'>
  <name>{escape(name)}</name>
  <memory unit='MiB'>{memory_mib}</memory>
  <vcpu>{vcpus}</vcpu>
  {HOST_CPU if kvm else EMULATED_CPU}
  <os><type arch='x86_64' machine='q35'>hvm</type><boot dev='hd'/></os>
  <features><acpi/><apic/></features>
  <clock offset='utc'>{clock}</clock>
  <on_poweroff>destroy</on_poweroff><on_reboot>restart</on_reboot><on_crash>restart</on_crash>
  <devices>
    <disk type='file' device='disk'>
      <driver name='qemu' type='qcow2' cache='none' io='threads' discard='unmap' detect_zeroes='unmap'/>
      <source file={quoteattr(disk)}/><target dev='vda' bus='virtio'/>{iotune(disk_iops, disk_mib_per_second)}
    </disk>
    <disk type='file' device='disk'>
      <driver name='qemu' type='raw'/>
      <source file={quoteattr(seed)}/><target dev='vdb' bus='virtio'/><readonly/>
    </disk>
    {"".join(interface(nic) for nic in interfaces)}
    <serial type='pty'><log file={quoteattr(console_log)} append='on'/><target port='0'/></serial>
    <console type='pty'><target type='serial' port='0'/></console>
    <channel type='unix'><target type='virtio' name='org.qemu.guest_agent.0'/></channel>
    <rng model='virtio'><backend model='random'>/dev/urandom</backend></rng>
    <video><model type='vga' vram='16384' heads='1'/></video>
    <memballoon model='none'/>
  </devices>
</domain>"""
