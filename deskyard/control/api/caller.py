"""Who asks: a person by the cookie of a session, or a program by its key; and what that may do."""

import hmac
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import Depends, Request, Security
from fastapi.security import APIKeyCookie, HTTPBearer
from psycopg import AsyncConnection

from deskyard.control.api.problem import Problem
from deskyard.control.people import session
from deskyard.control.people.keys import Key
from deskyard.control.people.scopes import ROLES, SCOPES, bounded
from deskyard.control.people.token import token_hash

COOKIE = "__Host-mission"
# A page of another site can neither set a header of its own nor read our answers.
OWN_HEADER = "x-deskyard"
UNSAFE = {"POST", "PUT", "PATCH", "DELETE"}
SEEN_AGAIN = "1 minute"

# Said in the OpenAPI document; `caller` looks by itself.
BY_KEY = Security(HTTPBearer(scheme_name="key", auto_error=False, description="A key, `dyk_...`"))
BY_SESSION = Security(APIKeyCookie(name=COOKIE, scheme_name="session", auto_error=False, description="A browser's"))
SECURED = [BY_KEY, BY_SESSION]

Row = dict[str, Any]
Link = AsyncConnection[Row]


@dataclass(frozen=True)
class Caller:
    """Who asks, as the audit names it, with its scopes; `workspaces` bounds a key or a person to some."""

    actor: str
    scopes: frozenset[str]
    person: Row | None = None
    key: Row | None = None
    session: str | None = None
    workspaces: frozenset[str] | None = None
    # The key as it was presented, for the proof of an intent; never stored.
    presented: Key | None = field(default=None, repr=False)
    # What it showed that it is: the secret of its key, or its session's token. Never stored.
    secret: str | None = field(default=None, repr=False)

    def sees(self, workspace: str | None) -> bool:
        """Whether a workspace is within its bounds."""
        return self.workspaces is None or workspace in self.workspaces

    @property
    def bounds(self) -> list[str] | None:
        """The workspaces it is bound to, for a query."""
        return None if self.workspaces is None else sorted(self.workspaces)

    def require(self, scope: str) -> None:
        """Raise a 403 unless it has the scope."""
        if scope not in self.scopes:
            reason = f"{self.actor} may not {SCOPES[scope]}"
            raise Problem(HTTPStatus.FORBIDDEN, "scope", scope, reason, "ask an admin for a role or key that may")


async def link(request: Request) -> Any:
    """A connection for the request: one transaction, committed if the request goes well."""
    async with AsyncExitStack() as held:
        request.state.held = held
        yield await linked(request)


async def linked(request: Request) -> Link:
    """A connection that the request holds from now on, to its end or until it is `let_go`."""
    connection: Link = await request.state.held.enter_async_context(request.app.state.pool.connection())
    return connection


async def let_go(request: Request) -> None:
    """Commit, and give the connection of the request back: there are few, and who waits for long needs none."""
    await request.state.held.aclose()


# Committed before the answer leaves: whoever has it may ask again at once, and finds it true.
Connection = Annotated[Link, Depends(link, scope="function")]


async def caller(
    request: Request,
    connection: Connection,
    _key: Annotated[object, BY_KEY] = None,
    _session: Annotated[object, BY_SESSION] = None,
) -> Caller:
    """Who asks; raises a 401 for nobody."""
    header = request.headers.get("authorization")
    found = await _by_key(connection, header) if header is not None else await _by_session(connection, request)
    if found is None:
        remedy = "sign in, or send Authorization: Bearer dyk_... (page Settings makes one)"
        raise Problem(HTTPStatus.UNAUTHORIZED, "caller", None, "is not known here", remedy)
    # What is refused to it further on is written down under its name.
    request.state.actor = found.actor
    return found


def may(scope: str) -> Callable[..., Any]:
    """A dependency: the caller, who has the scope."""

    async def with_scope(who: Annotated[Caller, Depends(caller)]) -> Caller:
        who.require(scope)
        return who

    return with_scope


def own_page(request: Request) -> None:
    """Raise a 403 for what another site's page sent with a person's cookie."""
    origin = request.headers.get("origin")
    foreign = origin is not None and origin != request.app.state.origin
    if request.method in UNSAFE and (foreign or OWN_HEADER not in request.headers):
        reason = "was not sent by a page of Mission Control"
        raise Problem(HTTPStatus.FORBIDDEN, "origin", origin, reason, f"send the header {OWN_HEADER}: 1 from there")


async def _by_key(connection: Link, header: str) -> Caller | None:
    kind, _, text = header.partition(" ")
    key = Key.parsed(text.strip()) if kind.lower() == "bearer" else None
    if key is None:
        return None
    query = f"""select *, not recent(last_used_at, '{SEEN_AGAIN}') as unseen
        from api_key where id = %s and revoked_at is null and expires_at > now()"""
    row = await (await connection.execute(query.encode(), [key.id])).fetchone()
    if row is None or not hmac.compare_digest(row["auth_hash"], key.auth_hash):
        return None
    if row["unseen"]:
        await connection.execute("update api_key set last_used_at = now() where id = %s", [key.id])
    scopes = bounded(row["scopes"], row["workspaces"])
    return Caller(
        f"key:{row['name']}:{key.id}",
        scopes,
        key=row,
        workspaces=_bounds(row),
        presented=key,
        secret=key.secret,
    )


async def _by_session(connection: Link, request: Request) -> Caller | None:
    token = request.cookies.get(COOKIE)
    if not token:
        return None
    query = f"""select session.id as session_id, not recent(seen_at, '{SEEN_AGAIN}') as unseen, person.*
        from session join person on person.id = session.person_id
        where token_hash = %s and {session.OPEN} and disabled_at is null"""
    row = await (await connection.execute(query.encode(), [token_hash(token)])).fetchone()
    if row is None:
        return None
    own_page(request)
    if row["unseen"]:
        await connection.execute("update session set seen_at = now() where id = %s", [row["session_id"]])
    scopes = bounded(ROLES[row["role"]], row["workspaces"])
    return Caller(
        f"person:{row['name']}",
        scopes,
        person=row,
        session=row["session_id"],
        workspaces=_bounds(row),
        secret=token,
    )


def _bounds(row: Row) -> frozenset[str] | None:
    """The workspaces to which a key or person is bound; None if to none."""
    return frozenset(row["workspaces"]) if row["workspaces"] is not None else None
