"""Proves a workspace's isolation again: probes from every machine, rules in force against the Plan's, one report."""

import contextlib
import datetime
import json
import platform
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import libvirt

from deskyard.errors import CommandError, ConfigError, SiteError
from deskyard.gateway import render, settings
from deskyard.plan import ruleset
from deskyard.plan.verification import GATEWAY, HERE, HOST, HostFacts
from deskyard.plan.workspace import DesktopPlan, WorkspacePlan
from deskyard.run import declaration, hypervisor, probing, readiness
from deskyard.run import workspace as workspaces
from deskyard.run.command import run
from deskyard.run.places import places
from deskyard.run.ssh_link import SshLink

RULES_SECONDS = 120
REPORTS_KEPT = 200
# RFC 5737: addresses of documents and tests, never of a host that has something to lose.
DOCUMENTATION = tuple(IPv4Network(block) for block in ("192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24"))

# Loads the planned rules where they touch nothing, because only nft itself can say how it lists them.
LIST_RULES = """
nft -s list ruleset || exit 1
echo '== planned'
exec unshare --net sh -c 'nft -f - && nft -s list ruleset'
"""


def verify(name: str, against: str | None = None) -> dict[str, Any]:
    """Verify a workspace (and that it and `against` do not reach each other); the report, written down as well."""
    plans = [declaration.read(one).plan for one in dict.fromkeys((name, against)) if one]
    if against == name:
        raise ConfigError("--against", name, "is the workspace itself", "name another one that is up")
    for plan in plans:
        workspaces.require_running(plan)
    began, started = _now(), time.monotonic()
    other = plans[1] if len(plans) > 1 else None
    with ThreadPoolExecutor(len(plans) + 1) as pool:
        sent = pool.submit(probing.verify_probes, plans[0], host_facts(plans), _start(plans), other)
        compared = list(pool.map(rules_in_force, plans))
        verdicts = sent.result()
    report = {
        "workspace": name,
        "against": against,
        "started": began,
        "seconds": round(time.monotonic() - started, 1),
        "ok": all(verdict.ok for verdict in verdicts) and not any(rules["wrong"] for rules in compared),
        "versions": _versions(),
        "images": {plan.name: _images(plan) for plan in plans},
        "rules": {plan.name: rules for plan, rules in zip(plans, compared, strict=True)},
        "topics": {topic: list(counts) for topic, counts in probing.summary(verdicts).items()},
        "probes": [verdict.as_dict() for verdict in verdicts],
    }
    return {**report, "report": str(_write(plans[0], report))}


def host_facts(plans: list[WorkspacePlan]) -> HostFacts:
    """The addresses of the hypervisor's host, and the ports that programs listen on beyond loopback."""
    inside = hypervisor.inside()
    shown = json.loads(run([*inside, "ip", "-json", "-4", "address", "show"], timeout=20).stdout or "[]")
    found = [IPv4Address(info["local"]) for link in shown for info in link.get("addr_info", [])]
    real = [one for one in found if not one.is_loopback and not any(one in block for block in DOCUMENTATION)]
    # The ways between host and gateways first: they are the shortest.
    uplinks = {plan.uplink.host_address for plan in plans}
    addresses = sorted((str(one) for one in real), key=lambda address: (address not in uplinks, address))
    lines = run([*inside, "ss", "-Hltn"], timeout=20).stdout.splitlines()
    listening = [line.split()[3].rpartition(":") for line in lines if len(line.split()) > 3]
    ports = {int(port) for address, _, port in listening if not address.startswith(("127.", "[::1]"))}
    return HostFacts(tuple(addresses), tuple(sorted(ports)))


def rules_in_force(plan: WorkspacePlan) -> dict[str, Any]:
    """The rules of gateway and hypervisor, compared whole with the Plan's; `wrong` names each that differs."""
    wanted = settings.parse(json.dumps(asdict(plan.gateway.settings)))
    found: dict[str, Any] = {"planned": None, "live": None, "settings": None, "wrong": []}
    try:
        answer = SshLink(plan.site, plan.name).run(
            GATEWAY, ["sudo", "-n", "sh", "-c", LIST_RULES], timeout=RULES_SECONDS, stdin=render.firewall(wanted)
        )
        live, _, planned = answer.stdout.partition("== planned\n")
        missing, extra = ruleset.difference(planned, live)
        found |= {"planned": ruleset.fingerprint(planned), "live": ruleset.fingerprint(live)}
        found["wrong"] += [f"gateway: {rule}: is missing" for rule in missing]
        found["wrong"] += [f"gateway: {rule}: is not in the Plan" for rule in extra]
    except (SiteError, CommandError) as error:
        found["wrong"].append(f"gateway: its rules could not be read: {error.reason}")
    status = readiness.ask(plan)
    found["settings"] = status.get("digest")
    if status.get("digest") != wanted.digest:
        found["wrong"].append(
            f"gateway: its settings are not the Plan's ({status.get('error') or status.get('digest')})"
        )
    found["wrong"] += [f"gateway: {name} is {state}" for name, state in _ailing(status)]
    found["wrong"] += _hypervisor_findings(plan)
    return found


def text(report: dict[str, Any]) -> str:
    """The report as a table, with what is wrong below it."""
    other = f" against {report['against']}" if report["against"] else ""
    total = len(report["probes"])
    lines = [f"{report['workspace']}{other}: {total} probes in {report['seconds']:.0f} s"]
    for topic, (good, of) in report["topics"].items():
        lines.append(f"  {topic:12} {good:4} of {of:4}  {'' if good == of else 'FAILED'}".rstrip())
    for name, rules in report["rules"].items():
        state = "as planned" if not rules["wrong"] else "FAILED"
        lines.append(f"  rules of {name}: {state}  {(rules['live'] or '?')[:12]}, settings {rules['settings']}")
        lines += [f"    {one}" for one in rules["wrong"]]
    wrong = [rule for rules in report["rules"].values() for rule in rules["wrong"]]
    for probe in report["probes"]:
        if not probe["ok"]:
            lines += _failure(probe, wrong)
    lines.append(f"{'holds' if report['ok'] else 'DOES NOT HOLD'}; report: {report['report']}")
    return "\n".join(lines)


def _failure(probe: dict[str, Any], wrong: list[str]) -> list[str]:
    seen = f", seen at {', '.join(probe['seen_by'])}" if probe["seen_by"] else ""
    lines = [f"  {probe['id']}: {probe['outcome']}{seen}; must be {probe['expected']}"]
    word = "should be stopped by" if probe["expected"] == "refused" else "should be let through by"
    for guard in probe["guards"]:
        known = [one for one in wrong if guard.partition(": ")[2].rpartition(": ")[2] in one]
        lines.append(f"    {word}  {guard}{'  <- is missing or changed' if known else ''}")
    return lines


def _start(plans: list[WorkspacePlan]) -> probing.Start:
    links = {plan.name: SshLink(plan.site, plan.name) for plan in plans}

    def start(name: str, program: str) -> list[str]:
        if name in (HOST, HERE):
            return [*(hypervisor.inside() if name == HOST else []), sys.executable, "-c", program]
        workspace, _, host = name.partition("/")
        return links[workspace].command(host, ["sudo", "-n", "python3", "-c", program])

    return start


def _ailing(status: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for service, state in status.get("services", {}).items():
        if state not in ("active", "answers"):
            yield service, str(state)
    for desktop, routes in status.get("desktops", {}).items():
        for route, answer in routes.items():
            if not answer["ready"]:
                yield f"route {route} of {desktop}", "silent"


def _hypervisor_findings(plan: WorkspacePlan) -> list[str]:
    with hypervisor.connection() as link:
        return list(_hypervisor(link, plan))


def _hypervisor(link: Any, plan: WorkspacePlan) -> Iterator[str]:
    """The definitions of the filters, and each desktop's NIC: filter, address, isolation, in libvirt and the kernel."""
    from stacks.libvirt.network import FilterKind

    for one in (plan.desktop_filter, plan.gateway_filter):
        seen = FilterKind().read(link, one.name, asdict(one))
        if seen is None or seen["kind"] != one.kind:
            yield f"filter: {one.name}: {'is missing' if seen is None else 'was changed by hand'}"
    shown = json.loads(run([*hypervisor.inside(), "bridge", "-details", "-json", "link"], timeout=20).stdout or "[]")
    ports = {port["ifname"]: port for port in shown}
    for desktop in plan.desktops:
        with contextlib.suppress(libvirt.libvirtError):
            root = ElementTree.fromstring(link.lookupByName(desktop.machine.domain).XMLDesc(0))
            yield from _nics(root, desktop, plan, ports)
            continue
        yield f"port: {desktop.name} does not run"


def _nics(root: ElementTree.Element, desktop: DesktopPlan, plan: WorkspacePlan, ports: dict[str, Any]) -> Iterator[str]:
    nics = root.findall("./devices/interface")
    if len(nics) != 1:
        yield f"port: {desktop.name} has {len(nics)} NICs, not one"
    for nic in nics:
        rules, address = nic.find("filterref"), nic.find("filterref/parameter[@name='IP']")
        if rules is None or rules.get("filter") != plan.desktop_filter.name:
            yield f"filter: {plan.desktop_filter.name} on the NIC of {desktop.name}: is missing"
        elif address is None or address.get("value") != desktop.address:
            yield f"filter: {plan.desktop_filter.name} on the NIC of {desktop.name}: is for another address"
        target = nic.find("target")
        port = ports.get(target.get("dev", "") if target is not None else "", {})
        if port.get("master") != plan.network.bridge:
            yield f"port: {desktop.name} is not on bridge {plan.network.bridge}"
        if desktop.isolated and port.get("isolated") is not True:
            yield f"port: {desktop.name} isolated on bridge {plan.network.bridge}: is missing"


def _versions() -> dict[str, str]:
    with hypervisor.connection() as link:
        numbers = {"libvirt": link.getLibVersion(), "qemu": link.getVersion()}
    known = {name: f"{n // 1_000_000}.{n // 1000 % 1000}.{n % 1000}" for name, n in numbers.items()}
    return {**known, "kernel": platform.release(), "python": platform.python_version()}


def _images(plan: WorkspacePlan) -> dict[str, str]:
    """Of each machine: the image (name and digest) that its disk started from."""
    found = {}
    with hypervisor.connection() as link:
        for domain in (plan.gateway.machine.domain, *(desktop.machine.domain for desktop in plan.desktops)):
            with contextlib.suppress(libvirt.libvirtError):
                root = ElementTree.fromstring(link.lookupByName(domain).XMLDesc(0))
                disk = root.find("./devices/disk/source")
                volume = link.storageVolLookupByPath(disk.get("file") if disk is not None else "")
                below = ElementTree.fromstring(volume.XMLDesc(0)).findtext("./backingStore/path") or "?"
                found[domain] = Path(below).stem
    return found


def _write(plan: WorkspacePlan, report: dict[str, Any]) -> Path:
    folder = places().workspace(plan.site, plan.name) / "verifications"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{report['started'].replace(':', '')}.json"
    path.write_text(json.dumps(report, indent=2) + "\n")
    for old in sorted(folder.glob("*.json"))[:-REPORTS_KEPT]:
        old.unlink()
    return path


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
