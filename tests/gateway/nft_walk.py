"""Walks packets through a ruleset as `nft -j` lists it: what the kernel holds, not what a template says.

Knows the expressions that a gateway's rules use and raises on any other, so that none is silently taken for a match.
"""

import json
import pwd
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path
from typing import Any

from tests.support.requirements import need_root


def kernel_listing(rules: str, folder: Path) -> dict[str, Any]:
    """The rules as the kernel took them, in a network namespace of their own."""
    need_root("makes a network namespace")
    (folder / "rules.nft").write_text(rules)
    load = f"ip link set lo up; nft -f {folder}/rules.nft && nft -j list ruleset"
    done = subprocess.run(["unshare", "-n", "sh", "-c", load], capture_output=True, text=True, check=True, timeout=30)
    listing: dict[str, Any] = json.loads(done.stdout)
    return listing


@dataclass(frozen=True)
class Packet:
    """What the rules look at. An IPv6 packet has no IPv4 address."""

    iif: str = ""
    oif: str = ""
    mac: str = ""
    saddr: str = ""
    daddr: str = ""
    proto: str = "tcp"
    sport: int = 40000
    dport: int = 0
    icmp: str = ""
    state: str = "new"
    family: str = "ipv4"
    user: str = ""


Test = Callable[[Packet], bool]
FINAL = {"accept": True, "drop": False, "reject": False, "notrack": False}
RAW = -300  # the priority of chains that say what is tracked


@dataclass
class Ruleset:
    """Chains and sets; `local` are the machine's own addresses, which routing knows and no rule says."""

    chains: dict[str, list[list[tuple[str, Any]]]] = field(default_factory=dict)
    bases: dict[str, list[tuple[str, bool]]] = field(default_factory=dict)  # hook -> chain, policy
    raw: dict[str, str] = field(default_factory=dict)  # hook -> the chain that says what is not tracked
    sets: dict[str, Test] = field(default_factory=dict)
    local: frozenset[str] = frozenset()

    def passes(self, hook: str, packet: Packet) -> bool:
        """Whether every filter chain of the hook lets the packet through."""
        return all(self._walk(chain, packet, policy) for chain, policy in self.bases[hook])

    def tracks(self, hook: str, packet: Packet) -> bool:
        """Whether the packet takes a place in the table of connections."""
        return self._walk(self.raw[hook], packet, True)

    def _walk(self, chain: str, packet: Packet, policy: bool) -> bool:
        verdict = self._chain(chain, packet)
        return policy if verdict is None else verdict

    def _chain(self, chain: str, packet: Packet) -> bool | None:
        """The verdict, or None if the chain has none for this packet."""
        for rule in self.chains[chain]:
            for kind, value in rule:
                if kind == "test":
                    if not value(packet):
                        break
                elif kind == "final":
                    return bool(value)
                elif kind == "return":
                    return None
                else:
                    verdict = self._chain(value, packet)
                    if verdict is not None or kind == "goto":
                        return verdict
        return None


def parse(listing: Mapping[str, Any], local: frozenset[str]) -> Ruleset:
    """Read the JSON of `nft -j list ruleset`."""
    entries = listing["nftables"]
    rules = Ruleset(local=local)
    members: dict[str, Any] = {
        entry["set"]["name"]: entry["set"].get("elem", []) for entry in entries if "set" in entry
    }
    for entry in entries:
        if "chain" in entry:
            chain = entry["chain"]
            rules.chains[chain["name"]] = []
            if chain.get("prio") == RAW:
                rules.raw[chain["hook"]] = chain["name"]
            elif chain.get("type") == "filter":
                rules.bases.setdefault(chain["hook"], []).append((chain["name"], chain["policy"] == "accept"))
    for entry in entries:
        if "rule" in entry:
            steps = [_step(expression, members, local) for expression in entry["rule"]["expr"]]
            rules.chains[entry["rule"]["chain"]].append([step for step in steps if step is not None])
    return rules


def _step(expression: Mapping[str, Any], members: dict[str, Any], local: frozenset[str]) -> tuple[str, Any] | None:
    """A rule's part: a test, a verdict, a jump, or nothing if it decides nothing."""
    ((name, value),) = expression.items()
    if name in FINAL:
        return "final", FINAL[name]
    if name in ("jump", "goto"):
        return name, value["target"]
    if name == "return":
        return "return", None
    if name in ("counter", "log", "snat", "masquerade", "ct timeout"):
        return None
    if name in ("limit", "ct count"):
        # No flood here: below the rate or the number, `over` does not match and its opposite does.
        over = bool(value.get("inv"))
        return "test", lambda packet: not over
    if name == "set":
        statements = [_step(statement, members, local) for statement in value.get("stmt", [])]
        tests = [step[1] for step in statements if step is not None]
        return "test", lambda packet: all(test(packet) for test in tests)
    if name == "match":
        return "test", _match(value, members, local)
    raise NotImplementedError(f"rule with {name}")


def _match(value: Mapping[str, Any], members: dict[str, Any], local: frozenset[str]) -> Test:
    parts = value["left"]["concat"] if "concat" in value["left"] else [value["left"]]
    readers = [_reader(part, local) for part in parts]
    right = value["right"]
    if isinstance(right, str) and right.startswith("@"):
        wanted = members[right[1:]]
    elif isinstance(right, dict) and "set" in right:
        wanted = right["set"]
    else:
        wanted = right if isinstance(right, list) else [right]
    if any(part.get("meta", {}).get("key") == "skuid" for part in parts):
        wanted = [pwd.getpwuid(user).pw_name if isinstance(user, int) else user for user in wanted]
    tests = [_element(element, len(readers)) for element in wanted]
    unequal: bool = value["op"] == "!="
    if value["op"] not in ("==", "in", "!="):
        raise NotImplementedError(f"operator {value['op']}")

    def test(packet: Packet) -> bool:
        found = [reader(packet) for reader in readers]
        if any(value is None for value in found):
            return False
        return any(bool(test(found)) for test in tests) != unequal

    return test


def _reader(part: Mapping[str, Any], local: frozenset[str]) -> Callable[[Packet], Any]:
    """What a match looks at; None where the packet has no such field."""
    if "meta" in part:
        keys = {"iif": "iif", "iifname": "iif", "oif": "oif", "oifname": "oif", "nfproto": "family", "l4proto": "proto"}
        name = {**keys, "skuid": "user"}[part["meta"]["key"]]
        return lambda packet: getattr(packet, name)
    if "&" in part:
        return lambda packet: None  # a look into the payload: these packets have none
    if "ct" in part and part["ct"]["key"] == "state":
        return lambda packet: packet.state
    if "fib" in part:
        return lambda packet: "local" if packet.daddr in local else "unicast"
    if "payload" in part:
        return _payload(part["payload"]["protocol"], part["payload"]["field"])
    raise NotImplementedError(f"match on {part}")


def _payload(protocol: str, wanted: str) -> Callable[[Packet], Any]:
    if protocol == "ether" and wanted == "saddr":
        return lambda packet: packet.mac or None
    if protocol == "ip" and wanted in ("saddr", "daddr"):
        return lambda packet: number(getattr(packet, wanted)) if packet.family == "ipv4" else None
    if protocol in ("tcp", "udp") and wanted in ("sport", "dport"):
        return lambda packet: getattr(packet, wanted) if packet.proto == protocol else None
    if protocol == "th" and wanted in ("sport", "dport"):
        return lambda packet: getattr(packet, wanted) if packet.proto in ("tcp", "udp") else None
    if protocol == "tcp" and wanted == "doff":
        return lambda packet: 5 if packet.proto == "tcp" else None
    if protocol == "icmp" and wanted == "type":
        return lambda packet: packet.icmp or None
    raise NotImplementedError(f"match on {protocol} {wanted}")


def _element(element: Any, parts: int) -> Callable[[list[Any]], bool]:
    if isinstance(element, dict) and "elem" in element:
        element = element["elem"]["val"]
    if isinstance(element, dict) and "concat" in element:
        tests = [_value(part) for part in element["concat"]]
        assert len(tests) == parts
        return lambda found: all(test(value) for test, value in zip(tests, found, strict=True))
    single = _value(element)
    return lambda found: single(found[0])


def _value(value: Any) -> Callable[[Any], bool]:
    if isinstance(value, dict) and "prefix" in value:
        network = IPv4Network(f"{value['prefix']['addr']}/{value['prefix']['len']}")
        low, high = int(network.network_address), int(network.broadcast_address)
        return lambda found: low <= found <= high
    if isinstance(value, dict) and "range" in value:
        low, high = (_plain(bound) for bound in value["range"])
        return lambda found: low <= found <= high
    plain = _plain(value)
    return lambda found: bool(found == plain)


@cache
def number(address: str) -> int:
    """An IPv4 address as a number."""
    return int(IPv4Address(address))


def _plain(value: Any) -> Any:
    try:
        return int(IPv4Address(value)) if isinstance(value, str) else value
    except ValueError:
        return value
