"""The rule that finds the sites of which nobody sees the machines."""

from deskyard.control.store.connection import Link
from deskyard.control.watch.finding import Finding, moment

RULE = "site.unseen"
LISTED = 5


def findings(link: Link) -> list[Finding]:
    """The sites of which workspaces are not seen; one whose declaration cannot be read has an alert of its own."""
    query = """select site, array_agg(id order by id) as names, min(unseen_since) as since, max(unseen_why) as why,
            floor(extract(epoch from now() - min(unseen_since)) / 60)::bigint as minutes
        from workspace where gone_at is null and unseen_since is not null and problem is null group by site"""
    return [
        Finding(
            RULE,
            row["site"],
            None,
            f"how the machines of {_listed(row['names'])} are is not known since {moment(row['since'])}"
            + (f": {row['why']}" if row["why"] else ""),
            row["minutes"],
        )
        for row in link.execute(query).fetchall()
    ]


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - LISTED} more" if len(names) > LISTED else ""
    return ", ".join(names[:LISTED]) + more
