"""What the process that watches does at a look, and what it left open."""

from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import httpx

from deskyard.control.store.connection import Link
from deskyard.control.watch import alerts, budgets, webhooks
from deskyard.control.watch.mail import Mailer
from deskyard.control.watch.rules import Eye
from deskyard.control.watch.traffic import NEW_REFUSED
from deskyard.control.watch.webhooks import NOBODY, Reach
from tests.control.lab import Lab


def look(link: Link, certificate: Path | None = None, days: int = 1) -> None:
    """Look once by all rules; a certificate ends in so many days."""
    eye = Eye(certificate, lambda _: datetime.now(UTC) + timedelta(days=days, hours=1))
    eye.audited.look(link)
    alerts.settle(link, eye.look(link, partial(budgets.spent_this_month, link)))


def deliver_next(link: Link, reach: Reach, mailer: Mailer = NOBODY) -> bool:
    """Tell somebody what is due first, by a connection that is there."""
    return webhooks.deliver_next(lambda: nullcontext(link), reach, mailer)


def ask_for_closing(link: Link) -> list[str]:
    """Ask by what is spent now."""
    return budgets.ask_for_closing(link, partial(budgets.spent_this_month, link))


def put_in_force(mission: Lab) -> None:
    """Put those rules in force that are at first."""
    mission.link.execute("update alert_rule set enabled = kind <> %s", [NEW_REFUSED])


def opened(owner: httpx.Client) -> dict[str, dict[str, Any]]:
    """The open alerts, by rule and object."""
    found = owner.get("/api/alerts?open=true").json()["items"]
    return {f"{alert['rule']} {alert['object']}": alert for alert in found}
