"""The stand-in's keys and persons, as an admin gives and ends them by the web."""

from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import Response

from deskyard.control.credentials import target
from deskyard.control.opening import seal
from tests.web.calls import PHONE, accepted, page, problem
from tests.web.estate import Estate, Thing, ago
from tests.web.passkeys import Refused

if TYPE_CHECKING:
    from tests.web.stand_in import StandIn

KEY_TEXT = "dyk_0123456789ab_a-secret-that-is-shown-this-once"
LINK = "https://mission.deskyard.localhost/enrol#a-token-that-is-shown-this-once"


def person(name: str, role: str, **known: Any) -> Thing:
    """A person whom the host made."""
    fresh: Thing = {"id": name.lower(), "name": name, "role": role, "workspaces": None, "byRule": False, "rule": None}
    fresh |= {
        "grantedAt": ago(days=20),
        "passkeys": 0,
        "giver": None,
        "gives": "viewer",
        "account": None,
        "invitedUntil": None,
    }
    return {**fresh, "createdAt": ago(days=20), **known}


async def keys(request: Request, stand_in: "StandIn", _body: Any) -> Response:
    estate = stand_in.estate
    if estate.role != "admin":
        return problem(403, "scope", "admin", "person:Ada may not see keys", "ask an admin for a role or key that may")
    key: Thing = {"id": "key-1", "name": "ci", "scopes": ["desktops:read", "desktops:write"], "workspaces": ["team-01"]}
    key |= {"createdAt": ago(days=20), "expiresAt": ago(days=-70), "lastUsedAt": ago(hours=1)}
    there = [key | {"revokedAt": estate.revoked_at}] if estate.has_key else []
    return page(request, [*estate.made_keys, *there])


def _everybody(estate: Estate) -> list[Thing]:
    ada = person("Ada", estate.role, passkeys=1)
    rule = {"byRule": True, "rule": "group:platform=operator@team-01", "grantedAt": ago(hours=2)}
    bea = person("bea@example.org", "operator", workspaces=["team-01"], account="linked", **rule)
    cas = person("Cas", "viewer", workspaces=["team-01", "team-02"], invitedUntil=ago(minutes=-20))
    dee = person("Dee", "operator", account="offered", grantedAt=None)
    return [ada, *(each for each in (bea, cas, dee, *estate.invited) if each["id"] not in estate.removed)]


def _name(request: Request, stand_in: "StandIn") -> str:
    """The name of the person whom a request is of."""
    id = request.path_params["id"]
    return str(next(each["name"] for each in _everybody(stand_in.estate) if each["id"] == id))


async def people(request: Request, stand_in: "StandIn", _body: Any) -> Response:
    everybody = _everybody(stand_in.estate)
    return page(request, everybody if stand_in.estate.role == "admin" else everybody[:1])


async def make_key(request: Request, stand_in: "StandIn", body: Any) -> Response:
    if body["name"] == "taken":
        return problem(409, "name", "taken", "is the name of a key that still counts", "choose another")
    answer = _given(request, stand_in, target.KEY, body, {"key": KEY_TEXT})
    made = {name: body[name] for name in ("name", "scopes", "workspaces")}
    made |= {"id": "key-made", "createdAt": ago(), "expiresAt": ago(days=-body["days"]), "lastUsedAt": None}
    stand_in.estate.made_keys.append(made | {"revokedAt": None})
    return answer


async def invite(request: Request, stand_in: "StandIn", body: Any) -> Response:
    answer = _given(request, stand_in, target.INVITE, body, {"link": LINK, "seconds": 1800})
    given = {"workspaces": body["workspaces"], "giver": "person:Ada", "invitedUntil": ago(minutes=-30)}
    stand_in.estate.invited.append(person(body["name"], body["role"], **given))
    return answer


async def link_again(request: Request, stand_in: "StandIn", body: Any) -> Response:
    named = {"name": _name(request, stand_in)}
    return _given(request, stand_in, target.INVITE, body | named, {"link": LINK, "seconds": 1800})


async def remove(request: Request, stand_in: "StandIn", body: Any) -> Response:
    id = request.path_params["id"]
    try:
        stand_in.passkeys.answered(request, body["intent"]["credential"], "webauthn.get")
    except Refused as refused:
        return problem(403, "intent", "", str(refused), "Sign it again")
    wanted = target.parsed(target.REMOVE, {"name": _name(request, stand_in)}).target
    assert body["intent"]["intent"]["target"] == wanted
    stand_in.estate.removed.add(id)
    return accepted(stand_in.estate.operation(target.REMOVE, None, state="done", result={"removed": id}))


async def remove_passkey(request: Request, stand_in: "StandIn", body: Any) -> Response:
    id = request.path_params["id"]
    try:
        stand_in.passkeys.answered(request, body["intent"]["credential"], "webauthn.get")
    except Refused as refused:
        return problem(403, "intent", "", str(refused), "Sign it again")
    assert body["intent"]["intent"]["target"] == target.parsed(target.PASSKEY, {**PHONE, "id": id}).target
    stand_in.estate.removed.add(id)
    return accepted(stand_in.estate.operation(target.PASSKEY, None, state="done", result={"removed": id}))


def _given(request: Request, stand_in: "StandIn", kind: str, body: Any, secret: Thing) -> Response:
    """What the worker answers to what was signed: its own code makes the line, and seals."""
    try:
        stand_in.passkeys.answered(request, body["intent"]["credential"], "webauthn.get")
    except Refused as refused:
        return problem(403, "intent", "", str(refused), "Sign it again")
    wanted = target.parsed(kind, {**body, "seal_to": body["sealTo"]}).target
    assert body["intent"]["intent"]["target"] == wanted
    sealed = seal.sealed(secret, stand_in.estate.sealed_to or body["sealTo"], wanted)
    return accepted(stand_in.estate.operation(kind, None, state="done", result={"sealed": sealed}))


ROUTES = (
    ("GET", "/api/keys", keys),
    ("POST", "/api/keys", make_key),
    ("GET", "/api/people", people),
    ("POST", "/api/people", invite),
    ("POST", "/api/people/{id}/link", link_again),
    ("DELETE", "/api/people/{id}", remove),
    ("DELETE", "/api/me/passkeys/{id}", remove_passkey),
)
