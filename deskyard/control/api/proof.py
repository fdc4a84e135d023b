"""The proof that a caller wants an operation: the intent that a person signed, or that a key proves by itself."""

import secrets
from http import HTTPStatus
from typing import Any

from deskyard.control.api import rows
from deskyard.control.api.caller import Caller, Link
from deskyard.control.api.forms.signing import SignedIntent
from deskyard.control.api.problem import Problem
from deskyard.control.people.intent import LIFE_SECONDS, Intent


async def fresh(link: Link, kind: str, target: str) -> Intent:
    """An intent that nobody signed yet."""
    return Intent(kind, target, secrets.token_hex(16), int(await _now(link)) + LIFE_SECONDS - 5)


async def _now(link: Link) -> float:
    """The time of the database, by which the worker holds an intent against that of its operation.

    The clock of this machine may differ from that of a database elsewhere.
    """
    found = await rows.row(link, "select extract(epoch from clock_timestamp())::float8 as now", [])
    assert found is not None
    return float(found["now"])


async def proof_of(link: Link, who: Caller, kind: str, target: str, signed: SignedIntent | None) -> dict[str, Any]:
    """The proof of the caller's intent, which the worker will check; raises a 403 if there is none."""
    if who.presented is not None and who.key is not None:
        intent = await fresh(link, kind, target)
        return {"intent": intent.as_dict(), "key": who.key["id"], "proof": who.presented.proof(intent.canonical)}
    if signed is None:
        reason = "has to be signed with a passkey"
        remedy = "ask POST /api/intents, sign it, and send it as `intent`; or use a key with the scope for it"
        raise Problem(HTTPStatus.FORBIDDEN, "intent", kind, reason, remedy)
    Intent.parsed(signed.intent).require(kind, target, await _now(link))
    return {"intent": signed.intent, "credential": signed.credential}
