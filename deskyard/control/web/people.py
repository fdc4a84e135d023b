"""/api/me, sign-in, enrolment, intents: persons, their passkeys, and what they sign."""

import secrets
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request, Response
from pydantic import Field

from deskyard.control.answers.kept import Answered
from deskyard.control.api import rows
from deskyard.control.api.admission import Once, Wanted, admit, ended, in_the_name_of
from deskyard.control.api.caller import COOKIE, Caller, Connection, Link, Row, caller, own_page
from deskyard.control.api.forms.base import Form
from deskyard.control.api.forms.signing import IntentToSign, WantedIntent
from deskyard.control.api.problem import Problem
from deskyard.control.api.proof import fresh
from deskyard.control.api.session import signed_in
from deskyard.control.credentials.giver import RULED, Giver
from deskyard.control.machines.others import require_others
from deskyard.control.people import enrolment, passkeys
from deskyard.control.people.intent import DESTROY, SIGNED
from deskyard.control.people.passkeys import Passkeys
from deskyard.control.people.scopes import ADMIN

router = APIRouter(prefix="/api", tags=["people"])
CHALLENGE_SECONDS = 180
ENROL_SECONDS = 30


class Token(Form):
    """The token of a one-use link."""

    token: str = Field(min_length=20, max_length=200)


class Enrolment(Token):
    """A new passkey, for whoever the link was made for."""

    credential: dict[str, Any]
    name: str = Field("passkey", min_length=1, max_length=80)


class SignIn(Form):
    """A passkey's answer."""

    credential: dict[str, Any]


class Options(Form):
    """The WebAuthn options with which the browser is to ask a passkey."""

    public_key: dict[str, Any]
    person: dict[str, str] | None = None


@router.get("/me")
async def me(link: Connection, who: Annotated[Caller, Depends(caller)]) -> dict[str, Any]:
    """Say who asks, and what that may do."""
    person, key = who.person, who.key
    found = []
    if person is not None:
        query = "select id, name, created_at from passkey where person_id = %s order by created_at"
        found = await rows.rows(link, query, [person["id"]])
    return {
        "person": {name: person[name] for name in ("id", "name", "role")} if person else None,
        "key": {"id": key["id"], "name": key["name"]} if key else None,
        "scopes": sorted(who.scopes),
        "gives": await _given_by(link, who),
        "passkeys": [
            {"id": passkeys.written(bytes(record["id"])), "name": record["name"], "createdAt": record["created_at"]}
            for record in found
        ],
    }


async def _given_by(link: Link, who: Caller) -> dict[str, Any] | None:
    """The roles, scopes and days that an admin gives by the web as things are now; None for who gives nothing."""
    if who.person is None or ADMIN not in who.scopes:
        return None
    return Giver.of(who.person, await rows.row(link, RULED, [])).shown()


@router.post("/enrol/options")
async def enrol_options(request: Request, link: Connection, asked: Token) -> Options:
    """Ask what a new passkey is to be made of; the link's token says for whom."""
    own_page(request)
    person = await _enrolling(link, asked.token)
    query = "select id from passkey where person_id = %s"
    known = [bytes(record["id"]) for record in await rows.rows(link, query, [person["id"]])]
    challenge = await _challenge(link, f"enrol:{person['id']}")
    options = _passkeys(request).creation(person["id"], person["name"], challenge, known)
    return Options(public_key=options, person={"name": person["name"]})


@router.post("/enrol")
async def enrol(request: Request, response: Response, link: Connection, once: Once, asked: Enrolment) -> dict[str, Any]:
    """Keep a new passkey: the worker checks it, since nobody else may write one; then its person is signed in."""
    own_page(request)
    person = await _enrolling(link, asked.token)
    challenge = await _taken(link, asked.credential, f"enrol:{person['id']}")
    # What is no passkey at all is refused here already, with its reason.
    _passkeys(request).registered(asked.credential, challenge)
    kept = {
        "link": enrolment.shown(asked.token).hex(),
        "credential": asked.credential,
        "challenge": challenge.hex(),
        "name": asked.name,
    }
    who = Caller(f"enrolment:{person['name']}", frozenset(), person=person)
    wanted = Wanted("person.enrol", input=kept, lane=f"enrol:{person['id']}")
    operation = await admit(link, who, once, wanted)
    link = await ended(request, operation, ENROL_SECONDS)
    found = await rows.row(link, "select state, problem from operation where id = %s", [operation])
    if found is None or found["state"] != "done":
        problem = (found or {}).get("problem") or {}
        reason = problem.get("reason", "was not written down in time: does a worker run?")
        raise Problem(HTTPStatus.SERVICE_UNAVAILABLE, "passkey", None, reason, "see ./inv control.status, try again")
    return await signed_in(request, response, link, person, passkey=passkeys.credential_id(asked.credential))


@router.post("/sign-in/options")
async def sign_in_options(request: Request, link: Connection) -> Options:
    """Ask what a passkey is to sign."""
    own_page(request)
    return Options(public_key=_passkeys(request).request(await _challenge(link, "sign-in")))


@router.post("/sign-in")
async def sign_in(request: Request, response: Response, link: Connection, asked: SignIn) -> dict[str, Any]:
    """Begin a session with a passkey."""
    own_page(request)
    challenge = await _taken(link, asked.credential, "sign-in")
    query = """select person.*, passkey.public_key from passkey join person on person.id = person_id
        where passkey.id = %s and disabled_at is null"""
    person = await rows.row(link, query, [passkeys.credential_id(asked.credential)])
    if person is None:
        remedy = "choose another, or ask an admin for a link, or ./inv control.person"
        raise Problem(HTTPStatus.UNAUTHORIZED, "passkey", None, "is of nobody here", remedy)
    _passkeys(request).verify(asked.credential, challenge, bytes(person["public_key"]))
    return await signed_in(request, response, link, person, passkey=passkeys.credential_id(asked.credential))


@router.post("/sign-out", status_code=HTTPStatus.NO_CONTENT)
async def sign_out(response: Response, link: Connection, who: Annotated[Caller, Depends(caller)]) -> None:
    """End this session."""
    if who.session is not None:
        await in_the_name_of(link, who)
        await link.execute("update session set ended_at = now() where id = %s", [who.session])
    response.delete_cookie(COOKIE, path="/", secure=True, httponly=True, samesite="strict")


async def _enrolling(link: Link, token: str) -> Row:
    query = """select person.* from enrolment join person on person.id = person_id
        where token_hash = %s and used_at is null and expires_at > now() and disabled_at is null"""
    person = await rows.row(link, query, [enrolment.kept(enrolment.shown(token))])
    if person is None:
        remedy = "ask an admin for a new one, or ./inv control.person NAME"
        raise Problem(
            HTTPStatus.UNAUTHORIZED, "token", None, "is of no link, or of one that was used or is old", remedy
        )
    return person


async def _challenge(link: Link, purpose: str) -> bytes:
    value = secrets.token_bytes(32)
    await link.execute(
        "insert into challenge (value, purpose, expires_at) values (%s, %s, now() + make_interval(secs => %s))",
        [value, purpose, CHALLENGE_SECONDS],
    )
    return value


async def _taken(link: Link, credential: Any, purpose: str) -> bytes:
    """The challenge that an answer is to; it counts once."""
    challenge = passkeys.challenge_of(credential)
    query = "delete from challenge where value = %s and purpose = %s and expires_at > now() returning value"
    if await rows.row(link, query, [challenge, purpose]) is None:
        raise Problem(HTTPStatus.UNAUTHORIZED, "passkey", None, "answers no question that is open", "try again")
    return challenge


def _passkeys(request: Request) -> Passkeys:
    found = request.app.state.passkeys
    assert isinstance(found, Passkeys)
    return found


@router.post("/intents")
async def intents(
    request: Request, answered: Answered, who: Annotated[Caller, Depends(caller)], wanted: WantedIntent
) -> IntentToSign:
    """Ask for an intent to sign; nothing is done by it."""
    return await answered.given(who, IntentToSign, lambda: _to_sign(request, answered.link, who, wanted))


async def _to_sign(request: Request, link: Link, who: Caller, wanted: WantedIntent) -> IntentToSign:
    if wanted.kind not in SIGNED:
        raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, "kind", wanted.kind, "needs no signature", "just ask for it")
    if who.person is None:
        raise Problem(HTTPStatus.FORBIDDEN, "caller", who.actor, "is no person", "a key with its scope needs no intent")
    if wanted.kind == DESTROY and who.sees(wanted.target.partition(".")[0]):
        # Nobody is to sign what is refused then.
        await require_others(link, wanted.target)
    intent = await fresh(link, wanted.kind, wanted.target)
    query = "select id from passkey where person_id = %s"
    allowed = [bytes(record["id"]) for record in await rows.rows(link, query, [who.person["id"]])]
    options = request.app.state.passkeys.request(intent.challenge, allowed)
    return IntentToSign(intent=intent.as_dict(), text=intent.text, public_key=options)
