"""Whether anything runs that is not guarded: looked at with every call, so also in the middle of a run that fails."""

from typing import Any

from deskyard.plan.proxmox.firewall import FirewallPlan, RulePlan
from tests.support.pve import Fake
from tests.support.pve.calls import Call
from tests.support.pve.guests import nic
from tests.support.rule_walk import passes

PUBLIC, METADATA, LAN, STRANGER = "93.184.216.34", "169.254.169.254", "172.16.0.9", "10.99.0.7"
IN_FORCE = {"enable": "1", "policy_in": "DROP", "policy_out": "DROP", "macfilter": "1"}
FIELDS = ("iface", "source", "dest", "proto", "sport", "dport")
ADMIN_PORTS = (22, 8006, 8700)
NOTHING: dict[str, Any] = {"options": {}, "rules": [], "ipset": {}}


class Watch:
    """Called with each call, in the thread of the API; `seen` is what ran unguarded, and at which call."""

    def __init__(self, fake: Fake, *, peers: str = "closed") -> None:
        self._fake, self._peers = fake, peers
        self.seen: list[str] = []

    def __call__(self, call: Call | None = None) -> None:
        """Look now."""
        self.seen += [f"{problem} at {call}" for problem in unguarded(self._fake, self._peers)]


def unguarded(fake: Fake, peers: str = "closed") -> list[str]:
    """What is wrong with machines of workspaces that run: NICs without the firewall, what their rules let by."""
    found = []
    for pool, ids in fake.pools.items():
        machines = {vm.vmid: vm for vm in fake.vms if vm.vmid in ids and not vm.template}
        desktops = {vm_id: own_addresses(fake, vm_id) for vm_id, vm in machines.items() if not _is_gateway(vm)}
        for vm_id, vm in machines.items():
            if vm.status != "running":
                continue
            near = [address for other, own in desktops.items() if other != vm_id for address in own]
            problems = _of_any(fake, vm)
            problems += _of_gateway(fake, vm) if _is_gateway(vm) else _of_desktop(fake, vm, near * (peers == "closed"))
            found += [f"{pool}: {vm.name} {problem}" for problem in problems]
    return found


def cut_off(fake: Fake) -> list[str]:
    """Desktops that run on their gateway's node, on a VNet that isolates its ports: no two of them exchange frames.

    pve-network, Zones/Plugin.pm, tap_plug: the option is for every port, the gateway's too.
    """
    found = []
    for pool, ids in fake.pools.items():
        machines = [vm for vm in fake.vms if vm.vmid in ids and not vm.template and vm.status == "running"]
        ports = {(vm.node, nic) for vm in machines if _is_gateway(vm) for nic in _isolated(fake, vm)}
        found += [
            f"{pool}: {vm.name} has no gateway"
            for vm in machines
            if not _is_gateway(vm) and ports & {(vm.node, nic) for nic in _isolated(fake, vm)}
        ]
    return found


def _isolated(fake: Fake, vm: Any) -> set[str]:
    """The VNets of a machine that isolate their ports, as they are in force."""
    bridges = {nic(str(value)).get("bridge", "") for key, value in vm.config.items() if key.startswith("net")}
    in_force = fake.sdn_running["vnets"]
    return {bridge for bridge in bridges if int(in_force.get(bridge, {}).get("isolate-ports") or 0)}


def own_addresses(fake: Fake, vm_id: int) -> tuple[str, ...]:
    """The addresses that a machine may send from by its first NIC."""
    members = _conf(fake, vm_id)["ipset"].get("ipfilter-net0", [])
    return tuple(str(member["cidr"]).partition("/")[0] for member in members)


def _is_gateway(vm: Any) -> bool:
    return bool(vm.name.startswith("gateway."))


def _conf(fake: Fake, vm_id: int) -> dict[str, Any]:
    return fake._fw()["guests"].get(vm_id) or NOTHING


def _of_any(fake: Fake, vm: Any) -> list[str]:
    nics = {key: nic(str(value)) for key, value in vm.config.items() if key.startswith("net")}
    found = [f"has {key} without the firewall" for key, options in nics.items() if options.get("firewall") != "1"]
    options = {name: str(_conf(fake, vm.vmid)["options"].get(name)) for name in IN_FORCE}
    return found if options == IN_FORCE else [*found, f"has the firewall {options}"]


def _of_gateway(fake: Fake, vm: Any) -> list[str]:
    own, firewall = own_addresses(fake, vm.vmid), _firewall(fake, vm.vmid)
    found = [
        f"lets anybody to port {port}"
        for port in ADMIN_PORTS
        for address in own
        if passes(firewall, "in", PUBLIC, address, port)
    ]
    return found if own else [*found, "may send from any address"]


def _of_desktop(fake: Fake, vm: Any, forbidden: list[str]) -> list[str]:
    own, firewall = own_addresses(fake, vm.vmid), _firewall(fake, vm.vmid)
    bound = own and str(_conf(fake, vm.vmid)["options"].get("ipfilter")) == "1"
    found = [] if bound else ["may send from any address"]
    for address in own:
        found += [
            f"sends to {far}" for far in (METADATA, LAN, STRANGER, *forbidden) if passes(firewall, "out", address, far)
        ]
        found += [f"hears {far}" for far in (PUBLIC, LAN, STRANGER, *forbidden) if passes(firewall, "in", far, address)]
    return found


def _firewall(fake: Fake, vm_id: int) -> FirewallPlan:
    rules = (rule for rule in _conf(fake, vm_id)["rules"] if int(rule.get("enable", 0)))
    plans = (RulePlan(rule["type"], rule["action"], "", **{name: rule.get(name) for name in FIELDS}) for rule in rules)
    return FirewallPlan(ipfilter=False, own={}, rules=tuple(plans))
