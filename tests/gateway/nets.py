"""A gateway between a host and two desktops, as network namespaces: real kernel rules, no machines."""

import itertools
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

from deskyard.wire.gateway_settings import Settings

SERVE = """
import socket, sys, threading, json
def tcp(address, port):
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    listener = socket.create_server((address, port), family=family)
    while True:
        line, _ = listener.accept()
        line.sendall(b"hello"); line.close()
def udp(address, port):
    line = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); line.bind((address, port))
    while True:
        data, sender = line.recvfrom(2048); line.sendto(b"hello", sender)
for kind, address, port in json.loads(sys.argv[1]):
    threading.Thread(target={"tcp": tcp, "udp": udp}[kind], args=(address, port)).start()
print("ready", flush=True)
"""

PROBE = """
import socket, sys, json
from concurrent.futures import ThreadPoolExecutor
def ask(flow):
    kind, address, port, source = flow
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    line = socket.socket(family, socket.SOCK_STREAM if kind == "tcp" else socket.SOCK_DGRAM)
    line.settimeout(float(sys.argv[2]))
    try:
        if source: line.bind(("", source))
        line.connect(socket.getaddrinfo(address, port, family)[0][4])
        if kind == "udp": line.send(b"hello")
        return line.recv(16) == b"hello"
    except OSError:
        return False
    finally:
        line.close()
flows = json.loads(sys.argv[1])
with ThreadPoolExecutor(64) as pool:
    print(json.dumps(list(pool.map(ask, flows))))
"""


@dataclass(frozen=True)
class Flow:
    """From a namespace to an address and port."""

    start: str
    kind: str
    address: str
    port: int
    source: int = 0

    def __str__(self) -> str:
        return f"{self.start} -> {self.kind} {self.address}:{self.port}"


@dataclass
class Nets:
    """Namespaces gw, host, d1, d2 and a switch between gateway and desktops; gone at the end of the block."""

    settings: Settings
    outside: Sequence[str] = ()  # addresses that the host side answers for
    number: int = field(default_factory=itertools.count(1).__next__)
    made: list[str] = field(default_factory=list)
    servers: list[subprocess.Popen[str]] = field(default_factory=list)

    def __enter__(self) -> "Nets":
        try:
            self._build()
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._remove()

    def name(self, short: str) -> str:
        return f"dygw{os.getpid()}n{self.number}-{short}"

    def run(self, short: str, *argv: str, check: bool = True) -> str:
        """Run a program inside a namespace; its output."""
        command = ["ip", "netns", "exec", self.name(short), *argv]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        if check and done.returncode != 0:
            raise AssertionError(f"{' '.join(command)}: {done.stderr}")
        return done.stdout

    def load(self, rules: str, folder: Path) -> None:
        """Put a ruleset into force in the gateway."""
        path = folder / "rules.nft"
        path.write_text(rules)
        self.run("gw", "nft", "-f", str(path))

    def serve(self, short: str, *ports: tuple[str, str, int]) -> None:
        """Answer in a namespace: kind, address (empty: any), port."""
        command = ["ip", "netns", "exec", self.name(short), sys.executable, "-c", SERVE, json.dumps(ports)]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.servers.append(server)
        assert server.stdout is not None
        assert server.stdout.readline() == "ready\n"

    def passes(self, flows: Sequence[Flow], seconds: float) -> dict[str, bool]:
        """Which flows got their answer; refused ones take `seconds`, all at the same time."""
        found: dict[str, bool] = {}
        for short in sorted({flow.start for flow in flows}):
            mine = [flow for flow in flows if flow.start == short]
            asked: list[Any] = [[flow.kind, flow.address, flow.port, flow.source] for flow in mine]
            answers = json.loads(self.run(short, sys.executable, "-c", PROBE, json.dumps(asked), str(seconds)))
            found.update(zip(map(str, mine), answers, strict=True))
        return found

    def settled(self, flows: Sequence[Flow], seconds: float, wanted: Mapping[str, bool]) -> dict[str, bool]:
        """As `passes`, with patience for flows that are wanted: the machine may be busy."""
        found = self.passes(flows, seconds)
        late = [flow for flow in flows if wanted[str(flow)] and not found[str(flow)]]
        return {**found, **(self.passes(late, 10) if late else {})}

    def link_local(self, short: str, device: str) -> str:
        """The IPv6 address that a NIC gave itself."""
        words = self.run(short, "ip", "-6", "-o", "address", "show", "dev", device, "scope", "link").split()
        return words[words.index("inet6") + 1].partition("/")[0]

    def _build(self) -> None:
        settings = self.settings
        for short in ("gw", "host", "lan", *(d.name for d in settings.desktops)):
            self._ip("netns", "add", self.name(short))
            self.made.append(self.name(short))
            self.run(short, "ip", "link", "set", "lo", "up")
        self._cable("gw", "uplink", settings.uplink_mac, "host", "uplink")
        self._address("gw", "uplink", f"{settings.uplink_address}/{settings.uplink_prefix}")
        self._address("host", "uplink", f"{settings.host_address}/{settings.uplink_prefix}")
        for address in self.outside:
            self.run("host", "ip", "address", "add", f"{address}/32", "dev", "lo")
        self.run("gw", "ip", "route", "add", "default", "via", settings.host_address)
        self.run("lan", "ip", "link", "add", "br0", "type", "bridge")
        self.run("lan", "ip", "link", "set", "br0", "up")
        self._cable("gw", "workspace", settings.workspace_mac, "lan", "gw", bridge=True)
        self._address("gw", "workspace", f"{settings.workspace_address}/{settings.workspace_prefix}")
        for desktop in settings.desktops:
            self._cable(desktop.name, "eth0", desktop.mac, "lan", desktop.name[:12], bridge=True)
            self._address(desktop.name, "eth0", f"{desktop.address}/{settings.workspace_prefix}")
            self.run(desktop.name, "ip", "route", "add", "default", "via", settings.workspace_address)

    def _cable(self, start: str, near: str, mac: str, end: str, far: str, bridge: bool = False) -> None:
        both = ["netns", self.name(start), "address", mac, "type", "veth", "peer", "name", far]
        self._ip("link", "add", near, *both, "netns", self.name(end))
        if bridge:
            self.run(end, "ip", "link", "set", far, "master", "br0")
            if start != "gw":
                self.run(end, "bridge", "link", "set", "dev", far, "isolated", "on")
        self.run(start, "ip", "link", "set", near, "up")
        self.run(end, "ip", "link", "set", far, "up")

    def _address(self, short: str, device: str, address: str) -> None:
        self.run(short, "ip", "address", "add", address, "dev", device)

    def _ip(self, *argv: str) -> None:
        subprocess.run(["ip", *argv], check=True, capture_output=True, text=True, timeout=30)

    def _remove(self) -> None:
        for server in self.servers:
            server.kill()
            server.wait(10)
        for name in self.made:
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True, timeout=30)
