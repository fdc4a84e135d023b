"""Whether a cluster's firewall is in force, which program makes it, and what follows. Each check is a pure function."""

import re
from collections.abc import Iterator

from deskyard.model.site import Site
from deskyard.plan.proxmox.firewall import IPTABLES, NFTABLES
from deskyard.site.finding import Finding, error, ok, warning
from deskyard.site.proxmox.doctor.facts import Facts, NodeFacts

# Since then its filter of addresses drops (its debian/changelog, fix of 6336).
FILTERS_ADDRESSES = (1, 2, 0)
PAGE = "docs/cluster-isolation.md"
REACH = {
    IPTABLES: "frames behind a VLAN tag, and of other protocols than IP, pass between desktops of one workspace",
    NFTABLES: "errors of ICMP pass between desktops of one workspace, from any address",
}


def firewall(facts: Facts, _: Site) -> Iterator[Finding]:
    """The firewall of each machine is in force: it is the layer at the hypervisor that the Plan relies on."""
    if int(facts.firewall.get("enable") or 0):
        yield ok("firewall", "the firewall is enabled for the datacenter")
    else:
        why = "without it no rule of any machine is in force: desktops could forge addresses and reach each other"
        mend = "pvesh set /cluster/firewall/options --enable 1   # allow SSH and 8006 from your network first"
        yield error("firewall", "the firewall is not enabled for the datacenter", why, mend)
    if not int(facts.firewall.get("ebtables", 1)):
        why = "without it nobody looks at the addresses that ARP claims: desktops could take each other's place"
        mend = "pvesh set /cluster/firewall/options --ebtables 1"
        yield error("firewall_frames", "the filter of frames, ebtables, is switched off for the datacenter", why, mend)


def program(facts: Facts, _: Site) -> Iterator[Finding]:
    """The same program compiles the rules on every node; it is named with its version, and with what it lets pass."""
    by_program: dict[str, list[str]] = {}
    for name, node in sorted(facts.nodes.items()):
        by_program.setdefault(_program(node), []).append(name)
    if len(by_program) > 1:
        new = by_program[NFTABLES]
        what = f"{', '.join(new[:8])} run {NFTABLES} (nftables), the other nodes {IPTABLES}"
        why = f"each lets other frames pass, and a machine that moves is filtered by the other ({PAGE})"
        mend = f"pvesh set /nodes/{new[0]}/firewall/options --nftables 0   # or 1 on the others"
        yield warning("firewall_backend", what, why, mend)
        return
    for chosen in by_program:
        versions = {node.packages.get(chosen, "") for node in facts.nodes.values()}
        shown = ", ".join(sorted(versions - {""}))
        what = f"{chosen} {shown or 'of a version that was not told'} on every node"
        if chosen == NFTABLES and any(_numbers(version) < FILTERS_ADDRESSES for version in versions):
            what = f"{what}: before 1.2.0 its filter of addresses drops nothing, so Deskyard's own rules hold alone"
            why = f"one layer less stands behind them ({PAGE}, and 6336 at bugzilla.proxmox.com)"
            mend = f"apt install {NFTABLES}   # 1.2.0 or later; or pvesh set /nodes/NODE/firewall/options --nftables 0"
            yield warning("firewall_backend", what, why, mend)
        else:
            yield ok("firewall_backend", f"{what}; {REACH[chosen]} ({PAGE})")


def _program(node: NodeFacts) -> str:
    return NFTABLES if int(node.firewall.get("nftables") or 0) else IPTABLES


def _numbers(version: str) -> tuple[int, ...]:
    """The leading numbers of a Debian version; none of one that nobody told."""
    found = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(map(int, found.group().split("."))) if found else ()
