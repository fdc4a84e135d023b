"""The calls of the stand-in's API that make and destroy workspaces, which know what has to be signed."""

from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import Response

from deskyard.control.founding.target import FOUND, PREVIEW, end_target, found_target
from deskyard.control.people.intent import END
from tests.web.calls import accepted, problem
from tests.web.passkeys import Refused

if TYPE_CHECKING:
    from tests.web.stand_in import StandIn


def unsigned(request: Request, stand_in: "StandIn", body: Any, target: str) -> Response | None:
    """The refusal of what nobody signed, or of what was signed as something else."""
    try:
        stand_in.passkeys.answered(request, body["intent"]["credential"], "webauthn.get")
    except Refused as refused:
        return problem(403, "intent", "", str(refused), "Sign it again")
    signed = body["intent"]["intent"]["target"]
    return None if signed == target else problem(422, "intent", signed, f"is not for {target}", "Sign it anew")


async def found(request: Request, stand_in: "StandIn", body: Any) -> Response:
    if refused := unsigned(request, stand_in, body, found_target(body["name"], body)):
        return refused
    if body["name"] in stand_in.estate.workspaces:
        return problem(409, "name", body["name"], "is the name of a workspace", "choose another")
    return accepted(stand_in.estate.operation(FOUND, body["name"]))


async def preview(request: Request, stand_in: "StandIn", _body: Any) -> Response:
    return accepted(stand_in.estate.operation(PREVIEW, request.path_params["id"]))


async def end(request: Request, stand_in: "StandIn", body: Any) -> Response:
    id, named = request.path_params["id"], body["desktops"]
    if refused := unsigned(request, stand_in, body, end_target(id, named)):
        return refused
    there = {each["name"] for each in stand_in.estate.desktops.values() if each["workspaceId"] == id}
    if more := sorted(there - {*named}):
        return problem(409, "desktops", id, f"are not all that it has: {', '.join(more)}", "look again, then repeat it")
    return accepted(stand_in.estate.operation(END, id))


ROUTES = (
    ("POST", "/api/workspaces", found),
    ("POST", "/api/workspaces/{id}/destroy/preview", preview),
    ("POST", "/api/workspaces/{id}/destroy", end),
)
