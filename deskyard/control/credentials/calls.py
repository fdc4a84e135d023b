"""POST /api/keys and /api/people, and the end of a person: signed by an admin's passkey; the worker writes them."""

import contextlib
from collections.abc import Awaitable, Callable, Iterator
from http import HTTPStatus
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Body, Depends
from pydantic import Field, StrictInt

from deskyard.control.api import rows
from deskyard.control.api.admission import Asked, Wanted
from deskyard.control.api.caller import Caller, Link, Row, caller, may
from deskyard.control.api.forms.base import Form, Label
from deskyard.control.api.forms.signing import Signed, SignedIntent
from deskyard.control.api.forms.work import Operation
from deskyard.control.api.problem import Problem, unknown
from deskyard.control.api.proof import proof_of
from deskyard.control.credentials import target
from deskyard.control.credentials.giver import KEY_AT_HOST, PERSON_AT_HOST, RULED, Giver
from deskyard.control.credentials.target import DAYS, MOST_DAYS, MOST_NAME, Invitation, NewKey, PasskeyRemoval, Removal
from deskyard.control.opening import seal
from deskyard.control.people import passkeys
from deskyard.control.people.scopes import ADMIN
from deskyard.errors import ConfigError

router = APIRouter(prefix="/api")
Name = Annotated[str, Field(min_length=1, max_length=MOST_NAME)]
Workspaces = Annotated[list[Label], Field(min_length=1, max_length=50)]
SealTo = Annotated[
    str,
    Field(
        pattern=seal.PATTERN,
        max_length=seal.LENGTH,
        description="A fresh public key (ECDH, P-256, raw, base64url) that the secret is sealed to, as a link is.",
    ),
]
LANE = "credentials"
Values = dict[str, Any]


async def person(who: Annotated[Caller, Depends(may(ADMIN))]) -> Caller:
    """An admin who is a person; raises a 403 for a key, which could make itself others."""
    if who.person is None:
        remedy = f"sign in as an admin, or use the host: {KEY_AT_HOST}, {PERSON_AT_HOST}"
        raise Problem(
            HTTPStatus.FORBIDDEN, "caller", who.actor, "is a key: only a person makes keys and persons", remedy
        )
    return who


Admin = Annotated[Caller, Depends(person)]


class WantedKey(Form):
    """An API key that an admin signs for."""

    name: Name
    scopes: list[Annotated[str, Field(max_length=40)]] = Field(
        min_length=1,
        max_length=20,
        description="What it may, of `gives.scopes` of GET /api/me; `admin` is given at the host alone.",
    )
    workspaces: Workspaces | None = Field(None, description="The only ones that it sees; none: all.")
    days: Annotated[StrictInt, Field(ge=1, le=MOST_DAYS, description="Up to `gives.days` of GET /api/me.")] = DAYS
    seal_to: SealTo
    intent: SignedIntent | None = None


class WantedPerson(Form):
    """A person whom an admin invites."""

    name: Name
    role: Literal["viewer", "operator", "admin"] = Field(
        "viewer", description="What they may, of `gives.roles` of GET /api/me; `admin` is given at the host alone."
    )
    workspaces: Workspaces | None = Field(None, description="The only ones that they see; none: all.")
    seal_to: SealTo
    intent: SignedIntent | None = None


class WantedLink(Form):
    """Another link for a person who is there."""

    seal_to: SealTo
    intent: SignedIntent | None = None


@router.post("/keys", status_code=HTTPStatus.ACCEPTED, tags=["keys"])
async def make_key(asked: Asked, who: Admin, wanted: WantedKey) -> Operation:
    """Make an API key; the operation's result holds it for its asker, sealed as a desktop's link, for a minute.

    A person signs `key.create` over `"NAME" scopes=A,B workspaces=A,B days=N for key FINGERPRINT`, both lists in order,
    or `all workspaces`; the name as JSON has it. The box holds `key`.
    """
    values = wanted.model_dump(exclude={"intent"})

    async def make() -> Wanted:
        key = target.parsed(target.KEY, values)
        assert isinstance(key, NewKey)
        key.require()
        with _forbidden():
            key.require_of(await _giver(asked.link, who))
        await _require_workspaces(asked.link, wanted.workspaces)
        with _conflict():
            target.require_free(key.name, await rows.row(asked.link, target.KEY_THERE, [key.name]))
        proof = await proof_of(asked.link, who, target.KEY, key.target, wanted.intent)
        return Wanted(target.KEY, input=values, proof=proof, lane=LANE)

    return await asked.admitted(who, make)


@router.post("/people", status_code=HTTPStatus.ACCEPTED, tags=["people"])
async def invite(asked: Asked, who: Admin, wanted: WantedPerson) -> Operation:
    """Invite a person; the operation's result holds a link for its asker, sealed as a desktop's, for a minute.

    The link enrols a passkey, once, within half an hour. A person signs `person.invite` over
    `"NAME" role=ROLE workspaces=A,B for key FINGERPRINT`, the list in order, or `all workspaces`; the name as JSON has
    it. The box holds `link` and `seconds`.
    """

    async def values() -> Values:
        return wanted.model_dump(exclude={"intent"})

    return await _invited(asked, who, values, wanted.intent)


@router.post("/people/{id}/link", status_code=HTTPStatus.ACCEPTED, tags=["people"])
async def link_again(asked: Asked, who: Admin, id: str, wanted: WantedLink) -> Operation:
    """Make another link for a person who is there, and no admin: it enrols a passkey beside theirs.

    A person signs `person.invite` over `"NAME" another link for key FINGERPRINT`.
    """

    async def values() -> Values:
        found = await _person(asked.link, id)
        return {"name": found["name"], "role": None, "workspaces": None, "seal_to": wanted.seal_to}

    return await _invited(asked, who, values, wanted.intent)


@router.delete("/people/{id}", status_code=HTTPStatus.ACCEPTED, tags=["people"])
async def remove(asked: Asked, who: Admin, id: str, leave: Annotated[Signed | None, Body()] = None) -> Operation:
    """End all passkeys, sessions and links of a person, who is no admin: `person.remove` is signed over `"NAME"`."""

    async def make() -> Wanted:
        found = await _person(asked.link, id)
        removal = Removal(found["name"])
        with _conflict():
            removal.require_person(found, who.actor)
        proof = await proof_of(asked.link, who, target.REMOVE, removal.target, leave.intent if leave else None)
        return Wanted(target.REMOVE, input={"name": removal.name}, proof=proof, lane=LANE)

    return await asked.admitted(who, make)


@router.delete("/me/passkeys/{id}", status_code=HTTPStatus.ACCEPTED, tags=["people"])
async def remove_passkey(
    asked: Asked,
    who: Annotated[Caller, Depends(caller)],
    id: str,
    leave: Annotated[Signed | None, Body()] = None,
) -> Operation:
    """End a passkey of one's own with the sessions that it began: `passkey.remove` is signed over `"NAME" ID`.

    NAME is the passkey's, as JSON has it. The last one stays unless an account of the provider lets its person in; that
    of an admin ends at the host alone.
    """
    if who.person is None:
        remedy = "sign in, or use the host: ./inv control.person NAME --passkey ID --remove"
        raise Problem(HTTPStatus.FORBIDDEN, "caller", who.actor, "is a key, and has no passkeys", remedy)
    person = who.person["name"]

    async def make() -> Wanted:
        found = await rows.row(asked.link, target.PASSKEY_THERE, [passkeys.bytes_of(id), person])
        if found is None:
            raise unknown("passkey", id, "see GET /api/me")
        removal = PasskeyRemoval(id, found["name"])
        with _conflict():
            removal.require(found, found["others"], found["has_account"])
        proof = await proof_of(asked.link, who, target.PASSKEY, removal.target, leave.intent if leave else None)
        return Wanted(target.PASSKEY, input={"id": id, "name": removal.name}, proof=proof, lane=LANE)

    return await asked.admitted(who, make)


async def _invited(
    asked: Asked, who: Caller, find: Callable[[], Awaitable[Values]], intent: SignedIntent | None
) -> Operation:
    async def make() -> Wanted:
        values = await find()
        invitation = target.parsed(target.INVITE, values)
        assert isinstance(invitation, Invitation)
        invitation.require()
        await _require_workspaces(asked.link, invitation.workspaces)
        there = await rows.row(asked.link, target.PERSON_THERE, [invitation.name])
        with _conflict():
            invitation.require_person(there)
        with _forbidden():
            invitation.require_of(await _giver(asked.link, who), there)
        proof = await proof_of(asked.link, who, target.INVITE, invitation.target, intent)
        return Wanted(target.INVITE, input=values, proof=proof, lane=LANE)

    return await asked.admitted(who, make)


@contextlib.contextmanager
def _refused(status: HTTPStatus) -> Iterator[None]:
    try:
        yield
    except ConfigError as error:
        raise Problem(status, error.field, error.value, error.reason, error.remedy) from error


def _conflict() -> contextlib.AbstractContextManager[None]:
    """Let what is refused for how things are now be a 409."""
    return _refused(HTTPStatus.CONFLICT)


def _forbidden() -> contextlib.AbstractContextManager[None]:
    """Let what this admin does not give be a 403."""
    return _refused(HTTPStatus.FORBIDDEN)


async def _giver(link: Link, who: Caller) -> Giver:
    assert who.person is not None
    return Giver.of(who.person, await rows.row(link, RULED, []))


async def _person(link: Link, id: str) -> Row:
    """The row of a person who is there; raises a 404 for nobody."""
    query = "select id, name, role, disabled_at from person where id = %s and disabled_at is null"
    found = await rows.row(link, query, [id])
    if found is None:
        raise unknown("person", id, "see GET /api/people")
    return found


async def _require_workspaces(link: Link, wanted: list[str] | tuple[str, ...] | None) -> None:
    there = await rows.rows(link, target.WORKSPACES_THERE, [None if wanted is None else [*wanted]])
    target.require_workspaces(wanted, [row["id"] for row in there])
