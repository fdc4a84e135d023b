"""An answer to a ticket: written into the chain of the audit first, then in force."""

import contextlib
import json
import re
from collections.abc import Iterator
from typing import Any

from deskyard.errors import GatewayError
from deskyard.gateway.egress.ask import line, proof, tickets
from deskyard.gateway.machine.layout import Layout
from deskyard.gateway.session import line as service

REASON_LENGTH = 200
_UNSEEN = re.compile(r"[\x00-\x1f\x7f-\x9f]")


def decide(
    layout: Layout, ticket_id: str, verdict: str, seconds: int | None, actor: str, reason: str
) -> dict[str, Any]:
    """Answer; what opens something and cannot be written down does not happen. Raises `GatewayError`."""
    reason = _checked(reason)
    tickets.check(verdict, seconds, reason)
    ticket = line.ask(layout.ask_socket, {"command": "ticket", "ticket": ticket_id})
    with _noting(layout, ticket):
        proof.require_no_person(verdict, actor)
    facts = _facts(ticket, "refused" if verdict == tickets.REFUSE else verdict, actor, seconds, reason)
    try:
        service.ask(layout.admin_socket, {"command": "ask", "facts": facts})
    except GatewayError:
        # A refusal opens nothing: it counts even where the audit cannot be reached.
        if verdict != tickets.REFUSE:
            raise
    request = {"command": "decide", "ticket": ticket_id, "verdict": verdict, "seconds": seconds}
    answered: dict[str, Any] = line.ask(layout.ask_socket, {**request, "actor": actor, "reason": reason})
    return answered


def decide_signed(layout: Layout, ticket_id: str, answer: str, text: str, reason: str) -> dict[str, Any]:
    """Answer by what people signed, which `text` holds: judged by what holds connections, which alone puts it in force.

    What is refused is a line of the audit, too. Raises `GatewayError`.
    """
    reason = _checked(reason)
    ticket = line.ask(layout.ask_socket, {"command": "ticket", "ticket": ticket_id})
    request = {"ticket": ticket_id, "answer": answer, "proofs": _proofs(text)}
    with _noting(layout, ticket):
        judged = line.ask(layout.ask_socket, {**request, "command": "judge"})
    verdict, seconds = proof.ANSWERS[answer]
    facts = _facts(ticket, verdict, judged["actor"], seconds, reason) | {"signed": judged["signed"]}
    service.ask(layout.admin_socket, {"command": "ask", "facts": facts})
    answered: dict[str, Any] = line.ask(layout.ask_socket, {**request, "command": "decide", "reason": reason})
    return answered


def _checked(reason: str) -> str:
    reason = reason.strip()
    if len(reason) > REASON_LENGTH or _UNSEEN.search(reason):
        remedy = f"write one line of at most {REASON_LENGTH} characters"
        raise GatewayError("reason", reason[:40], "is too long, or no line", remedy)
    return reason


def _proofs(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise GatewayError("signature", None, "is no JSON", proof.AGAIN) from error


def _facts(ticket: dict[str, Any], result: str, actor: str, seconds: int | None, reason: str) -> dict[str, Any]:
    facts = {"desktop": ticket["desktop"], "target": f"{ticket['name']}:{ticket['port']}", "ticket": ticket["id"]}
    facts |= {"result": result, "by": actor}
    if seconds is not None:
        facts["seconds"] = seconds
    if reason:
        facts["reason"] = reason
    return facts


@contextlib.contextmanager
def _noting(layout: Layout, ticket: dict[str, Any]) -> Iterator[None]:
    """Have the audit tell of an answer that is rejected, which opens nothing: it is, whether the audit can or not."""
    try:
        yield
    except GatewayError as error:
        facts = _facts(ticket, "rejected", "nobody", None, f"{error.field} {error.reason}")
        with contextlib.suppress(GatewayError):
            service.ask(layout.admin_socket, {"command": "ask", "facts": facts})
        raise
