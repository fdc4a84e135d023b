"""Proves a workspace's isolation again: probes from every machine, rules in force against the Plan's, one report."""

import datetime
import json
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from deskyard.declaration import declaration
from deskyard.engine import running
from deskyard.engine.backend import Underlay, backend_of
from deskyard.errors import CommandError, ConfigError, SiteError
from deskyard.gateway.config import render
from deskyard.host.places import places
from deskyard.host.secret_file import write_secret
from deskyard.isolation import probing
from deskyard.isolation.company import Company, changed, company
from deskyard.plan.isolation import ruleset
from deskyard.plan.isolation.probe import GATEWAY, HERE, HOST, HostFacts
from deskyard.plan.workspace import WorkspacePlan
from deskyard.site.resource.gateway_settings import with_authority
from deskyard.site.ssh_link import SshLink
from deskyard.wire import gateway_settings
from deskyard.workspace import readiness

RULES_SECONDS = 120
REPORTS_KEPT = 200

# Loads the planned rules where they touch nothing, because only nft itself can say how it lists them.
LIST_RULES = """
nft -s list ruleset || exit 1
echo '== planned'
exec unshare --net sh -c 'nft -f - && nft -s list ruleset'
"""


def verify(name: str, against: str | None = None) -> dict[str, Any]:
    """Verify a workspace (and that it and `against` do not reach each other); the report, written down as well."""
    declared = [declaration.read(workspace) for workspace in dict.fromkeys((name, against)) if workspace]
    plans = [side.plan for side in declared]
    if against == name:
        raise ConfigError("--against", name, "is the workspace itself", "name another one that is up")
    for plan in plans:
        running.require_running(plan)
    underlays = [backend_of(side.site).underlay(side) for side in declared]
    facts = _merged(underlay.facts(plans) for underlay in underlays)
    began, started = _now(), time.monotonic()
    present = [company(side) for side in declared]
    with ThreadPoolExecutor(len(plans) + 1) as pool:
        sent = pool.submit(_probed, plans, present, facts, underlays[0])
        compared = list(pool.map(rules_in_force, plans, underlays))
        verdicts = sent.result()
    if not all(verdict.ok for verdict in verdicts) and any(map(changed, declared, present)):
        present = [replace(side, machines={}, absent={**side.absent, **_left_early(side)}) for side in present]
        verdicts = _probed(plans, present, facts, underlays[0])
    for plan, rules, side in zip(plans, compared, present, strict=True):
        rules["wrong"] += side.findings(plan.name)
    report = {
        "workspace": name,
        "against": against,
        "started": began,
        "seconds": round(time.monotonic() - started, 1),
        "ok": all(verdict.ok for verdict in verdicts) and not any(rules["wrong"] for rules in compared),
        "versions": {name: number for underlay in underlays for name, number in underlay.versions().items()},
        "images": {plan.name: underlay.images() for plan, underlay in zip(plans, underlays, strict=True)},
        "seats": {plan.name: sorted(side.machines) for plan, side in zip(plans, present, strict=True)},
        "not_examined": {
            plan.name: [*below.not_examined(), *side.not_examined()]
            for plan, below, side in zip(plans, underlays, present, strict=True)
        },
        "rules": {plan.name: rules for plan, rules in zip(plans, compared, strict=True)},
        "topics": {topic: list(counts) for topic, counts in probing.summary(verdicts).items()},
        "probes": [verdict.as_dict() for verdict in verdicts],
    }
    return {**report, "report": str(_write(plans[0], report))}


def _probed(
    plans: Sequence[WorkspacePlan], present: Sequence[Company], facts: HostFacts, underlay: Underlay
) -> list[probing.Verdict]:
    """The probes of the first workspace, and of the second one against it, with the disposable desktops of both."""
    whole = [side.among(plan) for plan, side in zip(plans, present, strict=True)]
    return probing.verify_probes(whole[0], facts, _start(plans, underlay), whole[1] if len(whole) > 1 else None)


def _left_early(side: Company) -> dict[str, str]:
    return dict.fromkeys(side.machines, "was released, or one of them was, while it was probed")


def rules_in_force(plan: WorkspacePlan, underlay: Underlay) -> dict[str, Any]:
    """The rules of gateway and underlay, compared whole with the Plan's; `wrong` names each that differs."""
    wanted = _wanted(plan)
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
    status = readiness.ask(plan, plan.desktops)
    found["settings"] = status.get("digest")
    if status.get("digest") != wanted.digest:
        found["wrong"].append(
            f"gateway: its settings are not the Plan's ({status.get('error') or status.get('digest')})"
        )
    found["wrong"] += [f"gateway: {name} is {state}" for name, state in _ailing(plan, status)]
    found["wrong"] += underlay.findings()
    return found


def _wanted(plan: WorkspacePlan) -> gateway_settings.Settings:
    """The settings as the gateway has them: an ACME server's authority is its text there."""
    return gateway_settings.parse(json.dumps(with_authority(asdict(plan.gateway.settings))))


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
        lines += [f"    {rule}" for rule in rules["wrong"]]
        lines += [f"    not examined: {part}" for part in report["not_examined"][name]]
    wrong = [rule for rules in report["rules"].values() for rule in rules["wrong"]]
    for probe in report["probes"]:
        if not probe["ok"]:
            lines += _failure(probe, wrong)
        elif probe["expected"] == "known":
            by = f"gets by, seen at {', '.join(probe['seen_by'])}" if probe["seen_by"] else "holds"
            lines.append(f"  known reach: {probe['id']}: {by}")
    lines.append(f"{'holds' if report['ok'] else 'DOES NOT HOLD'}; report: {report['report']}")
    return "\n".join(lines)


def _failure(probe: dict[str, Any], wrong: list[str]) -> list[str]:
    seen = f", seen at {', '.join(probe['seen_by'])}" if probe["seen_by"] else ""
    lines = [f"  {probe['id']}: {probe['outcome']}{seen}; must be {probe['expected']}"]
    word = "should be stopped by" if probe["expected"] == "refused" else "should be let through by"
    for guard in probe["guards"]:
        causes = [rule for rule in wrong if all(part in rule for part in guard.split(": ")[1:])]
        lines.append(f"    {word}  {guard}{'  <- is missing or changed' if causes else ''}")
    return lines


def _merged(facts: Iterable[HostFacts]) -> HostFacts:
    hosts = list(facts)
    addresses = dict.fromkeys(address for host in hosts for address in host.addresses)
    ports, programs = ({item for host in hosts for item in getattr(host, name)} for name in ("ports", "programs"))
    return HostFacts(tuple(addresses), tuple(sorted(ports)), tuple(sorted(programs)))


def _start(plans: Sequence[WorkspacePlan], underlay: Underlay) -> probing.Start:
    links = {plan.name: SshLink(plan.site, plan.name) for plan in plans}

    def start(name: str, program: str) -> list[str]:
        if name in (HOST, HERE):
            return [*(underlay.inside() if name == HOST else []), sys.executable, "-c", program]
        workspace, _, host = name.partition("/")
        return links[workspace].command(host, ["sudo", "-n", "python3", "-c", program])

    return start


def _ailing(plan: WorkspacePlan, status: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for service, state in status.get("services", {}).items():
        if state not in ("active", "answers"):
            yield service, str(state)
    # At a seat nobody may be, or somebody whose programs have just begun.
    seats = {seat.name for seat in plan.seats}
    for desktop, routes in status.get("desktops", {}).items():
        for route, answer in routes.items():
            if not answer["ready"] and desktop not in seats:
                yield f"route {route} of {desktop}", "silent"


def _write(plan: WorkspacePlan, report: dict[str, Any]) -> Path:
    folder = places().workspace(plan.site, plan.name) / "verifications"
    path = folder / f"{report['started'].replace(':', '')}.json"
    write_secret(path, f"{json.dumps(report, indent=2)}\n".encode())
    for old in sorted(folder.glob("*.json"))[:-REPORTS_KEPT]:
        old.unlink()
    return path


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
