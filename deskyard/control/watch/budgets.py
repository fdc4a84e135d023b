"""Budgets of workspaces: what is spent of each, which are told of, and which names are closed while one is spent."""

import secrets
from collections.abc import Iterable
from datetime import UTC, datetime

from deskyard.control.store.connection import Link
from deskyard.control.watch import usage
from deskyard.control.watch.finding import Finding

KIND = "egress.close"
# A gateway that was made anew knows of no closed name.
TOLD_AGAIN = "1 hour"
TRIED_AGAIN = "5 minutes"

# Workspaces whose gateway may have to close names or to reopen them, unless somebody is about to tell it.
CLOSING = f"""
select w.id, b.micros_per_month as budget, coalesce(b.closes, '{{}}') as closes, coalesce(c.names, '{{}}') as told,
  coalesce(c.told_at < now() - interval '{TOLD_AGAIN}', true) as old
from workspace w left join budget b on b.workspace_id = w.id left join closing c on c.workspace_id = w.id
where w.gone_at is null and w.problem is null and w.silent_since is null and w.egress = 'locked'
  and (cardinality(b.closes) > 0 or cardinality(c.names) > 0)
  and exists (select from desktop d where d.workspace_id = w.id and d.gone_at is null and d.state = 'ready')
  and not exists (select from operation o where o.workspace_id = w.id and o.kind = '{KIND}'
    and (o.state in ('queued', 'running') or (o.state <> 'done' and o.ended_at > now() - interval '{TRIED_AGAIN}')))
order by w.id
"""


def findings(link: Link) -> list[Finding]:
    """How much of each budget is spent, for both rules that read it."""
    budgets = link.execute("select workspace_id, micros_per_month, closes from budget").fetchall()
    spent = spent_this_month(link) if budgets else {}
    month = datetime.now(UTC)
    found = []
    for row in budgets:
        name, budget = row["workspace_id"], int(row["micros_per_month"])
        text = f"of {month:%Y-%m}: {spent.get(name, 0)} of {budget} millionths"
        if row["closes"]:
            text += f"; when it is spent, closed are {', '.join(row['closes'])}"
        percent = spent.get(name, 0) * 100 // budget
        found += [Finding(rule, name, name, text, percent) for rule in ("budget.near", "budget.spent")]
    return found


def ask_for_closing(link: Link) -> list[str]:
    """Have gateways told what to close or reopen, each with its line of the audit; their workspaces.

    The database checks it against the budget: who watches may write down no operation by itself.
    """
    with link.transaction():
        # Two that watch, for a moment at a restart, ask once.
        link.execute("select pg_advisory_xact_lock(hashtextextended(%s, 7))", [KIND])
        rows = link.execute(CLOSING.encode()).fetchall()
        spent = spent_this_month(link) if rows else {}
        asked = []
        for row in rows:
            is_spent = row["budget"] is not None and spent.get(row["id"], 0) >= row["budget"]
            names = sorted(row["closes"]) if is_spent else []
            if names != sorted(row["told"]) or (names and row["old"]):
                values = [f"op_{secrets.token_hex(8)}", row["id"], names]
                link.execute("select ask_for_closing(%s, %s, %s::text[])", values)
                asked.append(row["id"])
        return asked


def spent_this_month(link: Link) -> dict[str, int]:
    """What each workspace has cost since the month began (UTC), in millionths."""
    first, last = usage.month_of(datetime.now(UTC).date())
    return by_workspace(usage.line(row) for row in link.execute(usage.LINES.encode(), usage.values(first, last)))


def by_workspace(lines: Iterable[usage.Line]) -> dict[str, int]:
    """The cost of each workspace."""
    spent: dict[str, int] = {}
    for line in lines:
        spent[line.workspace] = spent.get(line.workspace, 0) + line.micros
    return spent
