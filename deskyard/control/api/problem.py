"""Errors as RFC 9457 problems, with the field, value, reason and remedy of every Deskyard error."""

import functools
import re
import secrets
from http import HTTPStatus
from typing import Any

import psycopg
from fastapi import Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.routing import compile_path

from deskyard.control.ground.problem import members
from deskyard.errors import DeskyardError

MEDIA_TYPE = "application/problem+json"
AGAIN_SECONDS = 5
NOTED = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN, HTTPStatus.TOO_MANY_REQUESTS)


class Problem(DeskyardError):
    """The refusal of a request, with the HTTP status that says so."""

    def __init__(
        self, status: HTTPStatus, field: str, value: object, reason: str, remedy: str, again: int | None = None
    ) -> None:
        super().__init__(field, value, reason, remedy)
        self.status = status
        # After so many seconds it may go well.
        self.again = again


def unknown(field: str, value: str, remedy: str) -> Problem:
    """Nothing has this name."""
    return Problem(HTTPStatus.NOT_FOUND, field, value, "is not known", remedy)


def answer(status: int, error: DeskyardError, headers: dict[str, str] | None = None) -> JSONResponse:
    """The response that tells an error."""
    body = {**members(status, error), "requestId": secrets.token_hex(8)}
    return JSONResponse(body, status, headers, MEDIA_TYPE)


async def refused(request: Request, error: Exception) -> JSONResponse:
    """The answer to what this code refused; that somebody may not do it is for the audit."""
    assert isinstance(error, DeskyardError)
    status = error.status if isinstance(error, Problem) else HTTPStatus.UNPROCESSABLE_ENTITY
    if status in NOTED:
        request.app.state.tally.refuse(request, status, error.field)
    headers = {"WWW-Authenticate": "Bearer"} if status == HTTPStatus.UNAUTHORIZED else {}
    if isinstance(error, Problem) and error.again is not None:
        headers["Retry-After"] = str(error.again)
    return answer(status, error, headers)


async def broken(_: Request, error: Exception) -> JSONResponse:
    """The answer where this code is wrong: the log has the rest."""
    problem = DeskyardError(
        "server", None, f"could not do it ({type(error).__name__})", "see the log of web, try again"
    )
    return answer(HTTPStatus.INTERNAL_SERVER_ERROR, problem)


async def invalid(_: Request, error: Exception) -> JSONResponse:
    """The answer to a body or parameter of another form; what was sent is not repeated, it may be a secret."""
    assert isinstance(error, RequestValidationError)
    first: dict[str, Any] = dict(error.errors()[0])
    field = ".".join(str(part) for part in first["loc"][1:]) or str(first["loc"][0])
    problem = DeskyardError(field, None, first["msg"], "correct it; /api/openapi.json has every form")
    return answer(HTTPStatus.UNPROCESSABLE_ENTITY, problem)


async def no_text(_: Request, error: Exception) -> JSONResponse:
    """The answer to what no column can hold, such as a NUL or a time that is none; it is not repeated."""
    problem = DeskyardError("request", None, "holds what is no text or time here", "send it without control characters")
    return answer(HTTPStatus.UNPROCESSABLE_ENTITY, problem)


async def nobody(request: Request, error: Exception) -> JSONResponse:
    """The answer where the database knows a caller no more: a key or person that went while the request was read."""
    reason, remedy = "is not known here any more", "sign in, or send a key that is not revoked"
    return await refused(request, Problem(HTTPStatus.UNAUTHORIZED, "caller", None, reason, remedy))


async def no_database(_: Request, error: Exception) -> JSONResponse:
    """The answer while the database is away, or has no room: whoever may look after it finds what to do."""
    reason, remedy = "does not answer now", "send it again; ./inv control.status says what runs"
    if isinstance(error, psycopg.errors.DiskFull):
        reason, remedy = "has no room left on its disk", "make room on Mission Control's machine; it goes on by itself"
    problem = DeskyardError("database", None, reason, remedy)
    return answer(HTTPStatus.SERVICE_UNAVAILABLE, problem, {"Retry-After": str(AGAIN_SECONDS)})


async def plain(request: Request, error: Exception) -> JSONResponse:
    """The answer to what the framework refuses: no such path or method."""
    assert isinstance(error, HTTPException)
    problem = DeskyardError("request", None, str(error.detail), "see /api/openapi.json for what can be asked")
    headers = dict(error.headers) if error.headers else None
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        # The framework names the methods of the first call alone that has this path.
        headers = {"Allow": ", ".join(methods(request))}
    return answer(error.status_code, problem, headers)


def methods(request: Request) -> list[str]:
    """The methods of all calls of the document that have a request's path."""
    paths: dict[str, dict[str, Any]] = request.app.openapi()["paths"]
    found = [calls for path, calls in paths.items() if _form(path).match(request.url.path)]
    return sorted({method.upper() for calls in found for method in calls})


@functools.cache
def _form(path: str) -> "re.Pattern[str]":
    return compile_path(path)[0]
