"""The table of connections is the door's: no desktop fills it, none takes another's part, and it is long enough."""

import itertools
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

import pytest

from deskyard.gateway.config import render, tracking
from deskyard.model.site import Site
from deskyard.model.workspace import Desktop, Workspace
from deskyard.plan.workspace import plan_workspace
from deskyard.wire.gateway_settings import EGRESS, Settings
from deskyard.wire.gateway_settings import parse as parse_settings
from tests.gateway.nets import Nets
from tests.gateway.nft_walk import Packet, kernel_listing, parse
from tests.gateway.support import wait_for
from tests.gateway.test_dns import GATEWAY, HOST, served
from tests.gateway.test_firewall import PUBLIC
from tests.unit.gateway.support import parsed

D1, D2 = "d1", "research-2"
FORGED = "10.80.1.77"
FEW = 40  # more than the programs of a test have open besides

# Asks the gateway for a name of its own, each time from another port.
FLOOD = """
import socket, sys
count = int(sys.argv[2])
question = b"\\x00\\x07\\x01\\x00\\x00\\x01" + bytes(6) + b"\\x02d1" + bytes(1) + b"\\0\\1\\0\\1"
for number in range(count):
    line = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    line.bind(("", 20000 + number)); line.sendto(question, (sys.argv[1], 53)); line.close()
"""

# Asks for names that do not exist, one after the other, until it is ended; each question is passed on to the host.
ASK_MANY = """
import os, socket, sys
line = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); line.settimeout(0.2)
print("asks", flush=True)
for _ in range(100_000):
    name = b"\\x10" + os.urandom(8).hex().encode() + b"\\x04test" + bytes(1)
    line.sendto(b"\\x00\\x07\\x01\\x00\\x00\\x01" + bytes(6) + name + b"\\0\\1\\0\\1", (sys.argv[1], 53))
    try: line.recv(512)
    except TimeoutError: pass
"""

# Knocks once at each place from an address of its own choice, and waits for nothing.
KNOCK = """
import json, socket, sys
for kind, address, port in json.loads(sys.argv[2]):
    line = socket.socket(socket.AF_INET, socket.SOCK_STREAM if kind == "tcp" else socket.SOCK_DGRAM)
    line.bind((sys.argv[1], 0)); line.setblocking(False); line.connect_ex((address, port))
    if kind == "udp": line.send(b"hello")
    line.close()
"""

# Opens so many connections and keeps them; prints how many it got.
HOLD = """
import socket, sys
lines = []
for _ in range(int(sys.argv[3])):
    line = socket.socket(); line.settimeout(5)
    try: line.connect((sys.argv[1], int(sys.argv[2]))); lines.append(line)
    except OSError: pass
print(len(lines), flush=True)
sys.stdin.read()
"""

# Takes connections, and never says anything.
SILENT = """
import socket, sys
line = socket.create_server(("", int(sys.argv[1])), backlog=4096)
print("ready", flush=True)
sys.stdin.read()
"""

# Asks for the address of d1 over TCP; prints true if it was answered.
ASK_TCP = """
import json, socket, sys
question = b"\\x00\\x07\\x01\\x00\\x00\\x01" + bytes(6) + b"\\x02d1" + bytes(1) + b"\\0\\1\\0\\1"
try:
    with socket.create_connection((sys.argv[1], 53), 5) as line:
        line.settimeout(5); line.sendall(len(question).to_bytes(2, "big") + question)
        print(json.dumps(len(line.recv(512)) > 0))
except OSError:
    print("false")
"""


def tracked(nets: Nets) -> int:
    """How many entries the gateway's table has."""
    return int(nets.run("gw", "cat", "/proc/sys/net/netfilter/nf_conntrack_count"))


@contextmanager
def holding(nets: Nets, short: str, *argv: str) -> Iterator[str]:
    """A program that keeps what it has until the end of the block; its first line."""
    command = ["ip", "netns", "exec", nets.name(short), sys.executable, "-c", *argv]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
    finally:
        process.kill()
        process.wait(10)


@contextmanager
def ready(settings: Settings, rules: str, folder: Path, outside: Sequence[str] = ()) -> Iterator[Nets]:
    """A gateway with these rules in force, that forwards if it may."""
    with Nets(settings, outside) as nets:
        nets.run("gw", "sysctl", "-q", "-w", f"net.ipv4.ip_forward={int(settings.egress == 'open')}")
        nets.load(rules, folder)
        yield nets


@pytest.mark.parametrize("count", [500, pytest.param(6500, marks=pytest.mark.deep)], ids=["sample", "deep"])
@pytest.mark.parametrize("egress", ["open", "none"])
def test_64_questions_from_thousands_of_ports_take_no_place_in_the_table(
    egress: Any, count: int, tmp_path: Path
) -> None:
    with served(parsed(egress), tmp_path) as nets:
        nets.run(D1, sys.executable, "-c", FLOOD, GATEWAY, str(count))
        assert tracked(nets) < FEW
        # A neighbour is answered in the middle of it.
        assert json.loads(nets.run(D2, sys.executable, "-c", ASK_TCP, GATEWAY))


def test_64_rules_that_track_questions_would_let_them_fill_the_table(tmp_path: Path) -> None:
    rules = render.firewall(parsed("none"), "nobody").splitlines(keepends=True)
    with served(parsed("none"), tmp_path) as nets:
        nets.load("".join(line for line in rules if "dport 53 notrack" not in line), tmp_path)
        nets.run(D1, sys.executable, "-c", FLOOD, GATEWAY, "500")
        # The bound of questions stands behind it.
        assert tracked(nets) > 3 * FEW


def passed_on(nets: Nets) -> list[int]:
    """For how many seconds more the gateway's table holds each question to the host."""
    shown = nets.run("gw", "cat", "/proc/net/nf_conntrack").splitlines()
    return [int(line.split()[4]) for line in shown if f"dst={HOST}" in line and "dport=53" in line]


def test_64_question_that_the_gateway_passes_on_is_soon_forgotten(tmp_path: Path) -> None:
    with served(parsed("open"), tmp_path) as nets, holding(nets, D1, ASK_MANY, GATEWAY):
        assert max(wait_for("a question to the host", lambda: passed_on(nets))) <= tracking.CLOSED_SECONDS


@pytest.mark.parametrize(
    "most", [20, pytest.param(tracking.OPEN_OF_ONE, marks=pytest.mark.deep)], ids=["sample", "deep"]
)
@pytest.mark.parametrize("egress", ["open", "locked"])
def test_64_desktop_has_no_more_connections_open_than_its_part(
    egress: Any, most: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tracking, "OPEN_OF_ONE", most)
    made = parsed(egress, ("allowed.test",) if egress == "locked" else ())
    fast = dict.fromkeys(made.egress_rules.rates, 100_000)
    settings = replace(made, egress_rules=replace(made.egress_rules, rates=fast))
    where, at = (PUBLIC, "host") if egress == "open" else (GATEWAY, "gw")
    with ready(settings, render.firewall(settings, "nobody"), tmp_path, (PUBLIC,)) as nets:
        with holding(nets, at, SILENT, "443"), holding(nets, D1, HOLD, where, "443", str(most + 30)) as got:
            assert int(got) == most
            assert tracked(nets) < most + FEW
            with holding(nets, D2, HOLD, where, "443", "3") as other:
                assert other == "3"
        # What is closed makes room again.
        with holding(nets, at, SILENT, "443"), holding(nets, D1, HOLD, where, "443", "1") as again:
            assert again == "1"


def test_71_desktop_that_holds_connections_to_the_resolver_leaves_room_for_its_neighbours(tmp_path: Path) -> None:
    with served(parsed("none"), tmp_path) as nets, holding(nets, D1, HOLD, GATEWAY, "53", "60") as got:
        assert int(got) == tracking.NAME_LINES
        assert json.loads(nets.run(D2, sys.executable, "-c", ASK_TCP, GATEWAY))
        assert not json.loads(nets.run(D1, sys.executable, "-c", ASK_TCP, GATEWAY))


def test_71_every_desktop_has_its_lines_to_the_resolver_however_many_there_are(tmp_path: Path) -> None:
    names = [f"d{number}" for number in range(1, 8)]
    desktops = tuple(Desktop(name=name) for name in names)
    workspace = Workspace(name="many", network=IPv4Network("10.80.1.0/24"), egress="none", desktops=desktops)
    settings = parse_settings(json.dumps(plan_workspace(workspace, Site(), "kvm").as_dict()["gateway"]["settings"]))
    *others, last = names
    with served(settings, tmp_path) as nets, ExitStack() as held:
        most = str(tracking.NAME_LINES)
        assert [held.enter_context(holding(nets, name, HOLD, GATEWAY, "53", most)) for name in others] == [most] * 6
        assert json.loads(nets.run(last, sys.executable, "-c", ASK_TCP, GATEWAY))


def remembered(nets: Nets) -> dict[str, set[str]]:
    """The senders that each of the gateway's sets with room for more holds."""
    listed = json.loads(nets.run("gw", "nft", "-j", "list", "ruleset"))["nftables"]
    sets = [entry["set"] for entry in listed if "size" in entry.get("set", {})]
    return {set_["name"]: {str(each["elem"]["val"]) for each in set_.get("elem", ())} for set_ in sets}


@pytest.mark.parametrize("egress", EGRESS)
def test_sender_with_an_address_that_it_was_not_given_takes_no_place_in_any_set(egress: Any, tmp_path: Path) -> None:
    """Whoever could fill them would undo the bounds of all others."""
    settings = parsed(egress, ("allowed.test",) if egress == "locked" else ())
    own = next(desktop.address for desktop in settings.desktops if desktop.name == D1)
    with served(settings, tmp_path) as nets:
        nets.run(D1, "ip", "address", "add", f"{FORGED}/32", "dev", "eth0")
        ways = [("tcp", GATEWAY, 53), ("udp", GATEWAY, 53), ("tcp", GATEWAY, 443), ("tcp", PUBLIC, 443)]
        nets.run(D1, sys.executable, "-c", KNOCK, FORGED, json.dumps(ways))
        # What the desktop asks for as itself came behind all that was forged.
        nets.run(D1, sys.executable, "-c", KNOCK, own, json.dumps(ways))
        with holding(nets, D1, HOLD, GATEWAY, "53", "1"):
            found = remembered(nets)
        assert own in found["questions"] & found["open_name_lines"] & found["refusals"]
        assert {name for name, senders in found.items() if FORGED in senders} == set()


def test_questions_of_one_desktop_are_bounded_and_its_neighbours_are_answered(tmp_path: Path) -> None:
    made = parsed("none")
    settings = replace(
        made, egress_rules=replace(made.egress_rules, rates={**made.egress_rules.rates, "10.80.1.10": 1})
    )
    with served(settings, tmp_path) as nets:
        wait_for("a refusal", lambda: not json.loads(nets.run(D1, sys.executable, "-c", ASK_TCP, GATEWAY)))
        assert json.loads(nets.run(D2, sys.executable, "-c", ASK_TCP, GATEWAY))


def needs_no_memory(hook: str, packet: Packet, own: str) -> bool:
    """What the Plan says of a packet: loopback, and the questions and leases of the workspace, both ways."""
    if "lo" in (packet.iif, packet.oif):
        return True
    if packet.proto != "udp":
        return False
    if hook == "output":
        return packet.oif == "workspace" and packet.saddr == own and packet.sport in (53, 67)
    asks = packet.dport == 53 and packet.daddr == own
    return packet.iif == "workspace" and (asks or (packet.sport, packet.dport) == (68, 67))


@pytest.mark.parametrize("egress", EGRESS)
def test_what_is_not_tracked_is_questions_leases_and_loopback_alone(egress: Any, tmp_path: Path) -> None:
    settings = parsed(egress)
    rules = parse(kernel_listing(render.firewall(settings, "nobody"), tmp_path), frozenset())
    own, first = settings.workspace_address, settings.desktops[0]
    addresses, ports = (own, settings.uplink_address, first.address, PUBLIC), (53, 67, 68, 443, 40000)
    seen = set()
    for way, saddr, daddr, proto, sport, dport in itertools.product(
        ("lo", "uplink", "workspace"), addresses, addresses, ("tcp", "udp", "icmp"), ports, ports
    ):
        packet = Packet("", "", first.mac, saddr, daddr, proto, sport, dport, icmp="echo-request")
        for hook, sent in (("prerouting", replace(packet, iif=way)), ("output", replace(packet, oif=way))):
            assert rules.tracks(hook, sent) != needs_no_memory(hook, sent, own), (hook, sent)
            seen.add((hook, rules.tracks(hook, sent)))
    assert len(seen) == 4
