"""Alerts: one open for each rule and object, closed by itself when its cause is gone, told to webhooks once each."""

import secrets
from collections.abc import Sequence
from typing import Any

from psycopg.types.json import Jsonb

from deskyard.control.store.connection import Link
from deskyard.control.watch.finding import Finding
from deskyard.control.watch.rules import RULES


def settle(link: Link, findings: Sequence[Finding]) -> None:
    """Open what is new, close what is over; what stays keeps its alert, with the number of now."""
    with link.transaction():
        # Two that watch at once would tell everything twice.
        link.execute("select pg_advisory_xact_lock(4712)")
        there = {
            (row["rule"], row["object"]): row
            for row in link.execute("select * from alert where closed_at is null").fetchall()
        }
        for finding in findings:
            before = there.pop((finding.rule, finding.object), None)
            if before is None:
                _open(link, finding)
            elif (before["number"], before["text"]) != (finding.number, finding.text):
                query = "update alert set number = %s, text = %s where id = %s"
                link.execute(query, [finding.number, finding.text, before["id"]])
        for row in there.values():
            closed = link.execute(
                "update alert set closed_at = now() where id = %s returning *", [row["id"]]
            ).fetchone()
            assert closed is not None
            tell(link, "alert.closed", closed)


def _open(link: Link, finding: Finding) -> None:
    query = """insert into alert (id, rule, object, workspace_id, text, number, silenced_until)
        values (%s, %s, %s, %s, %s, %s, (select max(silenced_until) from alert where rule = %s and object = %s))
        returning *"""
    values = [f"al_{secrets.token_hex(8)}", finding.rule, finding.object, finding.workspace, finding.text]
    made = link.execute(query, [*values, finding.number, finding.rule, finding.object]).fetchone()
    assert made is not None
    tell(link, "alert.opened", made)


def tell(link: Link, kind: str, alert: dict[str, Any]) -> None:
    """Write down what each webhook is to be told, in the transaction of what it tells; nothing of what is silenced."""
    query = "select id from webhook where gone_at is null and not coalesce(%s > now(), false)"
    rule = RULES[alert["rule"]]
    data = {
        "id": alert["id"],
        "rule": alert["rule"],
        "title": rule.title,
        "object": alert["object"],
        "workspaceId": alert["workspace_id"],
        "text": alert["text"],
        "number": alert["number"],
        "unit": rule.unit,
        "nextStep": rule.next_step,
        "openedAt": alert["opened_at"].isoformat(),
        "closedAt": alert["closed_at"].isoformat() if alert["closed_at"] else None,
    }
    for row in link.execute(query, [alert["silenced_until"]]).fetchall():
        link.execute(
            "insert into delivery (id, webhook_id, kind, payload) values (%s, %s, %s, %s)",
            [f"msg_{secrets.token_hex(12)}", row["id"], kind, Jsonb(data)],
        )
