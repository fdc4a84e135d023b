"""The rules of alerts: what each looks for, its number, and what to do next."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from deskyard.control.store.clock import Clock
from deskyard.control.store.connection import Link
from deskyard.control.watch import budgets, looked, traffic, unseen, webhooks
from deskyard.control.watch.audited import Audited
from deskyard.control.watch.budgets import SpentNow
from deskyard.control.watch.finding import Finding, moment
from deskyard.host.deadline import Deadline

# Traffic is read by the hour, and looking through it takes longer than the rest.
TRAFFIC_SECONDS = 300.0
# A jump is over at once; people are to see that it was.
JUMPED_SECONDS = 3600.0
CHAT = "desktop.chat"


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
    "operation.no-room": Rule("An operation waits for room", "minutes", "stop what is not needed; ./inv site.check"),
    "agent.error": Rule("An agent's turn failed", "hours", "do what the turn's operation says, then write to it again"),
    "agent.silent": Rule("An agent is silent", "minutes", "see its screen; stop its turn if it hangs, and write again"),
    "isolation.failed": Rule("The isolation does not hold", "", "./inv workspace.verify says all of it; then mend it"),
    unseen.RULE: Rule("A hypervisor does not answer", "minutes", "./inv site.check says why; its desktops may run on"),
    "gateway.silent": Rule("A gateway does not answer", "minutes", "./inv workspace.health, then workspace.up"),
    "backup.missing": Rule("No backup of Mission Control", "days", "./inv control.backup FOLDER, by a timer"),
    "desktop.unwell": Rule("A machine is not well", "findings", "do what the finding says; ./inv workspace.health"),
    "egress.refused": Rule("Much is refused", "an hour", "see what it wants; allow it, or stop its agent"),
    traffic.NEW_NAME: Rule(
        "A name was never reached before", "names", "see how much and when: Usage; ./inv egress.close shuts the name"
    ),
    traffic.NEW_REFUSED: Rule(
        "A name was refused for the first time", "names", "ask what its agent wants there; allow it, or stop its agent"
    ),
    traffic.UNUSUAL: Rule("Unusual traffic", "times the mean", "see by which name: Usage; stop its agent if in doubt"),
    "desktop.no-backup": Rule("No recent backup is known", "days", "./inv backup.run; or look at the workspace again"),
    "webhook.failing": Rule(
        "A receiver of alerts takes nothing", "minutes", "see its messages: Settings, Webhooks; mend it, or remove it"
    ),
    "certificate.ending": Rule("A certificate is near its end", "days", "./inv control.up renews it"),
    "clock.jumped": Rule(
        "The clock jumped", "seconds", "see that the database's host keeps time (timedatectl); it may have slept"
    ),
    "audit.broken": Rule("The audit is not whole", "", "./inv control.audit says where; keep the database as it is"),
    "budget.near": Rule("A budget is nearly spent", "percent", "stop what is not needed, or raise the budget"),
    "budget.spent": Rule("A budget is spent", "percent", "stop the workspace, or raise the budget"),
}


class Eye:
    """Looks at everything that the rules ask for."""

    def __init__(
        self, certificate: Path | None, expires: Callable[[str], datetime], clock: Clock | None = None
    ) -> None:
        self._certificate, self._expires = certificate, expires
        # Looked at beside this, as it takes longer than all the rest.
        self.audited = Audited()
        self._measured = Deadline(0)
        self._traffic: list[Finding] = []
        self._clock = clock or Clock()
        self._jumped: tuple[Finding, Deadline] | None = None

    def look(self, link: Link, spent_now: SpentNow) -> list[Finding]:
        """The findings of the rules that are in force, now."""
        found = link.execute("select kind, number from alert_rule where enabled").fetchall()
        numbers = {row["kind"]: int(row["number"]) for row in found}
        findings = _desktops(link, numbers) + _workspaces(link, numbers) + _operations(link, numbers)
        findings += unseen.findings(link) + _without_room(link) + _silent(link) + looked.findings(link, numbers)
        findings += self._passed(link, numbers) + self._jump(link)
        findings += budgets.findings(link, spent_now) + _backup(link, numbers) + self._own(link, numbers)
        findings += webhooks.failing(link)
        return [finding for finding in findings if finding.rule in numbers and finding.number >= numbers[finding.rule]]

    def _passed(self, link: Link, numbers: dict[str, int]) -> list[Finding]:
        if self._measured.left == 0 and not numbers.keys().isdisjoint(traffic.RULES):
            self._traffic = traffic.findings(link, numbers)
            self._measured = Deadline(TRAFFIC_SECONDS)
        return self._traffic

    def _jump(self, link: Link) -> list[Finding]:
        """The last jump of the database's clock, for a while."""
        if seconds := round(self._clock.jump(link)):
            way = "ahead" if seconds > 0 else "back"
            text = f"by {abs(seconds):,} seconds {way}: what ends at a time, or is counted by it, may be off"
            finding = Finding("clock.jumped", "mission-control", None, text, abs(seconds))
            self._jumped = finding, Deadline(JUMPED_SECONDS)
        if self._jumped is None or self._jumped[1].is_over:
            return []
        return [self._jumped[0]]

    def _own(self, link: Link, numbers: dict[str, int]) -> list[Finding]:
        findings = []
        if self._certificate is not None and self._certificate.exists():
            days = (self._expires(self._certificate.read_text()) - datetime.now(UTC)).days
            if days < numbers.get("certificate.ending", 0):
                # Its number is a bound from above.
                text, number = f"ends in {days} days", numbers["certificate.ending"]
                findings.append(Finding("certificate.ending", "mission-control", None, text, number))
        problem = self.audited.problem if self.audited.is_known else _said_of_the_audit(link)
        if problem is not None:
            findings.append(Finding("audit.broken", "audit", None, problem))
        for row in link.execute("select workspace_id, problem from anchor where problem is not null").fetchall():
            name = row["workspace_id"]
            findings.append(Finding("audit.broken", f"gateway {name}", name, row["problem"]))
        return findings


def _said_of_the_audit(link: Link) -> str | None:
    """The text of the open alert of the audit, which stays until that was checked anew."""
    query = "select text from alert where rule = 'audit.broken' and object = 'audit' and closed_at is null"
    row = link.execute(query).fetchone()
    return None if row is None else str(row["text"])


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
    """Operations that failed of late, unless the next of the kind went well or is under way; a turn has to go well."""
    query = f"""select distinct on (kind, object) * from (
            select o.id, kind, workspace_id, problem, state, created_at,
                floor(extract(epoch from now() - created_at) / 3600)::bigint as hours,
                coalesce(desktop_id, workspace_id, id) as object
            from operation o where created_at > now() - make_interval(hours => %s) and state <> 'cancelled'
                and (kind <> '{CHAT}' or state in ('done', 'failed'))) as recent
        order by kind, object, created_at desc"""
    hours = {rule: numbers.get(rule, 0) for rule in ("operation.failed", "agent.error")}
    findings = []
    for row in link.execute(query.encode(), [max(hours.values())]).fetchall():
        problem = row["problem"] or {}
        # What keeps a turn from its agent, such as a gateway that is away, is no error of the agent.
        by_agent = row["kind"] == CHAT and problem.get("field") == "agent"
        rule, object = ("agent.error", "") if by_agent else ("operation.failed", f"{row['kind']} ")
        if row["state"] == "failed" and row["hours"] < hours[rule]:
            text = f"{row['id']}: {problem.get('reason', 'failed')}"
            findings.append(Finding(rule, f"{object}{row['object']}", row["workspace_id"], text, hours[rule]))
    return findings


def _without_room(link: Link) -> list[Finding]:
    """Operations for which their site had no room, also while they try again."""
    query = """select kind, coalesce(desktop_id, workspace_id, id) as object, workspace_id, waits,
            floor(extract(epoch from now() - created_at) / 60)::bigint as minutes
        from operation where state in ('queued', 'running') and waits is not null order by created_at"""
    return [
        Finding(
            "operation.no-room", f"{row['kind']} {row['object']}", row["workspace_id"], row["waits"], row["minutes"]
        )
        for row in link.execute(query).fetchall()
    ]


def _silent(link: Link) -> list[Finding]:
    """Of each desktop the turn whose answer has not grown for longest; who asks a person is not silent."""
    query = f"""select distinct on (desktop_id) *, floor(extract(epoch from now() - since) / 60)::bigint as minutes
        from (
            select o.id, o.desktop_id, o.workspace_id, greatest(o.started_at, max(m.changed_at)) as since
            from operation o join message m
                on m.conversation_id = o.input ->> 'conversation' and m.operation_id = o.id
            where o.kind = '{CHAT}' and o.state = 'running'
            group by o.id having not bool_or(m.questions @> '[{{"state": "open"}}]')) as turn
        order by desktop_id, since"""
    return [
        Finding(
            "agent.silent",
            row["desktop_id"],
            row["workspace_id"],
            f"{row['id']}: nothing more was heard of its turn since {moment(row['since'])}",
            row["minutes"],
        )
        for row in link.execute(query.encode()).fetchall()
    ]


def _backup(link: Link, numbers: dict[str, int]) -> list[Finding]:
    """Days since the last backup, or since the first line of the audit if there was none."""
    query = """select floor(extract(epoch from now() - coalesce(max(at) filter (where action = 'control.backup'),
        min(at))) / 86400)::bigint as days, bool_or(action = 'control.backup') as was from audit_entry"""
    row = link.execute(query).fetchone()
    if row is None or row["days"] is None:
        return []
    text = f"the last is {row['days']} days old" if row["was"] else "there was none yet"
    return [Finding("backup.missing", "mission-control", None, text, row["days"])]
