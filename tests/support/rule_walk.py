"""What the hypervisor's firewall does with a new connection: a walk through the rules of one machine."""

from ipaddress import IPv4Address, IPv4Network

from deskyard.plan.proxmox_firewall import FirewallPlan, RulePlan


def passes(firewall: FirewallPlan, direction: str, source: str, dest: str, port: int = 80, nic: str = "net0") -> bool:
    """What Proxmox VE does with a new TCP connection: its own addresses, the first rule that fits, else DROP."""
    if direction == "out" and nic in firewall.own and source not in firewall.own[nic]:
        return False
    for rule in firewall.rules:
        if rule.direction == direction and _fits(rule, source, dest, port, nic):
            return rule.action == "ACCEPT"
    return False


def _fits(rule: RulePlan, source: str, dest: str, port: int, nic: str) -> bool:
    places = ((rule.source, source), (rule.dest, dest))
    return (
        rule.iface in (None, nic)
        and rule.proto in (None, "tcp")
        and rule.dport in (None, str(port))
        and rule.sport is None
        and all(wanted is None or _within(given, wanted) for wanted, given in places)
    )


def _within(address: str, networks: str) -> bool:
    return any(IPv4Address(address) in IPv4Network(one) for one in networks.split(","))
