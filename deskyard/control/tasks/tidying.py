"""Asks that desktops for a task whose time is over go, and that a pool is filled again after it gave one."""

import secrets

from deskyard.control.store.connection import Link
from deskyard.control.tasks.target import BEGIN, RELEASE, TIDY

# What could not be removed is tried again after so long.
EVERY = "5 minutes"
# Where a desktop's time is over, or where one came or went since the pool was looked at last.
DUE = f"""
select w.id from workspace w
where w.gone_at is null and w.problem is null and exists (select from seat s where s.workspace_id = w.id)
  and ((exists (select from seat s where s.workspace_id = w.id and s.state = 'claimed' and s.until < now())
      and not exists (select from operation t where t.workspace_id = w.id and t.kind = %(tidy)s
        and recent(t.created_at, '{EVERY}')))
    or exists (select from operation o where o.workspace_id = w.id and o.kind = any(%(moves)s) and o.state = 'done'
      and recent(o.ended_at, '{EVERY}') and not exists (select from operation t
        where t.workspace_id = w.id and t.kind = %(tidy)s and t.created_at >= o.ended_at)))
  and not exists (select from operation t where t.workspace_id = w.id and t.kind = %(tidy)s
    and t.state in ('queued', 'running'))
order by w.id
"""


def ask_for_due(link: Link) -> list[str]:
    """Write that down for each workspace where it is due, with its line of the audit; the workspaces.

    The database does it: who watches may write down no operation by itself.
    """
    with link.transaction():
        # Two that watch, for a moment at a restart, ask once.
        link.execute("select pg_advisory_xact_lock(hashtextextended(%s, 7))", [TIDY])
        values = {"tidy": TIDY, "moves": [BEGIN, RELEASE]}
        due = [str(row["id"]) for row in link.execute(DUE.encode(), values).fetchall()]
        for workspace in due:
            link.execute("select ask_for_tidying(%s, %s)", [f"op_{secrets.token_hex(8)}", workspace])
    return due
