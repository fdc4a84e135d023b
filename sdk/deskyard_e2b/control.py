"""The control plane: E2B's calls, in both generations of their paths, on sandboxes of who asks."""

import base64
import binascii
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import parse_qsl, unquote

from deskyard_sdk import DesktopError
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from deskyard_e2b import wishes
from deskyard_e2b.answers import not_had, refused
from deskyard_e2b.keyring import Caller, Keyring
from deskyard_e2b.sandboxes import Sandboxes

MOST_BODY = 2 << 20
MOST_ITEMS = 100
LONGEST_IDEMPOTENCY = 255
STATES = ("running", "paused")
# How long a sandbox lasts where a client does not say: the older generation of the paths has less.
SECONDS = {"": 15, "/v2": 300}
SANDBOX = "/sandboxes/{id}"
IMAGES = "images are built by ./inv image.build: docs/images.md"
# Paths of E2B's that have nothing behind them here, and what is nearest.
NOT_HAD = {
    f"{SANDBOX}/metrics": "see Mission Control's usage: docs/mission-control.md",
    f"{SANDBOX}/logs": "a command's output is read where it is run",
    f"/v2{SANDBOX}/logs": "a command's output is read where it is run",
    f"{SANDBOX}/fork": "create another sandbox",
    f"{SANDBOX}/snapshots": "./inv snapshot.create takes one: docs/life.md",
    f"{SANDBOX}/network": "the workspace's egress rules say what its desktops reach: docs/egress.md",
    "/sandboxes/metrics": "see Mission Control's usage: docs/mission-control.md",
    "/sandboxes/snapshots": "./inv snapshot.list lists them: docs/life.md",
    "/snapshots": "./inv snapshot.list lists them: docs/life.md",
    "/default-templates": IMAGES,
    "/templates": IMAGES,
    "/v2/templates": IMAGES,
    "/v3/templates": IMAGES,
    "/volumes": "a desktop has a disk of its own, which stays",
    "/secrets": "give desktops keys: docs/keys.md",
    "/teams": "Mission Control has people and keys: docs/mission-control.md",
    "/api-keys": "./inv control.key makes keys",
    "/access-tokens": "./inv control.key makes keys",
}
# What a pause has kept; E2B's answer to it has no body.
KEPT = "X-Deskyard-Kept"
Do = Callable[[Request, Caller], Awaitable[Response]]


@dataclass(frozen=True)
class ControlPlane:
    """Answers them."""

    sandboxes: Sandboxes
    keyring: Keyring

    def routes(self) -> list[BaseRoute]:
        """All paths that E2B has, with what is not had here."""
        served: list[BaseRoute] = [Route("/health", _health, methods=["GET"])]
        for generation, seconds in SECONDS.items():
            served += [
                Route(f"{generation}/sandboxes", self._as(self._creating(seconds)), methods=["POST"]),
                Route(f"{generation}{SANDBOX}/connect", self._as(self._connecting(300)), methods=["POST"]),
            ]
        served += [
            Route("/sandboxes", self._as(self._running), methods=["GET"]),
            Route("/v2/sandboxes", self._as(self._list), methods=["GET"]),
        ]
        missing = [self._missing(path, remedy) for path, remedy in NOT_HAD.items()]
        return [
            *served,
            # Before the sandbox of that name: `metrics` is none.
            *missing,
            Route(SANDBOX, self._as(self._detail), methods=["GET"]),
            Route(SANDBOX, self._as(self._kill), methods=["DELETE"]),
            Route(f"{SANDBOX}/timeout", self._as(self._timeout), methods=["POST"]),
            Route(f"{SANDBOX}/refreshes", self._as(self._refresh), methods=["POST"]),
            Route(f"{SANDBOX}/pause", self._as(self._pause), methods=["POST"]),
            Route(f"{SANDBOX}/resume", self._as(self._resume), methods=["POST"]),
            Route("/{path:path}", _nowhere, methods=["GET", "POST", "PUT", "PATCH", "DELETE"]),
        ]

    def _as(self, do: Do) -> Callable[[Request], Awaitable[Response]]:
        """A call by who has a key; what is refused is said as E2B does."""

        async def serve(request: Request) -> Response:
            caller = None
            try:
                caller = await self.keyring.caller(request.headers.get("x-api-key", ""))
                return await do(request, caller)
            except DesktopError as error:
                if error.status == 401 and caller:
                    self.keyring.forget(caller.owner)
                return refused(error)

        return serve

    def _missing(self, path: str, remedy: str) -> Route:
        async def serve(request: Request, _: Caller) -> Response:
            raise not_had(request.url.path, remedy)

        place = path if "{id}" in path or path.startswith("/sandboxes") else f"{path}{{rest:path}}"
        return Route(place, self._as(serve), methods=["GET", "POST", "PUT", "PATCH", "DELETE"])

    def _creating(self, seconds: int) -> Do:
        async def create(request: Request, caller: Caller) -> Response:
            wanted = wishes.read(await _body(request), seconds)
            idempotency = request.headers.get("idempotency-key")
            if idempotency is not None and not 1 <= len(idempotency) <= LONGEST_IDEMPOTENCY:
                reason, remedy = "is empty or too long", f"give 1 to {LONGEST_IDEMPOTENCY} characters"
                raise DesktopError("Idempotency-Key", "", reason, remedy, 400)
            return JSONResponse(await self.sandboxes.create(caller, wanted, idempotency), 201)

        return create

    def _connecting(self, default: int) -> Do:
        async def connect(request: Request, caller: Caller) -> Response:
            is_resumed, answer = await self._connected(request, caller, default)
            return JSONResponse(answer, 201 if is_resumed else 200)

        return connect

    async def _connected(self, request: Request, caller: Caller, default: int) -> tuple[bool, dict[str, Any]]:
        body = await _body(request)
        seconds, memory = wishes.seconds(body, "timeout", default), wishes.flag(body, "memory") is not False
        return await self.sandboxes.connect(caller, request.path_params["id"], seconds, memory=memory)

    async def _resume(self, request: Request, caller: Caller) -> Response:
        is_resumed, answer = await self._connected(request, caller, 15)
        if not is_resumed:
            raise DesktopError("sandbox", request.path_params["id"], "runs already", "connect to it", 409)
        return JSONResponse(answer, 201)

    async def _running(self, request: Request, caller: Caller) -> Response:
        found = [item for item in await self.sandboxes.all(caller) if item["state"] == "running"]
        return JSONResponse(_with_metadata(found, request.query_params))

    async def _list(self, request: Request, caller: Caller) -> Response:
        query = request.query_params
        found = _chosen(await self.sandboxes.all(caller), query)
        part, token = _part(found, query)
        running = sum(item["state"] == "running" for item in found)
        headers = {"X-Total-Running": str(running)} | ({"X-Next-Token": token} if token else {})
        return JSONResponse(part, headers=headers)

    async def _detail(self, request: Request, caller: Caller) -> Response:
        return JSONResponse(await self.sandboxes.detail(caller, request.path_params["id"]))

    async def _kill(self, request: Request, caller: Caller) -> Response:
        await self.sandboxes.kill(caller, request.path_params["id"])
        return Response(status_code=204)

    async def _pause(self, request: Request, caller: Caller) -> Response:
        body = await _body(request)
        memory, strict = wishes.flag(body, "memory"), wishes.flag(body, "requireHealthyGuest") is True
        keeps = await self.sandboxes.pause(caller, request.path_params["id"], memory=memory, strict=strict)
        return Response(status_code=204, headers={KEPT: "memory" if keeps else "files"})

    async def _timeout(self, request: Request, caller: Caller) -> Response:
        seconds = wishes.seconds(await _body(request), "timeout", -1)
        if seconds < 0:
            raise DesktopError("timeout", "", "is missing", "give seconds", 400)
        await self.sandboxes.last(caller, request.path_params["id"], seconds)
        return Response(status_code=204)

    async def _refresh(self, request: Request, caller: Caller) -> Response:
        seconds = wishes.seconds(await _body(request), "duration", 15)
        await self.sandboxes.last(caller, request.path_params["id"], seconds, only_longer=True)
        return Response(status_code=204)


async def _health(_: Request) -> Response:
    return Response(status_code=204)


async def _nowhere(request: Request) -> Response:
    return refused(
        DesktopError("path", request.url.path, "is no call of E2B's that is known here", wishes.ELSEWHERE, 404)
    )


async def _body(request: Request) -> dict[str, Any]:
    """The JSON object of a request; none is an empty one."""
    content = bytearray()
    async for chunk in request.stream():
        content += chunk
        if len(content) > MOST_BODY:
            raise DesktopError("body", "", "is too large", f"send at most {MOST_BODY} bytes", 413)
    try:
        found = json.loads(content) if content else {}
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise DesktopError("body", "", "is no JSON object", "send the call as E2B's packages do", 400)
    return found


def _chosen(found: list[dict[str, Any]], query: Mapping[str, str]) -> list[dict[str, Any]]:
    """Those that a list is to show, in its order."""
    found = _with_metadata(found, query)
    if wanted := [state for state in query.get("state", "").split(",") if state]:
        if unknown := [state for state in wanted if state not in STATES]:
            raise DesktopError("state", unknown[0], "is none", f"give {' or '.join(STATES)}", 400)
        found = [item for item in found if item["state"] in wanted]
    if template := query.get("template"):
        found = [item for item in found if item["templateID"] == template]
    if after := query.get("startedAfter"):
        try:
            moment = datetime.fromisoformat(after.replace(" ", "+")).astimezone()
        except ValueError:
            raise DesktopError("startedAfter", after, "is no time", "give it by ISO 8601", 400) from None
        found = [item for item in found if datetime.fromisoformat(item["startedAt"]) >= moment]
    if (order := query.get("order", "desc")) not in ("asc", "desc"):
        raise DesktopError("order", order, "is none", "give asc or desc", 400)
    return sorted(found, key=_place, reverse=order == "desc")


def _with_metadata(found: list[dict[str, Any]], query: Mapping[str, str]) -> list[dict[str, Any]]:
    # Its names and values are written for URLs once more within it.
    pairs = parse_qsl(query.get("metadata", ""), keep_blank_values=True)
    wanted = {unquote(name): unquote(value) for name, value in pairs}
    return [item for item in found if wanted.items() <= item["metadata"].items()]


def _part(found: list[dict[str, Any]], query: Mapping[str, str]) -> tuple[list[dict[str, Any]], str]:
    """A page of a list, and what names the next."""
    text = query.get("limit", str(MOST_ITEMS))
    if not text.isascii() or not text.isdecimal() or not 1 <= int(text) <= MOST_ITEMS:
        raise DesktopError("limit", text, "is not in range", f"give 1 to {MOST_ITEMS}", 400)
    if token := query.get("nextToken"):
        try:
            started, id = json.loads(base64.urlsafe_b64decode(token))
            last = (str(started), str(id))
        except (ValueError, TypeError, binascii.Error):
            raise DesktopError("nextToken", token, "is none of ours", "begin anew", 400) from None
        is_descending = query.get("order", "desc") == "desc"
        found = [item for item in found if (_place(item) < last if is_descending else _place(item) > last)]
    part = found[: int(text)]
    is_last = len(part) == len(found)
    return part, "" if is_last else base64.urlsafe_b64encode(json.dumps(_place(part[-1])).encode()).decode()


def _place(item: Mapping[str, Any]) -> tuple[str, str]:
    return item["startedAt"], item["sandboxID"]
