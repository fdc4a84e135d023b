"""Examines a cluster without changing anything, and says what has to be mended."""

from collections.abc import Callable, Iterable

from deskyard.errors import SiteError
from deskyard.model.site import Site
from deskyard.site.finding import Finding, error, ok, warning
from deskyard.site.proxmox.client import Client, connect
from deskyard.site.proxmox.doctor import checks, firewall_checks, network_checks
from deskyard.site.proxmox.doctor.facts import Facts, gather

Check = Callable[[Facts, Site], Iterable[Finding]]
CHECKS: tuple[Check, ...] = (
    checks.version,
    checks.token,
    checks.quorum,
    checks.nodes,
    checks.clocks,
    checks.storages,
    network_checks.zone,
    network_checks.learning,
    network_checks.pending,
    network_checks.reload,
    network_checks.uplink,
    network_checks.trunk,
    network_checks.mtu,
    firewall_checks.firewall,
    firewall_checks.program,
    checks.ids,
    checks.tags,
    checks.room,
    checks.caps,
)


def examine(site: Site, client: Client | None = None) -> list[Finding]:
    """Every finding about a site's cluster, the good ones too; raises `ConfigError` for a site without one."""
    client = client or connect(site)
    try:
        facts = gather(client)
    except SiteError as failure:
        return [error("api", f"{client.address}: {failure.reason}", "nothing else can be examined", failure.remedy)]
    return judge(facts, site)


def judge(facts: Facts, site: Site) -> list[Finding]:
    """Every finding in these facts."""
    cluster = site.cluster
    proof = "its fingerprint" if cluster.fingerprint else "the named authority" if cluster.ca else "the system"
    findings = [ok("api", f"answers, certificate verified by {proof}")]
    findings += [found for check in CHECKS for found in check(facts, site)]
    unread = {path: reason for path, reason in facts.refused.items() if path != "cluster/sdn/zones"}
    if unread:
        what = "; ".join(f"{path}: {reason}" for path, reason in sorted(unread.items())[:4])
        why = "what was not read was not examined"
        findings.append(warning("unread", what, why, "mend the other findings first, then examine again"))
    return findings
