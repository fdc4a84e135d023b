"""Operations on sessions: grant, redeem, look at, revoke, end. Decides; HAProxy carries."""

import asyncio
import contextlib
import secrets
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Hashable, Mapping, Sequence
from http import HTTPStatus
from typing import Any

from deskyard.errors import GatewayError
from deskyard.gateway.actions import use
from deskyard.gateway.actions.table import KEEP_SECONDS
from deskyard.gateway.anchors import Anchors
from deskyard.gateway.awaiting.awaiting import Awaiting
from deskyard.gateway.chat.chat import Chat
from deskyard.gateway.halting.halts import Halts
from deskyard.gateway.machine.clock import Clock
from deskyard.gateway.machine.layout import Layout
from deskyard.gateway.session import tokens
from deskyard.gateway.session.audit import Audit
from deskyard.gateway.session.grants import AGENT, ASK_AGAIN, check_grant, check_scopes, why_not
from deskyard.gateway.session.pace import Pace
from deskyard.gateway.session.proxy import Proxy
from deskyard.gateway.session.refusal import Refusal
from deskyard.gateway.session.shutter import Shutter
from deskyard.gateway.session.signing import Ring
from deskyard.gateway.session.store import Session, Store, ticket_hash
from deskyard.gateway.session.streams import Streams
from deskyard.wire.computer import MOST_ENDED
from deskyard.wire.gateway_settings import Settings
from deskyard.wire.routes import COMPUTER, DESKTOP

TICKET_SECONDS = 600
# A worker that is just starting read its files before this session began or ended: look for it so long.
NEW_WORKER_SECONDS = 30.0
# What of a connection's end is no refusal.
ENDS_BY_ITSELF = ("closed", "the desktop does not answer")
# A desktop is told for so long that a session is over: by then it has let go what nobody uses.
TELL_SECONDS = 120.0
MOST_SESSIONS = 5_000  # in one list: of a longer one its host believes nothing
ENDED_AT_ONCE = 20  # more would keep each other waiting for longer than HAProxy is asked about one
LOOK_SECONDS = 5.0  # a clock that was set, a worker that nobody told of


class Sessions:
    """The sessions of one gateway."""

    def __init__(
        self,
        settings: Settings,
        store: Store,
        proxy: Proxy,
        audit: Audit,
        keys: Ring,
        layout: Layout,
        clock: Callable[[], float] = time.time,
        ticks: Callable[[], float] = time.monotonic,
    ) -> None:
        self.settings = settings
        self.streams = Streams(store, layout, self._note, clock)
        self.awaiting = Awaiting(settings, self._note, lambda: self.streams.line.awaited_changed(), clock)
        self.chat = Chat(settings, self._note)
        self._privacy = Shutter(proxy, layout.private_file, lambda: set(self.hidden()))
        self.halts = Halts(settings, store, audit.note, clock)
        self.halts.changed = lambda: self.streams.line.halts_changed()
        self._stops = Shutter(proxy, layout.stopped_file, self.halts.stopped)
        self._lease = layout.lease_seconds
        self._pace = Pace(layout.false_tickets_per_minute)
        self._store = store
        self._proxy = proxy
        self._audit = audit
        self.anchors = Anchors(audit, layout.audit_file)
        self._keys = keys
        self._clock = clock
        self._own_clock = Clock(clock, ticks)
        self._synced: set[int] = set()
        self.woken = asyncio.Event()
        self.streams.wake = self.woken.set
        self._hurry = 0.0  # until when the sweep does not rest
        self._behind = False  # a worker may lack a session: the sweep gives all of them all sessions again
        self._closing = asyncio.Lock()

    def grant(
        self,
        desktop: str,
        routes: Sequence[str] | None,
        mode: str,
        ttl: int,
        actor: str,
        scopes: Sequence[str] | None = None,
    ) -> dict[str, Any]:
        """Make a ticket; raises `GatewayError` if it would allow what cannot be."""
        target = self.settings.desktop(desktop)
        chosen, allowed = check_grant(target, routes, mode, ttl), check_scopes(scopes, mode)
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
            scopes=allowed,
        )
        with self._store.whole():
            self._store.add(session, ticket_hash(ticket))
            self._note("grant", session, result="granted", ttl=ttl)
        return {
            "id": session.id,
            "ticket": ticket,
            "url": f"{self.settings.origin}/#{ticket}",
            "desktop": desktop,
            "routes": list(chosen),
            "mode": mode,
            "scopes": list(allowed),
            "session_expires": int(session.expires),
            "ticket_expires": int(session.ticket_expires),
        }

    async def redeem(self, ticket: str, address: str) -> tuple[Session, str]:
        """Turn a ticket into a session and its signed token; raises `GatewayError` saying why not."""
        hashed, now = ticket_hash(ticket), self._clock()
        with self._store.whole():
            session = self._store.redeem(hashed, address, now, now + self._lease)
            if session is not None:
                self._note("redeem", session, result="active", address=address)
        if session is None:
            if self._pace.too_fast(address):
                reason = "too many links that open nothing came from here"
                raise Refusal(HTTPStatus.TOO_MANY_REQUESTS, "rate", reason, "wait a minute")
            ended = self._store.by_ticket(hashed)
            refusal = why_not(ended, now)
            about = (
                {"session": ended.id, "desktop": ended.desktop, "actor": ended.actor} if ended else {"session": None}
            )
            self._audit.note("refuse", **about, route="redeem", address=address, result="refused", reason=refusal.field)
            raise refusal
        self._hasten(now)
        if not await self._proxy.admit([session]):
            self._behind = True
        return session, self._token(session, now)

    def renew(self, session: Session) -> tuple[Session, str]:
        """A fresh token for a session that is used; it never outlives the grant."""
        now = self._clock()
        with self._store.whole():
            renewed = self._store.renew(session.id, now + self._lease, now)
            if renewed is None:
                raise GatewayError("none", None, "this session is over", ASK_AGAIN)
            self._note("renew", renewed, result="active", until=int(renewed.ends))
        return renewed, self._token(renewed, now)

    def session_of(self, claims: dict[str, Any] | None, desktop: str) -> Session:
        """The live session behind a verified cookie; raises `GatewayError` saying what became of it."""
        session = self._store.get(str(claims["jti"])) if claims and claims.get("desktop") == desktop else None
        if session is None:
            raise GatewayError("none", None, "this browser has no session for this desktop", ASK_AGAIN)
        now = self._clock()
        state = session.state(now)
        if state != "active":
            raise GatewayError(state, None, f"this session is {state}", ASK_AGAIN)
        if claims is None or int(claims["exp"]) <= now:
            raise GatewayError("none", None, "this cookie is over; a newer one was given out", ASK_AGAIN)
        return session

    def is_good(self, session: Session) -> bool:
        """Whether a session lasts still."""
        found = self._store.get(session.id)
        return found is not None and found.state(self._clock()) == "active"

    def state_of(self, session: Session) -> dict[str, Any]:
        """The state that a session's page shows: who drives, who sees it, and whether its agent is stopped."""
        driver = self._store.get(self.streams.drivers.get(session.desktop, ""))
        has_programs = session.desktop in self.settings.program_places
        return {
            "drives": self.streams.drives(session),
            "driver": driver.actor if driver else None,
            "recorded": self.settings.desktop(session.desktop).recorded,
            # None where no program comes, and there is nothing to hide.
            "private": self._privacy.is_on(session.desktop) if has_programs else None,
            "watching": len(
                {
                    stream.session.id
                    for stream in self.streams.open.values()
                    if stream.session.desktop == session.desktop
                }
            ),
            "agent": self.halts.facts(session.desktop, shut=self._stops.is_on(session.desktop)),
        }

    def open_stream(self, key: Hashable, said: dict[str, Any]) -> tuple[str, int]:
        """Where a new VNC connection of a session goes; raises `GatewayError` if it goes nowhere."""
        id, desktop, address, shows = said["session"], said["desktop"], said["address"], said["shows"]
        session = self._store.get(id)
        if not self._looks(session, desktop):
            raise GatewayError("session", id, "is over, or not for this desktop", ASK_AGAIN)
        assert session is not None
        routes = self.settings.desktop(desktop).routes
        route = COMPUTER.name if shows else DESKTOP.name
        if route not in routes:
            raise GatewayError("desktop", desktop, "has no computer-use service", "open the whole screen")
        try:
            self.streams.begin(key, session, address, shows=bool(shows))
        except Refusal as refusal:
            self._note("refuse", session, result="refused", address=address, reason=f"too many {refusal.field}")
            raise
        return self.settings.desktop(desktop).address, routes[route]

    def resume_stream(self, key: Hashable, said: dict[str, Any]) -> bool:
        """Take in a connection that is older than this process; false if it must end."""
        session = self._store.get(said["session"])
        if not self._looks(session, said["desktop"]):
            return False
        assert session is not None
        self.streams.again(key, session, said["address"], said["since"], said["acted"], shows=bool(said.get("shows")))
        return True

    def end_stream(self, key: Hashable, said: dict[str, Any]) -> None:
        """A VNC connection is over."""
        self.streams.end(key)
        if said.get("flood"):
            # Else the same client is back at once. HAProxy hears of it from the sweep, which this wakes.
            self._mark_revoked([said["session"]], "deskyard-gateway", said["reason"])
            self.streams.line.close(said["session"])
        elif said["reason"] not in ENDS_BY_ITSELF and (session := self._store.get(said["session"])):
            self._note("refuse", session, result="closed", address=said["address"], reason=said["reason"])

    def _looks(self, session: Session | None, desktop: str) -> bool:
        good = session is not None and session.state(self._clock()) == "active" and session.desktop == desktop
        return good and session is not None and DESKTOP.name in session.routes

    async def set_privacy(self, session: Session, *, private: bool) -> None:
        """Have no program see the desktop of its driver, or end that; raises `GatewayError` if it is not in force."""
        if session.desktop not in self.settings.program_places:
            reason = "has no meaning here: no program reaches this desktop through the gateway"
            raise Refusal(HTTPStatus.CONFLICT, "privacy", reason, "go on: nobody but people sees it by this way")
        self.streams.set_private(session, private)
        self._hasten(self._clock())
        await self._privacy.settle()
        if private and not self._privacy.is_on(session.desktop):
            reason, remedy = "is not in force yet: the gateway is being updated", "wait a moment, and look again"
            raise Refusal(HTTPStatus.SERVICE_UNAVAILABLE, "privacy", reason, remedy)

    async def stop_agent(self, desktop: str, actor: str, session: Session | None = None) -> None:
        """Stop a desktop's agent; no program comes through the door when that is answered; raises `GatewayError`."""
        try:
            self.halts.stop(desktop, actor, session)
        finally:
            # Also if it could not be written down.
            self._hasten(self._clock())
            await self._stops.settle()

    async def let_agent_go(self, desktop: str, actor: str, session: Session | None = None) -> None:
        """Let a desktop's agent go on; raises `GatewayError` if it may not."""
        self.halts.let_go(desktop, actor, session)
        self._hasten(self._clock())
        await self._stops.settle()

    def want(self, session: Session) -> None:
        """Note that a session wants its desktop to start; raises `GatewayError` if it may not."""
        if session.mode == AGENT and session.desktop in self.halts.stopped() | self.streams.private:
            reason, remedy = "is shut for programs by a person: none wakes it", "wait until a person lets programs in"
            raise Refusal(HTTPStatus.LOCKED, "stopped", reason, remedy, session.desktop)
        self.awaiting.want(session)

    def hear_unanswered(self, id: str) -> None:
        """A desktop did not answer what a program did there: it is wanted, if the program may want that."""
        # Who hammers costs no more than who asks now and then.
        if self.awaiting.is_fresh(id):
            return
        with contextlib.suppress(GatewayError):  # who may not, and a full disk
            session = self._store.get(id)
            if session is not None and session.state(self._clock()) == "active":
                self.want(session)

    def hidden(self) -> dict[str, tuple[str, int]]:
        """The desktops that no program sees, and where the service of each is told so."""
        places = self.settings.program_places
        return {name: places[name] for name in self.streams.private if name in places}

    def ended(self) -> dict[str, tuple[str, int, list[str]]]:
        """Where the service of each desktop is told whose keys and buttons to let go: sessions that ended lately."""
        now = self._clock()
        found = defaultdict[str, list[str]](list)
        for session in self._store.ended(AGENT, now - TELL_SECONDS, now):
            found[session.desktop].append(session.id)
        places = self.settings.program_places
        return {desktop: (*place, found[desktop][:MOST_ENDED]) for desktop, place in places.items()}

    def use_keys(self, request: dict[str, Any]) -> dict[str, Any]:
        """Sign with the key that was just published."""
        self._keys.reload()
        reason = "asked for, the old one is void" if request["at_once"] else "asked for"
        self._audit.note("keys", by=request["actor"], key=self._keys.kid, result="signs", reason=reason)
        return {"signs": self._keys.kid}

    def note_certificate(self, facts: dict[str, str]) -> None:
        """Write down what came of ordering a certificate."""
        self._audit.note("certificate", **facts)

    def note_ask(self, facts: dict[str, object]) -> None:
        """Write down a ticket, or what a person decided; raises if it opens something and cannot be written."""
        self._audit.note("refuse" if facts["result"] in ("refused", "rejected") else "ask", **facts)

    def note_deciders(self, facts: dict[str, object]) -> None:
        """Write down who may answer tickets from now on; raises if it cannot be written."""
        self._audit.note("deciders", **facts)

    async def listing(self) -> list[dict[str, Any]]:
        """List the sessions that are not over, and those that ended as lately as their use is known; newest first."""
        now = self._clock()
        sessions = self._store.recent(now - KEEP_SECONDS, now, MOST_SESSIONS)
        # Where no program comes, HAProxy is not asked.
        uses = await use.look(self._proxy) if any(session.mode == AGENT for session in sessions) else {}
        now = self._clock()
        self.awaiting.hear()
        return [{**describe(session, now), **self._use(session, now, uses)} for session in sessions]

    def _use(self, session: Session, now: float, uses: Mapping[str, float] | None) -> dict[str, Any]:
        """The use that is made of a session; of a program's also the last one that was made of it."""
        streams, active = self.streams.of(session.id), session.state(now) == "active"
        since = min((stream.since for stream in streams), default=None)
        idle, does = None, None
        if since is not None:
            idle = int(now - max(since, *(stream.acted for stream in streams)))
            does = "drives" if self.streams.drives(session) else "watches"
        elif session.mode == AGENT and (idle := use.of(session, uses, active=active)) is not None:
            does = "acts" if active else "acted"
        return {
            "streams": len(streams),
            "from": sorted({stream.address for stream in streams}),
            "since": None if since is None else int(since),
            "idle": idle,
            "does": does,
            "wanted": self.awaiting.wanted(session.id) if active else None,
        }

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
        declared = {desktop.name for desktop in self.settings.desktops}
        self.halts.keep(declared)
        gone = [session.id for session in self._store.all() if session.desktop not in declared]
        await self._revoke(gone, "deskyard-gateway", "the desktop was removed")

    async def sweep(self) -> float:
        """Bring HAProxy in line: new workers learn the sessions, ended sessions lose their sockets.

        Answers for how many seconds there is nothing more to do, unless `woken` is set.
        """
        self._own_clock.follow(self._bring_forward)
        now = self._clock()
        settled = await self._sync_workers(now)
        settled = await self._close_over(now) and settled
        self._move_drives(now)
        settled = await self._privacy.settle() and settled
        settled = await self._stops.settle() and settled
        self._store.forget_old(now)
        return self._rest(now) if settled else 0.0

    async def _close_over(self, now: float) -> bool:
        """Close the sockets of all that are over, some at a time; false if some have to be tried again."""
        over, settled = self._store.to_close(now), True
        self._tell_ended(over)
        async for group in self._end_in_groups(over, now):
            for session, ended in group:
                settled = settled and ended
                if ended and session.revoked is None:
                    self._note("expire", session, result="closed", reason=session.state(now))
        return settled

    def _bring_forward(self, seconds: float) -> bool:
        """Let no session last longer because the clock was set back: what is to come moves with it."""
        with self._store.whole():
            self._store.bring_forward(seconds)
            self._audit.note("clock", result="set back", seconds=round(seconds), reason="sessions end as granted")
        return True

    def _move_drives(self, now: float) -> None:
        alive = {session.id for session in self._store.alive(now)}
        self.awaiting.sweep(alive)
        self.chat.sweep(alive)
        self.streams.sweep(alive)

    def _rest(self, now: float) -> float:
        if now < self._hurry:
            return 0.0
        moments = [moment for moment in (self._store.next_end(now), self.streams.due()) if moment is not None]
        return max(0.0, min([*moments, now + LOOK_SECONDS]) - now)

    def _hasten(self, now: float) -> None:
        self._hurry = now + NEW_WORKER_SECONDS
        self.woken.set()

    async def _sync_workers(self, now: float) -> bool:
        """Tell new workers what they may lack; false if one did not take it, and must be asked again."""
        workers = await self._proxy.workers()
        behind, self._behind = self._behind, False
        fresh = [pid for pid in workers if behind or pid not in self._synced]
        lacking: set[int] = set()
        if fresh:
            # The newest first: whoever has just come is the one that waits.
            alive = sorted(self._store.alive(now), key=lambda session: session.redeemed or 0.0, reverse=True)
            # All at once: one that hangs holds up no other.
            taken = await asyncio.gather(*(self._proxy.admit(alive, [pid]) for pid in fresh))
            lacking = {pid for pid, all_taken in zip(fresh, taken, strict=True) if not all_taken}
            revoked = self._store.revoked(now)
            await asyncio.gather(*(self._proxy.refuse(session, revoked=True) for session in revoked))
        self._synced = set(workers) - lacking
        return not lacking

    def _mark_revoked(self, ids: list[str], actor: str, reason: str) -> list[Session]:
        now = self._clock()
        ended = self._store.revoke(ids, now)
        self._tell_ended(ended)
        self._hasten(now)
        for session in ended:
            self._note("revoke", session, result="revoked", by=actor, reason=reason)
        return ended

    def _tell_ended(self, sessions: Sequence[Session]) -> None:
        """Have the desktops of these do nothing more for programs among them, before HAProxy takes its time."""
        if any(session.mode == AGENT for session in sessions):
            with contextlib.suppress(GatewayError):  # a full disk keeps no session's sockets open
                self.streams.line.ended_changed()

    async def _revoke(self, ids: list[str], actor: str, reason: str) -> list[dict[str, Any]]:
        ended = self._mark_revoked(ids, actor, reason)
        live = [session for session in ended if session.redeemed is not None]
        for session in live:
            self.streams.line.close(session.id)
        async for group in self._end_in_groups(live, self._clock()):
            if group and not any(done for _, done in group):
                break  # HAProxy does not answer: the sweep asks it again
        now = self._clock()
        with contextlib.suppress(GatewayError):  # what opens may have to wait: the sweep tries again
            self._move_drives(now)
        return [describe(session, now) for session in ended]

    async def _end_in_groups(self, over: Sequence[Session], now: float) -> AsyncIterator[list[tuple[Session, bool]]]:
        """Close the sockets of ended sessions, some at a time; false with each that the sweep must try again."""
        ids = [session.id for session in over]
        for first in range(0, len(ids), ENDED_AT_ONCE):
            # Let go between: somebody may wait to revoke another, or have closed some of the next ones.
            async with self._closing:
                left = self._store.to_close(now, ids[first : first + ENDED_AT_ONCE])
                ended = await asyncio.gather(*map(self._end_one, left))
            yield list(zip(left, ended, strict=True))

    async def _end_one(self, session: Session) -> bool:
        """Close the sockets of an ended session; false if HAProxy or the disk refuses."""
        self.streams.line.close(session.id)
        if await self._proxy.refuse(session, revoked=session.revoked is not None) == 0:
            return False
        try:
            self._store.close(session.id, self._clock())
        except GatewayError:
            return False
        return True

    def _token(self, session: Session, now: float) -> str:
        return tokens.sign(session, self.settings.workspace, now, self._keys.kid, self._keys.private)

    def _note(self, event: str, session: Session, **facts: object) -> int:
        self._audit.note(
            event,
            session=session.id,
            desktop=session.desktop,
            routes=list(session.routes),
            mode=session.mode,
            **({"scopes": list(session.scopes)} if session.scopes else {}),
            actor=session.actor,
            **facts,
        )
        return self._audit.last[0]


def describe(session: Session, now: float) -> dict[str, Any]:
    """A session as `list` shows it."""
    return {
        "id": session.id,
        "desktop": session.desktop,
        "routes": list(session.routes),
        "mode": session.mode,
        "scopes": list(session.scopes),
        "actor": session.actor,
        "issued": int(session.issued),
        "redeemed": int(session.redeemed) if session.redeemed else None,
        "expires": int(session.expires),
        "address": session.address,
        "state": session.state(now),
    }
