"""Counts of a gateway by day, desktop and name: read by a look, kept by the worker that ends it."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime, timedelta
from itertools import groupby
from operator import itemgetter
from typing import Any

from psycopg.types.json import Jsonb

from deskyard.control.queue.parts import line
from deskyard.control.store.connection import Link
from deskyard.control.upkeep.workspace import Workspace
from deskyard.errors import ConfigError

# The last is the column of the workspace that says as of when the table is known.
PART, SINCE, READ_AT = "traffic", "traffic_since", "traffic_read_at"
COUNTS = ("connections", "sent", "received")
# As many as a gateway keeps, and more than passes in one of them: the database refuses a number above it.
MOST_DAYS, MOST_COUNT = 40, 10**15
# Of one look: a Mission Control that is far behind catches up by some.
MOST_ROWS = 20_000
MOST_OF_A_DAY = MOST_ROWS // 2
MOST_NAME = 255
DESKTOP = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
# A gateway that was made anew begins its day at nothing, so the larger count stays: it passed for sure, and no more
# is ever said than passed.
KEEP = """
insert into traffic (workspace_id, desktop_id, day, name, connections, sent, received)
select %(workspace)s, %(workspace)s || '.' || desktop, day, name, connections, sent, received
from jsonb_to_recordset(%(rows)s)
  as row (desktop text, day date, name text, connections bigint, sent bigint, received bigint)
on conflict (desktop_id, name, day) do update set connections = greatest(traffic.connections, excluded.connections),
  sent = greatest(traffic.sent, excluded.sent), received = greatest(traffic.received, excluded.received)
where excluded.connections > traffic.connections or excluded.sent > traffic.sent
  or excluded.received > traffic.received
"""

Rows = list[dict[str, Any]]


def read(workspace: Workspace, since: str = "") -> Rows:
    """Read the counts of a workspace's gateway from a day on; without one: all that it keeps."""
    from deskyard.access import egress

    first = since or (datetime.now(UTC).date() - timedelta(days=MOST_DAYS - 1)).isoformat()
    found = egress.traffic_by_day(workspace.name, first)
    if found["egress"] != "locked" and not found["traffic"]:
        reason = f"is {found['egress']}, so no names are counted"
        raise ConfigError("egress", workspace.name, reason, "declare egress: locked and bring the workspace up")
    return bounded(checked(found["traffic"], datetime.now(UTC).date()))


def bounded(rows: Iterable[dict[str, Any]]) -> Rows:
    """Rows of whole days, the oldest first, as many as a look may have; of a day those with the most bytes.

    Two days at least, so that whoever begins with the last one that it knows comes on.
    """
    kept: Rows = []
    ordered = sorted(rows, key=itemgetter("day"))
    for number, (_, of_day) in enumerate(groupby(ordered, key=itemgetter("day"))):
        most = sorted(of_day, key=lambda row: -row["sent"] - row["received"])[:MOST_OF_A_DAY]
        if number >= 2 and len(kept) + len(most) > MOST_ROWS:
            break
        kept += most
    return kept


def asked(link: Link, workspace: str) -> dict[str, str]:
    """Name the last day that is known of a workspace, for the next look to begin with: it may not have been over."""
    found = link.execute("select max(day) as day from traffic where workspace_id = %s", [workspace]).fetchone()
    return {SINCE: found["day"].isoformat()} if found and found["day"] else {}


def keep(link: Link, workspace: str, rows: Rows) -> None:
    """Write down what a look has read of its gateway."""
    link.execute(KEEP.encode(), {"workspace": workspace, "rows": Jsonb(rows)})


def checked(rows: Iterable[Any], today: date) -> Rows:
    """Those rows that a gateway can have counted, with names that can be kept and shown; what is none is left out."""
    sums: dict[tuple[str, str, str], Counter[str]] = {}
    for row in rows:
        if isinstance(row, Mapping) and _is_whole(row, today):
            name = line(row["name"], MOST_NAME)
            counts = {count: row[count] for count in COUNTS}
            sums.setdefault((row["desktop"], row["day"], name), Counter()).update(counts)
    return [
        {"desktop": desktop, "day": day, "name": name} | {count: min(counts[count], MOST_COUNT) for count in COUNTS}
        for (desktop, day, name), counts in sums.items()
    ]


def _is_whole(row: Mapping[str, Any], today: date) -> bool:
    texts = [row.get(text) for text in ("desktop", "day", "name")]
    counts = [row.get(count) for count in COUNTS]
    return (
        all(type(text) is str and text for text in texts)
        and all(type(count) is int and 0 <= count <= MOST_COUNT for count in counts)
        and DESKTOP.fullmatch(row["desktop"]) is not None
        and _is_near(row["day"], today)
    )


def _is_near(day: str, today: date) -> bool:
    """Whether it is a day that a gateway keeps; none is to come, or the next look would begin with it."""
    try:
        found = date.fromisoformat(day)
    except ValueError:
        return False
    return today - timedelta(days=MOST_DAYS) <= found <= today and found.isoformat() == day
