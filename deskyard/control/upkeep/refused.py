"""Names that gateways refused to each desktop, and since when: kept when the moments that tell of it are forgotten."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from psycopg.types.json import Jsonb

from deskyard.control.store.connection import Link
from deskyard.wire.egress_list import NAME

# Of a desktop and day: a desktop can make up any number of names.
MOST_OF_A_DAY = 200
MOST_NAME = 253
# Asks who has an address: no name that a desktop wants to reach.
REVERSE = (".in-addr.arpa", ".ip6.arpa")
_NAME = re.compile(NAME + r"\Z")
KEEP = """
with fresh as (
  select %(workspace)s || '.' || desktop as desktop_id, name, min((at at time zone 'utc')::date) as day
  from jsonb_to_recordset(%(rows)s) as row (desktop text, name text, at timestamptz) group by 1, 2),
placed as (
  select *, row_number() over (partition by desktop_id, day order by name)
    + (select count(*) from refused_name k where k.day = fresh.day and k.desktop_id = fresh.desktop_id) as place
  from fresh where not exists (
    select from refused_name k where k.desktop_id = fresh.desktop_id and k.name = fresh.name))
insert into refused_name (workspace_id, desktop_id, name, day)
select %(workspace)s, desktop_id, name, day from placed where place <= %(most)s
on conflict do nothing
"""


def keep(link: Link, workspace: str, refusals: Iterable[Mapping[str, Any]]) -> None:
    """Write down the names of moments of refusals, each on the day on which it was refused for the first time."""
    rows = [
        {"desktop": refusal["desktop"], "name": name, "at": refusal["at"]}
        for refusal in refusals
        if (name := name_of(refusal["key"])) is not None
    ]
    values = {"workspace": workspace, "rows": Jsonb(rows), "most": MOST_OF_A_DAY}
    link.execute(KEEP.encode(), values)


def forget(link: Link) -> int:
    """Forget the names of desktops that have been gone for 90 days; how many, which the database alone decides."""
    row = link.execute("select forget_refused_names() as count").fetchone()
    return int(row["count"]) if row else 0


def name_of(key: str) -> str | None:
    """The name in the key of a moment, which is its hour, its rule and what was wanted; None for an address."""
    name = key.split(" ", 2)[-1].partition(":")[0].lower()
    is_name = len(name) <= MOST_NAME and _NAME.match(name) is not None and not name.endswith(REVERSE)
    return name if is_name else None
