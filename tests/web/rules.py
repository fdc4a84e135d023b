"""The stand-in's rules of approvals and its quotas."""

from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import Response

from tests.web.calls import accepted, page, problem
from tests.web.estate import Thing, ago
from tests.web.passkeys import Refused

if TYPE_CHECKING:
    from tests.web.stand_in import StandIn


async def approval_rules(request: Request, _stand_in: "StandIn", _body: Any) -> Response:
    rule: Thing = {"workspaceId": "team-01", "persons": 2, "roles": ["admin"], "people": [], "keys": []}
    return page(request, [rule | {"actor": "person:Ada", "changedAt": ago(days=2)}])


async def change_rule(request: Request, stand_in: "StandIn", body: Any) -> Response:
    try:
        stand_in.passkeys.answered(request, body["intent"]["credential"], "webauthn.get")
    except Refused as refused:
        return problem(403, "intent", "", str(refused), "Sign it again")
    name = request.path_params.get("workspace") or body["workspaceId"]
    kind = "approval-rule.remove" if request.method == "DELETE" else "approval-rule.set"
    return accepted(stand_in.estate.operation(kind, name))


async def quotas(request: Request, _stand_in: "StandIn", _body: Any) -> Response:
    used = {"desktops": 15, "memoryMib": 61_440, "microsPerDay": 90_000_000}
    quota: Thing = {"subject": "workspace:team-01", "desktops": 20, "memoryMib": 65_536, "microsPerDay": None}
    return page(request, [quota | {"used": used, "actor": "person:Ada", "changedAt": ago(days=2)}])


ROUTES = (
    ("GET", "/api/approval-rules", approval_rules),
    ("POST", "/api/approval-rules", change_rule),
    ("DELETE", "/api/approval-rules/{workspace}", change_rule),
    ("GET", "/api/quotas", quotas),
    ("PUT", "/api/quotas/{subject}", quotas),
)
