"""Intents: what a person reads and signs, and what a key proves, before anything is destroyed."""

import secrets
import time
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request

from deskyard.control.api import rows
from deskyard.control.api.caller import Caller, Connection, Link, caller
from deskyard.control.api.forms import IntentToSign, SignedIntent, WantedIntent
from deskyard.control.api.problem import Problem
from deskyard.control.people.intent import LIFE_SECONDS, SIGNED, Intent

router = APIRouter(prefix="/api", tags=["people"])


@router.post("/intents")
async def intents(
    request: Request, link: Connection, who: Annotated[Caller, Depends(caller)], wanted: WantedIntent
) -> IntentToSign:
    """Ask for an intent to sign; nothing is done by it."""
    if wanted.kind not in SIGNED:
        raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, "kind", wanted.kind, "needs no signature", "just ask for it")
    if who.person is None:
        raise Problem(HTTPStatus.FORBIDDEN, "caller", who.actor, "is no person", "a key with its scope needs no intent")
    intent = fresh(wanted.kind, wanted.target)
    query = "select id from passkey where person_id = %s"
    allowed = [bytes(one["id"]) for one in await rows.rows(link, query, [who.person["id"]])]
    options = request.app.state.passkeys.request(intent.challenge, allowed)
    return IntentToSign(intent=intent.as_dict(), text=intent.text, public_key=options)


def fresh(kind: str, target: str) -> Intent:
    """An intent that nobody signed yet."""
    return Intent(kind, target, secrets.token_hex(16), int(time.time()) + LIFE_SECONDS - 5)


async def proof_of(link: Link, who: Caller, kind: str, target: str, signed: SignedIntent | None) -> dict[str, Any]:
    """What the worker will check; raises a 403 if there is nothing to check."""
    if who.presented is not None and who.key is not None:
        intent = fresh(kind, target)
        return {"intent": intent.as_dict(), "key": who.key["id"], "proof": who.presented.proof(intent.canonical)}
    if signed is None:
        reason = "has to be signed with a passkey"
        remedy = "ask POST /api/intents, sign it, and send it as `intent`; or use a key with the scope desktops:destroy"
        raise Problem(HTTPStatus.FORBIDDEN, "intent", kind, reason, remedy)
    Intent.parsed(signed.intent).require(kind, target)
    return {"intent": signed.intent, "credential": signed.credential}
