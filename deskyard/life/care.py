"""Looks after desktops: backups by schedule, updates and restarts in their window, room, news of trouble."""

import http.client
import json
import subprocess
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any

from deskyard.declaration import declaration
from deskyard.desktop import program
from deskyard.errors import CommandError, HostError, SiteError
from deskyard.guest import care as guest_care
from deskyard.host.jump import ClockJump
from deskyard.host.lock import alone
from deskyard.host.places import places
from deskyard.host.progress import say
from deskyard.host.secret_file import write_secret
from deskyard.life import halted, health, power, snapshot
from deskyard.life.backup.scheduled import Outcome, Scheduled
from deskyard.life.power import Machine
from deskyard.model.care import Care
from deskyard.plan.account import AGENT
from deskyard.plan.care import Done, Window, due
from deskyard.plan.power import Power
from deskyard.plan.printable import printable
from deskyard.plan.workspace import WorkspacePlan
from deskyard.site.files import stacks_folder
from deskyard.site.guest_program import START

UPDATE_SECONDS, HOOK_SECONDS = 3600.0, 60.0
MIB = 1 << 20
NOTHING_DUE = "nothing is due"


@dataclass(frozen=True)
class How:
    """Only what is due; as if the window were open; or only look."""

    only_due: bool = False
    now: bool = False
    dry_run: bool = False


@dataclass
class Report:
    """The report on a desktop: what was done for it, what waits and for what, and what is wrong."""

    desktop: str
    state: str = "cared for"
    updated: list[str] = field(default_factory=list)
    freed_mib: int = 0
    restarted: bool = False
    backup: str = ""
    expired: list[str] = field(default_factory=list)
    waits: list[str] = field(default_factory=list)
    trouble: list[str] = field(default_factory=list)


def run(name: str, desktop: str | None = None, how: How = How()) -> dict[str, Any]:
    """Care for the desktops of a workspace, or for one of them; the hook learns of trouble.

    It can run at any time and any number of times: what is not due is left alone, and a second run waits for the first.
    """
    plan, machines = power.look_up(name)
    care = declaration.read_workspace(name).care or Care()
    wanted = plan.desktops if desktop is None else (plan.desktop(desktop),)
    with alone(f"care-{plan.site}-{plan.name}"):
        history, scheduled = _History(plan), Scheduled(plan, _now())
        # First: of what is halted no backup is made, and behind a gateway that is halted nothing answers.
        stood = halted.go_on(plan, machines, desktop, dry_run=how.dry_run)
        reports = []
        for planned in wanted:
            machine = Machine(plan, planned.name, machines)
            # Before an update, which it may be needed for.
            kept = _back_up(scheduled, machine, how, history)
            # Each anew: to care for those before it took its time.
            state = _state_of(machine)
            report = _Visit(machine, care, how, history).make(state)
            report = _with_backup(report, kept)
            reports.append(_without_expired(report, machine, state, how))
    found: dict[str, Any] = {"workspace": name, "desktops": [asdict(report) for report in reports]}
    found["halted"] = [asdict(row) for row in stood]
    found["trouble"] = any(report.trouble for report in reports) or any(row.trouble for row in stood)
    if found["trouble"] and care.hook and not how.dry_run:
        found["hook"] = _tell(care.hook, found)
    return found


def has_changed(found: dict[str, Any]) -> bool:
    """Whether a run did anything but look."""
    done = ("updated", "freed_mib", "restarted", "backup", "expired")
    return bool(found["halted"]) or any(row[name] for row in found["desktops"] for name in done)


def text(found: dict[str, Any]) -> str:
    """A line for each machine that was halted and each desktop, and one for each thing that waits or is wrong."""
    lines = [halted.line(found["workspace"], row) for row in found["halted"]]
    for row in found["desktops"]:
        said = [row["state"]]
        said += [f"updated: {' '.join(row['updated'])}"] if row["updated"] else []
        said += [f"freed {row['freed_mib']} MiB"] if row["freed_mib"] else []
        said += ["restarted"] if row["restarted"] else []
        said += [f"backed up: {row['backup']}"] if row["backup"] else []
        said += [f"snapshots that had expired are deleted: {' '.join(row['expired'])}"] if row["expired"] else []
        lines.append(f"{found['workspace']}/{row['desktop']}  {', '.join(said)}")
        lines += [f"  waits: {wait}" for wait in row["waits"]]
        lines += [f"  trouble: {trouble}" for trouble in row["trouble"]]
    return "\n".join([*lines, *([f"hook: {found['hook']}"] if "hook" in found else [])])


def _back_up(scheduled: Scheduled, machine: Machine, how: How, history: "_History") -> Outcome:
    done = scheduled.care_for(machine, history.of(machine.name).tried, dry_run=how.dry_run)
    if done.tried and not how.dry_run:
        history.note(machine.name, "tried", _now())
    return done


def _with_backup(report: Report, done: Outcome) -> Report:
    report.backup = done.line
    report.waits += [done.waits] if done.waits else []
    report.trouble += [done.trouble] if done.trouble else []
    if done.made and report.state == NOTHING_DUE:
        report.state = Report.state
    return report


def _without_expired(report: Report, machine: Machine, state: Mapping[str, Any], how: How) -> Report:
    """Delete its snapshots that have expired, at any time; of one that is paused none is touched."""
    if state["state"] not in ("running", "stopped"):
        return report
    try:
        over = [found.name for found in snapshot.expired(machine)]
        if how.dry_run:
            report.waits += [f"snapshot {name}: it has expired, and would be deleted" for name in over]
        elif over:
            report.expired = snapshot.expire(machine)
            if report.state == NOTHING_DUE:
                report.state = Report.state
    except (SiteError, HostError) as error:
        if error.field == "lock":
            report.waits.append("expired snapshots: another task is at work there")
        else:
            what = "the clock" if isinstance(error, ClockJump) else "snapshots:"
            report.trouble.append(printable(f"{what} {error.reason.splitlines()[0]} -> {error.remedy}"))
    return report


class _History:
    """When each desktop of a workspace was last looked at, updated, and backed up by its schedule."""

    def __init__(self, plan: WorkspacePlan) -> None:
        self._file = places().workspace(plan.site, plan.name) / "care.json"
        try:
            self._rows: dict[str, dict[str, str]] = json.loads(self._file.read_text())
        except (FileNotFoundError, ValueError):
            self._rows = {}

    def of(self, desktop: str) -> Done:
        """The record of a desktop's care."""
        row = self._rows.get(desktop, {})
        return Done(**{what: datetime.fromisoformat(moment) for what, moment in row.items()})

    def note(self, desktop: str, what: str, moment: datetime) -> None:
        """Keep that a desktop was `looked` at, or `updated`, or a backup `tried`."""
        self._rows.setdefault(desktop, {})[what] = moment.isoformat()
        write_secret(self._file, f"{json.dumps(self._rows)}\n".encode())


class _Visit:
    """One desktop, and what is done for it."""

    def __init__(self, machine: Machine, care: Care, how: How, history: _History) -> None:
        self._machine, self._care, self._how, self._history = machine, care, how, history
        self._plan, self._name = machine.plan, machine.name
        self._report = Report(machine.name)

    def make(self, state: Mapping[str, Any]) -> Report:
        """Do what is due; a desktop that fails, or is not there, keeps no other from its care."""
        report = self._report
        if not _runs(state):
            report.state = f"{state['state']}: left alone"
            if state["desired"] == Power.RUNNING:
                report.trouble.append(f"is {state['state']}, and wanted to run")
            return report
        if self._how.only_due and not due(self._care, self._history.of(self._name), _now()):
            report.state = NOTHING_DUE
            return report
        try:
            self._do()
            report.trouble += self._failing()
        except (SiteError, CommandError) as error:
            report.trouble.append(printable(error.reason.splitlines()[0]))
        if self._how.dry_run:
            report.state = "only looked at"
        else:
            self._history.note(self._name, "looked", _now())
        return report

    def _do(self) -> None:
        care, report, dry = self._care, self._report, self._how.dry_run
        found = self._look()
        if float(found["used"]) > care.clean_above:
            if dry:
                report.waits.append(f"the disk is {float(found['used']):.0f} % full: it would be cleaned")
            else:
                report.freed_mib = int(self._ask({"do": "clean"})["freed"]) // MIB
        restart = bool(found["restart"])
        if care.updates != "none" and self._may("updates", found) and not dry:
            done = self._ask({"do": "update", "which": care.updates})
            report.updated = [printable(str(name)) for name in done["updated"]]
            self._history.note(self._name, "updated", _now())
            restart = bool(done["restart"])
        # Time has passed, and a task may have begun: both are asked anew.
        if restart and self._may("a restart", self._look()):
            if dry:
                report.waits.append("a restart: it would be done")
            else:
                self._restart()

    def _restart(self) -> None:
        """Restart it unless, when its turn has come, somebody works there, has halted it, or the window has closed."""

        restarts = False

        def may_still() -> bool:
            # Another task may have had it for long: a backup, an upgrade, or a person who stopped it.
            nonlocal restarts
            state = _state_of(self._machine)
            if _runs(state):
                restarts = self._may("a restart", self._look())
            else:
                self._report.waits.append(f"a restart: it is {state['state']} now")
            return restarts

        power.restart(self._machine.target, only_if=may_still)
        self._report.restarted = restarts

    def _may(self, what: str, found: Mapping[str, Any]) -> bool:
        """Whether the window is open and nobody works; else it is noted that something waits."""
        if not self._how.now and Window.of(self._care).opened(_now()) is None:
            self._report.waits.append(f"{what}: for the window {self._care.window}")
            return False
        if found["busy"]:
            self._report.waits.append(f"{what}: for {', '.join(printable(str(who)) for who in found['busy'])}")
            return False
        return True

    def _look(self) -> dict[str, Any]:
        return self._ask({"do": "look", "mark": START, "account": AGENT})

    def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        return program.ask(self._plan, self._name, guest_care, request, run_seconds=UPDATE_SECONDS)

    def _failing(self) -> list[str]:
        rows = health.look(self._plan.name, self._name)["machines"][self._name]
        return [f"{row['check']}: {row['detail']} -> {row['remedy']}" for row in rows if row["state"] == "failed"]


def _state_of(machine: Machine) -> Mapping[str, Any]:
    return machine.machines.states().get(machine.domain, health.ABSENT)


def _runs(state: Mapping[str, Any]) -> bool:
    """Whether it runs and is wanted to."""
    return (state["desired"], state["state"]) == (Power.RUNNING, "running")


def _tell(hook: str, found: dict[str, Any]) -> str:
    """Give the report to the hook; how that went, without the hook itself: its URL may hold a secret."""
    body = json.dumps(found).encode()
    try:
        if hook.startswith("https://"):
            request = urllib.request.Request(hook, body, {"Content-Type": "application/json"})
            with urllib.request.urlopen(request, timeout=HOOK_SECONDS) as answer:
                return f"answered {answer.status}"
        path = stacks_folder() / hook
        done = subprocess.run([path], input=body, capture_output=True, timeout=HOOK_SECONDS, check=False)
        return "was told" if done.returncode == 0 else f"failed: exit code {done.returncode}"
    except urllib.error.HTTPError as error:
        return f"failed: answered {error.code}"
    except (OSError, ValueError, http.client.HTTPException, subprocess.SubprocessError) as error:
        say(f"    the hook failed: {type(error).__name__}")
        return f"failed: {type(error).__name__}"


def _now() -> datetime:
    return datetime.now().astimezone()
