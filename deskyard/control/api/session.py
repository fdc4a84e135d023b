"""The session of a person who showed who they are: its token is the browser's cookie."""

import secrets
from typing import Any, NamedTuple

from fastapi import Request, Response

from deskyard.control.api.caller import COOKIE, Link, Row
from deskyard.control.people import session
from deskyard.control.people.token import fresh_token, token_hash

AGENT_LENGTH = 200


class Confirmed(NamedTuple):
    """For how many seconds what a provider said counts, and the name under which it is asked again, if it can be."""

    seconds: float
    standing: str | None


async def signed_in(
    request: Request,
    response: Response,
    link: Link,
    person: Row,
    confirmed: Confirmed | None = None,
    passkey: bytes | None = None,
) -> dict[str, Any]:
    """Begin a session of a person who showed who they are, by a passkey or, `confirmed`, by a provider."""
    token, id = fresh_token(), f"se_{secrets.token_hex(8)}"
    agent = request.headers.get("user-agent", "")[:AGENT_LENGTH]
    await link.execute(
        "insert into session (id, token_hash, person_id, agent, expires_at, confirmed_until, standing, passkey_id)"
        " values (%s, %s, %s, %s, now() + make_interval(secs => %s), now() + make_interval(secs => %s), %s, %s)",
        [id, token_hash(token), person["id"], agent, session.SECONDS, *(confirmed or (None, None)), passkey],
    )
    response.set_cookie(COOKIE, token, max_age=session.SECONDS, path="/", secure=True, httponly=True, samesite="strict")
    return {"person": {name: person[name] for name in ("id", "name", "role")}}
