"""The stand-in's looks at a workspace, its isolation, snapshots, backups and allowed names."""

import time
from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import Response

from tests.web.calls import accepted, problem
from tests.web.estate import Estate, Thing, ago
from tests.web.passkeys import Refused

if TYPE_CHECKING:
    from tests.web.stand_in import StandIn

SILENT = {"field": "gateway", "value": "team-01", "reason": "does not run", "remedy": "./inv workspace.start"}
WELL = {"check": "power", "state": "ok", "detail": "running", "remedy": ""}
REFUSAL = {"desktop": "desk-1", "reason": "is not on the list", "count": 3}


def part(*rows: Thing, problem: Thing | None = None, **beside: list[Thing]) -> Thing:
    return {"rows": list(rows), **beside, "problem": problem}


def closed(entry: str, reason: str = "budget", actor: str = "watch", since: str = "") -> Thing:
    """A name that nobody reaches."""
    return {"entry": entry, "reason": reason, "actor": actor, "since": since or ago(minutes=90)}


def look(**parts: Thing) -> Thing:
    """What a look finds, unless it is said otherwise."""
    taken = int(time.time()) - 7200
    snapshot = {"text": "before the update", "made": taken, "memory": True, "expires": None}
    found = {
        "health": part(
            {"machine": "gateway", **WELL},
            {"machine": "desk-1", **WELL},
            {"machine": "desk-2", **WELL},
            {"machine": "desk-2", "check": "disk", "state": "failed", "detail": "4 % is free", "remedy": "free some"},
        ),
        "allowed": part(
            {"entry": "pypi.org", "declared": False, "until": ago(minutes=-9), "actor": "person:Ada"},
            closed=[closed("*.models.example.org"), closed("api.example.org", "", "ada", ago(hours=3))],
        ),
        "refusals": part(
            {**REFUSAL, "target": "crates.io", "entry": "crates.io", "last": ago(minutes=2)},
            {**REFUSAL, "target": "10.0.0.1", "entry": None, "last": ago(minutes=3)},
        ),
        "keys": part({"name": "anthropic", "fingerprint": "4f1c0a9be27d", "desktops": ["desk-1", "desk-2"]}),
        "snapshots": part({"desktop": "desk-1", "name": "before", **snapshot}),
        "backups": part(
            {"desktop": "desk-1", "id": "b1", "made": taken - 86_400, "verified": None},
            {"desktop": "desk-1", "id": "b2", "made": taken, "verified": taken + 60},
        ),
    }
    return {**found, **parts}


def isolation(*wrong: str) -> Thing:
    """What a verification finds."""
    return {"ok": not wrong, "seconds": 41.2, "topics": {"neighbours": [12 - len(wrong), 12]}, "wrong": list(wrong)}


def furnish(estate: Estate, workspace: str = "team-01") -> None:
    """A look and a verification that were done before."""
    for kind, result in (("workspace.look", look()), ("workspace.verify", isolation())):
        done = estate.operation(kind, workspace, createdAt=ago(hours=1))
        estate.advance(done["id"], state="done", endedAt=ago(hours=1), result=result)


async def snapshot(request: Request, stand_in: "StandIn", _body: Any) -> Response:
    return _asked("snapshot.create", request, stand_in)


async def backup(request: Request, stand_in: "StandIn", _body: Any) -> Response:
    return _asked("backup.run", request, stand_in)


async def restore(request: Request, stand_in: "StandIn", body: Any) -> Response:
    return _signed(request, stand_in, body) or _asked("snapshot.restore", request, stand_in)


async def allow(request: Request, stand_in: "StandIn", body: Any) -> Response:
    name = request.path_params["id"]
    return _signed(request, stand_in, body) or accepted(stand_in.estate.operation("egress.allow", name))


def _asked(kind: str, request: Request, stand_in: "StandIn") -> Response:
    id = request.path_params["id"]
    return accepted(stand_in.estate.operation(kind, id.partition(".")[0], id))


def _signed(request: Request, stand_in: "StandIn", body: Any) -> Response | None:
    try:
        stand_in.passkeys.answered(request, body["intent"]["credential"], "webauthn.get")
    except Refused as refused:
        return problem(403, "intent", "", str(refused), "Sign it again")
    return None


ROUTES = (
    ("POST", "/api/desktops/{id}/snapshots", snapshot),
    ("POST", "/api/desktops/{id}/backups", backup),
    ("POST", "/api/desktops/{id}/snapshots/{name}/restore", restore),
    ("POST", "/api/workspaces/{id}/allowed", allow),
)
