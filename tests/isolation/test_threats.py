"""Cases of the threat list that are played between namespaces: refused as built, and arriving where rules are off."""

import subprocess
import sys
import time

import pytest

from deskyard.plan.isolation import frames
from tests.gateway.support import wait_for
from tests.isolation.conftest import planned, switched
from tests.isolation.site import LAYERS, Simulated, Site
from tests.isolation.test_layers import NOTHING, OTHERS, Verdicts, layers_of, report_of

# Case -> what it is; the probes name their cases.
CASES = {
    1: "ARP claims",
    2: "forged MAC",
    3: "forged source addresses",
    4: "DHCP servers",
    5: "router advertisements and redirects",
    6: "IPv6 and its tunnels",
    7: "VLAN tags and VXLAN",
    8: "discovery by multicast",
    9: "stale state of another workspace",
    10: "fragments, options, unusual protocols",
    11: "spanning tree and LLDP",
    14: "services of host and gateway",
    15: "metadata services",
}
SEND = """
import socket, sys
line = socket.socket(socket.AF_PACKET, socket.SOCK_RAW); line.bind(("workspace", 0))
for text in sys.stdin.read().split(): line.send(bytes.fromhex(text))
"""


@pytest.mark.parametrize("case", CASES)
def test_case_is_refused_and_would_arrive_without_rules(verdicts: Verdicts, case: int) -> None:
    refused = [
        verdict for verdict in verdicts(LAYERS) if case in verdict.probe.threats and verdict.probe.expected == "refused"
    ]
    assert refused, CASES[case]
    failed = [verdict for verdict in refused if not verdict.ok]
    assert not failed, report_of(failed)
    weak = [
        verdict
        for verdict in verdicts(NOTHING)
        if case in verdict.probe.threats and not layers_of(verdict) & set(OTHERS)
    ]
    assert any(verdict.probe.expected == "refused" and not verdict.ok for verdict in weak), CASES[case]


def send(machine: Simulated, name: str, *sent: bytes) -> None:
    """Put frames on the wire from one of the machines."""
    command = ["ip", "netns", "exec", machine.namespaces[name], "python3", "-c", SEND]
    subprocess.run(command, input=" ".join(packet.hex() for packet in sent), text=True, check=True, timeout=60)


def neighbour(machine: Simulated, name: str, address: str) -> str:
    """The MAC address that a machine believes to be behind an address."""
    words = machine.run(name, "ip", "neighbour", "show", address).split()
    return words[words.index("lladdr") + 1] if "lladdr" in words else ""


def claim_gateway(machine: Simulated) -> tuple[str, str]:
    """Desktop `one` says to all that the gateway is itself: what `two` believed before and believes after."""
    plan = machine.plan
    gateway, liar, victim = plan.gateway.workspace_address, plan.desktop("one"), plan.desktop("two")
    machine.run("two", "ip", "neighbour", "flush", "all")
    assert reaches(machine.site, machine.namespaces["two"], gateway, 53)
    before = neighbour(machine, "two", gateway)
    claim = frames.arp(frames.REPLY, (liar.mac, gateway), (victim.mac, victim.address), b"")
    # A fresh entry is locked for a second against changes.
    time.sleep(1.2)
    lies = [frames.ethernet(to, liar.mac, frames.ARP, claim) for to in (frames.BROADCAST, victim.mac)]
    send(machine, "one", *lies)
    time.sleep(0.2)
    return before, neighbour(machine, "two", gateway)


def test_neighbour_cache_is_unchanged_by_a_claim(lab: Site) -> None:
    machine = lab.workspaces["a"]
    real = machine.plan.gateway.workspace_mac
    assert claim_gateway(machine) == (real, real)
    with switched(lab, NOTHING):
        assert claim_gateway(machine) == (real, machine.plan.desktop("one").mac)
    machine.run("two", "ip", "neighbour", "flush", "all")


def flooded(machine: Simulated) -> set[str]:
    """Desktop `one` claims 3,000 MAC addresses; the addresses that the bridge then knows behind its port."""
    target = machine.plan.gateway.workspace_mac
    forged = [f"52:54:01:00:{n >> 8:02x}:{n & 255:02x}" for n in range(3000)]
    send(machine, "one", *(frames.ethernet(target, mac, frames.EXPERIMENTAL, bytes(46)) for mac in forged))
    shown = machine.site.inside(machine.site.namespace, "bridge", "fdb", "show", "dev", machine.ports["one"])
    return {line.split()[0] for line in shown.splitlines() if line.startswith("52:54:01")}


def test_flood_of_macs_does_not_reach_the_bridges_table(lab: Site) -> None:
    machine = lab.workspaces["a"]
    assert flooded(machine) == set()
    with switched(lab, NOTHING):
        assert len(flooded(machine)) > 1000


def test_host_takes_no_advice_about_ipv6(lab: Site) -> None:
    for machine in lab.workspaces.values():
        for bridge in (machine.plan.network.bridge, machine.plan.uplink.bridge):
            folder = f"/proc/sys/net/ipv6/conf/{bridge}"
            off = lab.inside(lab.namespace, "cat", f"{folder}/disable_ipv6").strip()
            assert off == "1", bridge


def reaches(site: Site, namespace: str, address: str, port: int) -> bool:
    """Whether a TCP connection opens from a namespace."""
    attempt = f"import socket; socket.create_connection(('{address}', {port}), 1.5)"
    done = subprocess.run(
        ["ip", "netns", "exec", namespace, sys.executable, "-c", attempt], capture_output=True, timeout=30, check=False
    )
    return done.returncode == 0


def test_reused_name_and_network_are_closed_to_the_old_owner(lab: Site) -> None:
    """A workspace is destroyed, another gets its name and network, and a machine of the old one is still plugged in."""
    old = lab.add(planned("again", 5), bound=("desktop",))
    plan = old.plan
    left, binding = old.namespaces.pop("one"), old.bindings.pop(0)
    binding.delete()
    lab.ip(f"link set {old.ports['one']} name stale")
    lab.remove("again")
    desktops = [{"name": "two"}, {"name": "three"}]
    try:
        new = lab.add(planned("again", 5, desktops=desktops), bound=("desktop",))
        lab.ip(f"link set stale master {plan.network.bridge} up")
        target = new.plan.desktop("two").address
        assert not reaches(lab, left, target, 22)
        assert reaches(lab, new.namespaces["gateway"], target, 22)
        with switched(lab, NOTHING):
            wait_for("the old machine to arrive", lambda: reaches(lab, left, target, 22))
    finally:
        subprocess.run(["ip", "netns", "delete", left], check=False, capture_output=True, timeout=30)
        if "again" in lab.workspaces:
            lab.remove("again")
