"""/api/sign-in, sign-in/provider: signing in by the provider that the site's owner declared, if one was."""

import re
import secrets
from http import HTTPStatus
from typing import Any

from fastapi import APIRouter, Request, Response
from pydantic import Field

from deskyard.control.api import rows
from deskyard.control.api.caller import Link, own_page
from deskyard.control.api.forms.base import Form
from deskyard.control.api.problem import Problem
from deskyard.control.api.session import Confirmed, signed_in
from deskyard.control.identity.door import Door
from deskyard.control.people.token import token_hash

router = APIRouter(prefix="/api", tags=["people"])
# Who began: an answer that another browser brings back counts nothing, and signs nobody in as somebody else.
COOKIE = "__Host-mission-sign-in"
COOKIE_SECONDS = 600
BROWSER = re.compile(r"[A-Za-z0-9_-]{43}\Z")


class Ways(Form):
    """How one may sign in beside a passkey: what people know the declared provider by, if there is one."""

    provider: str | None


class Elsewhere(Form):
    """Where the browser goes to sign in."""

    url: str


class Back(Form):
    """The parameters with which the provider sent the browser back."""

    state: str = Field(min_length=1, max_length=200)
    code: str | None = Field(None, min_length=1, max_length=4000)
    error: str | None = Field(None, max_length=200)
    issuer: str | None = Field(None, max_length=2000)


@router.get("/sign-in")
async def ways(request: Request) -> Ways:
    """Say how one may sign in."""
    return Ways(provider=request.app.state.door.name if request.app.state.door else None)


@router.post("/sign-in/provider")
async def begin(request: Request, response: Response) -> Elsewhere:
    """Begin to sign in by the provider."""
    own_page(request)
    found = request.cookies.get(COOKIE, "")
    browser = found if BROWSER.match(found) else secrets.token_urlsafe(32)
    url = await _door(request).begin(token_hash(browser).hex())
    kept: dict[str, Any] = {"path": "/", "secure": True, "httponly": True, "samesite": "strict"}
    response.set_cookie(COOKIE, browser, max_age=COOKIE_SECONDS, **kept)
    return Elsewhere(url=url)


@router.post("/sign-in/provider/answer")
async def answer(request: Request, response: Response, back: Back) -> dict[str, Any]:
    """Begin a session with what the provider sent back; it signs nothing that destroys or opens."""
    own_page(request)
    browser = token_hash(request.cookies.get(COOKIE, "")).hex()
    # No connection is held while the provider is asked: it may be slow.
    id, confirmed = await _door(request).finish(browser=browser, **back.model_dump(by_alias=False))
    async with request.app.state.pool.connection() as link:
        return await _signed_in(request, response, link, id, confirmed)


async def _signed_in(request: Request, response: Response, link: Link, id: str, confirmed: Confirmed) -> dict[str, Any]:
    query = """select person.*, (select count(*) from passkey where person_id = person.id) as passkeys
        from person where id = %s and disabled_at is null"""
    person = await rows.row(link, query, [id])
    if person is None:
        raise Problem(HTTPStatus.FORBIDDEN, "person", None, "was removed", "ask whoever runs Mission Control")
    began = await signed_in(request, response, link, person, confirmed)
    return {**began, "passkeys": person["passkeys"]}


def _door(request: Request) -> Door:
    found = request.app.state.door
    if found is None:
        remedy = "sign in with a passkey; ./inv control.oidc at the host declares one"
        raise Problem(HTTPStatus.NOT_FOUND, "provider", None, "is none declared", remedy)
    assert isinstance(found, Door)
    return found
