"""What may be done with sessions: grant, redeem, look at, revoke, end. Decides; HAProxy carries."""

import asyncio
import secrets
import time
from collections.abc import Callable, Sequence
from typing import Any

from deskyard.gateway import tokens
from deskyard.gateway.audit import Audit
from deskyard.gateway.errors import GatewayError
from deskyard.gateway.proxy import Proxy
from deskyard.gateway.render import MAX_TTL_SECONDS
from deskyard.gateway.settings import Desktop, Settings
from deskyard.gateway.store import Session, Store, ticket_hash

TICKET_SECONDS = 600
MIN_TTL_SECONDS = 1
MODES = ("drive", "view")
VIEW_ROUTES = ("desktop",)
ASK_AGAIN = "ask for a new link: access.grant"


class Sessions:
    """The sessions of one gateway."""

    def __init__(
        self,
        settings: Settings,
        store: Store,
        proxy: Proxy,
        audit: Audit,
        signing_key: tuple[str, str],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.settings = settings
        self._store = store
        self._proxy = proxy
        self._audit = audit
        self._kid, self._key = signing_key
        self._clock = clock
        self._synced: set[int] = set()
        self._behind = False  # a worker may lack a session: the sweep gives all of them all sessions again
        self._closing = asyncio.Lock()

    def grant(self, desktop: str, routes: Sequence[str] | None, mode: str, ttl: int, actor: str) -> dict[str, Any]:
        """Make a ticket; raises `GatewayError` if it would allow what cannot be."""
        target = self.settings.desktop(desktop)
        chosen = check_grant(target, routes, mode, ttl)
        now = self._clock()
        ticket = secrets.token_urlsafe(32)
        session = Session(
            id=secrets.token_urlsafe(18),
            desktop=desktop,
            routes=chosen,
            mode=mode,
            actor=actor,
            issued=now,
            expires=now + ttl,
            ticket_expires=now + min(TICKET_SECONDS, ttl),
        )
        self._store.add(session, ticket_hash(ticket))
        self._note("grant", session, result="granted", ttl=ttl)
        return {
            "id": session.id,
            "ticket": ticket,
            "url": f"{self.settings.origin}/#{ticket}",
            "desktop": desktop,
            "routes": list(chosen),
            "mode": mode,
            "session_expires": int(session.expires),
            "ticket_expires": int(session.ticket_expires),
        }

    async def redeem(self, ticket: str, address: str) -> tuple[Session, str]:
        """Turn a ticket into a session and its signed token; raises `GatewayError` saying why not."""
        hashed, now = ticket_hash(ticket), self._clock()
        session = self._store.redeem(hashed, address, now)
        if session is None:
            known = self._store.by_ticket(hashed)
            reason = why_not(known, now)
            self._audit.note("refuse", session=known.id if known else None, address=address, reason=reason.field)
            raise reason
        self._note("redeem", session, result="active", address=address)
        if not await self._proxy.admit(session):
            self._behind = True
        return session, tokens.sign(session, self.settings.workspace, now, self._kid, self._key)

    def session_of(self, claims: dict[str, Any] | None, desktop: str) -> Session:
        """The live session behind a verified cookie; raises `GatewayError` saying what became of it."""
        session = self._store.get(str(claims["jti"])) if claims and claims.get("desktop") == desktop else None
        if session is None:
            raise GatewayError("none", None, "this browser has no session for this desktop", ASK_AGAIN)
        state = session.state(self._clock())
        if state != "active":
            raise GatewayError(state, None, f"this session is {state}", ASK_AGAIN)
        return session

    def listing(self) -> list[dict[str, Any]]:
        """All sessions that are remembered, newest first."""
        now = self._clock()
        return [describe(session, now) for session in self._store.all()]

    async def revoke(self, id: str | None, desktop: str | None, everything: bool, actor: str) -> list[dict[str, Any]]:
        """Revoke one session, those of one desktop, or all: on disk first, then in HAProxy."""
        if sum((id is not None, desktop is not None, everything)) != 1:
            raise GatewayError("revoke", None, "takes exactly one of: ID, --desktop, --all", "choose one")
        chosen = [
            session.id
            for session in self._store.all()
            if everything or session.id == id or (desktop is not None and session.desktop == desktop)
        ]
        if id is not None and not chosen:
            raise GatewayError("session", id, "is not known", "see the ids with access.list")
        return await self._revoke(chosen, actor, "asked for")

    async def revoke_removed_desktops(self) -> None:
        """Sessions of desktops that left the settings end: their sockets would outlive the reload."""
        known = {desktop.name for desktop in self.settings.desktops}
        gone = [session.id for session in self._store.all() if session.desktop not in known]
        await self._revoke(gone, "deskyard-gateway", "the desktop was removed")

    async def sweep(self) -> None:
        """Bring HAProxy in line: new workers learn the sessions, ended sessions lose their sockets."""
        now = self._clock()
        await self._sync_workers(now)
        async with self._closing:
            for session in self._store.to_close(now):
                if await self._end(session) and session.revoked is None:
                    self._note("expire", session, result="closed")
        self._store.forget_old(now)

    async def _sync_workers(self, now: float) -> None:
        workers = await self._proxy.workers()
        behind, self._behind = self._behind, False
        fresh = [pid for pid in workers if behind or pid not in self._synced]
        taken = True
        if fresh:
            for session in self._store.alive(now):
                taken = await self._proxy.admit(session, fresh) and taken
            revoked = self._store.revoked(now)
            await asyncio.gather(*(self._proxy.refuse(session, revoked=True) for session in revoked))
        self._synced = set(workers) if taken else set()

    async def _revoke(self, ids: list[str], actor: str, reason: str) -> list[dict[str, Any]]:
        now = self._clock()
        ended = self._store.revoke(ids, now)
        for session in ended:
            self._note("revoke", session, result="revoked", by=actor, reason=reason)
        live = [session for session in ended if session.redeemed is not None]
        async with self._closing:
            await asyncio.gather(*(self._end(session) for session in live))
        return [describe(session, now) for session in ended]

    async def _end(self, session: Session) -> bool:
        """Close the sockets of an ended session; false if HAProxy could not be asked, and the sweep must try again."""
        if await self._proxy.refuse(session, revoked=session.revoked is not None) == 0:
            return False
        self._store.close(session.id, self._clock())
        return True

    def _note(self, event: str, session: Session, **facts: object) -> None:
        self._audit.note(
            event,
            session=session.id,
            desktop=session.desktop,
            routes=list(session.routes),
            mode=session.mode,
            actor=session.actor,
            **facts,
        )


def check_grant(desktop: Desktop, routes: Sequence[str] | None, mode: str, ttl: int) -> tuple[str, ...]:
    """The routes to grant; raises `GatewayError` for what makes no sense."""
    if mode not in MODES:
        raise GatewayError("mode", mode, "is no mode", f"choose one of: {', '.join(MODES)}")
    if not MIN_TTL_SECONDS <= ttl <= MAX_TTL_SECONDS:
        reason = f"must be from {MIN_TTL_SECONDS} to {MAX_TTL_SECONDS} seconds"
        raise GatewayError("ttl", ttl, reason, "choose a time within a day")
    possible = VIEW_ROUTES if mode == "view" else tuple(desktop.routes)
    chosen = tuple(possible) if routes is None else tuple(routes)
    for route in chosen:
        if route not in possible or route not in desktop.routes:
            known = ", ".join(route for route in possible if route in desktop.routes)
            raise GatewayError("routes", route, f"cannot be granted in mode {mode}", f"choose of: {known}")
    if not chosen:
        raise GatewayError("routes", "", "is empty", f"choose of: {', '.join(possible)}")
    return tuple(sorted(set(chosen)))


def why_not(session: Session | None, now: float) -> GatewayError:
    """Why a ticket opens nothing; `field` is the word for programs."""
    if session is None:
        return GatewayError("unknown", None, "this link is not known here", ASK_AGAIN)
    if session.revoked is not None:
        return GatewayError("revoked", None, "this link was revoked", ASK_AGAIN)
    if session.redeemed is not None:
        return GatewayError("used", None, "this link was used already; a link opens once", ASK_AGAIN)
    return GatewayError("expired", None, "this link has expired; links live for ten minutes", ASK_AGAIN)


def describe(session: Session, now: float) -> dict[str, Any]:
    """A session as `list` shows it."""
    return {
        "id": session.id,
        "desktop": session.desktop,
        "routes": list(session.routes),
        "mode": session.mode,
        "actor": session.actor,
        "issued": int(session.issued),
        "redeemed": int(session.redeemed) if session.redeemed else None,
        "expires": int(session.expires),
        "address": session.address,
        "state": session.state(now),
    }
