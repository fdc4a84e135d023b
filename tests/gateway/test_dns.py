"""DHCP and DNS of a workspace: the desktops of the Plan and nobody else, and no answer that points inside."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from deskyard.gateway.config import render
from deskyard.wire.gateway_settings import Settings
from tests.gateway.nets import Nets
from tests.gateway.support import wait_for
from tests.support.requirements import need_programs, need_root
from tests.unit.gateway.support import parsed

GATEWAY, HOST = "10.80.1.1", "10.80.1.249"
UPSTREAM = {"good.test": "93.184.216.34", "private.test": "192.168.7.7", "loop.test": "127.0.0.1"}
A, PTR, AAAA = 1, 12, 28

# Asks for a record of each name, an address unless told otherwise; prints {name: [return code, address or null]}.
ASK = """
import json, socket, struct, sys
found, kind = {}, int(sys.argv[3]) if len(sys.argv) > 3 else 1
for name in json.loads(sys.argv[2]):
    line = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); line.settimeout(2)
    question = b"".join(bytes([len(part)]) + part.encode() for part in name.split(".")) + bytes(1)
    try:
        asked = question + struct.pack(">2H", kind, 1)
        line.sendto(struct.pack(">6H", 7, 256, 1, 0, 0, 0) + asked, (sys.argv[1], 53))
        data = line.recv(512)
        count = struct.unpack(">H", data[6:8])[0]
        found[name] = [data[3] & 15, socket.inet_ntoa(data[-4:]) if count else None]
    except OSError as error:
        found[name] = None
print(json.dumps(found))
"""

# Answers from a table, IPv6 addresses as well, and notes every name it was asked.
UPSTREAM_SERVER = """
import json, socket, struct, sys
table = json.loads(sys.argv[2])
line = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); line.bind((sys.argv[1], 53))
print("ready", flush=True)
while True:
    data, sender = line.recvfrom(512)
    at, parts = 12, []
    while data[at]:
        parts.append(data[at + 1 : at + 1 + data[at]].decode()); at += 1 + data[at]
    name, kind = ".".join(parts).lower(), struct.unpack(">H", data[at + 1 : at + 3])[0]
    print(name, flush=True)
    data4 = socket.inet_aton(table.get(name, "0.0.0.0"))
    content = {1: data4, 28: bytes.fromhex("26062800") + bytes(8) + data4}.get(kind, b"") if name in table else b""
    head = data[:2] + struct.pack(">5H", 0x8180, 1, 1 if content else 0, 0, 0)
    record = struct.pack(">3HIH", 0xC00C, kind, 1, 60, len(content)) + content if content else b""
    line.sendto(head + data[12 : at + 5] + record, sender)
"""

# Broadcasts DHCPDISCOVER, or DHCPREQUEST for an address it had, and prints the answer: {address, router, dns} or null.
DISCOVER = """
import json, socket, struct, sys
mac = bytes.fromhex(open("/sys/class/net/eth0/address").read().strip().replace(":", "")) if len(sys.argv) < 2 else (
    bytes.fromhex(sys.argv[1].replace(":", "")))
line = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for option in (socket.SO_BROADCAST, socket.SO_REUSEADDR): line.setsockopt(socket.SOL_SOCKET, option, 1)
line.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b"eth0")
line.bind(("", 68)); line.settimeout(2)
head = struct.pack(">4BIHH", 1, 1, 6, 0, 7, 0, 0x8000) + bytes(16) + mac.ljust(16, b"\\0") + bytes(192)
had = bytes([53, 1, 3, 50, 4]) + socket.inet_aton(sys.argv[2]) if len(sys.argv) > 2 else bytes([53, 1, 1])
line.sendto(head + b"\\x63\\x82\\x53\\x63" + had + bytes([55, 3, 1, 3, 6, 255]), ("255.255.255.255", 67))
try:
    data = line.recv(1500)
except OSError:
    print("null"); raise SystemExit
options, at = {}, 240
while data[at] != 255:
    options[data[at]] = data[at + 2 : at + 2 + data[at + 1]]; at += 2 + data[at + 1]
print(json.dumps({"address": socket.inet_ntoa(data[16:20]), "router": socket.inet_ntoa(options[3]),
                  "dns": socket.inet_ntoa(options[6])}))
"""


@contextmanager
def served(settings: Settings, folder: Path, weaken: Callable[[str], str] = str) -> Iterator[Nets]:
    """Real dnsmasq behind real rules; the file `asked` holds the names that the host was asked for."""
    need_root("makes network namespaces")
    need_programs("dnsmasq")
    text = render.dnsmasq(settings).replace("/var/lib/deskyard-dns/leases", str(folder / "leases"))
    (folder / "dnsmasq.conf").write_text(weaken(text.replace("user=dnsmasq", "user=root")))
    with Nets(settings) as nets:
        nets.load(render.firewall(settings, "nobody"), folder)
        started = ["dnsmasq", "--keep-in-foreground", f"--conf-file={folder}/dnsmasq.conf"]
        asked = folder / "asked"
        upstream = [sys.executable, "-c", UPSTREAM_SERVER, HOST, json.dumps(UPSTREAM)]
        with asked.open("w") as stream:
            spawn(nets, "host", upstream, stream)
            spawn(nets, "gw", started, subprocess.DEVNULL)
        wait_for("the resolver", lambda: "ready" in asked.read_text())
        wait_for("dnsmasq", lambda: answers(nets, "d1")["d1"])
        yield nets


def spawn(nets: Nets, short: str, argv: list[str], stream: Any) -> None:
    command = ["ip", "netns", "exec", nets.name(short), *argv]
    nets.servers.append(subprocess.Popen(command, stdout=stream, stderr=subprocess.DEVNULL, text=True))


def answers(nets: Nets, *names: str, kind: int = A) -> dict[str, Any]:
    output = nets.run("d1", sys.executable, "-c", ASK, GATEWAY, json.dumps(names), str(kind))
    found: dict[str, Any] = json.loads(output)
    return found


def test_desktop_gets_its_own_address_and_a_stranger_gets_none(tmp_path: Path) -> None:
    with served(parsed("open"), tmp_path) as nets:
        offered = json.loads(nets.run("d1", sys.executable, "-c", DISCOVER))
        assert offered == {"address": "10.80.1.10", "router": GATEWAY, "dns": GATEWAY}
        stranger = nets.run("d1", sys.executable, "-c", DISCOVER, "52:54:00:66:66:66")
        assert json.loads(stranger) is None


def test_names_inside_are_answered_and_names_outside_go_to_the_host(tmp_path: Path) -> None:
    with served(parsed("open"), tmp_path) as nets:
        found = answers(nets, "d1", "research-2", "gateway", "good.test")
        assert found == {
            "d1": [0, "10.80.1.10"],
            "research-2": [0, "10.80.1.11"],
            "gateway": [0, GATEWAY],
            "good.test": [0, "93.184.216.34"],
        }


def test_answers_that_point_inside_are_withheld(tmp_path: Path) -> None:
    with served(parsed("open"), tmp_path) as nets:
        found = answers(nets, "private.test", "loop.test")
        assert [answer and answer[1] for answer in found.values()] == [None, None]


def test_without_egress_no_question_leaves_the_gateway(tmp_path: Path) -> None:
    with served(parsed("none"), tmp_path) as nets:
        found = answers(nets, "d1", "good.test", "secret-data.tunnel.test", "no-such-desktop")
        assert found["d1"] == [0, "10.80.1.10"]
        assert {tuple(found[name]) for name in found if name != "d1"} == {(3, None)}
        assert (tmp_path / "asked").read_text() == "ready\n"
