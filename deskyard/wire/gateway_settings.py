"""The settings of a gateway: the Plan makes them, the gateway parses and checks them whole before it touches anything.

Checked by hand, not by pydantic: a gateway's program starts anew for each question, and on an emulated machine the
import alone would take longer than the answer.
"""

import hashlib
import json
import re
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from ipaddress import IPv4Address, IPv4Network
from typing import Any

from deskyard.errors import GatewayError
from deskyard.wire import egress_rules
from deskyard.wire.checks import REMEDY, is_address, is_network, keys, matches, require
from deskyard.wire.egress_rules import EgressRules
from deskyard.wire.routes import COMPUTER, ROUTES

LABEL = re.compile(r"[a-z]([a-z0-9-]{0,30}[a-z0-9])?\Z")
HOSTNAME = re.compile(r"([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)*[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\Z")
MAC = re.compile(r"([0-9a-f]{2}:){5}[0-9a-f]{2}\Z")
DIRECTORY = re.compile(r"https://[a-z0-9][a-z0-9.-]{0,251}(?::([1-9][0-9]{0,4}))?(?:/[A-Za-z0-9._~/-]{0,200})?\Z")
EMAIL = re.compile(r"[A-Za-z0-9._%+-]{1,64}@[A-Za-z0-9.-]{1,180}\Z")
PEM_LIMIT = 64 * 1024
EGRESS = ("open", "locked", "none")


@dataclass(frozen=True)
class Desktop:
    """A desktop behind this gateway; `routes` maps a route to the desktop's port."""

    name: str
    mac: str
    address: str
    routes: dict[str, int]
    recorded: bool = False  # which its viewers are told


@dataclass(frozen=True)
class Acme:
    """The server that gives the door its certificate.

    `ca` is its own authority, or empty: in the Plan the path of a file, in a gateway its PEM.
    """

    directory: str
    email: str
    ca: str

    @property
    def port(self) -> int:
        """The server's TCP port."""
        found = DIRECTORY.match(self.directory)
        return int(found[1]) if found and found[1] else 443


@dataclass(frozen=True)
class Settings:
    """Settings of a gateway: all that it has to know of its workspace, and no secret."""

    workspace: str
    origin: str
    hostname: str
    uplink_mac: str
    uplink_address: str
    uplink_prefix: int
    host_address: str
    resolvers: tuple[str, ...]
    operators: tuple[str, ...]
    forwarder: str | None  # the address that says whom each of its connections is from
    workspace_mac: str
    workspace_address: str
    workspace_prefix: int
    egress: str
    denied_networks: tuple[str, ...]
    egress_rules: EgressRules
    desktops: tuple[Desktop, ...]
    acme: Acme | None

    @property
    def uplink_network(self) -> IPv4Network:
        """The network that the gateway shares with the host."""
        return IPv4Network((self.uplink_address, self.uplink_prefix), strict=False)

    @property
    def workspace_network(self) -> IPv4Network:
        """The network of the desktops."""
        return IPv4Network((self.workspace_address, self.workspace_prefix), strict=False)

    @property
    def operators_match(self) -> str:
        """The networks whose machines may use SSH, as nft takes and lists them."""
        operators = [operator.removesuffix("/32") for operator in self.operators]
        return operators[0] if len(operators) == 1 else f"{{ {', '.join(operators)} }}"

    @cached_property
    def denied(self) -> tuple[IPv4Network, ...]:
        """Where no desktop may go."""
        return tuple(map(IPv4Network, self.denied_networks))

    @cached_property
    def exception_networks(self) -> tuple[IPv4Network, ...]:
        """Where desktops may go all the same."""
        return tuple(map(IPv4Network, self.egress_rules.exceptions))

    @property
    def authority(self) -> str:
        """Host and port as browsers send them in `Host`."""
        return self.origin.removeprefix("https://")

    @cached_property
    def program_places(self) -> dict[str, tuple[str, int]]:
        """Where the service for programs listens, on each desktop that has one."""
        return {d.name: (d.address, d.routes[COMPUTER.name]) for d in self.desktops if COMPUTER.name in d.routes}

    def desktop(self, name: str) -> Desktop:
        """The desktop called `name`; raises `GatewayError` with the known names."""
        for desktop in self.desktops:
            if desktop.name == name:
                return desktop
        names = ", ".join(desktop.name for desktop in self.desktops)
        raise GatewayError("desktop", name, f"is not in workspace {self.workspace}", f"choose one of: {names}")

    def as_dict(self) -> dict[str, Any]:
        """The document as plain data."""
        document = asdict(self)
        for desktop in document["desktops"]:
            # Gateways of before know no such key, and most desktops are not recorded.
            if not desktop["recorded"]:
                del desktop["recorded"]
        return document

    def as_json(self) -> str:
        """The document, always the same text for the same settings."""
        return json.dumps(self.as_dict(), indent=2, sort_keys=True) + "\n"

    @property
    def digest(self) -> str:
        """Twelve hexadecimal digits that stand for these settings."""
        return hashlib.sha256(self.as_json().encode()).hexdigest()[:12]


def parse(text: str) -> Settings:
    """Read and check the JSON document; raises `GatewayError` naming the first wrong field."""
    try:
        document = json.loads(text)
    except json.JSONDecodeError as error:
        raise GatewayError("settings", None, f"is not JSON: {error}", REMEDY) from error
    values = keys(document, "settings", {field.name for field in fields(Settings)})
    for name, valid, reason in _SCALARS:
        require(valid(values[name]), name, values[name], reason)
    require(isinstance(values["denied_networks"], list), "denied_networks", None, "must be a list")
    require(isinstance(values["desktops"], list), "desktops", None, "must be a list")
    for index, network in enumerate(values["denied_networks"]):
        require(is_network(network), f"denied_networks[{index}]", network, "is no IPv4 network")
    desktops = tuple(_desktop(item, f"desktops[{index}]") for index, item in enumerate(values["desktops"]))
    rules = egress_rules.read(values["egress_rules"])
    acme = _acme(values["acme"])
    given = {
        **values,
        "acme": acme,
        "desktops": desktops,
        **{name: tuple(values[name]) for name in ("resolvers", "operators", "denied_networks")},
        "egress_rules": rules,
    }
    settings = Settings(**given)
    _check_whole(settings)
    return settings


def _desktop(item: Any, where: str) -> Desktop:
    given = {"recorded": False, **item} if isinstance(item, dict) else item
    values = keys(given, where, {"name", "mac", "address", "routes", "recorded"})
    require(matches(LABEL, values["name"]), f"{where}.name", values["name"], "is no DNS label")
    require(matches(MAC, values["mac"]), f"{where}.mac", values["mac"], "is no lower-case MAC address")
    require(is_address(values["address"]), f"{where}.address", values["address"], "is no IPv4 address")
    recorded, routes = values["recorded"], values["routes"]
    require(isinstance(recorded, bool), f"{where}.recorded", recorded, "is neither true nor false")
    require(isinstance(routes, dict), f"{where}.routes", routes, "must map routes to ports")
    for route, port in routes.items():
        require(route in ROUTES, f"{where}.routes", route, f"is no route; routes are {', '.join(ROUTES)}")
        require(_is_port(port), f"{where}.routes.{route}", port, "is no TCP port")
    return Desktop(values["name"], values["mac"], values["address"], dict(routes), recorded)


def _acme(item: Any) -> Acme | None:
    if item is None:
        return None
    values = keys(item, "acme", {"directory", "email", "ca"})
    found = matches(DIRECTORY, values["directory"]) and Acme(**values).port <= 65535
    require(found, "acme.directory", values["directory"], "is no https address")
    require(matches(EMAIL, values["email"]), "acme.email", values["email"], "is no address of a mailbox")
    pem = values["ca"]
    good = isinstance(pem, str) and len(pem) <= PEM_LIMIT and (not pem or "-----BEGIN CERTIFICATE-----" in pem)
    require(good, "acme.ca", None, "is no PEM certificate")
    return Acme(**values)


def _check_whole(settings: Settings) -> None:
    network = settings.workspace_network
    require(
        not network.overlaps(settings.uplink_network),
        "workspace_address",
        settings.workspace_address,
        "is in a network that overlaps the uplink",
    )
    host = IPv4Address(settings.host_address)
    require(host in settings.uplink_network, "host_address", str(host), "is not in the uplink network")
    require(
        re.fullmatch(r"https://" + re.escape(settings.hostname) + r"(:[0-9]{1,5})?", settings.origin) is not None,
        "origin",
        settings.origin,
        "must be https://<hostname>, with :<port> unless it is 443",
    )
    seen: set[str] = {settings.workspace_address}
    for index, desktop in enumerate(settings.desktops):
        where = f"desktops[{index}]"
        inside = IPv4Address(desktop.address) in network
        require(inside, f"{where}.address", desktop.address, f"is not in the workspace network {network}")
        for value in (desktop.name, desktop.mac, desktop.address):
            require(value not in seen, where, value, "is used twice")
            seen.add(value)


def _is_prefix(value: Any) -> bool:
    return type(value) is int and 8 <= value <= 30


def _is_port(value: Any) -> bool:
    return type(value) is int and 1 <= value <= 65535


def _are_networks(value: Any, least_prefix: int) -> bool:
    """A list of networks, or of addresses if the prefix has to be 32; none is everything."""
    if not isinstance(value, list) or not 1 <= len(value) <= 16 or not all(isinstance(item, str) for item in value):
        return False
    try:
        return all(IPv4Network(network).prefixlen >= max(least_prefix, 1) for network in value)
    except ValueError:
        return False


_SCALARS: tuple[tuple[str, Callable[[Any], bool], str], ...] = (
    ("workspace", lambda value: matches(LABEL, value), "is no DNS label"),
    ("origin", lambda value: isinstance(value, str), "must be text"),
    ("hostname", lambda value: matches(HOSTNAME, value) and len(value) <= 253, "is no lower-case host name"),
    ("uplink_mac", lambda value: matches(MAC, value), "is no lower-case MAC address"),
    ("uplink_address", is_address, "is no IPv4 address"),
    ("uplink_prefix", _is_prefix, "must be a whole number from 8 to 30"),
    ("host_address", is_address, "is no IPv4 address"),
    ("resolvers", lambda value: _are_networks(value, 32), "must be a list of one to sixteen IPv4 addresses"),
    ("operators", lambda value: _are_networks(value, 0), "must be a list of one to sixteen IPv4 networks"),
    ("forwarder", lambda value: value is None or is_address(value), "is no IPv4 address, and not null"),
    ("workspace_mac", lambda value: matches(MAC, value), "is no lower-case MAC address"),
    ("workspace_address", is_address, "is no IPv4 address"),
    ("workspace_prefix", _is_prefix, "must be a whole number from 8 to 30"),
    ("egress", lambda value: value in EGRESS, f"must be one of: {', '.join(EGRESS)}"),
)
