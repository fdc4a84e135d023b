"""An answer to a ticket: written into the chain of the audit first, then in force."""

import re
from typing import Any

from deskyard.errors import GatewayError
from deskyard.gateway.egress.ask import line, tickets
from deskyard.gateway.machine.layout import Layout
from deskyard.gateway.session import line as service

REASON_LENGTH = 200
_UNSEEN = re.compile(r"[\x00-\x1f\x7f-\x9f]")


def decide(
    layout: Layout, ticket_id: str, verdict: str, seconds: int | None, actor: str, reason: str
) -> dict[str, Any]:
    """Answer; what opens something and cannot be written down does not happen. Raises `GatewayError`."""
    reason = reason.strip()
    if len(reason) > REASON_LENGTH or _UNSEEN.search(reason):
        remedy = f"write one line of at most {REASON_LENGTH} characters"
        raise GatewayError("reason", reason[:40], "is too long, or no line", remedy)
    tickets.check(verdict, seconds, reason)
    ticket = line.ask(layout.ask_socket, {"command": "ticket", "ticket": ticket_id})
    result = "refused" if verdict == tickets.REFUSE else verdict
    facts = {"desktop": ticket["desktop"], "target": f"{ticket['name']}:{ticket['port']}", "ticket": ticket_id}
    facts |= {"result": result, "by": actor}
    if seconds is not None:
        facts["seconds"] = seconds
    if reason:
        facts["reason"] = reason
    try:
        service.ask(layout.admin_socket, {"command": "ask", "facts": facts})
    except GatewayError:
        # A refusal opens nothing: it counts even where the audit cannot be reached.
        if verdict != tickets.REFUSE:
            raise
    request = {"command": "decide", "ticket": ticket_id, "verdict": verdict, "seconds": seconds}
    answered: dict[str, Any] = line.ask(layout.ask_socket, {**request, "actor": actor, "reason": reason})
    return answered
