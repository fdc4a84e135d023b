"""Fragments that contradict each other (case 10): what the gateway judges is what is delivered, or nothing is."""

import itertools
import json
import re
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address

import pytest

from deskyard.plan.isolation import frames
from deskyard.plan.isolation.forgeries import PUBLIC
from deskyard.plan.isolation.probe import GATEWAY
from tests.isolation.conftest import switched
from tests.isolation.site import Simulated, Site
from tests.isolation.test_layers import NOTHING

ALLOWED, FORBIDDEN = 53, 9999  # ports of the gateway, for desktops
MARK = re.compile(rb"ovl-(\d\d)")
SETTLE_SECONDS = 0.5
IDENTITIES, PORTS = itertools.count(0x5000), itertools.count(30_000)
# Nothing is tracked, so nobody puts fragments together: not the gateway, nor the host, whose bridges do so too where
# the kernel shows their frames to the rules for IP (br_netfilter).
UNTRACKED = """
table ip plain {
  chain prerouting { type filter hook prerouting priority -450; policy accept; notrack; }
}
"""
SEND = """
import socket, sys
line = socket.socket(socket.AF_PACKET, socket.SOCK_RAW); line.bind((sys.argv[1], 0))
for text in sys.stdin.read().split(): line.send(bytes.fromhex(text))
"""
# Notes all that passes an interface, or all that is sent to a UDP port, until it is told to end.
WATCH = """
import json, select, signal, socket, sys
signal.alarm(60)
if sys.argv[1].isdigit():
    line = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); line.bind(("", int(sys.argv[1])))
else:
    line = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3)); line.bind((sys.argv[1], 3))
print("ready", flush=True)
seen = []
while True:
    ready, _, _ = select.select([line, sys.stdin], [], [])
    if line in ready: seen.append(line.recv(4096).hex())
    elif sys.stdin in ready: break
print(json.dumps(seen))
"""


@dataclass(frozen=True)
class Piece:
    """One fragment: where its data belongs, and whether more is said to follow."""

    offset: int
    data: bytes
    more: bool = True


def chunk(number: int, size: int = 24) -> bytes:
    """Data by which a fragment is known."""
    return f"ovl-{number:02}".encode().ljust(size, b".")


def start(number: int, size: int = 24, port: int = 9) -> Piece:
    """The beginning of a datagram of 56 bytes."""
    return Piece(0, struct.pack(">HHHH", 4000, port, 56, 0) + chunk(number, size))


def end(number: int, offset: int = 32, size: int = 24) -> Piece:
    """Its end."""
    return Piece(offset, chunk(number, size), more=False)


HONEST = [start(1), end(2)]
OVERLAPS = {
    "the end inside the start (teardrop)": [start(1), end(2, 16, 8)],
    "the end over the start": [start(1), end(2, 24, 32)],
    "the start over the end": [end(1, 24, 32), start(2)],
    "a middle over both": [start(1, 8), end(2, 24, 32), Piece(8, chunk(3))],
    "a longer start for another port": [start(1, 8), start(2, 24, port=22), end(3)],
}


def packets(pieces: Sequence[Piece], source: str, target: str, protocol: int = frames.UDP) -> list[bytes]:
    """The fragments of one packet, which has an identity that no other has had."""
    identity = next(IDENTITIES)
    addresses = IPv4Address(source).packed + IPv4Address(target).packed
    made = []
    for piece in pieces:
        place = piece.offset // 8 | (frames.MORE_FRAGMENTS if piece.more else 0)
        length = 20 + len(piece.data)
        head = struct.pack(">BBHHHBB", 0x45, 0, length, identity, place, 64, protocol)
        checksum = struct.pack(">H", frames.checksum(head + b"\0\0" + addresses))
        made.append(head + checksum + addresses + piece.data)
    return made


def put(site: Site, namespace: str, interface: str, way: tuple[str, str], sent: Sequence[bytes]) -> None:
    """Put packets on the wire from a namespace, in this order; `way` is to and from which MAC address."""
    framed = [frames.ethernet(*way, frames.IPV4, packet) for packet in sent]
    argv = ["ip", "netns", "exec", namespace, sys.executable, "-c", SEND, interface]
    subprocess.run(argv, input=" ".join(packet.hex() for packet in framed), text=True, check=True, timeout=60)


def seen(namespace: str, where: str | int, act: Callable[[], None]) -> list[bytes]:
    """What passes an interface, or comes to a UDP port, of a namespace meanwhile."""
    argv = ["ip", "netns", "exec", namespace, sys.executable, "-c", WATCH, str(where)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as watcher:
        assert watcher.stdin is not None and watcher.stdout is not None
        try:
            assert watcher.stdout.readline() == "ready\n"
            act()
            time.sleep(SETTLE_SECONDS)
        finally:
            watcher.stdin.close()
        return [bytes.fromhex(text) for text in json.loads(watcher.stdout.readline())]


def numbers(found: Sequence[bytes]) -> set[int]:
    """The fragments whose data is among what was seen."""
    return {int(number) for line in found for number in MARK.findall(line)}


class plain(switched):
    """All layers off, and gateway and host forward fragments as they come."""

    def __init__(self, site: Site) -> None:
        super().__init__(site, NOTHING)

    def __enter__(self) -> None:
        super().__enter__()
        gateway = self.site.workspaces["a"].namespaces[GATEWAY]
        self.site.inside(gateway, "nft", "-f", "-", stdin="flush ruleset" + UNTRACKED)
        self.site.inside(self.site.namespace, "nft", "-f", "-", stdin=UNTRACKED)

    def __exit__(self, *about: object) -> None:
        self.site.inside(self.site.namespace, "nft", "delete", "table", "ip", "plain")
        super().__exit__(*about)


def leaving(machine: Simulated, pieces: Sequence[Piece]) -> set[int]:
    """Desktop `one` sends them to the internet: which leave its gateway."""
    plan, desktop = machine.plan, machine.plan.desktop("one")
    way = (plan.gateway.workspace_mac, desktop.mac)

    def act() -> None:
        put(machine.site, machine.namespaces["one"], "workspace", way, packets(pieces, desktop.address, PUBLIC))

    return numbers(seen(machine.namespaces[GATEWAY], "uplink", act))


def entering(machine: Simulated, pieces: Sequence[Piece]) -> set[int]:
    """Somebody outside sends them to desktop `one`: which reach it."""
    plan, site, desktop = machine.plan, machine.site, machine.plan.desktop("one")
    bridge = plan.uplink.bridge
    mac = site.inside(site.namespace, "cat", f"/sys/class/net/{bridge}/address").strip()

    def act() -> None:
        put(site, site.namespace, bridge, (plan.gateway.uplink_mac, mac), packets(pieces, PUBLIC, desktop.address))

    return numbers(seen(machine.namespaces["one"], "workspace", act))


def passing(machine: Simulated, pieces: Sequence[Piece]) -> set[int]:
    """Desktop `one` sends them to its neighbour `two`: which reach it."""
    first, two = machine.plan.desktop("one"), machine.plan.desktop("two")

    def act() -> None:
        sent = packets(pieces, first.address, two.address)
        put(machine.site, machine.namespaces["one"], "workspace", (two.mac, first.mac), sent)

    return numbers(seen(machine.namespaces["two"], "workspace", act))


@pytest.mark.parametrize("way", [leaving, entering, passing])
def test_overlapping_fragments_arrive_nowhere(lab: Site, way: Callable[[Simulated, Sequence[Piece]], set[int]]) -> None:
    """Without all layers and without connection tracking each fragment arrives: then nobody puts them together."""
    machine = lab.workspaces["a"]
    assert {case for case, pieces in OVERLAPS.items() if way(machine, pieces)} == set()
    with plain(lab):
        arrived = {case: way(machine, pieces) for case, pieces in OVERLAPS.items()}
    assert arrived == {case: set(range(1, len(pieces) + 1)) for case, pieces in OVERLAPS.items()}


def test_honest_fragments_leave_and_of_two_starts_only_the_first(lab: Site) -> None:
    """The kernel keeps what came first, and the rules judge just that; without tracking both starts would leave."""
    machine = lab.workspaces["a"]
    assert leaving(machine, HONEST) == {1, 2}
    twice = [start(1), start(2, port=22), end(3)]
    assert leaving(machine, twice) == {1, 3}
    with plain(lab):
        assert leaving(machine, twice) == {1, 2, 3}


def test_without_layers_the_kernel_alone_refuses_overlaps(lab: Site) -> None:
    """A gateway that only hides its network tracks connections too: then the kernel refuses them, not the rules."""
    machine = lab.workspaces["a"]
    with switched(lab, NOTHING):
        assert leaving(machine, HONEST) == {1, 2}
        assert [case for case, pieces in OVERLAPS.items() if leaving(machine, pieces)] == []


def datagram(machine: Simulated, *ports: int) -> bool:
    """Desktop `one` sends a datagram that begins once for each port: whether one comes to the forbidden port."""
    plan, desktop, sent_from = machine.plan, machine.plan.desktop("one"), next(PORTS)
    starts = [Piece(0, struct.pack(">HHHH", sent_from, port, 56, 0) + chunk(n)) for n, port in enumerate(ports)]
    sent = packets([*starts, end(9)], desktop.address, plan.gateway.workspace_address)

    def act() -> None:
        put(machine.site, machine.namespaces["one"], "workspace", (plan.gateway.workspace_mac, desktop.mac), sent)

    return 9 in numbers(seen(machine.namespaces[GATEWAY], FORBIDDEN, act))


def connection(machine: Simulated, *ports: int) -> bool:
    """The same with the beginning of a TCP connection, whose checksum is right for the forbidden port alone."""
    plan, desktop, sent_from = machine.plan, machine.plan.desktop("one"), next(PORTS)
    target = plan.gateway.workspace_address
    segment = frames.syn(desktop.address, target, (sent_from, FORBIDDEN), b"")[20:]
    starts = [Piece(0, struct.pack(">HH", sent_from, port) + segment[4:8]) for port in ports]
    sent = packets([*starts, Piece(8, segment[8:], more=False)], desktop.address, target, frames.TCP)

    def act() -> None:
        put(machine.site, machine.namespaces["one"], "workspace", (plan.gateway.workspace_mac, desktop.mac), sent)

    answers = [frame[34:] for frame in seen(machine.namespaces["one"], "workspace", act) if frame[23] == frames.TCP]
    accepted = struct.pack(">HH", FORBIDDEN, sent_from)
    return any(answer.startswith(accepted) and answer[13] & 0x12 == 0x12 for answer in answers)


@pytest.mark.parametrize("attempt", [datagram, connection])
def test_no_fragment_rewrites_the_port_that_was_judged(lab: Site, attempt: Callable[..., bool]) -> None:
    """A second start for another port changes nothing, in either order.

    Without layers the forbidden port is reached where its start came first; where it came second, the kernel itself
    keeps to the first.
    """
    machine = lab.workspaces["a"]
    assert not attempt(machine, FORBIDDEN)
    assert not attempt(machine, ALLOWED, FORBIDDEN)
    assert not attempt(machine, FORBIDDEN, ALLOWED)
    with switched(lab, NOTHING):
        assert attempt(machine, FORBIDDEN)
        assert not attempt(machine, ALLOWED, FORBIDDEN)
        assert attempt(machine, FORBIDDEN, ALLOWED)


def test_fragments_to_an_allowed_port_are_answered(lab: Site) -> None:
    """What the tests above refuse is not all fragments: a question for a name in two of them has its answer."""
    machine = lab.workspaces["a"]
    plan, desktop, sent_from = machine.plan, machine.plan.desktop("one"), next(PORTS)
    name = b"ovl-42"
    question = struct.pack(">6H", 0x4459, 256, 1, 0, 0, 0) + bytes([len(name)]) + name + struct.pack(">B2H", 0, 1, 1)
    whole = frames.udp(sent_from, ALLOWED, question)
    sent = packets(
        [Piece(0, whole[:16]), Piece(16, whole[16:], more=False)], desktop.address, plan.gateway.workspace_address
    )

    def act() -> None:
        put(machine.site, machine.namespaces["one"], "workspace", (plan.gateway.workspace_mac, desktop.mac), sent)

    found = seen(machine.namespaces["one"], "workspace", act)
    answers = [frame for frame in found if frame[34:38] == struct.pack(">HH", ALLOWED, sent_from)]
    assert numbers(answers) == {42}
