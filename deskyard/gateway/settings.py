"""The settings a gateway gets: parsed and checked whole before anything is touched.

The same document as `deskyard.plan.workspace.GatewaySettings`, kept apart because the gateway carries none of the
Plan's code; a unit test holds the two together.
"""

import hashlib
import json
import re
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from ipaddress import IPv4Address, IPv4Network
from typing import Any

from deskyard.gateway import egress_rules
from deskyard.gateway.egress_rules import EgressRules
from deskyard.gateway.errors import GatewayError

LABEL = re.compile(r"[a-z]([a-z0-9-]{0,30}[a-z0-9])?\Z")
HOSTNAME = re.compile(r"([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)*[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\Z")
MAC = re.compile(r"([0-9a-f]{2}:){5}[0-9a-f]{2}\Z")
ROUTES = ("desktop", "terminal")
EGRESS = ("open", "locked", "none")
REMEDY = "send the settings of the workspace's Plan unchanged"


@dataclass(frozen=True)
class Desktop:
    """One desktop behind this gateway; `routes` maps a route to the desktop's port."""

    name: str
    mac: str
    address: str
    routes: dict[str, int]


@dataclass(frozen=True)
class Settings:
    """All a gateway has to know of its workspace; holds no secret."""

    workspace: str
    origin: str
    hostname: str
    uplink_mac: str
    uplink_address: str
    uplink_prefix: int
    host_address: str
    workspace_mac: str
    workspace_address: str
    workspace_prefix: int
    egress: str
    denied_networks: tuple[str, ...]
    egress_rules: EgressRules
    desktops: tuple[Desktop, ...]

    @property
    def uplink_network(self) -> IPv4Network:
        """The network that the gateway shares with the host."""
        return IPv4Network((self.uplink_address, self.uplink_prefix), strict=False)

    @property
    def workspace_network(self) -> IPv4Network:
        """The network of the desktops."""
        return IPv4Network((self.workspace_address, self.workspace_prefix), strict=False)

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

    def desktop(self, name: str) -> Desktop:
        """The desktop called `name`; raises `GatewayError` with the known names."""
        for desktop in self.desktops:
            if desktop.name == name:
                return desktop
        known = ", ".join(desktop.name for desktop in self.desktops)
        raise GatewayError("desktop", name, f"is not in workspace {self.workspace}", f"choose one of: {known}")

    def as_json(self) -> str:
        """The document, always the same text for the same settings."""
        return json.dumps(asdict(self), indent=2, sort_keys=True) + "\n"

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
    values = _keys(document, "settings", {field.name for field in fields(Settings)})
    for name, valid, reason in _SCALARS:
        _require(valid(values[name]), name, values[name], reason)
    _require(isinstance(values["denied_networks"], list), "denied_networks", None, "must be a list")
    _require(isinstance(values["desktops"], list), "desktops", None, "must be a list")
    for index, network in enumerate(values["denied_networks"]):
        _require(_is_network(network), f"denied_networks[{index}]", network, "is no IPv4 network")
    desktops = tuple(_desktop(item, f"desktops[{index}]") for index, item in enumerate(values["desktops"]))
    rules = egress_rules.read(values["egress_rules"])
    given = {**values, "desktops": desktops, "denied_networks": tuple(values["denied_networks"]), "egress_rules": rules}
    settings = Settings(**given)
    _check_whole(settings)
    return settings


def _desktop(item: Any, where: str) -> Desktop:
    values = _keys(item, where, {"name", "mac", "address", "routes"})
    _require(_matches(LABEL, values["name"]), f"{where}.name", values["name"], "is no DNS label")
    _require(_matches(MAC, values["mac"]), f"{where}.mac", values["mac"], "is no lower-case MAC address")
    _require(_is_address(values["address"]), f"{where}.address", values["address"], "is no IPv4 address")
    routes = values["routes"]
    _require(isinstance(routes, dict), f"{where}.routes", routes, "must map routes to ports")
    for route, port in routes.items():
        _require(route in ROUTES, f"{where}.routes", route, f"is no route; routes are {', '.join(ROUTES)}")
        _require(_is_port(port), f"{where}.routes.{route}", port, "is no TCP port")
    return Desktop(values["name"], values["mac"], values["address"], dict(routes))


def _check_whole(settings: Settings) -> None:
    network = settings.workspace_network
    _require(
        not network.overlaps(settings.uplink_network),
        "workspace_address",
        settings.workspace_address,
        "is in a network that overlaps the uplink",
    )
    host = IPv4Address(settings.host_address)
    _require(host in settings.uplink_network, "host_address", str(host), "is not in the uplink network")
    _require(
        re.fullmatch(r"https://" + re.escape(settings.hostname) + r"(:[0-9]{1,5})?", settings.origin) is not None,
        "origin",
        settings.origin,
        "must be https://<hostname>, with :<port> unless it is 443",
    )
    seen: set[str] = {settings.workspace_address}
    for index, desktop in enumerate(settings.desktops):
        where = f"desktops[{index}]"
        inside = IPv4Address(desktop.address) in network
        _require(inside, f"{where}.address", desktop.address, f"is not in the workspace network {network}")
        for value in (desktop.name, desktop.mac, desktop.address):
            _require(value not in seen, where, value, "is used twice")
            seen.add(value)


def _keys(document: Any, where: str, wanted: set[str]) -> dict[str, Any]:
    _require(isinstance(document, dict), where, None, "must be an object")
    missing, unknown = sorted(wanted - set(document)), sorted(set(document) - wanted)
    _require(not missing, where, None, f"lacks {', '.join(missing)}")
    _require(not unknown, where, None, f"has unknown keys: {', '.join(unknown)}")
    return dict(document)


def _require(good: bool, field: str, value: object, reason: str) -> None:
    if not good:
        raise GatewayError(field, value, reason, REMEDY)


def _matches(pattern: re.Pattern[str], value: Any) -> bool:
    return isinstance(value, str) and pattern.match(value) is not None


def _is_address(value: Any) -> bool:
    try:
        return isinstance(value, str) and str(IPv4Address(value)) == value
    except ValueError:
        return False


def _is_network(value: Any) -> bool:
    try:
        return isinstance(value, str) and str(IPv4Network(value)) == value
    except ValueError:
        return False


def _is_prefix(value: Any) -> bool:
    return type(value) is int and 8 <= value <= 30


def _is_port(value: Any) -> bool:
    return type(value) is int and 1 <= value <= 65535


_SCALARS: tuple[tuple[str, Callable[[Any], bool], str], ...] = (
    ("workspace", lambda value: _matches(LABEL, value), "is no DNS label"),
    ("origin", lambda value: isinstance(value, str), "must be text"),
    ("hostname", lambda value: _matches(HOSTNAME, value) and len(value) <= 253, "is no lower-case host name"),
    ("uplink_mac", lambda value: _matches(MAC, value), "is no lower-case MAC address"),
    ("uplink_address", _is_address, "is no IPv4 address"),
    ("uplink_prefix", _is_prefix, "must be a whole number from 8 to 30"),
    ("host_address", _is_address, "is no IPv4 address"),
    ("workspace_mac", lambda value: _matches(MAC, value), "is no lower-case MAC address"),
    ("workspace_address", _is_address, "is no IPv4 address"),
    ("workspace_prefix", _is_prefix, "must be a whole number from 8 to 30"),
    ("egress", lambda value: value in EGRESS, f"must be one of: {', '.join(EGRESS)}"),
)
