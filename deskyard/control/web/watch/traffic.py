"""Counts of gateways, as usage shows them: beside machine time and claimed tokens, and added to neither."""

from datetime import date, datetime
from http import HTTPStatus
from typing import Any, Literal

from deskyard.control.api import rows
from deskyard.control.api.caller import Link, Row
from deskyard.control.api.forms.base import Form, Trouble
from deskyard.control.api.problem import Problem

By = Literal["desktop", "workspace", "day"]
Values = dict[str, Any]
# Of what a page shows, and of a table.
MOST, MOST_LINES = 500, 50_000
TITLES = {"day": "day", "workspace": "workspace_id", "desktop": "desktop_id"}
TITLES |= {name: name for name in ("name", "connections", "sent", "received")}
# What a spreadsheet takes for a formula; a desktop chooses the names below a wildcard.
FORMULA = ("=", "+", "-", "@")

WHERE = """
from traffic t
where t.day >= (%(since)s at time zone 'utc')::date and t.day < (%(until)s at time zone 'utc')::date
  and (%(workspace)s::text is null or workspace_id = %(workspace)s)
  and (%(desktop)s::text is null or desktop_id = %(desktop)s)
  and (%(bounds)s::text[] is null or workspace_id = any(%(bounds)s))
"""
COUNT = f"select count(*) as lines {WHERE}"
LINES = f"select * {WHERE} order by day, desktop_id, sent + received desc, name limit {MOST_LINES}"
# As of when each workspace's counts are known, and what kept the newest look from them.
READINGS = """
select w.id as workspace_id, w.traffic_read_at as read_at, newest.problem
from workspace w left join lateral (
  select result #> '{traffic,problem}' as problem from operation o
  where o.kind = 'workspace.look' and o.state = 'done' and o.workspace_id = w.id
  order by ended_at desc limit 1) as newest on true
where w.gone_at is null and (%(workspace)s::text is null or w.id = %(workspace)s)
  and (%(desktop)s::text is null or w.id = split_part(%(desktop)s, '.', 1))
  and (%(bounds)s::text[] is null or w.id = any(%(bounds)s))
order by w.id
"""


class MeasuredTraffic(Form):
    """Connections and bytes between what is named and a name, as the gateway counted; `sent` is what desktops sent."""

    workspace_id: str | None
    desktop_id: str | None
    day: date | None
    name: str
    connections: int
    sent: int
    received: int


class Reading(Form):
    """As of when a workspace's counts are known, if they are, and what kept its newest look from reading them."""

    workspace_id: str
    read_at: datetime | None
    problem: Trouble | None


async def measured(link: Link, values: Values, by: By | None) -> tuple[list[MeasuredTraffic], int]:
    """Add the counts up by one of them, most bytes first; and how many more rows there are."""
    kept = {None: ("workspace_id", "desktop_id", "day"), "desktop": ("workspace_id", "desktop_id")}
    kept |= {"workspace": ("workspace_id",), "day": ("day",)}
    names = ", ".join((*kept[by], "name"))
    query = f"""select {names}, sum(connections) as connections, sum(sent) as sent, sum(received) as received,
        count(*) over () as total {WHERE} group by {names} order by sum(sent + received) desc, {names} limit {MOST}"""
    found = await rows.rows(link, query, values)
    none = dict.fromkeys(("workspace_id", "desktop_id", "day"))
    items = [MeasuredTraffic(**none | {name: value for name, value in row.items() if name != "total"}) for row in found]
    return items, found[0]["total"] - len(items) if found else 0


async def readings(link: Link, values: Values) -> list[Reading]:
    """As of when the counts of each workspace that is there are known."""
    found = await rows.rows(link, READINGS, values)
    return [Reading(**row | {"problem": rows.trouble(row["problem"])}) for row in found]


async def require_short(link: Link, values: Values) -> None:
    """Raise a 422 for more rows than a table may have."""
    (found,) = await rows.rows(link, COUNT, values)
    if found["lines"] > MOST_LINES:
        reason = f"is the first day of {found['lines']} rows, and a table has {MOST_LINES} at most"
        day = values["since"].date()
        raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, "since", day, reason, "name fewer days, or a desktop")


def cells(row: Row) -> list[Any]:
    """The cells of a row of `LINES`, none of them a formula."""
    name = row["name"]
    shown = row | {"name": f"'{name}" if name.startswith(FORMULA) else name}
    return [shown[column] for column in TITLES.values()]
