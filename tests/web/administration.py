"""The stand-in's alerts, webhooks, keys, sessions and audit, as whoever looks after the site changes them."""

import hashlib
from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from tests.web.calls import RULE, page, problem
from tests.web.estate import Thing, ago, hook

if TYPE_CHECKING:
    from tests.web.stand_in import StandIn

SECRET = "whsec_c2hvd24gb25jZQ=="


def _alert(stand_in: "StandIn") -> Thing:
    alert: Thing = {"id": "al-1", "rule": "desktop.broken", "object": "team-02.desk-7", "workspaceId": "team-02"}
    alert |= {"text": "is in state error (QEMU ended)", "number": 0, "openedAt": ago(minutes=4), "closedAt": None}
    alert |= {"acknowledgedAt": None, "acknowledgedBy": None, "silencedUntil": None}
    return RULE | alert | stand_in.estate.said_of_alert


async def alerts(request: Request, stand_in: "StandIn", _body: Any) -> Response:
    return page(request, [_alert(stand_in)])


async def acknowledge(_request: Request, stand_in: "StandIn", _body: Any) -> Response:
    stand_in.estate.said_of_alert |= {"acknowledgedAt": ago(), "acknowledgedBy": "person:Ada"}
    return JSONResponse(_alert(stand_in))


async def silence(_request: Request, stand_in: "StandIn", body: Any) -> Response:
    stand_in.estate.said_of_alert |= {"silencedUntil": body["until"]}
    return JSONResponse(_alert(stand_in))


async def webhooks(request: Request, stand_in: "StandIn", _body: Any) -> Response:
    return page(request, stand_in.estate.hooks)


async def make_webhook(_request: Request, stand_in: "StandIn", body: Any) -> Response:
    if body["url"].startswith("https://10."):
        remedy = "let the operator allow it: ./inv control.up --webhook-networks"
        return problem(422, "url", body["url"], "is in a private network", remedy)
    made = hook(f"wh-made-{next(stand_in.estate.numbers)}", body["url"])
    stand_in.estate.hooks.append(made)
    return JSONResponse({**made, "secret": "" if body["url"].startswith("mailto:") else SECRET}, 201)


async def test_webhook(request: Request, _stand_in: "StandIn", _body: Any) -> Response:
    sent: Thing = {"id": "msg-1", "webhookId": request.path_params["id"], "kind": "webhook.test", "createdAt": ago()}
    return JSONResponse(sent | {"attempt": 0, "nextAt": ago(), "endedAt": None, "state": "waiting", "answer": ""}, 202)


async def remove_webhook(request: Request, stand_in: "StandIn", _body: Any) -> Response:
    stand_in.estate.hooks = [each for each in stand_in.estate.hooks if each["id"] != request.path_params["id"]]
    return Response(status_code=204)


async def revoke(_request: Request, stand_in: "StandIn", _body: Any) -> Response:
    stand_in.estate.revoked_at = ago()
    return Response(status_code=204)


async def sessions(request: Request, stand_in: "StandIn", _body: Any) -> Response:
    found: Thing = {
        "id": "s-1",
        "person": "Ada",
        "createdAt": ago(hours=3),
        "seenAt": ago(seconds=5),
        "agent": "Chromium",
    }
    found["current"] = True
    every = [found, {**found, "id": "s-2", "agent": "Firefox", "current": False}]
    return page(request, [each for each in every if each["id"] not in stand_in.estate.ended])


async def end_session(request: Request, stand_in: "StandIn", _body: Any) -> Response:
    stand_in.estate.ended.add(request.path_params["id"])
    return Response(status_code=204)


async def verify(request: Request, stand_in: "StandIn", _body: Any) -> Response:
    wrong, half = stand_in.estate.audit_problem, hashlib.sha256(b"120").hexdigest()
    if request.query_params["after"] == "0":
        return JSONResponse({"ok": True, "entries": 120, "head": half, "problem": None, "more": True})
    if (request.query_params["after"], request.query_params["head"]) != ("120", half):
        return problem(422, "after", request.query_params["after"], "is not where the part before ended", "go on there")
    head = hashlib.sha256(b"240").hexdigest()
    verdict = {"ok": wrong is None, "entries": 120 if wrong else 240, "head": head, "problem": wrong, "more": False}
    return JSONResponse(verdict)


ROUTES = (
    ("GET", "/api/alerts", alerts),
    ("POST", "/api/alerts/{id}/acknowledge", acknowledge),
    ("POST", "/api/alerts/{id}/silence", silence),
    ("GET", "/api/webhooks", webhooks),
    ("POST", "/api/webhooks", make_webhook),
    ("POST", "/api/webhooks/{id}/test", test_webhook),
    ("DELETE", "/api/webhooks/{id}", remove_webhook),
    ("DELETE", "/api/keys/{id}", revoke),
    ("GET", "/api/sessions", sessions),
    ("DELETE", "/api/sessions/{id}", end_session),
    ("GET", "/api/audit/verify", verify),
)
