"""Probes of a desktop beyond its own network: the host, private ranges, the internet, other workspaces. Pure."""

from collections.abc import Sequence
from functools import partial
from ipaddress import IPv4Address, IPv4Network
from typing import Any

from deskyard.plan.isolation.forgeries import PUBLIC
from deskyard.plan.isolation.probe import GATEWAY, Catalogue, Expected, dns, machine, syn, tcp, udp, watched
from deskyard.plan.workspace import DesktopPlan, WorkspacePlan
from deskyard.wire.routes import ROUTES

# So many desktops of another workspace are tried, and so much of the host.
STRANGERS = 7
HOST_ADDRESSES, HOST_PORTS = 12, 24
FOREIGN_PORTS = (22, 53, 443, *(route.port for route in ROUTES.values()))
HOST_SERVICES = (22, 111, 2049, 5900, 8006, 16509, 16514)
METADATA = ("169.254.169.254", "169.254.170.2", "100.100.100.200", "168.63.129.16")
LAN = ("10.255.255.1", "172.31.255.1", "192.168.255.1", "100.64.0.1", "198.18.0.1")
OUTSIDE = {"DNS elsewhere": 53, "QUIC": 443, "DNS over TLS": 853, "Teredo": 3544, "VXLAN": 4789}
OUTSIDE_TCP = {"HTTP by address": 80, "HTTPS by address": 443, "DNS over TLS": 853, "SSH": 22}
# A name of RFC 6761 that nobody can have allowed; and so many allowed ones are asked for.
DENIED_NAME, NAMES = "denied.invalid", 20
SERVED = ("status 200", "status 204", "status 301", "status 302", "status 404")
RESOLVERS = ("dns.google", "cloudflare-dns.com", "use-application-dns.net")


def host_ports(catalogue: Catalogue, desktop: DesktopPlan) -> None:
    """Every address of the host, at every port that something listens on, and at the usual ones."""
    rules = (
        "gateway: chain forward: ip daddr @denied jump refuse",
        f"gateway: chain forward: ip daddr {catalogue.plan.uplink.cidr} jump refuse",
        "gateway: chain forward: policy drop",
    )
    ports = (*dict.fromkeys((*catalogue.facts.ports, *HOST_SERVICES)),)[:HOST_PORTS]
    own = catalogue.plan.uplink.host_address or ""
    closed = [address for address in catalogue.facts.addresses if not _opened(catalogue, address)]
    for address in (*dict.fromkeys((own, *closed)),)[:HOST_ADDRESSES]:
        for port in ports:
            action, what = tcp(address, port), f"port {port} of the host at {address}"
            catalogue.add(desktop, "host", what, action, "refused", rules, (14,), ("open",))
        catalogue.outside(desktop, "host", f"the host at {address}", (address, 53, "UDP"), "refused", rules, (14,))
        catalogue.outside(desktop, "host", f"the host at {address}", (address, 22, "TCP"), "refused", rules, (14,))


def _opened(catalogue: Catalogue, address: str) -> bool:
    """Whether the site lets desktops go there all the same."""
    exceptions = catalogue.plan.gateway.settings.egress_rules.exceptions
    return any(IPv4Address(address) in IPv4Network(exception) for exception in exceptions)


def private_ranges(catalogue: Catalogue, desktop: DesktopPlan) -> None:
    """Metadata services and private ranges, whether somebody answers there or not."""
    rules = ("gateway: chain forward: ip daddr @denied jump refuse", "gateway: chain forward: policy drop")
    for topic, addresses, case in (("metadata", METADATA, 15), ("lan", LAN, 14)):
        threats = (case,)
        for address in addresses:
            if _opened(catalogue, address):
                continue
            action, what = tcp(address, 80), f"{address} over HTTP"
            catalogue.add(desktop, topic, what, action, "refused", rules, threats, ("open",))
            for kind in ("UDP", "TCP"):
                catalogue.outside(desktop, topic, address, (address, 80, kind), "refused", rules, threats)


def egress(catalogue: Catalogue, desktop: DesktopPlan) -> None:
    """The internet: open, or nothing leaves by address, whatever the protocol."""
    end: Expected = "reached" if catalogue.mode == "open" else "refused"
    rules: tuple[str, ...] = ("gateway: chain forward: policy drop", "gateway: chain forward: jump refuse")
    if catalogue.mode == "open":
        rules = ("gateway: chain forward: iifname workspace oifname uplink ... ct state new accept",)
    for what, port in OUTSIDE.items():
        catalogue.outside(desktop, "egress", what, (PUBLIC, port, "UDP"), end, rules, (20, 22, 26))
    for what, port in OUTSIDE_TCP.items():
        catalogue.outside(desktop, "egress", what, (PUBLIC, port, "TCP"), end, rules, (20, 22))
    if catalogue.mode == "open":
        return
    for what, port in OUTSIDE_TCP.items():
        action = tcp(PUBLIC, port)
        catalogue.add(desktop, "egress", f"{what}, connected", action, "refused", rules, (20, 22), ("open",))
    _names(catalogue, desktop)
    if catalogue.mode == "locked":
        _locked(catalogue, desktop)


def strangers(
    catalogue: Catalogue,
    ours: WorkspacePlan,
    desktop: DesktopPlan,
    theirs: WorkspacePlan,
    ports: Sequence[int] = FOREIGN_PORTS,
) -> None:
    """Everything that belongs to another workspace."""
    rules: tuple[str, ...] = ("gateway: chain forward: ip daddr @denied jump refuse",)
    if not ours.gateway.has_own_address:
        rules += ("host: libvirt's rules between networks",)
    gateway = theirs.gateway
    addresses = [other.address for other in theirs.desktops[:STRANGERS]]
    addresses += [gateway.workspace_address, gateway.uplink_address, theirs.uplink.host_address or ""]
    start = machine(ours, desktop.name)
    seen = tuple(f"{name}/{nic}/in" for name, nics in watched(theirs).items() for nic in nics)
    for address in addresses:
        for port in ports:
            action, what = tcp(address, port), f"port {port} of {theirs.name} at {address}"
            catalogue.put(start, "workspaces", what, action, "refused", rules, (14,), ("open",))
        leaving = (*seen, f"{machine(ours, GATEWAY)}/uplink/out")
        what, datagram = f"{theirs.name} at {address}", partial(udp, address, 4789)
        ends = ("answered", "refused")
        catalogue.put(start, "workspaces", f"{what} (UDP)", datagram, "refused", rules[:1], (7, 9), ends, leaving)
        begin = partial(syn, ours, desktop, address, 22)
        catalogue.put(start, "workspaces", f"{what} (TCP)", begin, "refused", rules[:1], (9,), (), leaving)


def _names(catalogue: Catalogue, desktop: DesktopPlan) -> None:
    """Nothing is said about names that are not allowed, so nothing can be said in them."""
    at, rule = catalogue.plan.gateway.workspace_address, ("gateway: dnsmasq: local=/#/",)
    for name in (*RESOLVERS, "metadata.google.internal"):
        what = f"{name} is a name"
        catalogue.add(desktop, "egress", what, dns(at, name), "refused", rule, (20, 22), (PUBLIC,))

    def tunnel(mark: bytes) -> dict[str, Any]:
        return dns(at, f"{mark.decode()}.tunnel.example", kind=16)

    seen = (catalogue.at(GATEWAY, "uplink/out"),)
    what = "a tunnel in TXT questions"
    catalogue.add(desktop, "egress", what, tunnel, "refused", rule, (21,), ("type 16",), seen)


def _locked(catalogue: Catalogue, desktop: DesktopPlan) -> None:
    """Allowed names are answered with the gateway's own addresses, and it lets no other name by."""
    at = catalogue.plan.gateway.workspace_address
    rules = catalogue.plan.gateway.settings.egress_rules
    answers = {name: at for name in rules.allow if ":" not in name and not name.startswith("*.")}
    answers.update({forward.name: forward.address for forward in rules.forwards})
    rule = ("gateway: dnsmasq: host-record",)
    for name, address in list(answers.items())[:NAMES]:
        what = f"{name} is answered"
        catalogue.add(desktop, "egress", what, dns(at, name), "reached", rule, (), (address, at))
    rule = ("gateway: haproxy: names of egress_allow alone",)
    tricks = [DENIED_NAME, None]
    for name in list(answers)[:1]:
        tricks += [f"not{name}", f"{name}.{DENIED_NAME}"]
    for trick in tricks:
        hello = {"do": "tls", "address": at, "port": 443, "name": trick}
        what = f"TLS for {trick or 'no name'}"
        catalogue.add(desktop, "egress", what, hello, "refused", rule, (24,), ("handshake",))
    asked = f"GET / HTTP/1.1\r\nHost: {DENIED_NAME}\r\nConnection: close\r\n\r\n"
    through = asked.replace("GET /", f"GET http://{PUBLIC}/")
    tunnel = f"CONNECT {PUBLIC}:443 HTTP/1.1\r\nHost: {PUBLIC}:443\r\n\r\n"
    for what, request, case in (("HTTP for", asked, 23), ("a proxy for", through, 16), ("CONNECT for", tunnel, 16)):
        action = {"do": "http", "address": at, "port": 80, "request": request}
        catalogue.add(desktop, "egress", f"{what} {DENIED_NAME}", action, "refused", rule, (case,), SERVED)
