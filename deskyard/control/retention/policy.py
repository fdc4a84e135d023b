"""The policy of a workspace or of the whole site, in the words that are signed, and which conversations it ends."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

SET, REMOVE = "retention.set", "retention.remove"
SITE = "site"
MOST_DAYS = 36_500

# Nothing of a conversation waits or runs: no turn is taken from under its agent.
AT_REST = """not exists (select from operation o where o.lane = 'conversation:' || c.id
    and o.state in ('queued', 'running', 'waiting'))"""
# Also of workspaces and desktops that are gone. The age is the database's own: see the step 0007.
DUE = f"""
select c.id, split_part(c.desktop_id, '.', 1) as workspace_id, c.last_at
from conversation c
  left join retention own on own.subject = 'workspace:' || split_part(c.desktop_id, '.', 1)
  left join retention site on site.subject = '{SITE}'
where c.last_at < now() - (select make_interval(hours => 24 * min(days)) from retention)
  and c.last_at < now() - make_interval(hours => 24 * case when own.subject is null then site.days else own.days end)
  and {AT_REST}
order by c.last_at
"""
# What would go by a policy of so many days: that of a workspace, or that of all without one of their own.
WOULD_GO = f"""
select count(*) as conversations, min(c.last_at) as oldest_at, max(c.last_at) as newest_at,
  coalesce(sum((select count(*) from message m where m.conversation_id = c.id)), 0)::bigint as messages
from conversation c
where c.last_at < now() - make_interval(hours => 24 * %(days)s::int) and {AT_REST}
  and case when %(workspace)s::text is not null then split_part(c.desktop_id, '.', 1) = %(workspace)s
    else not exists (select from retention r where r.subject = 'workspace:' || split_part(c.desktop_id, '.', 1)) end
  and (%(bounds)s::text[] is null or split_part(c.desktop_id, '.', 1) = any(%(bounds)s))
"""


@dataclass(frozen=True)
class Policy:
    """How many days after its last message a conversation goes; none: it is kept for ever."""

    workspace: str | None
    days: int | None

    @classmethod
    def of(cls, workspace: str | None, values: Mapping[str, Any]) -> "Policy":
        """The policy of what an operation is given."""
        return cls(workspace, None if values.get("days") is None else int(values["days"]))

    @property
    def subject(self) -> str:
        """The subject of the policy, as the table has it."""
        return SITE if self.workspace is None else f"workspace:{self.workspace}"

    @property
    def target(self) -> str:
        """All of it in the one line that an admin signs and the worker compares."""
        return f"{self.subject} {'for ever' if self.days is None else f'{self.days} days'}"
