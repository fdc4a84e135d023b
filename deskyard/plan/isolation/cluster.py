"""The layers below a workspace on a cluster, compared whole with the Plan. Pure: answers are given as data.

Each difference names one thing and what is wrong with it: `cluster: MACHINE: THING: is missing`.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import ip_network
from typing import Any

from deskyard.plan.proxmox.firewall import FirewallPlan, RulePlan
from deskyard.plan.proxmox.workspace import ClusterPlan, NicPlan, VmPlan

Row = Mapping[str, Any]
MISSING, EXTRA = "is missing", "is not in the Plan"
# What of a rule says where it holds, in the order in which it is told; in a live rule there may be more.
PLACES = ("iface", "source", "dest", "proto", "sport", "dport")
OTHER_PLACES = ("macro", "icmp-type")
# What an option is if nobody set it (pve-firewall). What is logged lets nothing pass.
UNSET = {"enable": 0, "dhcp": 0, "ipfilter": 0, "macfilter": 1, "ndp": 1, "radv": 0}
UNSET_POLICIES = {"policy_in": "DROP", "policy_out": "ACCEPT"}
OWN_ADDRESSES = "ipfilter-"
CARDS = ("virtio", "e1000", "e1000e", "vmxnet3", "rtl8139", "ne2k_pci", "ne2k_isa", "pcnet", "i82551")
# What no API of a cluster tells.
NOT_EXAMINED = (
    "what the kernels of the nodes have loaded: the API tells the configuration alone",
    "on which ports of the nodes something listens: the usual ones were tried",
    "frames that fit a connection that is open already: no filter of a node looks at their addresses",
)


@dataclass(frozen=True)
class SeenVm:
    """The answers about one machine: its configuration in force and the one of its next start, and its firewall."""

    config: Row
    next_start: Row
    options: Row
    rules: Sequence[Row]
    ipsets: Mapping[str, Sequence[Row]]


@dataclass(frozen=True)
class SeenLayers:
    """The answers about a workspace; a machine that the cluster has not is left out."""

    datacenter: Row
    nodes: Mapping[str, Row]
    vnets: Sequence[Row]
    machines: Mapping[str, SeenVm]


def differences(plan: ClusterPlan, seen: SeenLayers) -> list[str]:
    """List all that is not as planned, from the datacenter's switch down to the single NIC."""
    found = [*_switches(seen), *_vnet(plan, seen.vnets)]
    for vm in plan.machines():
        name = vm.owner.machine
        machine = seen.machines.get(name)
        compared = [f"machine {vm.vm_id}: {MISSING}"] if machine is None else _machine(vm, machine)
        found += [f"{name}: {difference}" for difference in compared]
    return [f"cluster: {difference}" for difference in found]


def machine_differences(vm: VmPlan, seen: SeenVm) -> list[str]:
    """List all of one machine that is not as planned."""
    return list(_machine(vm, seen))


def rule_text(rule: RulePlan) -> str:
    """A rule of the Plan as it is named wherever it is told of."""
    return f"{_planned(rule)} ({rule.comment})"


def _switches(seen: SeenLayers) -> Iterator[str]:
    """Above the machines: where one of these is off, no rule of a machine is in force."""
    if not int(seen.datacenter.get("enable") or 0):
        yield "datacenter: firewall: is off"
    if not int(seen.datacenter.get("ebtables", 1)):
        yield "datacenter: ebtables, the filter of MAC addresses: is off"
    for name, options in sorted(seen.nodes.items()):
        if not int(options.get("enable", 1)):
            yield f"node {name}: firewall: is off"


def _vnet(plan: ClusterPlan, rows: Sequence[Row]) -> Iterator[str]:
    wanted = plan.vnet
    row = next((row for row in rows if row.get("vnet") == wanted.name), None)
    if row is None:
        yield f"VNet {wanted.name}: {MISSING}"
        return
    if row.get("state") or row.get("pending"):
        yield f"VNet {wanted.name}: has changes that are not applied"
    tag = row.get("tag")
    if (row.get("zone"), None if tag in (None, "") else int(str(tag))) != (wanted.zone, wanted.tag):
        yield f"VNet {wanted.name}: is in zone {row.get('zone')} with tag {tag}, not {wanted.zone} with {wanted.tag}"
    if int(row.get("isolate-ports") or 0):
        yield f"VNet {wanted.name}: isolate-ports: is set, and cuts desktops off from a gateway on their node"


def _machine(vm: VmPlan, seen: SeenVm) -> Iterator[str]:
    yield from _options(vm.firewall, seen.options)
    yield from _rules(vm.firewall, seen.rules)
    yield from _ipsets(vm.firewall, seen.ipsets)
    in_force = list(_nics(vm, seen.config))
    yield from in_force
    waiting = [nic for nic in _nics(vm, seen.next_start) if nic not in in_force]
    yield from (f"{nic}, from its next start on" for nic in waiting)


def _options(plan: FirewallPlan, seen: Row) -> Iterator[str]:
    switches = {"enable": True, "macfilter": True, "ipfilter": plan.ipfilter}
    for name, unset in UNSET.items():
        wanted = switches.get(name, False)
        if bool(int(seen.get(name, unset))) != wanted:
            yield f"option {name}: is {'off' if wanted else 'on'}"
    for name, allowed in UNSET_POLICIES.items():
        policy = seen.get(name) or allowed
        if policy != "DROP":
            yield f"option {name} DROP: is {policy}"


def _rules(plan: FirewallPlan, seen: Sequence[Row]) -> Iterator[str]:
    """The first rule that fits decides, so their order counts too; one that is switched off is none."""
    ordered = sorted(seen, key=lambda row: int(row.get("pos") or 0))
    live = [_live(row) for row in ordered if int(row.get("enable", 1))]
    off = {_live(row) for row in ordered} - set(live)
    names = {_planned(rule): rule_text(rule) for rule in plan.rules}
    planned = [_planned(rule) for rule in plan.rules]
    lacking, extra = Counter(planned) - Counter(live), Counter(live) - Counter(planned)
    for text in lacking.elements():
        yield f"{names[text]}: {'is switched off' if text in off else MISSING}"
    for text in extra.elements():
        yield f"{text}: {EXTRA}"
    if not lacking and not extra and planned != live:
        first = next(mine for mine, other in zip(planned, live, strict=True) if mine != other)
        yield f"{names[first]}: is not at its place"


def _ipsets(plan: FirewallPlan, seen: Mapping[str, Sequence[Row]]) -> Iterator[str]:
    """The addresses that a NIC may send from."""
    planned = {f"{OWN_ADDRESSES}{nic}": addresses for nic, addresses in plan.own.items()}
    for name, addresses in planned.items():
        if name not in seen:
            yield f"IP set {name}: {MISSING}"
            continue
        wanted, live = {_network(address) for address in addresses}, {_entry(row) for row in seen[name]}
        yield from (f"IP set {name}: {entry}: {MISSING}" for entry in sorted(wanted - live))
        yield from (f"IP set {name}: {entry}: {EXTRA}" for entry in sorted(live - wanted))
    yield from (f"IP set {name}: {EXTRA}" for name in sorted(set(seen) - set(planned)))


def _nics(vm: VmPlan, config: Row) -> Iterator[str]:
    planned = {f"net{number}": nic for number, nic in enumerate(vm.nics)}
    live = {key: _options_of(str(value)) for key, value in config.items() if key[:3] == "net" and key[3:].isdigit()}
    for key, nic in planned.items():
        if key not in live:
            yield f"NIC {key}: {MISSING}"
        else:
            yield from (f"NIC {key}: {difference}" for difference in _nic(nic, live[key]))
    yield from (f"NIC {key}: {EXTRA}" for key in sorted(set(live) - set(planned)))


def _nic(plan: NicPlan, seen: Mapping[str, str]) -> Iterator[str]:
    mac = next((seen[card] for card in CARDS if card in seen), seen.get("macaddr", "none"))
    compared = {
        "MAC": (plan.mac.lower(), mac.lower()),
        "bridge": (plan.bridge, seen.get("bridge", "none")),
        "VLAN": (str(plan.vlan or "none"), seen.get("tag", "none")),
        "trunks": ("none", seen.get("trunks", "none")),
    }
    if seen.get("firewall", "0") != "1":
        yield "firewall: is off"
    for what, (wanted, found) in compared.items():
        if found != wanted:
            yield f"{what} {wanted}: is {found}"


def _options_of(text: str) -> dict[str, str]:
    """`virtio=02:..,bridge=v1,firewall=1` as a mapping."""
    return {key: value for key, _, value in (part.partition("=") for part in text.split(","))}


def _planned(rule: RulePlan) -> str:
    return _text(rule.direction, rule.action, {place: getattr(rule, place) for place in PLACES})


def _live(row: Row) -> str:
    more = {place: row.get(place) for place in (*PLACES, *OTHER_PLACES)}
    return _text(str(row.get("type")), str(row.get("action")), more)


def _text(direction: str, action: str, places: Mapping[str, Any]) -> str:
    said = [f"{place} {_list(str(value))}" for place, value in places.items() if value not in (None, "")]
    return " ".join([direction, action, *said])


def _list(text: str) -> str:
    """Lists mean the same in any order, and an address the same as the network of it alone."""
    return ",".join(sorted(_network(network) for network in text.split(",")))


def _network(text: str) -> str:
    try:
        return str(ip_network(text.strip(), strict=False)).removesuffix("/32")
    except ValueError:
        return text.strip()


def _entry(row: Row) -> str:
    # An entry with `nomatch` takes addresses out again.
    return f"{'not ' if int(row.get('nomatch') or 0) else ''}{_network(str(row.get('cidr')))}"
