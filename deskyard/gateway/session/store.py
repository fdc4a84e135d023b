"""Tickets and sessions on disk. A ticket is kept only as its hash and can be redeemed once.

Sessions end on a full disk, too: the journal keeps its room, and a row does not grow when it is revoked.
"""

import contextlib
import hashlib
import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from deskyard.errors import GatewayError
from deskyard.gateway.machine import room

State = Literal["granted", "lapsed", "active", "idle", "expired", "revoked"]

SCHEMA = """
create table if not exists sessions (
    id text primary key,
    desktop text not null,
    routes text not null,
    mode text not null,
    actor text not null,
    issued real not null,
    expires real not null,
    ticket_hash text not null unique,
    ticket_expires real not null,
    redeemed real,
    address text,
    revoked real,
    closed real,
    lease real,
    scopes text not null default ''
);
create index if not exists sessions_by_end on sessions (expires);
create table if not exists drivers (
    desktop text primary key,
    session text not null,
    since real not null,
    private integer not null default 0
);
create table if not exists halts (
    desktop text primary key,
    actor text not null,
    since real not null,
    by_host integer not null,
    stops integer not null
);
"""
COLUMNS = (
    "id, desktop, routes, mode, actor, issued, expires, ticket_expires, redeemed, address, revoked, closed, lease,"
    " scopes"
)
LATER_COLUMNS = (
    ("sessions", "lease real"),
    ("sessions", "scopes text not null default ''"),
    ("drivers", "private integer not null default 0"),
)
ENDS = "min(expires, coalesce(lease, expires))"
# One whose sockets were closed at its end stays over, also where the clock is set back to before that.
ALIVE = f"redeemed is not null and revoked is null and closed is null and {ENDS} > ?"
# When it ended, or will.
END = f"coalesce(revoked, case when redeemed is null then min(ticket_expires, expires) else {ENDS} end)"
KEEP_SECONDS = 30 * 24 * 3600
JOURNAL_BYTES = 256 * 1024


@dataclass(frozen=True)
class Session:
    """A grant and what became of it; times are seconds since 1970."""

    id: str
    desktop: str
    routes: tuple[str, ...]
    mode: str
    actor: str
    issued: float
    expires: float
    ticket_expires: float
    redeemed: float | None = None
    address: str | None = None
    revoked: float | None = None
    closed: float | None = None
    lease: float | None = None  # until when its last cookie is good; a renewal moves it
    scopes: tuple[str, ...] = ()  # of a program: what it may do with the desktop

    @property
    def ends(self) -> float:
        """When it ends if nobody renews it."""
        return self.expires if self.lease is None else min(self.lease, self.expires)

    def state(self, now: float) -> State:
        """The state of this session at the time `now`."""
        if self.revoked is not None:
            return "revoked"
        if self.redeemed is None:
            return "granted" if now < min(self.ticket_expires, self.expires) else "lapsed"
        over = self.closed is not None
        if now >= self.expires or (over and self.ends == self.expires):
            return "expired"
        return "active" if now < self.ends and not over else "idle"


@dataclass(frozen=True)
class Halt:
    """A stop of a desktop's agent, or that it is to go on, which its desktop has not confirmed yet."""

    desktop: str
    actor: str
    since: float
    by_host: bool  # only the host may take back what it did
    stops: bool = True


def ticket_hash(ticket: str) -> str:
    """How a ticket is kept: its 256 random bits need no salt."""
    return hashlib.sha256(ticket.encode()).hexdigest()


class Store:
    """The database of one gateway. Every call is one transaction."""

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        self._folder = path.resolve().parent
        self._joined: sqlite3.Connection | None = None
        self._source = f"{path.resolve().as_uri()}?mode={'ro' if read_only else 'rwc'}"
        if not read_only:
            path.parent.mkdir(parents=True, exist_ok=True)
            with self._transaction() as db:
                for statement in SCHEMA.split(";"):
                    db.execute(statement)
                for table, column in LATER_COLUMNS:
                    there = [row[1] for row in db.execute(f"pragma table_info({table})")]
                    if column.split()[0] not in there:
                        db.execute(f"alter table {table} add column {column}")
            path.chmod(0o600)
            self._reserve(path.with_name(f"{path.name}-journal"))

    @contextmanager
    def whole(self) -> Iterator[None]:
        """Make one transaction of all calls within: what they change counts only if everything within was done."""
        with self._transaction() as db:
            self._joined = db
            try:
                yield
            finally:
                self._joined = None

    def add(self, session: Session, hashed_ticket: str) -> None:
        """Keep a new grant."""
        with self._transaction() as db:
            db.execute(
                "insert into sessions (id, desktop, routes, mode, actor, issued, expires, ticket_expires, scopes,"
                " ticket_hash) values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    session.id,
                    session.desktop,
                    " ".join(session.routes),
                    session.mode,
                    session.actor,
                    session.issued,
                    session.expires,
                    session.ticket_expires,
                    " ".join(session.scopes),
                    hashed_ticket,
                ),
            )

    def redeem(self, hashed_ticket: str, address: str, now: float, lease: float | None = None) -> Session | None:
        """Turn a ticket into a session: one caller of any number at once gets it, all others get nothing."""
        with self._transaction() as db:
            won = db.execute(
                "update sessions set redeemed = ?, address = ?, lease = ? where ticket_hash = ? and redeemed is null"
                " and revoked is null and ticket_expires > ? and expires > ?",
                (now, address, lease, hashed_ticket, now, now),
            ).rowcount
            return self._first(db, "ticket_hash = ?", hashed_ticket) if won == 1 else None

    def renew(self, id: str, lease: float, now: float) -> Session | None:
        """Move the end of a session that is active; nothing if it is not."""
        with self._transaction() as db:
            text = f"update sessions set lease = ? where id = ? and {ALIVE}"
            return self._first(db, "id = ?", id) if db.execute(text, (lease, id, now)).rowcount == 1 else None

    def drivers(self) -> dict[str, tuple[str, float]]:
        """Which session drives each desktop, and since when."""
        with self._transaction() as db:
            rows = db.execute("select desktop, session, since from drivers").fetchall()
        return {desktop: (session, since) for desktop, session, since in rows}

    def set_driver(self, desktop: str, session: str | None, now: float) -> None:
        """Note who drives a desktop from now on; `None` for nobody."""
        with self._transaction() as db:
            db.execute("delete from drivers where desktop = ?", (desktop,))
            if session is not None:
                db.execute("insert into drivers (desktop, session, since) values (?, ?, ?)", (desktop, session, now))

    def private(self) -> set[str]:
        """The desktops whose drivers want privacy; it goes with the driver."""
        with self._transaction() as db:
            if not any(row[1] == "private" for row in db.execute("pragma table_info(drivers)")):
                return set()  # of an older service, read before the new one has begun
            return {row[0] for row in db.execute("select desktop from drivers where private = 1").fetchall()}

    def set_private(self, desktop: str, private: bool) -> None:
        """Note whether the driver of a desktop wants privacy."""
        with self._transaction() as db:
            db.execute("update drivers set private = ? where desktop = ?", (int(private), desktop))

    def halts(self) -> list[Halt]:
        """Agents that are stopped, or are to go on."""
        with self._transaction() as db:
            if not db.execute("select 1 from sqlite_master where name = 'halts'").fetchone():
                return []  # of an older service, read before the new one has begun
            rows = db.execute("select desktop, actor, since, by_host, stops from halts").fetchall()
        return [
            Halt(desktop, actor, since, bool(by_host), bool(stops)) for desktop, actor, since, by_host, stops in rows
        ]

    def set_halt(self, halt: Halt) -> None:
        """Note that an agent is stopped, or is to go on."""
        values = (halt.desktop, halt.actor, halt.since, int(halt.by_host), int(halt.stops))
        with self._transaction() as db:
            db.execute("replace into halts (desktop, actor, since, by_host, stops) values (?, ?, ?, ?, ?)", values)

    def end_halt(self, desktop: str) -> None:
        """Forget a stop: the agent goes on, or its desktop is gone."""
        with self._transaction() as db:
            db.execute("delete from halts where desktop = ?", (desktop,))

    def by_ticket(self, hashed_ticket: str) -> Session | None:
        """The grant that a ticket belongs to, whatever became of it."""
        with self._transaction() as db:
            return self._first(db, "ticket_hash = ?", hashed_ticket)

    def get(self, id: str) -> Session | None:
        """Read the session with this id."""
        with self._transaction() as db:
            return self._first(db, "id = ?", id)

    def actor(self, id: str) -> str | None:
        """For whom a session was granted; None where that cannot be read just now."""
        with contextlib.suppress(GatewayError, sqlite3.Error):
            session = self.get(id)
            return session.actor if session else None
        return None

    def all(self) -> list[Session]:
        """Read all sessions that are remembered, newest first."""
        return self._many("1", "order by issued desc")

    def recent(self, since: float, now: float, most: int) -> list[Session]:
        """Read so many that are not over or ended since then, newest first; where there are more, those not over."""
        over = f"revoked is not null or closed is not null or {END} <= ?"
        found = self._many(f"{END} > ?", f"order by {over}, issued desc limit ?", since, now, most)
        return sorted(found, key=lambda session: session.issued, reverse=True)

    def alive(self, now: float) -> list[Session]:
        """Redeemed, not revoked, not over."""
        return self._many(ALIVE, "", now)

    def next_end(self, now: float) -> float | None:
        """When the first of those that are alive ends, if nobody renews it."""
        with self._transaction() as db:
            row = db.execute(f"select min({ENDS}) from sessions where {ALIVE}", (now,)).fetchone()
        return None if row[0] is None else float(row[0])

    def revoked(self, now: float) -> list[Session]:
        """Revoked ones whose cookie would still be good."""
        return self._many(f"revoked is not null and redeemed is not null and {ENDS} > ?", "", now)

    def to_close(self, now: float, among: Sequence[str] | None = None) -> list[Session]:
        """Ended ones whose sockets were not yet closed for good; only those of the ids `among`, if there are some."""
        ended = f"redeemed is not null and closed is null and (revoked is not null or {ENDS} <= ?)"
        if among is None:
            return self._many(ended, "", now)
        return self._many(f"{ended} and id in ({', '.join('?' * len(among))})", "", now, *among)

    def ended(self, mode: str, since: float, now: float) -> list[Session]:
        """Redeemed ones of this mode that ended since then, the last first."""
        end = f"coalesce(revoked, {ENDS})"
        ended = f"mode = ? and redeemed is not null and {end} > ? and {end} <= ?"
        return self._many(ended, f"order by {end} desc", mode, since, now)

    def revoke(self, ids: list[str], now: float) -> list[Session]:
        """Mark as revoked; those that were not, and not over, before."""
        fresh: list[Session] = []
        with self._transaction() as db:
            for id in ids:
                # A zero takes no room, and nobody asks for the ticket's end any more.
                text = "update sessions set revoked = ?, ticket_expires = 0 where"
                if db.execute(f"{text} id = ? and revoked is null and expires > ?", (now, id, now)).rowcount == 1:
                    session = self._first(db, "id = ?", id)
                    fresh += [session] if session else []
        return fresh

    def bring_forward(self, seconds: float) -> None:
        """Move the ends of all that is not over so many seconds forward: the clock was set back by as many."""
        names = ("issued", "expires", "ticket_expires", "lease")
        moved = ", ".join(f"{name} = {name} - :seconds" for name in names)
        with self._transaction() as db:
            db.execute(f"update sessions set {moved} where revoked is null and closed is null", {"seconds": seconds})

    def close(self, id: str, now: float) -> None:
        """Note that the sockets of an ended session are closed."""
        with self._transaction() as db:
            db.execute("update sessions set closed = ? where id = ?", (now, id))

    def forget_old(self, now: float) -> None:
        """Drop what ended long ago; the audit file remembers longer."""
        with self._transaction() as db:
            db.execute("delete from sessions where expires < ?", (now - KEEP_SECONDS,))

    @staticmethod
    def _reserve(journal: Path) -> None:
        """Give the journal its room while there is some; a journal that begins with a zero counts as none."""
        descriptor = os.open(journal, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            with contextlib.suppress(OSError):
                os.posix_fallocate(descriptor, 0, JOURNAL_BYTES)
        finally:
            os.close(descriptor)

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        if self._joined is not None:
            yield self._joined
            return
        db = sqlite3.connect(self._source, uri=True, timeout=10, isolation_level=None)
        try:
            if "mode=rwc" in self._source:
                db.execute("pragma journal_mode = persist")
                db.execute("begin immediate")
            else:
                db.execute("begin")
            yield db
            db.execute("commit")
        except sqlite3.OperationalError as error:
            # Without room for a journal SQLite says other things than that the disk is full.
            if error.sqlite_errorcode == sqlite3.SQLITE_FULL or room.is_full(self._folder):
                raise room.full(self._folder) from error
            raise
        finally:
            db.close()  # takes back what was not committed

    def _many(self, where: str, order: str, *values: Any) -> list[Session]:
        with self._transaction() as db:
            rows = db.execute(f"select {COLUMNS} from sessions where {where} {order}", values).fetchall()
        return [_session(row) for row in rows]

    @staticmethod
    def _first(db: sqlite3.Connection, where: str, value: str) -> Session | None:
        row = db.execute(f"select {COLUMNS} from sessions where {where}", (value,)).fetchone()
        return _session(row) if row else None


def _session(row: tuple[Any, ...]) -> Session:
    values = dict(zip(COLUMNS.split(", "), row, strict=True))
    listed = {name: tuple(values[name].split()) for name in ("routes", "scopes")}
    return Session(**{**values, **listed})
