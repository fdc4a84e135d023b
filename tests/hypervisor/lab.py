"""A libvirt host as a network namespace: bridges of two workspaces, their gateways, a hostile desktop, and outside.

Nothing of libvirt is here: what the host's own table does not refuse, passes.
"""

import itertools
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import jinja2
import yaml

from deskyard.model.site import Site
from deskyard.model.workspace import Workspace
from deskyard.plan.egress import denied_networks
from deskyard.plan.workspace import WorkspacePlan, plan_workspace
from tests.gateway.nets import PROBE, SERVE, Flow
from tests.isolation.site import batch
from tests.support.requirements import need_root

ROLE = Path(__file__).resolve().parents[2] / "ansible/roles/hypervisor"
RULES = ROLE / "templates/host-firewall.nft.j2"
PUBLIC, METADATA, PRIVATE, OPENED = "93.184.216.34", "169.254.169.254", "10.99.0.1", "10.98.7.5"
HOST_OUTSIDE, ROUTER = "192.0.2.2", "192.0.2.1"
SITE = Site.check({"name": "local", "backend": "libvirt", "egress_exceptions": ["10.98.7.0/24"]}, "test")
HOST_PORTS = (22, 53, 80, 5900, 8006, 16509)
# As libvirt does it for a network with NAT.
NAT = """
table ip nat {{
  chain postrouting {{
    type nat hook postrouting priority srcnat; policy accept;
    ip saddr {{ {networks} }} oifname "eth0" masquerade
  }}
  chain prerouting {{
    type nat hook prerouting priority dstnat; policy accept;
    iifname "eth0" tcp dport 8443 dnat to {door}:443
  }}
}}
"""


def planned(name: str, number: int) -> WorkspacePlan:
    """The Plan of a workspace with one desktop."""
    declared = {"name": name, "network": f"10.80.{number}.0/24", "gateway_port": 18000 + number}
    return plan_workspace(Workspace.check({**declared, "desktops": [{"name": "one"}]}, "test"), SITE, "kvm")


def workspaces() -> dict[str, WorkspacePlan]:
    """Three of them; between `a` and its desktop all is as it has to be, the desktops of `b` and `c` are hostile."""
    return {name: planned(name, number) for number, name in enumerate("abc", 1)}


def rendered(site: Site = SITE) -> str:
    """The rules as the role writes them for a site."""
    values: dict[str, Any] = yaml.safe_load((ROLE / "defaults/main.yml").read_text())
    values["hypervisor_denied_networks"] = denied_networks(site)
    values["hypervisor_egress_exceptions"] = [str(network) for network in site.egress_exceptions]
    environment = jinja2.Environment(undefined=jinja2.StrictUndefined, trim_blocks=True, keep_trailing_newline=True)
    return environment.from_string(RULES.read_text()).render(ansible_managed="Ansible managed", **values)


@dataclass
class Lab:
    """Namespaces host, out, and of each workspace its gateway and its desktop (`gwa`, `da`)."""

    plans: Mapping[str, WorkspacePlan] = field(default_factory=workspaces)
    number: int = field(default_factory=itertools.count(1).__next__)
    made: list[str] = field(default_factory=list)
    servers: list[subprocess.Popen[str]] = field(default_factory=list)

    def __enter__(self) -> Self:
        need_root("makes network namespaces")
        try:
            self._build()
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._remove()

    def name(self, short: str) -> str:
        return f"dyhv{os.getpid()}n{self.number}-{short}"

    def run(self, short: str, *argv: str, stdin: str = "") -> str:
        """Run a program inside a namespace; its output."""
        command = ["ip", "netns", "exec", self.name(short), *argv]
        done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, f"{' '.join(command)}: {done.stderr}"
        return done.stdout

    def load(self, rules: str) -> None:
        """Put rules into force on the host."""
        self.run("host", "nft", "-f", "-", stdin=rules)

    def passes(self, flows: Sequence[Flow], seconds: float) -> dict[str, bool]:
        """Which flows got their answer; refused ones take `seconds`, all at the same time."""
        found: dict[str, bool] = {}
        for short in sorted({flow.start for flow in flows}):
            mine = [flow for flow in flows if flow.start == short]
            asked = json.dumps([[flow.kind, flow.address, flow.port, flow.source] for flow in mine])
            answers = json.loads(self.run(short, sys.executable, "-c", PROBE, asked, str(seconds)))
            found.update(zip(map(str, mine), answers, strict=True))
        return found

    def settled(self, flows: Sequence[Flow], wanted: Mapping[str, bool]) -> dict[str, bool]:
        """As `passes`, with patience for flows that are wanted: the machine may be busy."""
        found = self.passes(flows, 1.5)
        late = [flow for flow in flows if wanted[str(flow)] and not found[str(flow)]]
        return {**found, **(self.passes(late, 10) if late else {})}

    def link_local(self, short: str, device: str) -> str:
        """The IPv6 address that a NIC gave itself; empty until it has one."""
        words = self.run(short, "ip", "-6", "-o", "address", "show", "dev", device, "scope", "link").split()
        return (
            words[words.index("inet6") + 1].partition("/")[0] if "inet6" in words and "tentative" not in words else ""
        )

    def _build(self) -> None:
        for short in ("host", "out"):
            self._namespace(short)
        self._cable("out", "eth0", "host", "eth0")
        self._batch("out", [f"address add {ROUTER}/24 dev eth0"])
        self._batch("out", [f"address add {address}/32 dev lo" for address in (PUBLIC, METADATA, PRIVATE, OPENED)])
        self._batch("host", [f"address add {HOST_OUTSIDE}/24 dev eth0", f"route add default via {ROUTER}"])
        # Replies to what was forged or not hidden find their way back, too: only rules refuse here.
        self._batch("out", [f"route add 10.80.0.0/16 via {HOST_OUTSIDE}"])
        self.run("host", "sysctl", "-q", "-w", "net.ipv4.ip_forward=1", "net.ipv4.conf.all.rp_filter=0")
        self.run("host", "sysctl", "-q", "-w", "net.ipv4.conf.default.rp_filter=0", "net.ipv6.conf.all.forwarding=1")
        for short, plan in self.plans.items():
            self._workspace(short, plan)
        # A host has no route into a workspace; here it has two, so that nothing but its rules refuses what comes from
        # these desktops and what is for them.
        for other in (self.plans["b"], self.plans["c"]):
            self._batch("host", [f"route add {other.desktops[0].address}/32 dev {other.network.bridge}"])
        networks = ", ".join(plan.uplink.cidr for plan in self.plans.values())
        self.load(NAT.format(networks=networks, door=self.plans["a"].gateway.uplink_address))
        self._serve_all()

    def _workspace(self, short: str, plan: WorkspacePlan) -> None:
        gateway, desktop, (machine,) = f"gw{short}", f"d{short}", plan.desktops
        self._namespace(gateway)
        self._namespace(desktop)
        for network in (plan.uplink, plan.network):
            self._batch("host", [f"link add {network.bridge} type bridge", f"link set {network.bridge} up"])
        uplink, lan = plan.uplink.cidr.partition("/")[2], plan.network.cidr.partition("/")[2]
        self._batch("host", [f"address add {plan.uplink.host_address}/{uplink} dev {plan.uplink.bridge}"])
        self._cable(gateway, "uplink", "host", f"u{short}", plan.uplink.bridge)
        self._cable(gateway, "workspace", "host", f"w{short}", plan.network.bridge)
        self._cable(desktop, "eth0", "host", f"e{short}", plan.network.bridge)
        lines = [f"address add {plan.gateway.uplink_address}/{uplink} dev uplink"]
        lines += [f"address add {plan.gateway.workspace_address}/{lan} dev workspace"]
        self._batch(gateway, [*lines, f"route add default via {plan.uplink.host_address}"])
        # A hostile desktop takes the host's bridge for its router: it forges the one ARP answer that it needs.
        mac = json.loads(self.run("host", "ip", "-j", "link", "show", plan.network.bridge))[0]["address"]
        base = machine.address.rpartition(".")[0]
        self._batch(
            desktop,
            [
                f"address add {machine.address}/{lan} dev eth0",
                f"neighbour add {base}.2 lladdr {mac} dev eth0",
                f"route add default via {base}.2",
            ],
        )

    def _serve_all(self) -> None:
        hosts = [HOST_OUTSIDE, *(str(plan.uplink.host_address) for plan in self.plans.values())]
        everything = [("tcp", address, port) for address in ("", "::") for port in HOST_PORTS]
        self._serve("host", *everything, *(("udp", address, port) for address in hosts for port in (53, 67)))
        self._serve("out", *(("tcp", "", port) for port in (80, 443)), ("udp", PUBLIC, 53), ("udp", PRIVATE, 53))
        for short in self.plans:
            self._serve(f"gw{short}", *(("tcp", "", port) for port in (22, 443)))
            self._serve(f"d{short}", ("tcp", "", 22))

    def _serve(self, short: str, *ports: tuple[str, str, int]) -> None:
        command = ["ip", "netns", "exec", self.name(short), sys.executable, "-c", SERVE, json.dumps(ports)]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.servers.append(server)
        assert server.stdout is not None
        assert server.stdout.readline() == "ready\n"

    def _namespace(self, short: str) -> None:
        subprocess.run(["ip", "netns", "add", self.name(short)], check=True, capture_output=True, timeout=30)
        self.made.append(self.name(short))
        self._batch(short, ["link set lo up"])

    def _cable(self, start: str, near: str, end: str, far: str, bridge: str = "") -> None:
        self._batch(start, [f"link add {near} type veth peer name {far} netns {self.name(end)}", f"link set {near} up"])
        self._batch(end, [f"link set {far} up", *([f"link set {far} master {bridge}"] if bridge else [])])

    def _batch(self, short: str, lines: Sequence[str]) -> None:
        batch(self.name(short), lines)

    def _remove(self) -> None:
        for server in self.servers:
            server.kill()
            server.wait(10)
            assert server.stdout is not None
            server.stdout.close()
        for name in self.made:
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True, timeout=30)
