"""The rules of alerts: what each looks for, its number, and what to do next."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from deskyard.control.recorder import chain
from deskyard.control.store.connection import Link
from deskyard.control.watch import usage
from deskyard.host.deadline import Deadline

AUDIT_SECONDS = 3600.0
DAY_SECONDS = 86_400


@dataclass(frozen=True)
class Rule:
    """A rule: its title, the unit of its number, and what a person does next."""

    title: str
    unit: str
    next_step: str


RULES = {
    "desktop.broken": Rule("A desktop is broken", "", "./inv desktop.health says what is wrong; then restart it"),
    "desktop.not-ready": Rule("A desktop does not become ready", "minutes", "see its console: ./inv workspace.status"),
    "workspace.broken": Rule("A declaration cannot be read", "", "mend what it names in the workspace's stack file"),
    "operation.failed": Rule("An operation failed", "hours", "read its log on its page, then retry it"),
    "gateway.silent": Rule("A gateway does not answer", "minutes", "./inv workspace.health, then workspace.up"),
    "backup.missing": Rule("No backup of Mission Control", "days", "./inv control.backup FOLDER, by a timer"),
    "certificate.ending": Rule("A certificate is near its end", "days", "./inv control.up renews it"),
    "audit.broken": Rule("The audit is not whole", "", "./inv control.audit says where; keep the database as it is"),
    "budget.near": Rule("A budget is nearly spent", "percent", "stop what is not needed, or raise the budget"),
    "budget.spent": Rule("A budget is spent", "percent", "stop the workspace, or raise the budget"),
}


@dataclass(frozen=True)
class Finding:
    """Something that a rule found: what it is about, in which workspace, in words, with a number."""

    rule: str
    object: str
    workspace: str | None
    text: str
    number: int = 0


class Eye:
    """Looks at everything that the rules ask for."""

    def __init__(self, certificate: Path | None, expires: Callable[[str], datetime]) -> None:
        self._certificate, self._expires = certificate, expires
        self._audited = Deadline(0)
        self._audit: str | None = None

    def look(self, link: Link) -> list[Finding]:
        """What the rules that are in force find now."""
        found = link.execute("select kind, number from alert_rule where enabled").fetchall()
        numbers = {row["kind"]: int(row["number"]) for row in found}
        findings = _desktops(link, numbers) + _workspaces(link, numbers) + _operations(link, numbers)
        findings += _budgets(link) + _backup(link, numbers) + self._own(link, numbers)
        return [finding for finding in findings if finding.rule in numbers and finding.number >= numbers[finding.rule]]

    def _own(self, link: Link, numbers: dict[str, int]) -> list[Finding]:
        findings = []
        if self._certificate is not None and self._certificate.exists():
            days = (self._expires(self._certificate.read_text()) - datetime.now(UTC)).days
            if days < numbers.get("certificate.ending", 0):
                # Its number is a bound from above.
                text, number = f"ends in {days} days", numbers["certificate.ending"]
                findings.append(Finding("certificate.ending", "mission-control", None, text, number))
        if self._audited.left == 0:
            with link.transaction(), link.cursor("audit") as cursor:
                cursor.execute(f"select {chain.COLUMNS} from audit_entry order by number".encode())
                self._audit = chain.verify(cursor).problem
            self._audited = Deadline(AUDIT_SECONDS)
        if self._audit is not None:
            findings.append(Finding("audit.broken", "audit", None, self._audit))
        for row in link.execute("select workspace_id, problem from anchor where problem is not null").fetchall():
            name = row["workspace_id"]
            findings.append(Finding("audit.broken", f"gateway {name}", name, row["problem"]))
        return findings


def _desktops(link: Link, numbers: dict[str, int]) -> list[Finding]:
    query = """select id, workspace_id, state, detail, floor(extract(epoch from now() - state_at))::bigint as seconds
        from desktop where gone_at is null and state in ('error', 'io-error', 'booting', 'provisioning')
        and (state <> 'provisioning' or wanted is not null)"""
    findings = []
    for row in link.execute(query).fetchall():
        detail = f" ({row['detail']})" if row["detail"] else ""
        if row["state"] in ("error", "io-error"):
            text = f"is in state {row['state']}{detail}"
            findings.append(Finding("desktop.broken", row["id"], row["workspace_id"], text))
        else:
            minutes = row["seconds"] // 60
            text = f"is {row['state']}{detail} for {numbers.get('desktop.not-ready', 0)} minutes or more"
            findings.append(Finding("desktop.not-ready", row["id"], row["workspace_id"], text, minutes))
    return findings


def _workspaces(link: Link, numbers: dict[str, int]) -> list[Finding]:
    query = """select id, problem, silence, floor(extract(epoch from now() - silent_since))::bigint as seconds
        from workspace where gone_at is null and (problem is not null or silent_since is not null)"""
    findings = []
    for row in link.execute(query).fetchall():
        if row["problem"] is not None:
            text = f"{row['problem'].get('field')}: {row['problem'].get('reason')}"
            findings.append(Finding("workspace.broken", row["id"], row["id"], text))
        if row["seconds"] is not None:
            findings.append(Finding("gateway.silent", row["id"], row["id"], row["silence"], row["seconds"] // 60))
    return findings


def _operations(link: Link, numbers: dict[str, int]) -> list[Finding]:
    """What failed of late, unless the same went well since, or is under way again."""
    query = """select distinct on (kind, object) * from (
            select o.id, kind, workspace_id, problem, state, created_at,
                coalesce(desktop_id, workspace_id, id) as object
            from operation o where created_at > now() - make_interval(hours => %s) and state <> 'cancelled') as recent
        order by kind, object, created_at desc"""
    hours = numbers.get("operation.failed", 0)
    return [
        Finding(
            "operation.failed",
            f"{row['kind']} {row['object']}",
            row["workspace_id"],
            f"{row['id']}: {(row['problem'] or {}).get('reason', 'failed')}",
            hours,
        )
        for row in link.execute(query, [hours]).fetchall()
        if row["state"] == "failed"
    ]


def _budgets(link: Link) -> list[Finding]:
    budgets = link.execute("select workspace_id, micros_per_month from budget").fetchall()
    if not budgets:
        return []
    first, last = usage.month_of(datetime.now(UTC).date())
    spent: dict[str, int] = {}
    for row in link.execute(usage.LINES.encode(), usage.values(first, last)).fetchall():
        line = usage.line(row)
        spent[line.workspace] = spent.get(line.workspace, 0) + line.micros
    findings = []
    for row in budgets:
        name, budget = row["workspace_id"], int(row["micros_per_month"])
        percent = spent.get(name, 0) * 100 // budget
        text = f"of {first:%Y-%m}: {spent.get(name, 0)} of {budget} millionths"
        findings += [Finding(rule, name, name, text, percent) for rule in ("budget.near", "budget.spent")]
    return findings


def _backup(link: Link, numbers: dict[str, int]) -> list[Finding]:
    """Days since the last backup, or since the first line of the audit if there was none."""
    query = """select floor(extract(epoch from now() - coalesce(max(at) filter (where action = 'control.backup'),
        min(at))) / 86400)::bigint as days, bool_or(action = 'control.backup') as was from audit_entry"""
    row = link.execute(query).fetchone()
    if row is None or row["days"] is None:
        return []
    text = f"the last is {row['days']} days old" if row["was"] else "there was none yet"
    return [Finding("backup.missing", "mission-control", None, text, row["days"])]
