"""Writes down what is wanted as an operation: once for a request, however often it is sent."""

import asyncio
import hashlib
import json
import re
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import Depends, Header, Request, Response
from psycopg.types.json import Jsonb

from deskyard.control.api import rows
from deskyard.control.api.caller import Caller, Connection, Link, Row, let_go, linked
from deskyard.control.api.forms.work import Operation
from deskyard.control.api.problem import Problem
from deskyard.host.deadline import Deadline

KEY = re.compile(r"[\x21-\x7e]{1,200}\Z")
MOST_WAITING_SECONDS = 60
WAIT = re.compile(r"wait=(\d{1,4})\Z")
ENDED = ("done", "failed", "cancelled")


@dataclass(frozen=True)
class Wanted:
    """An operation that somebody wants: what kind, of what, and with which proof."""

    kind: str
    workspace: str | None = None
    desktop: str | None = None
    input: dict[str, Any] = field(default_factory=dict)
    proof: dict[str, Any] | None = None
    lane: str | None = None
    # The operation that has to go well before.
    after: str | None = None


@dataclass(frozen=True)
class Repeat:
    """The request's own name for itself, and what it holds."""

    key: str | None
    request_hash: bytes


async def repeat(
    request: Request,
    key: Annotated[
        str | None,
        Header(
            alias="Idempotency-Key",
            description="The request's own name: sent again with it, it is done once.",
            json_schema_extra={"minLength": 1, "maxLength": 200, "pattern": "^[!-~]+$"},
        ),
    ] = None,
) -> Repeat:
    """The key and the digest of a request, which tell whether it was sent before."""
    if key is not None and not KEY.match(key):
        remedy = "send up to 200 printable characters, such as a UUID"
        raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, "Idempotency-Key", key, "is no name of a request", remedy)
    body = await request.body()
    return Repeat(key, hashlib.sha256(f"{request.method} {request.url.path}\n".encode() + body).digest())


Once = Annotated[Repeat, Depends(repeat)]


async def known(link: Link, who: Caller, once: Repeat) -> str | None:
    """The operation of the same request before; raises a 422 if that was another one with the same name."""
    found = await before(link, who, once)
    return str(found["operation_id"]) if found else None


async def before(link: Link, who: Caller, once: Repeat) -> Row | None:
    """The row that is kept of the same request before; raises a 422 for another one with the same name."""
    if once.key is None:
        return None
    # Two of the same at the same time: the second waits here for the first.
    await link.execute("select pg_advisory_xact_lock(hashtextextended(%s, 7))", [f"{who.actor}\n{once.key}"])
    query = "select * from idempotency where actor = %s and key = %s"
    found = await rows.row(link, query, [who.actor, once.key])
    if found is None:
        return None
    if found["request_hash"] != once.request_hash:
        remedy = "give each request its own key"
        raise Problem(
            HTTPStatus.UNPROCESSABLE_ENTITY, "Idempotency-Key", once.key, "was used for another request", remedy
        )
    return found


async def remember(link: Link, who: Caller, once: Repeat, operation: str) -> None:
    """Let the same request lead to this operation again."""
    if once.key is not None:
        await link.execute(
            "insert into idempotency (actor, key, request_hash, operation_id) values (%s, %s, %s, %s)",
            [who.actor, once.key, once.request_hash, operation],
        )


async def admit(link: Link, who: Caller, once: Repeat, wanted: Wanted, *, id: str | None = None) -> str:
    """Write an operation down, of which the database writes the line of the audit; the id of it."""
    id = id or f"op_{secrets.token_hex(8)}"
    lane = wanted.lane or (f"workspace:{wanted.workspace}" if wanted.workspace else None)
    await link.execute(
        "insert into operation (id, kind, workspace_id, desktop_id, lane, after_id, input, proof, actor)"
        " values (%s, %s, %s, %s, %s, %s, %s, %s, %s)",
        [
            *(id, wanted.kind, wanted.workspace, wanted.desktop, lane, wanted.after, Jsonb(wanted.input)),
            *(Jsonb(wanted.proof) if wanted.proof else None, who.actor),
        ],
    )
    await remember(link, who, once, id)
    return id


async def in_the_name_of(link: Link, who: Caller) -> None:
    """Say who sets what is set from here on in the transaction: the database stamps it, and writes the line."""
    await link.execute("select set_config('deskyard.caller', %s, true)", [who.actor])


async def note(link: Link, actor: str, action: str, target: str, **detail: Any) -> None:
    """A line for the audit of what leaves no row, in the transaction of what it tells of."""
    await link.execute(
        "insert into audit_intake (actor, action, target, detail) values (%s, %s, %s, %s)",
        [actor, action, target, Jsonb(json.loads(json.dumps(detail, default=str)))],
    )


async def accepted(request: Request, response: Response, link: Link, id: str) -> Operation:
    """The answer to long work: 202 and its place; with `Prefer: wait=SECONDS` not before its end, or the time's."""
    await link.commit()
    response.status_code = HTTPStatus.ACCEPTED
    response.headers["Location"] = f"/api/operations/{id}"
    link = await awaited(request, response, id) or link
    found = await rows.row(link, f"{rows.OPERATION} where o.id = %s", [id])
    assert found is not None
    return rows.operation(found)


async def awaited(request: Request, response: Response, id: str) -> Link | None:
    """With `Prefer: wait=SECONDS`: the connection after the operation's end, or the time's; None if nobody asked."""
    asked = WAIT.match(request.headers.get("prefer", "").replace(" ", ""))
    if asked is None:
        return None
    seconds = min(int(asked[1]), MOST_WAITING_SECONDS)
    response.headers["Preference-Applied"] = f"wait={seconds}"
    return await ended(request, id, seconds)


@dataclass(frozen=True)
class Asking:
    """A request that wants an operation, which may have been sent before."""

    request: Request
    response: Response
    link: Link
    once: Repeat

    async def admitted(
        self,
        who: Caller,
        make: Callable[[], Awaitable[Wanted]],
        then: Callable[[str], Awaitable[object]] | None = None,
    ) -> Operation:
        """The answer: what is wanted is made, and written down with what follows from it, unless that was done."""
        id = await known(self.link, who, self.once)
        if id is None:
            id = await admit(self.link, who, self.once, await make())
            if then is not None:
                await then(id)
        return await accepted(self.request, self.response, self.link, id)

    async def found(self, who: Caller, find: Callable[[], Awaitable[str]]) -> Operation:
        """The answer of an operation that is there, of which something is asked: once, however often it is sent."""
        id = await known(self.link, who, self.once)
        if id is None:
            id = await find()
            await remember(self.link, who, self.once, id)
        return await accepted(self.request, self.response, self.link, id)


Prefer = Annotated[
    str | None,
    Header(alias="Prefer", description="`wait=SECONDS`: answer at the end of the operation, or of the time."),
]


def asking(request: Request, response: Response, link: Connection, once: Once, _prefer: Prefer = None) -> Asking:
    """The request, with what an answer to it needs."""
    return Asking(request, response, link, once)


Asked = Annotated[Asking, Depends(asking)]


async def ended(request: Request, id: str, seconds: float) -> Link:
    """Commit, and wait for the end of an operation, or of the time; the request's connection from then on.

    It holds none while it waits: a few requests that wait would leave none for all others.
    """
    deadline = Deadline(seconds)
    await let_go(request)
    async with request.app.state.feed.listening() as news:
        while not await _is_over(request, id):
            try:
                # Only this is given up: a query that is cut short would take its connection with it.
                async with asyncio.timeout(deadline.left):
                    await news.changed(id)
            except TimeoutError:
                break
    return await linked(request)


async def _is_over(request: Request, id: str) -> bool:
    async with request.app.state.pool.connection() as link:
        found = await rows.row(link, "select state from operation where id = %s", [id])
    return found is None or found["state"] in ENDED
