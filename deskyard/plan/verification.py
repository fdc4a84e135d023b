"""What `workspace.verify` tries: every probe with its expected end and the rules that see to it. Pure."""

import base64
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from ipaddress import IPv4Address, IPv4Network
from typing import Any, Literal

from deskyard.plan import frames
from deskyard.plan.forgeries import PUBLIC, forgeries
from deskyard.plan.workspace import DesktopPlan, WorkspacePlan

Expected = Literal["reached", "refused"]
# Marks are how a watcher knows a probe's frame: a prefix of one run, then the probe's number in four digits.
MARK_START, MARK_DIGITS = "dyv", 4
WAIT_SECONDS = 3.0
# Bounds: every desktop is tried by so many neighbours, and of another workspace so many desktops are tried.
NEIGHBOURS, STRANGERS = 8, 8
HOST_ADDRESSES, HOST_PORTS = 12, 24
GATEWAY_PORTS = (22, 53, 80, 443, 8700, 9999)
FOREIGN_PORTS = (22, 53, 443, 6080, 7681)
HOST_SERVICES = (22, 111, 2049, 5900, 8006, 16509, 16514)
METADATA = ("169.254.169.254", "169.254.170.2", "100.100.100.200", "168.63.129.16")
LAN = ("10.255.255.1", "172.31.255.1", "192.168.255.1", "100.64.0.1", "198.18.0.1")
OUTSIDE = {"DNS elsewhere": 53, "QUIC": 443, "DNS over TLS": 853, "Teredo": 3544, "VXLAN": 4789}
OUTSIDE_TCP = {"HTTP by address": 80, "HTTPS by address": 443, "DNS over TLS": 853, "SSH": 22}
# A name of RFC 6761 that nobody can have allowed; and so many allowed ones are asked for.
DENIED_NAME, NAMES = "denied.invalid", 20
SERVED = ("status 200", "status 204", "status 301", "status 302", "status 404")
RESOLVERS = ("dns.google", "cloudflare-dns.com", "use-application-dns.net")

GATEWAY = "gateway"
# The hypervisor's host, where its bridges are; and where people come from, which may be outside of its namespace.
HOST, HERE = "host", "here"


@dataclass(frozen=True)
class HostFacts:
    """What the hypervisor's host offers to be attacked: its addresses and the TCP ports that something listens on."""

    addresses: tuple[str, ...] = ()
    ports: tuple[int, ...] = ()


@dataclass(frozen=True)
class Probe:
    """One attempt; it reached its target if its outcome is one of `reached_by` or a witness saw its mark."""

    id: str
    topic: str
    start: str
    action: dict[str, Any]
    expected: Expected
    guards: tuple[str, ...]
    threats: tuple[int, ...] = ()
    reached_by: tuple[str, ...] = ()
    witnesses: tuple[str, ...] = ()

    @property
    def forged(self) -> bool:
        """Whether it is a frame past the network stack."""
        return bool(self.action["do"] == "frame")

    def reached(self, outcome: str, seen_by: Sequence[str]) -> bool:
        """Whether this outcome, or these sightings, mean that the target was reached."""
        return outcome in self.reached_by or bool(set(self.witnesses) & set(seen_by))


def machine(plan: WorkspacePlan, name: str) -> str:
    """How a machine is called among the machines of several workspaces."""
    return f"{plan.name}/{name}"


def probes(plan: WorkspacePlan, facts: HostFacts, mark: str, against: WorkspacePlan | None = None) -> tuple[Probe, ...]:
    """Everything that is tried, in the order of its numbers; `mark` is the prefix of this run's marks."""
    made = _Catalogue(plan, facts, mark, against)
    for desktop in plan.desktops:
        made.must_work(desktop)
        made.peers(desktop)
        made.gateway(desktop)
        made.host(desktop)
        made.private_ranges(desktop)
        made.egress(desktop)
        made.spoofing(desktop)
    made.from_the_gateway()
    made.from_the_host()
    if against is not None:
        for desktop in plan.desktops:
            made.strangers(plan, desktop, against)
        for desktop in against.desktops:
            made.strangers(against, desktop, plan)
    return tuple(made.probes)


def between(plans: Sequence[WorkspacePlan], mark: str) -> tuple[Probe, ...]:
    """From the first desktop of each workspace: everything of every other, and frames that nobody else may see."""
    made = _Catalogue(plans[0], HostFacts(), mark, None)
    places = {plan.name: [f"{name}/{nic}/in" for name, nics in watched(plan).items() for nic in nics] for plan in plans}
    for ours in plans:
        desktop = ours.desktops[0]
        for theirs in plans:
            if theirs.name != ours.name:
                made.strangers(ours, desktop, theirs, FOREIGN_PORTS[:1])
        made.shouting(ours, desktop, [place for name, found in places.items() if name != ours.name for place in found])
    return tuple(made.probes)


def watched(plan: WorkspacePlan) -> dict[str, tuple[str, ...]]:
    """The machines of a workspace that watch, and their interfaces."""
    desktops = {machine(plan, desktop.name): ("workspace",) for desktop in plan.desktops}
    return {**desktops, machine(plan, GATEWAY): ("workspace", "uplink")}


@dataclass
class _Catalogue:
    plan: WorkspacePlan
    facts: HostFacts
    mark: str
    against: WorkspacePlan | None
    probes: list[Probe] = field(default_factory=list)

    # What must work.

    def must_work(self, desktop: DesktopPlan) -> None:
        """Names, and the watchers themselves: a watcher that sees nothing would make every refusal look good."""
        at = self.plan.gateway.workspace_address
        rule = ("gateway: chain from_workspace: ... udp dport 53 accept",)
        for name, address in ((desktop.name, desktop.address), (GATEWAY, at)):
            action = _dns(at, name)
            self._add(desktop, "names", f"the gateway knows {name}", action, "reached", rule, reached_by=(address,))
        self._add(
            desktop,
            "watchers",
            "the gateway's watcher sees an honest datagram",
            partial(_udp, at, 53),
            "reached",
            rule,
            witnesses=(self._at(GATEWAY, "workspace/in"),),
        )

    def from_the_gateway(self) -> None:
        """Its routes to the desktops are open, and nothing else is."""
        start = machine(self.plan, GATEWAY)
        routes = ("gateway: chain output: ip daddr . tcp dport @routes ct state new accept",)
        output = ("gateway: chain output: policy drop",)
        for desktop in self.plan.desktops:
            for route, port in {"ssh": 22, **desktop.routes}.items():
                what = f"route {route} of {desktop.name}"
                self._put(start, "routes", what, _tcp(desktop.address, port), "reached", routes, reached_by=("open",))
            what = f"a port of {desktop.name} that is no route"
            action = _tcp(desktop.address, 9999)
            self._put(start, "routes", what, action, "refused", output, reached_by=("open", "refused"))
            self._put(
                start,
                "watchers",
                f"{desktop.name}'s watcher sees the gateway",
                partial(_ping, desktop.address),
                "reached",
                ("gateway: chain output: icmp type echo-request accept",),
                witnesses=(f"{machine(self.plan, desktop.name)}/workspace/in",),
            )
        host = self.plan.uplink.host_address or ""
        for port in (22, 8006, 16509):
            action = _tcp(host, port)
            self._put(start, "host", f"port {port} of the host", action, "refused", output, (14,), ("open", "refused"))

    def from_the_host(self) -> None:
        """The door answers; the gateway's other ports do not, not even to the host."""
        gateway = self.plan.gateway
        name = gateway.settings.hostname
        door = {"do": "tls", "address": gateway.listen, "port": gateway.port, "name": name}
        way = ("host: the forward to the gateway",)
        self._put(HERE, "door", f"the door of {self.plan.name}", door, "reached", way, (), ("handshake",))
        ssh, way = _tcp(gateway.uplink_address, 22), ("gateway: chain input: ip saddr host ... tcp dport 22 accept",)
        self._put(HOST, "door", "the host manages its gateway", ssh, "reached", way, (), ("open",))
        rule = ("gateway: chain input: policy drop",)
        for port in (53, 80, 6080, 8700, 9999):
            action = _tcp(gateway.uplink_address, port)
            what = f"port {port} of the gateway's uplink"
            self._put(HOST, "gateway", what, action, "refused", rule, (14,), ("open", "refused"))

    # What must not.

    def peers(self, desktop: DesktopPlan) -> None:
        """Neighbours of the same workspace: by connection, by datagram, and around the bridge through the gateway."""
        others = [other for other in self.plan.desktops if other.name != desktop.name]
        at = next((n for n, other in enumerate(self.plan.desktops) if other.name == desktop.name), 0)
        ring = (others[at:] + others[:at])[:NEIGHBOURS]
        closed = desktop.isolated
        guards = self._near_guards(desktop)
        for other in ring:
            expected: Expected = "refused" if closed else "reached"
            for port in (22, *other.routes.values()):
                action, what = _tcp(other.address, port), f"port {port} of {other.name}"
                self._add(desktop, "peers", what, action, expected, guards, (14,), ("open", "refused"))
            seen = (f"{machine(self.plan, other.name)}/workspace/in",)
            self._add(
                desktop,
                "peers",
                f"a datagram to {other.name}",
                partial(_udp, other.address, 4789),
                expected,
                guards,
                (7,),
                witnesses=seen,
            )
            through = self._hairpin(desktop, other)
            rules = ("gateway: chain forward: ip daddr @denied jump refuse", "gateway: chain forward: policy drop")
            what = f"a packet to {other.name} by way of the gateway"
            self._add(desktop, "peers", what, through, "refused", rules, (3,), witnesses=seen)

    def gateway(self, desktop: DesktopPlan) -> None:
        """The gateway's own ports: what the Plan opens and nothing else."""
        gateway = self.plan.gateway
        rule = ("gateway: chain input: policy drop; chain from_workspace opens DHCP and DNS alone",)
        opened = {53} | ({80, 443} if self._mode == "locked" else set())
        for port in GATEWAY_PORTS:
            for address in (gateway.workspace_address, gateway.uplink_address):
                fine = address == gateway.workspace_address and port in opened
                if fine and port != 53:
                    continue  # what it does with names is the topic `egress`
                what = f"port {port} of the gateway at {address}"
                end: Expected = "reached" if fine else "refused"
                # A reset is what its firewall answers a desktop with.
                self._add(desktop, "gateway", what, _tcp(address, port), end, rule, (14,), ("open",))

    def host(self, desktop: DesktopPlan) -> None:
        """Every address of the host, at every port that something listens on, and at the usual ones."""
        rules = (
            "gateway: chain forward: ip daddr @denied jump refuse",
            f"gateway: chain forward: ip daddr {self.plan.uplink.cidr} jump refuse",
            "gateway: chain forward: policy drop",
        )
        ports = (*dict.fromkeys((*self.facts.ports, *HOST_SERVICES)),)[:HOST_PORTS]
        own = self.plan.uplink.host_address or ""
        for address in (*dict.fromkeys((own, *self.facts.addresses)),)[:HOST_ADDRESSES]:
            for port in ports:
                action, what = _tcp(address, port), f"port {port} of the host at {address}"
                self._add(desktop, "host", what, action, "refused", rules, (14,), ("open",))
            self._outside(desktop, "host", f"the host at {address}", (address, 53, "UDP"), "refused", rules, (14,))
            self._outside(desktop, "host", f"the host at {address}", (address, 22, "TCP"), "refused", rules, (14,))

    def private_ranges(self, desktop: DesktopPlan) -> None:
        """Metadata services and private ranges, whether somebody answers there or not."""
        rules = ("gateway: chain forward: ip daddr @denied jump refuse", "gateway: chain forward: policy drop")
        for topic, addresses, case in (("metadata", METADATA, 15), ("lan", LAN, 14)):
            threats = (case,)
            for address in addresses:
                exceptions = self.plan.gateway.settings.egress_rules.exceptions
                if any(IPv4Address(address) in IPv4Network(one) for one in exceptions):
                    continue  # the site opened it
                action, what = _tcp(address, 80), f"{address} over HTTP"
                self._add(desktop, topic, what, action, "refused", rules, threats, ("open",))
                for kind in ("UDP", "TCP"):
                    self._outside(desktop, topic, address, (address, 80, kind), "refused", rules, threats)

    def egress(self, desktop: DesktopPlan) -> None:
        """The internet: open, or nothing leaves by address, whatever the protocol."""
        end: Expected = "reached" if self._mode == "open" else "refused"
        rules: tuple[str, ...] = ("gateway: chain forward: policy drop", "gateway: chain forward: jump refuse")
        if self._mode == "open":
            rules = ("gateway: chain forward: iifname workspace oifname uplink ... ct state new accept",)
        for what, port in OUTSIDE.items():
            self._outside(desktop, "egress", what, (PUBLIC, port, "UDP"), end, rules, (20, 22, 26))
        for what, port in OUTSIDE_TCP.items():
            self._outside(desktop, "egress", what, (PUBLIC, port, "TCP"), end, rules, (20, 22))
        if self._mode == "open":
            return
        for what, port in OUTSIDE_TCP.items():
            action = _tcp(PUBLIC, port)
            self._add(desktop, "egress", f"{what}, connected", action, "refused", rules, (20, 22), ("open",))
        self._names(desktop)
        if self._mode == "locked":
            self._locked(desktop)

    def spoofing(self, desktop: DesktopPlan) -> None:
        """Frames that lie, and protocols that nobody allowed."""
        near = self._near_guards(desktop)
        sources = ("gateway: chain forward: ether saddr . ip saddr @desktops", "gateway: chain forward: policy drop")
        others = [self._at(other.name, "workspace/in") for other in self.plan.desktops if other.name != desktop.name]
        others += self._far_watchers()
        ways: dict[str, tuple[str, tuple[str, ...], tuple[str, ...]]] = {
            "its neighbours": ("network", near, tuple(others)),
            "the gateway": ("network", near[:1], (self._at(GATEWAY, "workspace/in"),)),
            "the uplink": ("outside", (), (self._at(GATEWAY, "uplink/out"), *self._far_watchers())),
        }
        for one in forgeries(desktop, self.plan):
            for where, (place, guards, witnesses) in ways.items():
                if one.place == place and witnesses and (where != "its neighbours" or one.to_all):
                    self._add(
                        desktop,
                        "spoofing",
                        f"{one.what} -> {where}",
                        partial(_frame, one.make),
                        "refused",
                        (*one.guards, *(guards or (() if one.guards else (*near[:1], *sources)))),
                        one.threats,
                        witnesses=witnesses,
                    )

    def shouting(self, ours: WorkspacePlan, desktop: DesktopPlan, others: Sequence[str]) -> None:
        """Lies to all, heard in no other workspace."""
        start, guards = machine(ours, desktop.name), (f"bridge: {ours.network.bridge} is of this workspace alone",)
        for one in forgeries(desktop, ours):
            if one.to_all:
                what, action = f"{one.what} -> other workspaces", partial(_frame, one.make)
                self._put(start, "spoofing", what, action, "refused", guards, one.threats, (), tuple(others))

    def strangers(
        self, ours: WorkspacePlan, desktop: DesktopPlan, theirs: WorkspacePlan, ports: Sequence[int] = FOREIGN_PORTS
    ) -> None:
        """Everything that belongs to another workspace."""
        rules = ("gateway: chain forward: ip daddr @denied jump refuse", "host: libvirt's rules between networks")
        gateway = theirs.gateway
        addresses = [other.address for other in theirs.desktops[:STRANGERS]]
        addresses += [gateway.workspace_address, gateway.uplink_address, theirs.uplink.host_address or ""]
        start = machine(ours, desktop.name)
        seen = tuple(f"{name}/{nic}/in" for name, nics in watched(theirs).items() for nic in nics)
        for address in addresses:
            for port in ports:
                action, what = _tcp(address, port), f"port {port} of {theirs.name} at {address}"
                self._put(start, "workspaces", what, action, "refused", rules, (14,), ("open",))
            leaving = (*seen, f"{machine(ours, GATEWAY)}/uplink/out")
            what, datagram = f"{theirs.name} at {address}", partial(_udp, address, 4789)
            ends = ("answered", "refused")
            self._put(start, "workspaces", f"{what} (UDP)", datagram, "refused", rules[:1], (7, 9), ends, leaving)
            begin = partial(_syn, ours, desktop, address, 22)
            self._put(start, "workspaces", f"{what} (TCP)", begin, "refused", rules[:1], (9,), (), leaving)

    # Parts.

    @property
    def _mode(self) -> str:
        return self.plan.gateway.settings.egress

    def _names(self, desktop: DesktopPlan) -> None:
        """Nothing is said about names that are not allowed, so nothing can be said in them."""
        at, rule = self.plan.gateway.workspace_address, ("gateway: dnsmasq: local=/#/",)
        for name in (*RESOLVERS, "metadata.google.internal"):
            what = f"{name} is a name"
            self._add(desktop, "egress", what, _dns(at, name), "refused", rule, (20, 22), (PUBLIC,))

        def tunnel(mark: bytes) -> dict[str, Any]:
            return _dns(at, f"{mark.decode()}.tunnel.example", kind=16)

        seen = (self._at(GATEWAY, "uplink/out"),)
        what = "a tunnel in TXT questions"
        self._add(desktop, "egress", what, tunnel, "refused", rule, (21,), ("type 16",), seen)

    def _near_guards(self, desktop: DesktopPlan) -> tuple[str, ...]:
        rule = f"filter: {self.plan.desktop_filter.name} on the NIC of {desktop.name}"
        port = f"port: {desktop.name} isolated on bridge {self.plan.network.bridge}"
        return (rule, port) if desktop.isolated else (rule,)

    def _far_watchers(self) -> tuple[str, ...]:
        if self.against is None:
            return ()
        return tuple(f"{name}/{nic}/in" for name, nics in watched(self.against).items() for nic in nics)

    def _hairpin(self, desktop: DesktopPlan, other: DesktopPlan) -> Callable[[bytes], dict[str, Any]]:
        def action(mark: bytes) -> bytes:
            packet = frames.ipv4(desktop.address, other.address, frames.UDP, frames.udp(4000, 9, mark))
            return frames.ethernet(self.plan.gateway.workspace_mac, desktop.mac, frames.IPV4, packet)

        return partial(_frame, action)

    def _outside(
        self,
        desktop: DesktopPlan,
        topic: str,
        what: str,
        target: tuple[str, int, str],
        expected: Expected,
        guards: tuple[str, ...],
        threats: tuple[int, ...],
    ) -> None:
        """Something marked that must, or must not, leave the gateway: seen there, whoever answers or does not."""
        address, port, kind = target
        action = partial(_udp, address, port)
        if kind == "TCP":
            action = partial(_syn, self.plan, desktop, address, port)
        self._add(
            desktop,
            topic,
            f"{what} ({kind} {port})",
            action,
            expected,
            guards,
            threats,
            reached_by=() if expected == "reached" else ("answered", "refused"),
            witnesses=(self._at(GATEWAY, "uplink/out"),),
        )

    def _locked(self, desktop: DesktopPlan) -> None:
        """Allowed names are answered with the gateway's own addresses, and it lets no other name by."""
        at = self.plan.gateway.workspace_address
        rules = self.plan.gateway.settings.egress_rules
        answers = {name: at for name in rules.allow if ":" not in name and not name.startswith("*.")}
        answers.update({forward.name: forward.address for forward in rules.forwards})
        rule = ("gateway: dnsmasq: host-record",)
        for name, address in list(answers.items())[:NAMES]:
            what = f"{name} is answered"
            self._add(desktop, "egress", what, _dns(at, name), "reached", rule, (), (address, at))
        rule = ("gateway: haproxy: names of egress_allow alone",)
        tricks = [DENIED_NAME, None]
        for name in list(answers)[:1]:
            tricks += [f"not{name}", f"{name}.{DENIED_NAME}"]
        for trick in tricks:
            hello = {"do": "tls", "address": at, "port": 443, "name": trick}
            what = f"TLS for {trick or 'no name'}"
            self._add(desktop, "egress", what, hello, "refused", rule, (24,), ("handshake",))
        asked = f"GET / HTTP/1.1\r\nHost: {DENIED_NAME}\r\nConnection: close\r\n\r\n"
        through = asked.replace("GET /", f"GET http://{PUBLIC}/")
        tunnel = f"CONNECT {PUBLIC}:443 HTTP/1.1\r\nHost: {PUBLIC}:443\r\n\r\n"
        for what, request, case in (("HTTP for", asked, 23), ("a proxy for", through, 16), ("CONNECT for", tunnel, 16)):
            action = {"do": "http", "address": at, "port": 80, "request": request}
            self._add(desktop, "egress", f"{what} {DENIED_NAME}", action, "refused", rule, (case,), SERVED)

    def _at(self, name: str, rest: str) -> str:
        return f"{machine(self.plan, name)}/{rest}"

    def _add(self, desktop: DesktopPlan, *given: Any, **named: Any) -> None:
        self._put(machine(self.plan, desktop.name), *given, **named)

    def _put(
        self,
        start: str,
        topic: str,
        what: str,
        action: dict[str, Any] | Callable[[bytes], dict[str, Any]],
        expected: Expected,
        guards: tuple[str, ...],
        threats: tuple[int, ...] = (),
        reached_by: tuple[str, ...] = (),
        witnesses: tuple[str, ...] = (),
    ) -> None:
        mark = f"{self.mark}{len(self.probes):0{MARK_DIGITS}x}".encode()
        done = {"seconds": WAIT_SECONDS, **(action(mark) if callable(action) else action)}
        name = f"{start}: {what}"
        self.probes.append(Probe(name, topic, start, done, expected, guards, threats, reached_by, witnesses))


def _tcp(address: str, port: int) -> dict[str, Any]:
    return {"do": "tcp", "address": address, "port": port}


def _udp(address: str, port: int, mark: bytes) -> dict[str, Any]:
    return {"do": "udp", "address": address, "port": port, "payload": _text(mark)}


def _ping(address: str, mark: bytes) -> dict[str, Any]:
    return {"do": "ping", "address": address, "payload": _text(mark)}


def _frame(make: Callable[[bytes], bytes], mark: bytes) -> dict[str, Any]:
    return {"do": "frame", "interface": "workspace", "frame": _text(make(mark))}


def _syn(plan: WorkspacePlan, desktop: DesktopPlan, address: str, port: int, mark: bytes) -> dict[str, Any]:
    """The beginning of a connection, with a mark: a reset may be the gateway's, so what arrives is what counts."""
    # Other ports for other probes, or the gateway would take them for one connection.
    own_port = 20_000 + int(mark[-MARK_DIGITS:], 16) % 40_000
    packet = frames.syn(desktop.address, address, (own_port, port), mark)
    sent = frames.ethernet(plan.gateway.workspace_mac, desktop.mac, frames.IPV4, packet)
    return {"do": "frame", "interface": "workspace", "frame": _text(sent)}


def _dns(address: str, name: str, kind: int = 1) -> dict[str, Any]:
    return {"do": "dns", "address": address, "name": name, "type": kind}


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()
