"""A site without machines: a real libvirtd of its own with its bridges, filters and NAT; namespaces play the guests."""

import contextlib
import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import libvirt

from deskyard.gateway.config import render
from deskyard.plan.isolation.probe import GATEWAY, HERE, HOST, machine
from deskyard.plan.workspace import FilterPlan, NetworkPlan, WorkspacePlan
from deskyard.site.libvirt.kinds.inputs import FilterInputs, NetworkInputs
from deskyard.site.libvirt.kinds.network import FilterKind, NetworkKind
from deskyard.wire import gateway_settings as settings
from deskyard.wire.computer import HALT_PORT
from tests.support.requirements import need_programs, need_root

TREE = Path(__file__).resolve().parents[2]
SYSCTL = TREE / "ansible/roles/firewall/files/sysctl.conf"
LAYERS = frozenset({"port", "filter", "gateway"})

# In a network and a mount namespace of its own: no socket, file or rule is shared with a libvirtd of this machine.
DAEMON = """
set -e
mount --make-rprivate /
umount -l /sys
mount -t sysfs sysfs /sys
mkdir "$1/etc" "$1/etc/qemu"
cp -r /etc/libvirt/nwfilter "$1/etc/nwfilter"
cp "$1"/*.conf "$1/etc/"
mount --bind "$1/etc" /etc/libvirt
for folder in /run/libvirt /var/lib/libvirt /var/log/libvirt /var/cache/libvirt; do
  mkdir -p $folder; mount -t tmpfs tmpfs $folder
done
if [ -e /dev/kvm ]; then touch "$1/no-kvm"; mount --bind "$1/no-kvm" /dev/kvm; fi
if [ -e "$1/virtlogd.conf" ]; then
  mkdir "$1/log"; mount --bind "$1/log" /var/log/libvirt; mkdir -p /var/log/libvirt/qemu
  virtlogd --daemon --config "$1/virtlogd.conf" --pid-file "$1/virtlogd.pid"
fi
exec libvirtd --pid-file "$1/libvirtd.pid"
"""
CONFIG = 'unix_sock_dir = "{folder}/run"\nauth_unix_rw = "none"\nauth_unix_ro = "none"\n'

# Without its rules a gateway is a plain router that hides its network, as any home router does.
NO_RULES = """
table ip open {{
  chain postrouting {{
    type nat hook postrouting priority srcnat; policy accept;
    oifname "uplink" ip saddr {network} masquerade
  }}
}}
"""

# Listens on TCP ports and answers what is sent there over UDP, on every address of a namespace.
SERVICE = """
import socket, sys, threading
def serve(listener):
    while True: listener.accept()[0].close()
for one in sys.argv[1:]:
    address, _, port = one.rpartition(":")
    listener = socket.create_server((address, int(port)), backlog=64)
    threading.Thread(target=serve, args=(listener,)).start()
print("ready", flush=True)
"""


@dataclass
class Site:
    """The host: its own network namespace, libvirtd, and services that nobody inside may reach."""

    ports: Sequence[int] = (22, 8006, 16509)
    addresses: Sequence[str] = ()
    log_bytes: int = 0  # if given, machines can run, with console logs of at most this size and two older ones
    number: int = field(default_factory=itertools.count(1).__next__)
    workspaces: "dict[str, Simulated]" = field(default_factory=dict)
    processes: list[subprocess.Popen[str]] = field(default_factory=list)

    def __enter__(self) -> Self:
        need_root("makes network namespaces")
        need_programs("libvirtd", "nft", "ebtables", "dnsmasq")
        self.folder = Path(tempfile.mkdtemp(prefix="dysite."))
        try:
            self._start()
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._remove()

    @property
    def namespace(self) -> str:
        """The host's network namespace."""
        return f"dyv{os.getpid()}n{self.number}"

    def ip(self, *lines: str) -> None:
        """Run lines of `ip` in the host's namespace."""
        batch(self.namespace, lines)

    def inside(self, namespace: str, *argv: str, stdin: str = "") -> str:
        """Run a program in a namespace; its output."""
        command = ["ip", "netns", "exec", namespace, *argv]
        done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, f"{' '.join(command)}: {done.stderr}"
        return done.stdout

    def serve(self, namespace: str, *ports: int | str) -> subprocess.Popen[str]:
        """Listen in a namespace on TCP ports, or on `address:port`."""
        argv = ["ip", "netns", "exec", namespace, sys.executable, "-c", SERVICE, *map(str, ports)]
        server = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
        assert server.stdout is not None
        assert server.stdout.readline() == "ready\n"
        server.stdout.close()
        return server

    def add(self, plan: WorkspacePlan, **options: Any) -> "Simulated":
        """A workspace of this Plan, up; its filters are applied by libvirt."""
        simulated = Simulated(self, plan, **options)
        self.workspaces[plan.name] = simulated
        simulated.up()
        return simulated

    def add_like(self, first: "Simulated", *plans: WorkspacePlan, **options: Any) -> None:
        """Many workspaces with as many desktops as the first, whose filters are copied: libvirt takes seconds each."""
        made = []
        for plan in plans:
            simulated = self.workspaces[plan.name] = Simulated(self, plan, bound=(), **options)
            simulated.up()
            made.append(simulated)
        rules = self.inside(self.namespace, "ebtables-save").partition("*nat")[2].partition("*")[0]
        mine = [line for line in rules.splitlines() if any(port in line for port in first.all_ports)]
        copies = [first.translate(line, other) for other in made for line in mine]
        chains = [line for line in copies if line.startswith(":")]
        text = "\n".join(["*nat", *chains, *(line for line in copies if line.startswith("-"))]) + "\n"
        self.inside(self.namespace, "ebtables-restore", "--noflush", stdin=text)

    def remove(self, name: str) -> None:
        """Destroy a workspace: its machines, networks and filters."""
        self.workspaces.pop(name).down()

    def start(self, name: str, program: str) -> list[str]:
        """How the probe program is started in one of the machines."""
        namespace = self.namespace if name in (HOST, HERE) else self._namespace_of(name)
        return ["ip", "netns", "exec", namespace, sys.executable, "-c", program]

    def _namespace_of(self, name: str) -> str:
        workspace, _, short = name.partition("/")
        return self.workspaces[workspace].namespaces[short]

    def _start(self) -> None:
        run("ip", "netns", "add", self.namespace)
        self.ip("link set lo up", *(f"address add {address}/32 dev lo" for address in self.addresses))
        (self.folder / "run").mkdir()
        (self.folder / "libvirtd.conf").write_text(CONFIG.format(folder=self.folder))
        if self.log_bytes:
            limits = f"max_size = {self.log_bytes}\nmax_backups = 2\n"
            (self.folder / "virtlogd.conf").write_text(limits)
            qemu = 'namespaces = []\nsecurity_driver = "none"\nuser = "root"\ngroup = "root"\ncgroup_controllers = []\n'
            (self.folder / "qemu.conf").write_text(qemu)
        script = ["unshare", "--mount", "sh", "-c", DAEMON, "libvirtd", str(self.folder)]
        self.log = (self.folder / "libvirtd.log").open("w+")
        argv = ["nsenter", f"--net=/run/netns/{self.namespace}", *script]
        self.daemon = subprocess.Popen(argv, stdout=self.log, stderr=self.log, text=True)
        self.processes.append(self.daemon)
        libvirt.registerErrorHandler(lambda _context, _error: None, None)
        self.link = self._connect()
        self.processes.append(self.serve(self.namespace, *self.ports))

    def _connect(self) -> Any:
        end = time.monotonic() + 30
        while True:
            try:
                return libvirt.open(f"qemu:///system?socket={self.folder}/run/libvirt-sock")
            except libvirt.libvirtError:
                assert self.daemon.poll() is None and time.monotonic() < end, self.folder.joinpath(
                    "libvirtd.log"
                ).read_text()
                time.sleep(0.05)

    def _remove(self) -> None:
        # One by one libvirt would take seconds for each network; all of it goes with the namespace.
        for simulated in self.workspaces.values():
            simulated.unplug()
        if hasattr(self, "link"):
            self.link.close()
        for process in self.processes:
            process.terminate()
            process.wait(20)
        if (pid_file := self.folder / "virtlogd.pid").exists():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid_file.read_text()), signal.SIGTERM)
        if hasattr(self, "log"):
            self.log.close()
        listed = subprocess.run(["ip", "netns", "pids", self.namespace], capture_output=True, text=True, check=False)
        for pid in listed.stdout.split():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGTERM)
        subprocess.run(["ip", "netns", "delete", self.namespace], capture_output=True, timeout=30, check=False)
        shutil.rmtree(self.folder, ignore_errors=True)


@dataclass
class Simulated:
    """A workspace of a site: all of the Plan's networks, filters and rules; namespaces in place of machines.

    `layers` says which of the three layers are on, `bound` whose filters libvirt applies, which takes it seconds each.
    """

    site: Site
    plan: WorkspacePlan
    layers: frozenset[str] = LAYERS
    names: bool = False
    bound: tuple[str, ...] = ("desktop", "gateway")
    services: bool = True
    namespaces: dict[str, str] = field(default_factory=dict)
    bindings: list[Any] = field(default_factory=list)
    ports: dict[str, str] = field(default_factory=dict)
    uplink_port: str = ""
    dnsmasq: subprocess.Popen[bytes] | None = None
    servers: list[subprocess.Popen[str]] = field(default_factory=list)

    def up(self) -> None:
        """Networks and filters as the stack makes them; then the machines, each plugged in as libvirt does it."""
        link, plan = self.site.link, self.plan
        for network in (plan.network, plan.uplink):
            NetworkKind().create(link, network_inputs(network))
        for filter_ in (plan.desktop_filter, plan.gateway_filter):
            FilterKind().create(link, filter_inputs(filter_))
        gateway = plan.gateway
        self._machine(GATEWAY)
        self._plug(GATEWAY, "uplink", gateway.uplink_mac, plan.uplink, "clean-traffic", gateway.uplink_address)
        address = gateway.workspace_address
        self._plug(GATEWAY, "workspace", gateway.workspace_mac, plan.network, plan.gateway_filter.name, address)
        batch(self.namespaces[GATEWAY], [f"route add default via {plan.uplink.host_address}"])
        for desktop in plan.desktops:
            self._machine(desktop.name)
            name, isolated = plan.desktop_filter.name, desktop.isolated and "port" in self.layers
            self._plug(desktop.name, "workspace", desktop.mac, plan.network, name, desktop.address, isolated)
            batch(self.namespaces[desktop.name], [f"route add default via {address}"])
        self.load_rules()
        if self.services:
            self._serve_ports()
        if self.names:
            self._serve_names()

    def _serve_ports(self) -> None:
        plan = self.plan
        routes = {22, HALT_PORT, *(port for desktop in plan.desktops for port in desktop.routes.values())}
        for namespace in self.namespaces.values():
            self.servers.append(self.site.serve(namespace, *sorted(routes | {80, 443, 8700, 9999})))
        self.servers.append(self.site.serve(self.namespaces[GATEWAY], f"{plan.gateway.uplink_address}:53"))

    def unplug(self) -> None:
        """End its programs and pull its machines out."""
        if self.dnsmasq is not None:
            self.dnsmasq.terminate()
            self.dnsmasq.wait(10)
        for server in self.servers:
            server.terminate()
            server.wait(10)
        for namespace in self.namespaces.values():
            run("ip", "netns", "delete", namespace)

    def down(self) -> None:
        """As the stack's destruction does it, machines first."""
        for binding in self.bindings:
            binding.delete()
        self.unplug()
        link, plan = self.site.link, self.plan
        for filter_ in (plan.desktop_filter, plan.gateway_filter):
            FilterKind().delete(link, filter_.name, dict(filter_inputs(filter_)))
        for network in (plan.network, plan.uplink):
            NetworkKind().delete(link, network.name, dict(network_inputs(network)))

    @property
    def settings(self) -> settings.Settings:
        """What the gateway is told."""
        return settings.parse(json.dumps(asdict(self.plan.gateway.settings)))

    @property
    def all_ports(self) -> list[str]:
        """Its ports on both bridges, always in the same order."""
        return [*self.ports.values(), self.uplink_port]

    def translate(self, line: str, other: "Simulated") -> str:
        """A rule of this workspace's filters as the other's: ports, MACs and addresses change, nothing else."""
        for mine, theirs in zip(self._facts(), other._facts(), strict=True):
            line = re.sub(rf"(?<![0-9a-f]){re.escape(mine)}(?![0-9])", theirs, line)
        return line

    def _facts(self) -> list[str]:
        gateway, desktops = self.plan.gateway, self.plan.desktops
        macs = [gateway.uplink_mac, gateway.workspace_mac, *(desktop.mac for desktop in desktops)]
        own = [gateway.uplink_address, gateway.workspace_address, *(desktop.address for desktop in desktops)]
        return [*self.all_ports, *macs, *own]

    def switch(self, layers: frozenset[str]) -> None:
        """Switch layers on and off while all goes on: the flag of the ports, the hooks of the filters, the rules."""
        for name, port in self.ports.items():
            if name != GATEWAY and self.plan.desktop(name).isolated:
                flag = "on" if "port" in layers else "off"
                self.site.ip(f"link set {port} type bridge_slave isolated {flag}")
        if ("filter" in layers) != ("filter" in self.layers):
            word = "-I" if "filter" in layers else "-D"
            filtered = self.all_ports if "gateway" in self.bound or not self.bound else list(self.ports.values())[1:]
            hooks = [("PREROUTING", "-i", "libvirt-I-"), ("POSTROUTING", "-o", "libvirt-O-")]
            for port in filtered:
                for chain, way, target in hooks:
                    argv = ["ebtables", "-t", "nat", word, chain, way, port, "-j", target + port]
                    self.site.inside(self.site.namespace, *argv)
        self.layers = layers
        self.load_rules()

    def load_rules(self, weaken: Callable[[str], str] = str) -> None:
        """Put the gateway's rules into force, as planned or changed by `weaken`; without the layer, just a router."""
        space = self.namespaces[GATEWAY]
        # IPv6 stays on: the rules must refuse it without the kernel's help.
        lines = (SYSCTL.read_text() + render.forwarding(self.settings)).splitlines()
        kernel = [line.replace(" ", "") for line in lines if line.startswith("net.ipv4")]
        if "gateway" not in self.layers:
            kernel.append("net.ipv4.ip_forward=1")
        self.site.inside(space, "sysctl", "-q", "-w", *kernel)
        # The router of names is no part of this site; its account is anybody's.
        rules = weaken(render.firewall(self.settings, egress_user="nobody"))
        if "gateway" not in self.layers:
            rules = "flush ruleset\n" + NO_RULES.format(network=self.plan.network.cidr)
        self.site.inside(space, "nft", "-f", "-", stdin=rules)

    def run(self, name: str, *argv: str) -> str:
        """Run a program in a machine."""
        return self.site.inside(self.namespaces[name], *argv)

    def _machine(self, name: str) -> None:
        namespace = f"{self.site.namespace}{self.plan.network.bridge[3:]}{name[:20]}"
        run("ip", "netns", "add", namespace)
        self.namespaces[name] = namespace
        batch(namespace, ["link set lo up"])

    def _plug(
        self, name: str, nic: str, mac: str, network: NetworkPlan, rules: str, address: str, isolated: bool = False
    ) -> None:
        port = f"v{network.bridge[2:]}{len(self.ports)}"
        if nic == "uplink":
            self.uplink_port = port
        else:
            self.ports[name] = port
        space = self.namespaces[name]
        self.site.ip(
            f"link add {port} type veth peer name {nic} address {mac} netns {space}",
            f"link set {port} master {network.bridge}",
            f"link set {port} type bridge_slave isolated {'on' if isolated else 'off'}",
        )
        if ("gateway" if name == GATEWAY else "desktop") in self.bound:
            self.bindings.append(self.site.link.nwfilterBindingCreateXML(_binding(name, port, mac, rules, address), 0))
        self.site.ip(f"link set {port} up")
        prefix = network.cidr.partition("/")[2]
        batch(space, [f"address add {address}/{prefix} dev {nic}", f"link set {nic} up"])

    def _serve_names(self) -> None:
        folder = self.site.folder / self.plan.name
        folder.mkdir(exist_ok=True)
        text = render.dnsmasq(self.settings).replace("/var/lib/deskyard-dns/leases", str(folder / "leases"))
        (folder / "dnsmasq.conf").write_text(text.replace("user=dnsmasq", "user=root"))
        argv = ["dnsmasq", "--keep-in-foreground", f"--conf-file={folder}/dnsmasq.conf"]
        quiet = subprocess.DEVNULL
        self.dnsmasq = subprocess.Popen(
            ["ip", "netns", "exec", self.namespaces[GATEWAY], *argv], stdout=quiet, stderr=quiet
        )


def network_inputs(plan: NetworkPlan) -> NetworkInputs:
    """A network as the stack asks for it."""
    return {"name": plan.name, "bridge": plan.bridge, "cidr": plan.cidr, "host_address": plan.host_address}


def filter_inputs(plan: FilterPlan) -> FilterInputs:
    """A filter as the stack asks for it."""
    return {
        "name": plan.name,
        "kind": plan.kind,
        "gateway_mac": plan.gateway_mac,
        "gateway_address": plan.gateway_address,
    }


def batch(namespace: str, lines: Sequence[str]) -> None:
    """Run lines of `ip` in a namespace at once."""
    done = subprocess.run(
        ["ip", "-n", namespace, "-batch", "-"],
        input="\n".join(lines) + "\n",
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 0, f"{namespace}: {lines}: {done.stderr}"


def run(*argv: str) -> None:
    """Run a program that must succeed."""
    subprocess.run(argv, check=True, capture_output=True, text=True, timeout=30)


def all_machines(plan: WorkspacePlan) -> list[str]:
    """The machines of a workspace, gateway first."""
    return [machine(plan, GATEWAY), *(machine(plan, desktop.name) for desktop in plan.desktops)]


def _binding(name: str, port: str, mac: str, rules: str, address: str) -> str:
    return (
        f"<filterbinding><owner><name>{name}</name><uuid>{uuid.uuid4()}</uuid></owner><portdev name='{port}'/>"
        f"<mac address='{mac}'/><filterref filter='{rules}'>"
        f"<parameter name='MAC' value='{mac}'/><parameter name='IP' value='{address}'/></filterref></filterbinding>"
    )
