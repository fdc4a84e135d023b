"""The calls of the stand-in's API, one function each."""

import hashlib
import json
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from deskyard.control.credentials.giver import Giver
from deskyard.control.machines.target import upgrade_target
from deskyard.control.opening import seal
from deskyard.control.opening.target import session_target
from deskyard.control.people.scopes import ROLES
from tests.web.estate import Thing, ago, desktop
from tests.web.passkeys import Refused

if TYPE_CHECKING:
    from tests.web.stand_in import StandIn

OVER = ("done", "failed", "cancelled")
PASSKEY = {"id": "passkey-1", "name": "Laptop", "createdAt": ago(days=3)}
PHONE = {"id": "passkey-2", "name": "Phone", "createdAt": ago(days=2)}


def problem(status: int, field: str, value: str, reason: str, remedy: str) -> Response:
    """A refusal, as RFC 9457 and Deskyard have it."""
    content = {"type": "about:blank", "title": reason, "status": status, "detail": reason, "field": field}
    content |= {"value": value, "reason": reason, "remedy": remedy, "requestId": "r-1"}
    return JSONResponse(content, status, media_type="application/problem+json")


def page(request: Request, items: list[Thing]) -> Response:
    """A part of a list, after the cursor."""
    limit, start = int(request.query_params.get("limit", 100)), int(request.query_params.get("after", 0))
    end = start + limit
    return JSONResponse(
        {"items": items[start:end], "nextCursor": str(end) if end < len(items) else None, "total": len(items)}
    )


def accepted(operation: Thing) -> Response:
    """The answer to what takes long."""
    return JSONResponse(operation, 202, headers={"Location": f"/api/operations/{operation['id']}"})


def like(asked: Any, items: Any, **columns: str) -> list[Thing]:
    """The items whose columns have the values that were asked for."""
    return [
        item
        for item in list(items)
        if all(not asked.get(name) or item[column] == asked.get(name) for name, column in columns.items())
        and ("name" not in item or (asked.get("q") or "").lower() in item["id"])
    ]


async def me(_request: Request, stand_in: "StandIn", _body: Any) -> Response:
    role = stand_in.estate.role
    scopes = sorted(ROLES[role])
    person = {"id": "ada", "name": "Ada", "role": role}
    # As the web process says it of an admin.
    giver = Giver("Ada", stand_in.estate.gives, stand_in.estate.ruled)
    gives = giver.shown() if role == "admin" else None
    there = [each for each in (PASSKEY, PHONE) if each["id"] not in stand_in.estate.removed]
    answer = {"person": person, "key": None, "scopes": scopes, "gives": gives, "passkeys": there, "csrf": None}
    return JSONResponse(answer)


async def enrol_options(request: Request, stand_in: "StandIn", body: Any) -> Response:
    if body["token"] != "once":
        return problem(
            403, "token", "", "the link was used, or is too old", "Ask for another: `./inv control.person NAME`"
        )
    return JSONResponse({"publicKey": stand_in.passkeys.creation(request), "person": {"name": "Ada"}})


async def enrol(request: Request, stand_in: "StandIn", body: Any) -> Response:
    return _let_in(request, stand_in, body, "webauthn.create")


async def sign_in_options(request: Request, stand_in: "StandIn", _body: Any) -> Response:
    return JSONResponse({"publicKey": stand_in.passkeys.request(request)})


async def sign_in(request: Request, stand_in: "StandIn", body: Any) -> Response:
    return _let_in(request, stand_in, body, "webauthn.get")


def _let_in(request: Request, stand_in: "StandIn", body: Any, kind: str) -> Response:
    try:
        stand_in.passkeys.answered(request, body["credential"], kind)
    except Refused as refused:
        return problem(403, "credential", "", str(refused), "Try again")
    return _with_session(stand_in, JSONResponse({"person": {"name": "Ada"}}))


def _with_session(stand_in: "StandIn", response: Response) -> Response:
    stand_in.sessions.add("secret")
    response.set_cookie("__Host-mission", "secret", secure=True, httponly=True, samesite="strict")
    return response


async def ways(_request: Request, stand_in: "StandIn", _body: Any) -> Response:
    return JSONResponse({"provider": stand_in.estate.provider})


async def provider(_request: Request, stand_in: "StandIn", _body: Any) -> Response:
    """A provider that knows everybody, and sends the browser back at once."""
    return JSONResponse(
        {"url": f"{stand_in.url}/sign-in/answer?state=open&code=once&iss=https%3A%2F%2Flogin.example.org"}
    )


async def provider_answer(_request: Request, stand_in: "StandIn", body: Any) -> Response:
    if body["state"] != "open":
        reason = "was not begun in this browser, was answered before, or took too long"
        return problem(401, "sign-in", "", reason, "Begin again at the page of signing in")
    response = JSONResponse({"person": {"name": "ada", "role": "operator"}, "passkeys": stand_in.estate.passkeys})
    return _with_session(stand_in, response)


async def sign_out(_request: Request, stand_in: "StandIn", _body: Any) -> Response:
    stand_in.sessions.clear()
    return Response(status_code=204)


async def desktops(request: Request, stand_in: "StandIn", _body: Any) -> Response:
    found = like(
        request.query_params, stand_in.estate.desktops.values(), workspace="workspaceId", state="state", tier="tier"
    )
    return page(request, found)


async def desktop_of(request: Request, stand_in: "StandIn", _body: Any) -> Response:
    found = stand_in.estate.desktops.get(request.path_params["id"])
    return (
        JSONResponse(found)
        if found
        else problem(404, "id", request.path_params["id"], "no such desktop", "Look at the list")
    )


async def timeline(request: Request, stand_in: "StandIn", _body: Any) -> Response:
    estate, id = stand_in.estate, request.path_params["id"]
    found = [
        *estate.moments.get(id, []),
        *(
            {"kind": "operation", "at": item["createdAt"], "what": item["kind"], "subject": item["id"]}
            | {"detail": (item["problem"] or {}).get("reason", ""), "actor": item["actor"], "state": item["state"]}
            | {"id": f"operation:{item['id']}", "times": 1}
            for item in estate.operations.values()
            if item["desktopId"] == id and item["kind"] != "desktop.chat"
        ),
    ]
    kinds, before = request.query_params.getlist("kind"), request.query_params.get("before", "~")
    chosen = [item for item in found if item["kind"] in (kinds or [item["kind"]]) and item["at"] < before]
    answer = json.loads(bytes(page(request, sorted(chosen, key=itemgetter("at"), reverse=True)).body))
    return JSONResponse({**answer, "readAt": estate.moments_read_at})


async def create(_request: Request, stand_in: "StandIn", body: Any) -> Response:
    estate = stand_in.estate
    if body["name"] == "taken":
        return problem(409, "name", "taken", "the workspace has a desktop of that name", "Choose another name")
    made = desktop(body["workspaceId"], body["name"], tier=body["tier"], state="declared", address="")
    estate.desktops[made["id"]] = made
    operation = estate.operation("desktop.create", made["workspaceId"], made["id"], position=2, why="team-01 is busy")
    return accepted(operation)


async def act(request: Request, stand_in: "StandIn", body: Any) -> Response:
    found = stand_in.estate.desktops[request.path_params["id"]]
    action = request.path_params["action"]
    if action == "session":
        try:
            stand_in.passkeys.answered(request, body["intent"]["credential"], "webauthn.get")
        except Refused as refused:
            return problem(403, "intent", "", str(refused), "Sign it again")
        secret = {"link": "https://team-01.deskyard.localhost:9444/#ticket", "expiresAt": ago(seconds=-60)}
        target = session_target(found["id"], {"mode": body["mode"], "seal_to": body["sealTo"]})
        assert body["intent"]["intent"]["target"] == target
        result = {"sealed": seal.sealed(secret, stand_in.estate.sealed_to or body["sealTo"], target)}
        return accepted(
            stand_in.estate.operation(
                "desktop.session", found["workspaceId"], found["id"], state=stand_in.estate.opens, result=result
            )
        )
    if action == "chat":
        return _chat(stand_in, found, body)
    return accepted(stand_in.estate.operation(f"desktop.{action}", found["workspaceId"], found["id"]))


def _chat(stand_in: "StandIn", found: Thing, body: Any) -> Response:
    estate = stand_in.estate
    conversation = body.get("conversationId") or f"talk-{next(estate.numbers)}"
    known = estate.conversations.setdefault(
        conversation,
        {
            "id": conversation,
            "desktopId": found["id"],
            "title": body["message"][:60],
            "createdAt": ago(),
            "lastAt": ago(),
            "messages": 0,
        },
    )
    known["messages"] += 1
    message = estate.message(conversation, "person", body["message"], state="queued")
    answer = {"conversationId": conversation, "messageId": message["id"], "operationId": f"op-{next(estate.numbers)}"}
    return JSONResponse(answer, 202)


async def intents(request: Request, stand_in: "StandIn", body: Any) -> Response:
    if body["kind"] == "desktop.destroy":
        found = stand_in.estate.desktops[body["target"]]
        workspaces = [each["workspaceId"] for each in stand_in.estate.desktops.values()]
        if workspaces.count(found["workspaceId"]) == 1:
            reason = "is the only desktop of its workspace, which has to have one"
            return problem(409, "desktop", found["id"], reason, "create another first")
    intent = {**body, "nonce": "n-1", "expiresAt": ago(seconds=-120), "person": "ada"}
    text = f"Destroy desktop {body['target']} and all its data"
    return JSONResponse({"intent": intent, "text": text, "publicKey": stand_in.passkeys.request(request)})


async def destroy(request: Request, stand_in: "StandIn", body: Any) -> Response:
    signed = (body or {}).get("intent")
    if not signed:
        return problem(403, "intent", "", "nobody signed it", "Sign it by your passkey")
    try:
        stand_in.passkeys.answered(request, signed["credential"], "webauthn.get")
    except Refused as refused:
        return problem(403, "intent", "", str(refused), "Sign it again")
    found = stand_in.estate.desktops[request.path_params["id"]]
    return accepted(stand_in.estate.operation("desktop.destroy", found["workspaceId"], found["id"]))


async def release(request: Request, stand_in: "StandIn", body: Any) -> Response:
    try:
        stand_in.passkeys.answered(request, body["intent"]["credential"], "webauthn.get")
    except Refused as refused:
        return problem(403, "intent", "", str(refused), "Sign it again")
    workspace, seat = request.path_params["id"], request.path_params["seat"]
    found = stand_in.estate.desktops[f"{workspace}.{seat}"]
    assert request.query_params["machine"] == found["machine"]
    return accepted(stand_in.estate.operation("task.release", workspace, found["id"]))


async def decide_operation(request: Request, stand_in: "StandIn", body: Any) -> Response:
    try:
        stand_in.passkeys.answered(request, body["intent"]["credential"], "webauthn.get")
    except Refused as refused:
        return problem(403, "intent", "", str(refused), "Sign it again")
    found = stand_in.estate.operations[request.path_params["id"]]
    estate = stand_in.estate
    answer = estate.operation("operation.decide", found["workspaceId"], found["desktopId"], **estate.decides)
    if answer["state"] == "done":
        estate.advance(found["id"], state="queued" if body["answer"] == "allow" else "cancelled", consent=None)
    return accepted(answer)


async def approvals(request: Request, stand_in: "StandIn", _body: Any) -> Response:
    return page(request, like(request.query_params, reversed(stand_in.estate.approvals.values()), state="state"))


async def decide(request: Request, stand_in: "StandIn", body: Any) -> Response:
    try:
        stand_in.passkeys.answered(request, body["intent"]["credential"], "webauthn.get")
    except Refused as refused:
        return problem(403, "intent", "", str(refused), "Sign it again")
    found = stand_in.estate.approvals[request.path_params["id"]]
    return accepted(stand_in.estate.operation("approval.decide", found["workspaceId"], found["desktopId"]))


async def workspaces(request: Request, stand_in: "StandIn", _body: Any) -> Response:
    return page(request, list(stand_in.estate.workspaces.values()))


async def workspace_of(request: Request, stand_in: "StandIn", _body: Any) -> Response:
    found = stand_in.estate.workspaces.get(request.path_params["id"])
    return JSONResponse(found) if found else problem(404, "id", request.path_params["id"], "no such workspace", "Look")


async def act_on_workspace(request: Request, stand_in: "StandIn", _body: Any) -> Response:
    name = request.path_params["id"]
    return accepted(stand_in.estate.operation(f"workspace.{request.path_params['action']}", name))


async def operations(request: Request, stand_in: "StandIn", _body: Any) -> Response:
    columns = {"state": "state", "workspace": "workspaceId", "desktop": "desktopId", "kind": "kind"}
    return page(request, like(request.query_params, reversed(stand_in.estate.operations.values()), **columns))


async def operation_of(request: Request, stand_in: "StandIn", _body: Any) -> Response:
    return JSONResponse(stand_in.estate.operations[request.path_params["id"]])


async def log(request: Request, stand_in: "StandIn", _body: Any) -> Response:
    after = int(request.query_params.get("after", 0))
    lines = stand_in.estate.logs[request.path_params["id"]]
    return JSONResponse({"items": [line for line in lines if line["number"] > after]})


async def cancel(request: Request, stand_in: "StandIn", body: Any) -> Response:
    id = request.path_params["id"]
    if stand_in.estate.is_stuck and not body.get("force"):
        # It does not stop by itself, and may be ended by force a moment later.
        stand_in.estate.advance(id, cancelRequestedAt=ago(), forceFrom=ago(seconds=-2))
    else:
        stand_in.estate.advance(id, state="cancelled", endedAt=ago(), forceFrom=None)
    return JSONResponse(stand_in.estate.operations[request.path_params["id"]])


async def retry(request: Request, stand_in: "StandIn", _body: Any) -> Response:
    old = stand_in.estate.operations[request.path_params["id"]]
    return accepted(stand_in.estate.operation(old["kind"], old["workspaceId"], old["desktopId"]))


async def conversations(request: Request, stand_in: "StandIn", _body: Any) -> Response:
    found = like(request.query_params, reversed(stand_in.estate.conversations.values()), desktop="desktopId")
    q = request.query_params.get("q", "").lower()
    texts = {item["id"]: item["title"].lower() for item in found}
    for message in stand_in.estate.messages.values():
        texts[message["conversationId"]] = texts.get(message["conversationId"], "") + message["text"].lower()
    return page(request, [item for item in found if q in texts[item["id"]]])


async def messages(request: Request, stand_in: "StandIn", _body: Any) -> Response:
    conversation = request.path_params["id"]
    return page(request, [item for item in stand_in.estate.messages.values() if item["conversationId"] == conversation])


async def interrupt(_request: Request, _stand_in: "StandIn", _body: Any) -> Response:
    return JSONResponse({}, 202)


async def fleet(_request: Request, stand_in: "StandIn", body: Any) -> Response:
    asked = body["selector"]
    ids = asked.get("ids")
    every = stand_in.estate.desktops.values()
    found = [item for item in every if ids is None or item["id"] in ids]
    found = like(asked, found, workspace="workspaceId", state="state", tier="tier")
    if not body["dryRun"] and len(found) != body["expectedCount"]:
        reason = f"is not what there is: {len(found)} desktops"
        return problem(409, "expectedCount", str(body["expectedCount"]), reason, "look again, then repeat it")
    names = [item["id"] for item in found]
    answer: Thing = {"count": len(found), "desktops": names, "operations": [] if body["dryRun"] else ["op-0"]}
    answer |= {"upgrades": [], "skipped": [], "toSign": None}
    if body["action"] == "upgrade":
        answer |= _upgrades(found)
        if not body["dryRun"] and body["intent"]["intent"]["target"] != answer["toSign"]:
            return problem(422, "intent", "", "is for others", "sign it anew")
    return JSONResponse(answer)


def _upgrades(found: list[Thing]) -> Thing:
    """The desktops of a selection for which there is another image, and the others with the reason."""
    chosen = [item for item in found if item["upgradeTo"]]
    left = [{"id": item["id"], "reason": f"runs {item['imageNow']} already"} for item in found if not item["upgradeTo"]]
    images = {item["id"]: item["upgradeTo"] for item in chosen}
    rows = [{name: item[name] for name in ("id", "imageNow", "upgradeTo")} for item in chosen]
    return {"desktops": [*images], "upgrades": rows, "skipped": left, "toSign": upgrade_target(images)}


async def preview(request: Request, stand_in: "StandIn", _body: Any) -> Response:
    found = stand_in.estate.desktops[request.path_params["id"]]
    return accepted(stand_in.estate.operation("upgrade.preview", found["workspaceId"], found["id"]))


async def audit(request: Request, _stand_in: "StandIn", _body: Any) -> Response:
    entries: list[Thing] = [
        {
            "number": number,
            "at": ago(minutes=240 - number),
            "actor": "person:Ada",
            "action": "desktop.start",
            "target": f"team-01.desk-{number}",
            "detail": {"operation": f"op-{number}"},
            "hash": hashlib.sha256(str(number).encode()).hexdigest(),
        }
        for number in range(240, 0, -1)
    ]
    return page(request, entries)


RULE: Thing = {"title": "A desktop is broken", "unit": "", "nextStep": "./inv desktop.health says what is wrong"}


def changed_since(request: Request, stand_in: "StandIn") -> Response | None:
    """The refusal of a PUT that does not name the version of now; one that does makes another."""
    changed_at = stand_in.estate.changed_at
    if request.method != "PUT":
        return None
    if request.headers.get("if-match") == f'"{changed_at}"':
        stand_in.estate.changed_at = ago()
        return None
    return problem(412, "If-Match", "", f"does not hold: it was changed at {changed_at}", "Read it again")


async def alert_rules(request: Request, stand_in: "StandIn", _body: Any) -> Response:
    if (refused := changed_since(request, stand_in)) is not None:
        return refused
    changed: Thing = {"changedAt": stand_in.estate.changed_at}
    slow = RULE | {"title": "A desktop does not become ready", "unit": "minutes"}
    return page(
        request,
        [
            RULE | changed | {"kind": "desktop.broken", "enabled": True, "number": 0},
            slow | changed | {"kind": "desktop.not-ready", "enabled": True, "number": 15},
        ],
    )


async def usage(_request: Request, stand_in: "StandIn", _body: Any) -> Response:
    item: Thing = {"workspaceId": "team-01", "desktopId": "team-01.desk-1", "tier": None, "day": None}
    item |= {"microseconds": 2 * 3_600_000_000, "micros": 500_000}
    found = {"since": "2026-11-01", "until": "2026-11-25", "items": [item]}
    claim: Thing = {"workspaceId": "team-01", "desktopId": "team-01.desk-1", "day": None, "turns": 3}
    claim |= {"input": 1200, "output": 340, "cached": 900}
    sums = {"microseconds": item["microseconds"], "micros": item["micros"]}
    estate = stand_in.estate
    counted = {"measured": estate.measured, "measuredLeftOut": estate.measured_left_out, "readings": estate.readings}
    return JSONResponse(found | sums | {"claimed": [claim]} | counted)


async def budgets(request: Request, _stand_in: "StandIn", _body: Any) -> Response:
    names = ["api.anthropic.com", "api.openai.com"]
    left = {"workspaceId": "team-01", "microsPerMonth": 10_000_000, "spent": 500_000, "closes": names[:1], "closed": []}
    left |= {"bytesPerMonth": 10 * 2**30, "bytesSpent": 2**31 + 2**29, "bytesAt": ago(minutes=40, seconds=30)}
    spent = {
        "workspaceId": "team-02",
        "microsPerMonth": 2_000_000,
        "spent": 2_100_000,
        "closes": names,
        "closed": names,
    }
    spent |= {"bytesPerMonth": 0, "bytesSpent": 0, "bytesAt": None}
    measured = {"workspaceId": "team-03", "microsPerMonth": 0, "spent": 0, "closes": names[:1], "closed": []}
    measured |= {"bytesPerMonth": 500 * 2**20, "bytesSpent": 500 * 2**20, "bytesAt": ago(hours=2, minutes=5)}
    return page(request, [budget | {"changedAt": ago(days=2)} for budget in (left, spent, measured)])


async def prices(request: Request, stand_in: "StandIn", _body: Any) -> Response:
    if (refused := changed_since(request, stand_in)) is not None:
        return refused
    price: Thing = {"tier": "free", "microsPerHour": stand_in.estate.price, "since": ago(days=9), "actor": "person:Ada"}
    return page(request, [price | {"changedAt": stand_in.estate.changed_at}])


ROUTES = (
    ("GET", "/api/me", me),
    ("POST", "/api/enrol/options", enrol_options),
    ("POST", "/api/enrol", enrol),
    ("POST", "/api/sign-in/options", sign_in_options),
    ("POST", "/api/sign-in", sign_in),
    ("GET", "/api/sign-in", ways),
    ("POST", "/api/sign-in/provider", provider),
    ("POST", "/api/sign-in/provider/answer", provider_answer),
    ("POST", "/api/sign-out", sign_out),
    ("GET", "/api/desktops", desktops),
    ("POST", "/api/desktops", create),
    ("GET", "/api/desktops/{id}", desktop_of),
    ("GET", "/api/desktops/{id}/timeline", timeline),
    ("DELETE", "/api/desktops/{id}", destroy),
    ("POST", "/api/desktops/{id}/upgrade/preview", preview),
    ("POST", "/api/desktops/{id}/{action}", act),
    ("DELETE", "/api/workspaces/{id}/tasks/{seat}", release),
    ("POST", "/api/intents", intents),
    ("GET", "/api/approvals", approvals),
    ("POST", "/api/approvals/{id}/decide", decide),
    ("GET", "/api/workspaces", workspaces),
    ("GET", "/api/workspaces/{id}", workspace_of),
    ("POST", "/api/workspaces/{id}/{action}", act_on_workspace),
    ("GET", "/api/operations", operations),
    ("GET", "/api/operations/{id}", operation_of),
    ("GET", "/api/operations/{id}/log", log),
    ("POST", "/api/operations/{id}/cancel", cancel),
    ("POST", "/api/operations/{id}/retry", retry),
    ("POST", "/api/operations/{id}/decide", decide_operation),
    ("GET", "/api/conversations", conversations),
    ("GET", "/api/conversations/{id}/messages", messages),
    ("POST", "/api/conversations/{id}/interrupt", interrupt),
    ("POST", "/api/fleet/actions", fleet),
    ("GET", "/api/alert-rules", alert_rules),
    ("PUT", "/api/alert-rules", alert_rules),
    ("GET", "/api/usage", usage),
    ("GET", "/api/budgets", budgets),
    ("PUT", "/api/budgets/{id}", budgets),
    ("GET", "/api/prices", prices),
    ("PUT", "/api/prices", prices),
    ("GET", "/api/audit", audit),
)
