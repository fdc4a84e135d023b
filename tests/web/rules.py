"""The stand-in's rules of approvals, its quotas, and how long it keeps conversations."""

from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from tests.web.calls import accepted, changed_since, page, problem
from tests.web.estate import Thing, ago
from tests.web.passkeys import Refused

if TYPE_CHECKING:
    from tests.web.stand_in import StandIn


async def approval_rules(request: Request, _stand_in: "StandIn", _body: Any) -> Response:
    rule: Thing = {"workspaceId": "team-01", "persons": 2, "roles": ["admin"], "people": [], "keys": []}
    rule["operations"] = ["desktop.destroy"]
    change = {**rule, "actor": "person:Eve", "remove": False, "persons": 1, "people": ["Ada"], "at": ago()}
    change["operations"] = []
    del change["workspaceId"]
    return page(request, [rule | {"actor": "person:Ada", "changedAt": ago(days=2), "changes": [change]}])


async def change_rule(request: Request, stand_in: "StandIn", body: Any) -> Response:
    try:
        stand_in.passkeys.answered(request, body["intent"]["credential"], "webauthn.get")
    except Refused as refused:
        return problem(403, "intent", "", str(refused), "Sign it again")
    name = request.path_params.get("workspace") or body["workspaceId"]
    kind = "approval-rule.remove" if request.method == "DELETE" else "approval-rule.set"
    return accepted(stand_in.estate.operation(kind, name))


async def quotas(request: Request, stand_in: "StandIn", _body: Any) -> Response:
    if (refused := changed_since(request, stand_in)) is not None:
        return refused
    used = {"desktops": 15, "vcpus": 20, "memoryMib": 61_440, "diskGib": 450, "microsPerDay": 90_000_000}
    quota: Thing = {"subject": "workspace:team-01", "desktops": 20, "vcpus": 22, "memoryMib": 65_536, "diskGib": 500}
    quota |= {"microsPerDay": None, "used": used, "actor": "person:Ada", "changedAt": stand_in.estate.changed_at}
    return page(request, [quota])


async def retention(request: Request, stand_in: "StandIn", _body: Any) -> Response:
    kept = [{"workspaceId": name, "days": days} for name, days in stand_in.estate.kept.items()]
    return page(request, [each | {"actor": "person:Ada", "changedAt": ago(days=2)} for each in kept])


async def would_go(_request: Request, _stand_in: "StandIn", _body: Any) -> Response:
    return JSONResponse({"conversations": 12, "messages": 240, "oldestAt": ago(days=90), "newestAt": ago(days=31)})


async def change_retention(request: Request, stand_in: "StandIn", body: Any) -> Response:
    try:
        stand_in.passkeys.answered(request, body["intent"]["credential"], "webauthn.get")
    except Refused as refused:
        return problem(403, "intent", "", str(refused), "Sign it again")
    stand_in.estate.kept[body["workspaceId"]] = body["days"]
    return accepted(stand_in.estate.operation("retention.set", body["workspaceId"]))


async def answer_question(request: Request, stand_in: "StandIn", body: Any) -> Response:
    found = stand_in.estate.messages[request.path_params["message"]]
    (question,) = found["questions"]
    news = {"state": "answered", "option": body["option"], "answeredBy": "person:Ada", "answeredAt": ago()}
    stand_in.estate.write(found["id"], questions=[question | news])
    return JSONResponse(question | news)


ROUTES = (
    ("GET", "/api/approval-rules", approval_rules),
    ("POST", "/api/approval-rules", change_rule),
    ("DELETE", "/api/approval-rules/{workspace}", change_rule),
    ("POST", "/api/conversations/{id}/messages/{message}/questions/{question}/answer", answer_question),
    ("GET", "/api/retention", retention),
    ("GET", "/api/retention/preview", would_go),
    ("POST", "/api/retention", change_retention),
    ("GET", "/api/quotas", quotas),
    ("PUT", "/api/quotas/{subject}", quotas),
)
