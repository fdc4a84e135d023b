"""Refusals as events: who wanted what, which rule said no, and what would allow it."""

import json
import re
import struct
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from ipaddress import IPv4Address
from pathlib import Path

from deskyard.gateway.egress.nflog import Logged
from deskyard.wire.egress_list import NAME, WEB_PORTS
from deskyard.wire.gateway_settings import Settings

MAX_BYTES = 4 * 1024 * 1024
POLL_SECONDS = 0.2
TCP, UDP = 6, 17
_NAME = re.compile(NAME + r"\Z")
_QUERIED = re.compile(r"[A-Za-z0-9_.-]{1,253}\Z")
# Neither refused nor allowed by the list: a person decides, or did.
PASSED_ON = ("ask", "page", "approved")
RULES = {
    "name": "is not on the list, so it does not exist here",
    "list": "is not on the list",
    "closed": "is closed for now, whatever the list says",
    "no-tls": "was asked for something else than TLS",
    "no-name": "was not asked for a name",
    "no-dns-name": "was asked for something that is no DNS name",
    "unanswered": "waits for a person, and nobody answered in time; the ticket stays open",
    "refused": "was refused by a person",
    "tickets": "is more than a desktop may ask about at once",
    "held": "is more than a desktop may have waiting, or may have open with a person's permission",
    "other-name": "is not the name that was allowed",
    "port": "is on the list, but not with this port",
    "unresolvable": "has no IPv4 address",
    "address": "has a private, metadata, multicast or host address",
    "direct": "is an address; only names can be allowed",
    "quic": "is HTTP/3; browsers fall back to TLS",
    "resolver": "is another resolver; the gateway answers names",
    "gateway": "is no service of the gateway for desktops",
    "denied": "is private, metadata, multicast or of the host",
    "rate": "was asked for too many new connections in a second",
    "many": "has as many connections or questions of this desktop as it may have",
    "egress": "is outside, and nothing may leave this workspace",
}


@dataclass(frozen=True)
class Refusal:
    """A refused connection or name; `allow` is the command that would allow it, if there is one."""

    time: str
    desktop: str
    address: str
    target: str
    rule: str
    reason: str
    allow: str


@dataclass(frozen=True)
class Raised:
    """A ticket that a connection raised."""

    desktop: str
    name: str
    port: int
    ticket: str


@dataclass(frozen=True)
class Carried:
    """The second HAProxy made a connection for a name."""

    name: str
    port: int


def from_router(line: str, settings: Settings) -> Refusal | Carried | Raised | None:
    """Read a line that the second HAProxy logged: kind, source, own address, own port, name, why, where to.

    What holds connections for a person writes the same, with the ticket's id as the last word.
    """
    words = line.strip().split(" ")
    if len(words) != 7 or not words[3].isdigit():
        return None
    _, source, own, port, name, why, last = words
    if why == "allowed":
        return Carried(name, int(port))
    if why == "ticket" and _NAME.match(name):
        return Raised(_desktop(source, settings), name, int(port), last)
    if why in PASSED_ON:
        return None
    named = _NAME.match(name) is not None
    target = f"{name if named else own}:{port}"
    entry = name if int(port) in WEB_PORTS else f"{name}:{port}"
    return _refusal(source, target, why, settings, entry if named and why in ("list", "port") else None)


def from_firewall(logged: Logged, settings: Settings) -> Refusal | None:
    """Read a packet that the firewall refused, or an answer that said there is no such name."""
    packet = logged.packet
    if len(packet) < 24 or packet[0] >> 4 != 4:
        return None
    body = packet[(packet[0] & 15) * 4 :]
    source, target = str(IPv4Address(packet[12:16])), str(IPv4Address(packet[16:20]))
    if logged.prefix == "name":
        name = _question(body, packet[9])
        return (name and _refusal(target, name, "name", settings, name if _NAME.match(name) else None)) or None
    if packet[9] not in (TCP, UDP) or len(body) < 4:
        return _refusal(source, f"{target} (protocol {packet[9]})", _rule(target, 0, 0, settings), settings)
    port = struct.unpack_from(">H", body, 2)[0]
    name = next((forward.name for forward in settings.egress_rules.forwards if forward.address == target), None)
    if name and packet[9] == TCP and logged.prefix != "many":
        return _refusal(source, f"{name}:{port}", "port", settings, f"{name}:{port}")
    rule = "many" if logged.prefix == "many" else _rule(target, port, packet[9], settings)
    entry = "NAME" if port in WEB_PORTS else f"NAME:{port}"
    shown = f"{target}:{port}{'/udp' if packet[9] == UDP else ''}"
    return _refusal(source, shown, rule, settings, entry if rule == "direct" and packet[9] == TCP else None)


def _rule(target: str, port: int, protocol: int, settings: Settings) -> str:
    """Which rule refused a packet: what it is, before where it goes."""
    address = IPv4Address(target)
    doors = {settings.workspace_address, *(forward.address for forward in settings.egress_rules.forwards)}
    ways = {*WEB_PORTS, *(port for f in settings.egress_rules.forwards if f.address == target for port in f.ports)}
    if settings.egress == "locked" and target in doors and protocol == TCP and port in ways:
        return "rate"
    if address in settings.workspace_network or target == settings.uplink_address:
        return "gateway"
    if port in (53, 853):
        return "resolver"
    if settings.egress == "open":
        allowed = any(address in network for network in settings.exception_networks)
        denied = any(address in network for network in settings.denied)
        return "denied" if denied and not allowed else "rate"
    if settings.egress == "none":
        return "egress"
    return "quic" if (protocol, port) == (UDP, 443) else "direct"


def _refusal(source: str, target: str, rule: str, settings: Settings, entry: str | None = None) -> Refusal:
    allow = f"./inv egress.allow {settings.workspace} {entry}" if entry and settings.egress == "locked" else ""
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    return Refusal(now, _desktop(source, settings), source, target, rule, RULES.get(rule, "was refused"), allow)


def _desktop(address: str, settings: Settings) -> str:
    names = {desktop.address: desktop.name for desktop in settings.desktops}
    return names.get(address, "unknown")


def _question(body: bytes, protocol: int) -> str | None:
    """The name in a DNS answer; nothing if it is cut off or no plain name."""
    at = 8 if protocol == UDP else (body[12] >> 4) * 4 + 2 if len(body) > 12 else len(body)
    at += 12
    labels = []
    while at < len(body) and 0 < body[at] < 64:
        labels.append(body[at + 1 : at + 1 + body[at]])
        at += 1 + body[at]
    name = b".".join(labels).decode("ascii", errors="replace").lower()
    return name if _QUERIED.match(name) else None


class Log:
    """A file of JSON lines that never grows beyond twice its bound."""

    def __init__(self, path: Path, max_bytes: int = MAX_BYTES) -> None:
        self._path = path
        self._max_bytes = max_bytes
        path.parent.mkdir(parents=True, exist_ok=True)

    def add(self, refusal: Refusal) -> None:
        """Write one line."""
        line = json.dumps(asdict(refusal)) + "\n"
        if self._path.exists() and self._path.stat().st_size + len(line) > self._max_bytes:
            self._path.replace(self._path.with_name(f"{self._path.name}.1"))
        with self._path.open("a") as stream:
            stream.write(line)


def read(path: Path) -> Iterator[str]:
    """The lines that are there, oldest first."""
    for file in (path.with_name(f"{path.name}.1"), path):
        if file.exists():
            yield from file.read_text().splitlines()


def follow(path: Path) -> Iterator[str]:
    """The lines that are there, then each as it comes, also over a change of files."""
    yield from read(path)
    position, inode = (path.stat().st_size, path.stat().st_ino) if path.exists() else (0, 0)
    rest = ""
    while True:
        if path.exists():
            if path.stat().st_ino != inode:
                position, inode = 0, path.stat().st_ino
            with path.open() as stream:
                stream.seek(position)
                rest += stream.read()
                position = stream.tell()
            *lines, rest = rest.split("\n")
            yield from lines
        time.sleep(POLL_SECONDS)
