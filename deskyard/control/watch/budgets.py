"""Budgets of workspaces: what is spent of each, which are told of, and which names are closed while one is spent.

A budget has a bound of what machine time costs, one of the bytes that a gateway counted, or both; none is added to the
other.
"""

import secrets
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from deskyard.control.store.connection import Link
from deskyard.control.usage import usage
from deskyard.control.watch.finding import Finding, mib, moment

KIND = "egress.close"
# A gateway that was made anew knows of no closed name.
TOLD_AGAIN = "1 hour"
TRIED_AGAIN = "5 minutes"

# Workspaces whose gateway may have to close names or to reopen them, unless somebody is about to tell it.
CLOSING = f"""
select w.id, b.micros_per_month, b.bytes_per_month, coalesce(b.closes, '{{}}') as closes,
  coalesce(c.names, '{{}}') as told, not recent(c.told_at, '{TOLD_AGAIN}') as old
from workspace w left join budget b on b.workspace_id = w.id left join closing c on c.workspace_id = w.id
where w.gone_at is null and w.problem is null and w.silent_since is null and w.egress = 'locked'
  and (cardinality(b.closes) > 0 or cardinality(c.names) > 0)
  and exists (select from desktop d where d.workspace_id = w.id and d.gone_at is null and d.state = 'ready')
  and not exists (select from operation o where o.workspace_id = w.id and o.kind = '{KIND}'
    and (o.state in ('queued', 'running') or (o.state <> 'done' and recent(o.ended_at, '{TRIED_AGAIN}'))))
order by w.id
"""
# Of each budget, or of those that bound it, the bytes of its workspace's desktops in a month (UTC), also of those that
# are gone, and as of when they are known.
MEASURED = """
select b.workspace_id, w.traffic_read_at as read_at, coalesce(t.bytes, 0) as bytes
from budget b left join workspace w on w.id = b.workspace_id left join lateral (
  select sum(sent + received) as bytes from traffic
  where workspace_id = b.workspace_id and day between %(first)s and %(last)s) as t on true
where (not %(bounded)s or b.bytes_per_month is not null)
  and (%(bounds)s::text[] is null or b.workspace_id = any(%(bounds)s))
"""


@dataclass(frozen=True)
class Measured:
    """The bytes that a gateway counted in a month, as of when they were read, if they ever were."""

    bytes: int = 0
    read_at: datetime | None = None


@dataclass(frozen=True)
class Spent:
    """Shares of this month's budgets that are spent: millionths of machine time, and beside them bytes."""

    micros: Mapping[str, int]
    measured: Mapping[str, Measured]

    def is_over(self, row: Mapping[str, Any], workspace: str) -> bool:
        """Whether either bound of a budget is spent."""
        micros, most = row["micros_per_month"], row["bytes_per_month"]
        return (micros is not None and self.micros.get(workspace, 0) >= micros) or (
            most is not None and self.measured.get(workspace, Measured()).bytes >= most
        )


# Worked out for the first that asks, since most looks find no budget at all.
SpentNow = Callable[[], Spent]


def findings(link: Link, spent_now: SpentNow) -> list[Finding]:
    """How much of each bound of each budget is spent, for both rules that read it."""
    budgets = link.execute("select * from budget order by workspace_id").fetchall()
    spent = spent_now() if budgets else Spent({}, {})
    return [finding for row in budgets for finding in _findings(row, spent, f"{datetime.now(UTC):%Y-%m}")]


def _findings(row: Mapping[str, Any], spent: Spent, month: str) -> list[Finding]:
    name, closes = row["workspace_id"], row["closes"]
    closing = f"; while it is spent, closed are {', '.join(closes)}" if closes else ""
    found = []
    if (most := row["micros_per_month"]) is not None:
        micros = spent.micros.get(name, 0)
        text = f"machine time of {month}: {micros} of {most} millionths{closing}"
        found += _near_and_spent(name, name, text, micros * 100 // int(most))
    if (most := row["bytes_per_month"]) is not None:
        counted = spent.measured.get(name, Measured())
        known = f"as of {moment(counted.read_at)}" if counted.read_at else "not read yet"
        text = f"measured at its gateway in {month}: {mib(counted.bytes)} of {mib(most)}, {known}{closing}"
        # An alert of its own: who was told of the one is told of the other.
        found += _near_and_spent(f"{name} bytes", name, text, counted.bytes * 100 // int(most))
    return found


def _near_and_spent(object_: str, workspace: str, text: str, percent: int) -> list[Finding]:
    return [Finding(rule, object_, workspace, text, percent) for rule in ("budget.near", "budget.spent")]


def ask_for_closing(link: Link, spent_now: SpentNow) -> list[str]:
    """Have gateways told what to close or reopen, each with its line of the audit; their workspaces.

    The database checks it against the budget: who watches may write down no operation by itself.
    """
    with link.transaction():
        # Two that watch, for a moment at a restart, ask once.
        link.execute("select pg_advisory_xact_lock(hashtextextended(%s, 7))", [KIND])
        rows = link.execute(CLOSING.encode()).fetchall()
        spent = spent_now() if rows else Spent({}, {})
        asked = []
        for row in rows:
            names = sorted(row["closes"]) if spent.is_over(row, row["id"]) else []
            if names != sorted(row["told"]) or (names and row["old"]):
                values = [f"op_{secrets.token_hex(8)}", row["id"], names]
                link.execute("select ask_for_closing(%s, %s, %s::text[])", values)
                asked.append(row["id"])
        return asked


def spent_this_month(link: Link) -> Spent:
    """All that workspaces have spent since the month began (UTC); of bytes, where a budget bounds them."""
    first, last = usage.month_of(datetime.now(UTC).date())
    spent = by_workspace(link.execute(usage.BY_WORKSPACE.encode(), usage.values(first, last)).fetchall())
    values = month_values(bounded=True)
    return Spent(spent, measured(link.execute(MEASURED.encode(), values).fetchall()))


def month_values(*, bounded: bool = False, bounds: list[str] | None = None) -> dict[str, Any]:
    """The parameters of `MEASURED` for the month of now."""
    first, last = usage.month_of(datetime.now(UTC).date())
    return {"first": first, "last": last, "bounded": bounded, "bounds": bounds}


def measured(rows: Iterable[Mapping[str, Any]]) -> dict[str, Measured]:
    """The bytes of each workspace, of rows of `MEASURED`."""
    return {row["workspace_id"]: Measured(int(row["bytes"]), row["read_at"]) for row in rows}


def by_workspace(rows: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """The cost of each workspace, of rows of `usage.BY_WORKSPACE`."""
    return {row["workspace_id"]: int(row["micros"]) for row in rows}
