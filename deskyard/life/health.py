"""Looks whether desktops are well: power, routes, disk, memory, failed units, clock, the door's certificate."""

import datetime
import ssl
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

from cryptography import x509

from deskyard.desktop import process_cap, program
from deskyard.errors import CommandError, DeskyardError, SiteError
from deskyard.guest import health as guest_health
from deskyard.host.at_once import at_once
from deskyard.life import power
from deskyard.life.backup.vault import vault_of
from deskyard.life.journal import Journal
from deskyard.plan import health
from deskyard.plan.backup import proved, sound
from deskyard.plan.health import Finding
from deskyard.plan.power import Power
from deskyard.plan.workspace import DesktopPlan, WorkspacePlan
from deskyard.workspace import readiness

ABSENT = {"state": "absent", "desired": Power.RUNNING}
# Who looks wants an answer: a desktop that does not let in within this is not well.
REACH_SECONDS, LOOK_SECONDS, DOOR_SECONDS = 30.0, 60.0, 20.0


def look(name: str, desktop: str | None = None, *, leave_idle: bool = False) -> dict[str, Any]:
    """How a workspace is, or one desktop of it: findings for each, and the worst of all.

    `leave_idle` leaves desktops alone that are stopped when nobody uses them: to look into one is a use of it.
    """
    plan, machines = power.look_up(name)
    desktops = plan.desktops if desktop is None else (plan.desktop(desktop),)
    desktops = tuple(each for each in desktops if not (leave_idle and each.idle))
    states = machines.states()
    gateway = states.get(plan.gateway.machine.domain, ABSENT)
    found = {"gateway": _gateway(plan, gateway)} if desktop is None else {}
    status = readiness.ask_of_running(plan, desktops, states)
    work = {desktop.name: partial(_desktop, plan, desktop, states, status) for desktop in desktops}
    found |= at_once(work)
    for each in desktops:
        if entry := Journal(power.Machine(plan, each.name, machines)).read():
            found[each.name].append(health.upgrade(entry.step, f"{plan.name}/{each.name}"))
    for name, finding in _backups(plan, desktops):
        found[name].append(finding)
    rows = {machine: [asdict(finding) for finding in findings] for machine, findings in found.items()}
    worst = health.worst(finding for findings in found.values() for finding in findings)
    return {"workspace": plan.name, "state": worst, "machines": rows}


def text(found: dict[str, Any]) -> str:
    """A line for each machine, and one for each finding that is not well."""
    lines = []
    for machine, rows in found["machines"].items():
        bad = [row for row in rows if row["state"] != "ok"]
        good = ", ".join(f"{row['check']} {row['detail']}" for row in rows if row["state"] == "ok")
        lines.append(f"{found['workspace']}/{machine}  {'not well' if bad else 'well'}  {good}".rstrip())
        lines += [f"  {row['state']}: {row['check']}: {row['detail']}  -> {row['remedy']}" for row in bad]
    return "\n".join(lines)


def _gateway(plan: WorkspacePlan, state: dict[str, Any]) -> list[Finding]:
    running = health.power(state["state"], state["desired"], plan.name)
    if state["desired"] != Power.RUNNING or running.state != "ok":
        remedy = f"./inv workspace.start {plan.name}"
        return [Finding("power", running.state, running.detail, remedy if running.state != "ok" else "")]
    try:
        days = (_expires(plan) - datetime.datetime.now(datetime.UTC)).total_seconds() / 86_400
    except (OSError, ValueError) as error:
        return [
            running,
            Finding("door", "failed", f"{type(error).__name__}: {error}", f"./inv workspace.status {plan.name}"),
        ]
    return [running, Finding("door", "ok", "answers"), health.certificate(days)]


def _backups(plan: WorkspacePlan, desktops: Sequence[DesktopPlan]) -> Iterator[tuple[str, Finding]]:
    """The age of backups: where they are made by a schedule, and in a workspace that has some."""
    schedules = {desktop.name: desktop.backup for desktop in desktops if desktop.backup != "never"}
    is_scheduled = any(schedule is not None for schedule in schedules.values())
    vault = vault_of(plan.site, plan.name)
    try:
        if not is_scheduled and not vault.has_place:
            return
        present = vault.present(None)
    except DeskyardError as error:
        for desktop in list(schedules)[:1]:
            remedy = f"./inv backup.list {plan.name}/{desktop}"
            yield desktop, Finding("backup", "failed", error.reason.splitlines()[0], remedy)
        return
    for desktop, schedule in schedules.items():
        mine = [backup for backup in sound(present) if backup.desktop == desktop]
        if not present and schedule is None:
            continue
        newest, verified = (
            min((time.time() - backup.made for backup in some), default=None) for some in (mine, proved(mine))
        )
        yield desktop, health.backup(newest, verified, f"{plan.name}/{desktop}", schedule)


def _expires(plan: WorkspacePlan) -> datetime.datetime:
    """The end of the certificate that the door shows, whoever signed it."""
    gateway = plan.gateway
    place = (gateway.uplink_address if gateway.has_own_address else gateway.listen, gateway.port)
    shown = ssl.get_server_certificate(place, timeout=DOOR_SECONDS)
    return x509.load_pem_x509_certificate(shown.encode()).not_valid_after_utc


def _desktop(
    plan: WorkspacePlan, desktop: DesktopPlan, states: dict[str, dict[str, Any]], status: dict[str, Any]
) -> list[Finding]:
    target = f"{plan.name}/{desktop.name}"
    state = states.get(desktop.machine.domain, ABSENT)
    running = health.power(state["state"], state["desired"], target)
    if state["state"] != "running":
        return [running]
    if status.get("error"):
        return [running, Finding("gateway", "failed", str(status["error"]), f"./inv workspace.status {plan.name}")]
    found = [running, *health.routes(status["desktops"].get(desktop.name, {}), desktop.awaited)]
    if stopped := readiness.stopped_agent(status, desktop.name):
        found.append(health.stopped_agent(stopped, target))
    begin = time.time()
    try:
        answer = program.ask(
            plan, desktop.name, guest_health, {}, reach_seconds=REACH_SECONDS, run_seconds=LOOK_SECONDS
        )
    except (SiteError, CommandError) as error:
        return [*found, Finding("inside", "failed", error.reason.splitlines()[0], f"./inv access.grant {target}")]
    if answer.get("processes") is not None:
        # Also one that came with a disk from elsewhere is lifted by `up`.
        process_cap.note(plan, desktop.name)
    return [*found, *health.inside(answer, (begin, time.time()), target, desktop.caps.processes)]
