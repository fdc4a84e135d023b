"""Asks for a look at each workspace by the hour, for the rules that read what looks find; keeps the newest alone."""

import secrets

from deskyard.control.store.connection import Link
from deskyard.control.watch import traffic

ACTOR, KIND = "watch", "workspace.look"
# The rules that read looks: with all of them out of force only workspaces are looked at whose bytes a budget bounds.
READERS = ("desktop.unwell", "egress.refused", "desktop.no-backup", *traffic.RULES)
EVERY = "1 hour"
# At each round, so that looks at many workspaces are spread over time.
AT_ONCE = 2

# A workspace whose gateway answers and that has a desktop in use; whoever asked for its last look.
DUE = f"""
select w.id from workspace w
where w.gone_at is null and w.problem is null and w.silent_since is null
  and exists (select from desktop d where d.workspace_id = w.id and d.gone_at is null and d.state = 'ready')
  and (exists (select from alert_rule where enabled and kind = any(%(readers)s))
    or exists (select from budget b where b.workspace_id = w.id and b.bytes_per_month is not null))
  and not exists (select from operation o where o.workspace_id = w.id and o.kind = %(kind)s
    and (o.state in ('queued', 'running') or recent(coalesce(o.ended_at, o.created_at), '{EVERY}')))
order by w.id limit %(most)s
"""


def ask_for_due(link: Link, most: int = AT_ONCE) -> list[str]:
    """Write down a look for each workspace that is due, with its line of the audit; the workspaces.

    The database does it: who watches may write down no operation by itself.
    """
    values = {"readers": list(READERS), "kind": KIND, "most": most}
    with link.transaction():
        # Two that watch, for a moment at a restart, ask once.
        link.execute("select pg_advisory_xact_lock(hashtextextended(%s, 7))", [KIND])
        due = [row["id"] for row in link.execute(DUE.encode(), values).fetchall()]
        for workspace in due:
            link.execute("select ask_for_look(%s, %s)", [f"op_{secrets.token_hex(8)}", workspace])
    return due
