"""The rules that compare what a desktop reaches with what it reached before, as its gateway counted."""

from collections import defaultdict
from typing import Any

from deskyard.control.store.connection import Link
from deskyard.control.watch.finding import Finding, mib

NEW_NAME, UNUSUAL = "egress.new-name", "egress.unusual"
RULES = (NEW_NAME, UNUSUAL)
WEEK = 7
# Less than this in a day is never unusual.
FLOOR = 100 * 2**20
# Further back nobody looks for a desktop's last days with traffic, and nobody counts for how many it is known.
LONGEST, YEAR = 60, 365
# What the gateway counts for names beyond those that have a row of their own: no name.
OTHERS = "others"
# What passed before midnight is often read after it, so yesterday is looked at, too.
RECENT = "(now() at time zone 'utc')::date - 1"

# Of each desktop and day the names that it reached for the first time then, and on how many days before it reached any.
# If its own name was taken again, these count since then: a new desktop is quiet.
NEW = f"""
with fresh as (
  select t.workspace_id, t.desktop_id, t.name, min(t.day) as day, sum(t.sent + t.received) as bytes
  from traffic t join desktop d on d.id = t.desktop_id and d.gone_at is null
  where t.day >= {RECENT} and t.name <> '{OTHERS}' and not exists (
    select from traffic e where e.desktop_id = t.desktop_id and e.name = t.name and e.day < {RECENT})
  group by 1, 2, 3),
of_day as (
  select workspace_id, desktop_id, day, array_agg(name order by bytes desc, name) as names from fresh group by 1, 2, 3)
select f.*, (
    -- Asked day by day: a desktop has many rows, and few days.
    select count(*) from generate_series(1, {YEAR}) as n
    where f.day - n >= (d.there_since at time zone 'utc')::date
      and exists (select from traffic e where e.day = f.day - n and e.desktop_id = f.desktop_id)) as known
from of_day f join desktop d on d.id = f.desktop_id order by f.desktop_id, f.day
"""

# Of each desktop, what passed on a day, and the mean of its last days with traffic before.
DAYS = f"""
with daily as (
  select t.workspace_id, t.desktop_id, t.day, sum(t.sent) as sent, sum(t.received) as received
  from traffic t join desktop d on d.id = t.desktop_id and d.gone_at is null
  where t.day >= greatest({RECENT} - {LONGEST}, (d.there_since at time zone 'utc')::date)
  group by 1, 2, 3),
beside as (
  select *, avg(sent) over before as mean_sent, avg(received) over before as mean_received, count(*) over before as days
  from daily window before as (partition by desktop_id order by day rows between {WEEK} preceding and 1 preceding))
select * from beside where day >= {RECENT} and days = {WEEK} order by desktop_id, day
"""


def findings(link: Link, numbers: dict[str, int]) -> list[Finding]:
    """The findings of these rules now; without looks there is nothing to find them in."""
    return _new_names(link, numbers.get(NEW_NAME, 0)) + _unusual(link)


def _new_names(link: Link, days: int) -> list[Finding]:
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in link.execute(NEW.encode()).fetchall():
        if row["known"] >= days:
            found[row["desktop_id"]].append(row)
    return [_new(rows) for rows in found.values()]


def _new(rows: list[dict[str, Any]]) -> Finding:
    last = rows[-1]
    more = sum(len(row["names"]) for row in rows) - 1
    others = f", and {more} more of late" if more else ""
    text = f"{last['names'][0]}, on {last['day']} for the first time{others}"
    return Finding(NEW_NAME, last["desktop_id"], last["workspace_id"], text, last["known"])


def _unusual(link: Link) -> list[Finding]:
    found: dict[str, Finding] = {}
    for row in link.execute(DAYS.encode()).fetchall():
        for way in ("sent", "received"):
            # Apart: a desktop that receives much all day would hide what it sends.
            number, mean = int(row[way]), int(row[f"mean_{way}"])
            times = number // max(mean, 1)
            before = found.get(row["desktop_id"])
            if number >= FLOOR and (before is None or times > before.number):
                text = f"{way} {mib(number)} on {row['day']}, and {mib(mean)} a day on its {WEEK} days before"
                found[row["desktop_id"]] = Finding(UNUSUAL, row["desktop_id"], row["workspace_id"], text, times)
    return list(found.values())
