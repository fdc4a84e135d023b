"""Deletes conversations whose time is over, some at a time; what was claimed in them stays counted."""

from collections import defaultdict
from typing import Any

from psycopg.types.json import Jsonb

from deskyard.control.retention import policy
from deskyard.control.store.connection import Link
from deskyard.control.usage.usage import DAY_SECONDS

AT_ONCE = 100
ACTOR = "retention"
# In one statement: no claim comes between what is counted and what is deleted.
DELETE = f"""
with gone as (
  delete from message m using conversation c where c.id = m.conversation_id and c.id = any(%s)
  returning c.id, c.desktop_id, m.at, m.claimed_input, m.claimed_output, m.claimed_cached),
kept as (
  insert into claim_kept (desktop_id, day, turns, input, output, cached)
  select desktop_id, floor(extract(epoch from at) / {DAY_SECONDS})::bigint as day, count(*), sum(claimed_input),
    sum(claimed_output), sum(claimed_cached)
  from gone where claimed_input is not null group by 1, 2
  on conflict (desktop_id, day) do update set turns = claim_kept.turns + excluded.turns,
    input = claim_kept.input + excluded.input, output = claim_kept.output + excluded.output,
    cached = claim_kept.cached + excluded.cached)
select id, count(*) as messages from gone group by id
"""


def forget(link: Link, most: int = AT_ONCE) -> int:
    """Delete the conversations that are over for longest, with a line of the audit for each workspace; how many.

    What is written to in this moment is left for the next time.
    """
    with link.transaction():
        found = link.execute(f"{policy.DUE} limit %s for update of c skip locked".encode(), [most]).fetchall()
        if found:
            ids = [row["id"] for row in found]
            messages = {row["id"]: row["messages"] for row in link.execute(DELETE.encode(), [ids]).fetchall()}
            link.execute("delete from conversation where id = any(%s)", [ids])
            _note(link, found, messages)
    return len(found)


def _note(link: Link, found: list[dict[str, Any]], messages: dict[str, int]) -> None:
    of: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in found:
        of[row["workspace_id"]].append(row)
    for workspace, gone in of.items():
        moments = [row["last_at"] for row in gone]
        detail = {
            "conversations": len(gone),
            "messages": sum(messages.get(row["id"], 0) for row in gone),
            "oldest": min(moments).isoformat(),
            "newest": max(moments).isoformat(),
        }
        query = "insert into audit_intake (actor, action, target, detail) values (%s, 'conversation.forget', %s, %s)"
        link.execute(query, [ACTOR, workspace, Jsonb(detail)])
