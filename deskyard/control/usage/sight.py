"""Whether anybody sees the machines of a workspace: its hypervisor may be gone, or whoever follows it.

Desktops are locked before their machine time and their workspace, here as by who writes down how they are.
"""

import psycopg

from deskyard.control.store.connection import Link
from deskyard.control.usage.usage import FOLLOWED
from deskyard.host.deadline import Deadline

PATIENCE_SECONDS = 20.0
# Seen before, or refused at once; one whose first look is under way is left alone.
GONE = f"""gone_at is null and unseen_since is null and not recent(followed_at, '{FOLLOWED}')
    and (followed_at is not null or unseen_why <> '')"""


class Sight:
    """Who watches whether workspaces are seen; `patience` is for how many seconds nobody may have come back to one.

    Whoever follows begins, or connects again, at the same time as who watches; after a jump of the clock all are old.
    """

    def __init__(self, patience: float = PATIENCE_SECONDS) -> None:
        self._patience = patience
        self._gone: dict[str, Deadline] = {}

    def look(self, link: Link) -> None:
        """Give up what nobody followed for a while: how its machines are is not known, and no time of theirs counts."""
        names = [row["id"] for row in link.execute(f"select id from workspace where {GONE}".encode()).fetchall()]
        self._gone = {name: self._gone.get(name) or Deadline(self._patience) for name in names}
        for name in sorted(names):
            if self._gone[name].left == 0:
                _give_up(link, name)


def _give_up(link: Link, name: str) -> None:
    with link.transaction() as change:
        hold(link, name)
        close_unseen(link, name)
        link.execute(
            """update desktop set state = 'unknown', detail = '', state_at = now(), generation = generation + 1
            where workspace_id = %s and gone_at is null and state <> 'unknown'""",
            [name],
        )
        query = f"update workspace set unseen_since = coalesce(followed_at, now()) where id = %s and {GONE}"
        if not link.execute(query.encode(), [name]).rowcount:
            # Somebody sees it again.
            raise psycopg.Rollback(change)


def lost(link: Link, names: list[str]) -> list[str]:
    """Those of the workspaces that were given up."""
    query = "select id from workspace where id = any(%s) and unseen_since is not null"
    return [row["id"] for row in link.execute(query, [names]).fetchall()]


def hold(link: Link, name: str) -> None:
    """Let nobody else write down how the desktops of a workspace are, until the end of the transaction."""
    link.execute("select 1 from desktop where workspace_id = %s order by id for update", [name])


def regain(link: Link, name: str) -> None:
    """Write down that somebody sees the machines of a workspace."""
    query = "update workspace set followed_at = now(), unseen_since = null, unseen_why = '' where id = %s"
    link.execute(query, [name])


def note_why(link: Link, name: str, why: str) -> None:
    """Write down what keeps a workspace from being followed."""
    query = "update workspace set unseen_why = %s where id = %s and unseen_why <> %s"
    link.execute(query, [why, name, why])


def close_unseen(link: Link, name: str) -> None:
    """End the time of machines at the moment until which somebody looked: whether they ran since, nobody knows."""
    link.execute(
        f"""update usage_interval u
        set ended_at = greatest(u.began_at, least(coalesce(w.followed_at, u.began_at), now())), unwatched = true
        from workspace w where w.id = u.workspace_id and w.id = %s and u.ended_at is null
        and not recent(w.followed_at, '{FOLLOWED}')""",
        [name],
    )
