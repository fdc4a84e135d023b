"""Puts in force how long conversations are kept, once the worker saw that an admin signed just that."""

from typing import Any

from deskyard.control.queue.claim import Claim
from deskyard.control.retention.policy import Policy
from deskyard.control.store.connection import Link


def set_policy(link: Link, held: Claim, actor: str) -> dict[str, Any]:
    """Keep the conversations of a workspace, or of the site, as long as was signed; who signed it is its author."""
    policy = Policy.of(held.workspace, held.input)
    link.execute(
        """insert into retention (subject, days, actor) values (%s, %s, %s)
        on conflict (subject) do update set days = excluded.days, actor = excluded.actor, changed_at = now()""",
        [policy.subject, policy.days, actor],
    )
    return {"retention": policy.target}


def remove_policy(link: Link, held: Claim, actor: str) -> dict[str, Any]:
    """Let the site's policy be the workspace's again."""
    link.execute("delete from retention where subject = %s", [Policy(held.workspace, None).subject])
    return {"removed": held.workspace}
