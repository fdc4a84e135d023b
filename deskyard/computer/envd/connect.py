"""The Connect protocol with JSON: unary calls, and streams of messages in envelopes."""

import json
import struct
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable
from http import HTTPStatus
from typing import Any

from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from deskyard.computer.fields import body, decoded
from deskyard.computer.problem import Problem

ENVELOPE = struct.Struct(">BI")
COMPRESSED, LAST = 1, 2
MOST_MESSAGE = 32 << 20
STREAM_TYPE = "application/connect+json"

# How Connect names what HTTP numbers.
CODES = {
    HTTPStatus.BAD_REQUEST: "invalid_argument",
    HTTPStatus.UNAUTHORIZED: "unauthenticated",
    HTTPStatus.FORBIDDEN: "permission_denied",
    HTTPStatus.NOT_FOUND: "not_found",
    HTTPStatus.CONFLICT: "already_exists",
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: "resource_exhausted",
    HTTPStatus.TOO_MANY_REQUESTS: "resource_exhausted",
    HTTPStatus.INSUFFICIENT_STORAGE: "resource_exhausted",
    HTTPStatus.NOT_IMPLEMENTED: "unimplemented",
    HTTPStatus.GATEWAY_TIMEOUT: "deadline_exceeded",
}

Message = dict[str, Any]


def error(problem: Problem) -> Message:
    """A problem as Connect says it."""
    value = "" if problem.value is None else f" '{problem.value}'"
    message = f"{problem.field}{value} {problem.reason}: {problem.remedy}"
    return {"code": CODES.get(problem.status, "internal"), "message": message}


def unary(path: str, do: Callable[[Request, Message], Awaitable[Message]]) -> Route:
    """A call with one message each way."""

    async def serve(request: Request) -> Response:
        try:
            return JSONResponse(await do(request, (await body(request)).rest()))
        except Problem as problem:
            return JSONResponse(error(problem), int(problem.status))

    return Route(path, serve, methods=["POST"])


def server_stream(path: str, do: Callable[[Request, Message], AsyncIterator[Message]]) -> Route:
    """A call that is answered by a stream of messages."""

    async def serve(request: Request) -> Response:
        # Before the answer begins: from then on only the end of the connection is listened for.
        try:
            messages = [message async for message in received(request)]
        except Problem as problem:
            return Response(_enveloped(LAST, {"error": error(problem)}), media_type=STREAM_TYPE)
        asked = messages[0] if messages else {}

        async def sent() -> AsyncIterator[bytes]:
            ending: Message = {}
            try:
                async for message in do(request, asked):
                    yield _enveloped(0, message)
            except Problem as problem:
                ending = {"error": error(problem)}
            yield _enveloped(LAST, ending)

        return StreamingResponse(sent(), media_type=STREAM_TYPE)

    return Route(path, serve, methods=["POST"])


def client_stream(path: str, do: Callable[[Request, AsyncIterator[Message]], Awaitable[Message]]) -> Route:
    """A call that takes a stream of messages, and is answered by one."""

    async def serve(request: Request) -> Response:
        try:
            content = _enveloped(0, await do(request, received(request))) + _enveloped(LAST, {})
        except Problem as problem:
            content = _enveloped(LAST, {"error": error(problem)})
        return Response(content, media_type=STREAM_TYPE)

    return Route(path, serve, methods=["POST"])


async def received(request: Request) -> AsyncIterator[Message]:
    """The messages of a request as they come."""
    buffer = bytearray()
    try:
        async for chunk in request.stream():
            buffer += chunk
            while len(buffer) >= ENVELOPE.size:
                flags, length = ENVELOPE.unpack_from(buffer)
                if length > MOST_MESSAGE:
                    remedy = "send it in parts"
                    raise Problem(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "message", length, "is too large", remedy)
                if len(buffer) < ENVELOPE.size + length:
                    break
                content = bytes(buffer[ENVELOPE.size : ENVELOPE.size + length])
                del buffer[: ENVELOPE.size + length]
                if flags & LAST:
                    return
                yield decoded(_inflated(content) if flags & COMPRESSED else content)
    except ClientDisconnect:
        return


def deadline(request: Request) -> float | None:
    """The seconds that a caller gives a call, if it says."""
    said = request.headers.get("connect-timeout-ms", "")
    return int(said) / 1000 if said.isdigit() and int(said) else None


def silence(request: Request) -> float:
    """The seconds of silence after which a caller wants to hear that its stream lives."""
    said = request.headers.get("keepalive-ping-interval", "")
    return min(max(float(said), 1.0), 300.0) if said.isdigit() else 90.0


def _enveloped(flags: int, message: Message) -> bytes:
    content = json.dumps(message, separators=(",", ":")).encode()
    return ENVELOPE.pack(flags, len(content)) + content


def _inflated(content: bytes) -> bytes:
    inflating = zlib.decompressobj(wbits=31)
    try:
        plain = inflating.decompress(content, MOST_MESSAGE)
    except zlib.error:
        raise Problem(HTTPStatus.BAD_REQUEST, "message", None, "is not gzip", "send it plain") from None
    if inflating.unconsumed_tail:
        raise Problem(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "message", None, "is too large", "send it in parts")
    return plain
