"""Rules for the way out: names, addresses for names with a port, exceptions, rates."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from ipaddress import IPv4Address, IPv4Network
from typing import Any

from deskyard.errors import GatewayError
from deskyard.wire.checks import is_address, is_network, require
from deskyard.wire.egress_list import MAX_ENTRIES, NO_FORWARD, WEB_PORTS, Entry, parse

ASK_PAGE = "ask.deskyard"  # tells a desktop how to wait for a person
NAMES_PER_LINE = 8  # HAProxy takes 64 words and 2,048 characters in a line


@dataclass(frozen=True)
class Forward:
    """A name with ports whose protocol names no server: it gets an address of its own, at the gateway."""

    name: str
    address: str
    ports: tuple[int, ...]


@dataclass(frozen=True)
class EgressRules:
    """The Plan of the way out; `rates` maps a desktop's address to new connections per second.

    `ask` lists names whose connections wait for a person.
    """

    allow: tuple[str, ...]
    forwards: tuple[Forward, ...]
    forward_networks: tuple[str, ...]
    exceptions: tuple[str, ...]
    rates: dict[str, int]
    ask: tuple[str, ...] = ()

    @property
    def entries(self) -> tuple[Entry, ...]:
        """The allow-list, read."""
        return tuple(parse(text) for text in self.allow)

    @property
    def asked(self) -> tuple[Entry, ...]:
        """The list of names that a person is asked about, read."""
        return tuple(parse(text) for text in self.ask)

    @property
    def names(self) -> list[str]:
        """Exact names that are answered with the address of the gateway."""
        own = {forward.name for forward in self.forwards}
        page = {ASK_PAGE} if self.ask else set()
        return sorted({entry.name for entry in (*self.entries, *self.asked) if not entry.wildcard} - own | page)

    @property
    def wildcards(self) -> list[str]:
        """Names whose every subname is answered with the address of the gateway."""
        return sorted({entry.name for entry in (*self.entries, *self.asked) if entry.wildcard})

    @property
    def ports_out(self) -> list[int]:
        """The ports that the gateway itself connects to."""
        return sorted({*WEB_PORTS, *(port for forward in self.forwards for port in forward.ports)})

    @property
    def by_rate(self) -> list[tuple[int, list[str]]]:
        """Desktops' addresses by their rate."""
        return [
            (rate, sorted((a for a, r in self.rates.items() if r == rate), key=IPv4Address))
            for rate in sorted(set(self.rates.values()))
        ]

    def with_entries(self, entries: Iterable[str]) -> "EgressRules":
        """The same with another list; names that have an address keep it."""
        allow = tuple(dict.fromkeys(entries))
        addresses = {forward.name: forward.address for forward in self.forwards}
        return replace(self, allow=allow, forwards=forwards(map(parse, allow), self.forward_networks, addresses))


def exact(entries: Iterable[Entry], port: int) -> list[list[str]]:
    """Names that entries open on a port of the web, in portions for lines."""
    return _portions(entry.name for entry in entries if not entry.wildcard and port in entry.ports)


def suffixes(entries: Iterable[Entry], port: int) -> list[list[str]]:
    """Endings that entries open on a port of the web, each with its leading dot."""
    return _portions(f".{entry.name}" for entry in entries if entry.wildcard and port in entry.ports)


def forwards(
    entries: Iterable[Entry], networks: Sequence[str], kept: Mapping[str, str] | None = None
) -> tuple[Forward, ...]:
    """An address for each name with ports of its own, sorted by name; those of `kept` stay.

    Chosen from the name, so that it stays when others come and go. Raises `GatewayError` when all are taken.
    """
    wanted: dict[str, set[int]] = {}
    for entry in entries:
        if entry.needs_forward:
            wanted.setdefault(entry.name, set()).update(entry.ports)
    pool = [str(address) for network in networks for address in IPv4Network(network)]
    addresses = dict(kept or {})
    for name in sorted(wanted.keys() - addresses.keys()):
        start, taken = int(hashlib.sha256(name.encode()).hexdigest()[:8], 16), set(addresses.values())
        candidates = (pool[(start + probe) % len(pool)] for probe in range(len(pool)))
        address = next((candidate for candidate in candidates if candidate not in taken), None)
        if address is None:
            remedy = "take away entries with a port that are no longer needed"
            raise GatewayError("egress_allow", name, "finds no free address for one more name with a port", remedy)
        addresses[name] = address
    return tuple(Forward(name, addresses[name], tuple(sorted(wanted[name]))) for name in sorted(wanted))


def read(document: Any) -> EgressRules:
    """Check the part of the settings; raises `GatewayError` naming the first wrong field."""
    where = "egress_rules"
    keys = {"allow", "ask", "forwards", "forward_networks", "exceptions", "rates"}
    require(isinstance(document, dict) and set(document) == keys, where, None, f"must have {', '.join(sorted(keys))}")
    for key in ("allow", "ask", "forwards", "forward_networks", "exceptions"):
        require(isinstance(document[key], list), f"{where}.{key}", None, "must be a list")
    for key in ("allow", "ask"):
        require(len(document[key]) <= MAX_ENTRIES, f"{where}.{key}", None, f"has more than {MAX_ENTRIES} entries")
        for index, text in enumerate(document[key]):
            _entry(text, f"{where}.{key}[{index}]")
    for index, text in enumerate(document["ask"]):
        require(not parse(text).needs_forward, f"{where}.ask[{index}]", text, NO_FORWARD.partition(" -> ")[0])
    for key in ("forward_networks", "exceptions"):
        for index, network in enumerate(document[key]):
            require(is_network(network), f"{where}.{key}[{index}]", network, "is no IPv4 network")
    pool = [IPv4Network(network) for network in document["forward_networks"]]
    forwards = tuple(
        _forward(forward, pool, f"{where}.forwards[{n}]") for n, forward in enumerate(document["forwards"])
    )
    needed = {(e.name, e.port) for e in map(parse, document["allow"]) if e.needs_forward}
    given = {(forward.name, port) for forward in forwards for port in forward.ports}
    require(needed == given, f"{where}.forwards", None, "are not those that the list needs")
    addresses = [forward.address for forward in forwards]
    require(len(addresses) == len(set(addresses)), f"{where}.forwards", None, "use an address twice")
    rates = document["rates"]
    require(isinstance(rates, dict), f"{where}.rates", None, "must map addresses to rates")
    for address, rate in rates.items():
        require(is_address(address), f"{where}.rates", address, "is no IPv4 address")
        require(type(rate) is int and 1 <= rate <= 100_000, f"{where}.rates.{address}", rate, "is no rate")
    lists = {key: tuple(document[key]) for key in ("allow", "ask", "forward_networks", "exceptions")}
    return EgressRules(**lists, forwards=forwards, rates=dict(rates))


def _entry(text: Any, where: str) -> None:
    try:
        normal = str(parse(text)) if isinstance(text, str) else None
    except ValueError as error:
        reason, _, remedy = str(error).partition(" -> ")
        raise GatewayError(where, text, reason, remedy) from error
    require(normal == text, where, text, "is no entry of an allow-list")


def _forward(item: Any, pool: list[IPv4Network], where: str) -> Forward:
    good = isinstance(item, dict) and set(item) == {"name", "address", "ports"} and isinstance(item["ports"], list)
    require(good, where, None, "must have address, name, ports")
    inside = is_address(item["address"]) and any(IPv4Address(item["address"]) in network for network in pool)
    require(inside, f"{where}.address", item["address"], "is not in forward_networks")
    require(bool(item["ports"]), f"{where}.ports", None, "must hold a port")
    return Forward(item["name"], item["address"], tuple(item["ports"]))


def _portions(names: Iterable[str]) -> list[list[str]]:
    listed = sorted(set(names))
    return [listed[at : at + NAMES_PER_LINE] for at in range(0, len(listed), NAMES_PER_LINE)]
