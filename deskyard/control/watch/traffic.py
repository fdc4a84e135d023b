"""The rules that compare what a desktop reaches, or is refused, with what it did before, as its gateway says."""

from collections import defaultdict
from typing import Any

from deskyard.control.store.connection import Link
from deskyard.control.watch.finding import Finding, mib
from deskyard.plan.printable import printable

NEW_NAME, NEW_REFUSED, UNUSUAL = "egress.new-name", "egress.new-refused", "egress.unusual"
RULES = (NEW_NAME, NEW_REFUSED, UNUSUAL)
WEEK = 7
# Of what is new in a text: names, and letters of each.
LISTED, MOST_SHOWN = 3, 60
# Less than this in a day is never unusual.
FLOOR = 100 * 2**20
# Further back nobody looks for a desktop's last days with traffic, and nobody counts for how many it is known.
LONGEST, YEAR = 60, 365
# What the gateway counts for names beyond those that have a row of their own: no name.
OTHERS = "others"
# What passed before midnight is often read after it, so yesterday is looked at, too.
RECENT = "(now() at time zone 'utc')::date - 1"

# The names that a desktop reached for the first time.
REACHED = f"""
  select t.workspace_id, t.desktop_id, t.name, min(t.day) as day, sum(t.sent + t.received) as bytes
  from traffic t join desktop d on d.id = t.desktop_id and d.gone_at is null
  where t.day >= {RECENT} and t.name <> '{OTHERS}' and not exists (
    select from traffic e where e.desktop_id = t.desktop_id and e.name = t.name and e.day < {RECENT})
  group by 1, 2, 3"""
# The names that it was refused for the first time, and never reached: if somebody allowed one, it is over.
REFUSED = f"""
  select r.workspace_id, r.desktop_id, r.name, r.day, 0 as bytes
  from refused_name r join desktop d on d.id = r.desktop_id and d.gone_at is null
  where r.day >= {RECENT} and not exists (
    select from traffic e where e.desktop_id = r.desktop_id and e.name = r.name)"""
# Of each desktop and day these names, if it reached any on a week of days before.
# If its own name was taken again, these count since then: a new desktop is quiet.
BY_DAY = f"""
with fresh as ({{fresh}}),
of_day as (
  select workspace_id, desktop_id, day, array_agg(name order by bytes desc, name) as names from fresh group by 1, 2, 3)
select f.* from of_day f join desktop d on d.id = f.desktop_id
where {WEEK} = (select count(*) from (
    -- Asked day by day, the last first: a desktop has many rows, and few days.
    select from generate_series(1, least({YEAR}, f.day - (d.there_since at time zone 'utc')::date)) as n
    where exists (select from traffic e where e.day = f.day - n and e.desktop_id = f.desktop_id)
    limit {WEEK}) as known)
order by f.desktop_id, f.day desc
"""
# Apart: a browser is refused much that is new, and a name that was reached would be one more of many.
NEW = {NEW_NAME: BY_DAY.format(fresh=REACHED), NEW_REFUSED: BY_DAY.format(fresh=REFUSED)}

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
    new = [finding for rule in NEW if rule in numbers for finding in _new_names(link, rule)]
    return new + _unusual(link)


def _new_names(link: Link, rule: str) -> list[Finding]:
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in link.execute(NEW[rule].encode()).fetchall():
        found[row["desktop_id"]].append(row)
    return [_new(rule, rows) for rows in found.values()]


def _new(rule: str, rows: list[dict[str, Any]]) -> Finding:
    """The finding of a desktop's days with new names, the last day first."""
    names = [name for row in rows for name in row["names"]]
    more = f", and {len(names) - LISTED} more" if len(names) > LISTED else ""
    text = f"since {rows[-1]['day']}: {', '.join(map(_shown, names[:LISTED]))}{more}"
    return Finding(rule, rows[0]["desktop_id"], rows[0]["workspace_id"], text, len(names))


def _shown(name: str) -> str:
    """A name that a desktop may have made up: of a long one its end, which says whose it is."""
    return printable(name if len(name) <= MOST_SHOWN else f"...{name[-MOST_SHOWN:]}", most=None)


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
