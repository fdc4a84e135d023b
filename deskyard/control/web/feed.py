"""Tells every watcher what happened, in the order of the database; nothing is lost over a cut or a restart."""

import asyncio
import contextlib
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import psycopg
from psycopg.rows import dict_row
from psycopg_pool import AsyncConnectionPool
from pydantic import BaseModel, ValidationError

from deskyard.control.api import rows
from deskyard.control.api.caller import Caller, Link, Row
from deskyard.control.api.problem import Problem
from deskyard.control.store.connection import AWAY
from deskyard.control.web.watch.alerts import alert
from deskyard.host.deadline import Deadline

HEARTBEAT_SECONDS = 15.0
# An event, since a browser shows no comment to its page: what does not come any more tells it of a cut.
HEARTBEAT = b"event: heartbeat\ndata: {}\n\n"
# A watcher who is so far behind loads its lists anew.
MOST_WAITING = 256
AT_ONCE = 500
AGAIN_SECONDS = 1.0
# The transaction that holds events back may end without any event of its own.
HELD_BACK_SECONDS = 0.05
# To wake a watcher costs the same for one event and for ten: with many of them, what happens within a pause is told
# together, and most of the processor is left for who asks. The first event after a quiet time waits for nothing.
PAUSE_SECONDS_EACH = 0.0001
MOST_PAUSE_SECONDS = 0.25
# The transactions of this database that have written something: those that are open, and those that are prepared.
RUNNING = """
select backend_xid::text as xid from pg_stat_activity
where datid = (select oid from pg_database where datname = current_database()) and backend_xid is not null
union all select transaction::text from pg_prepared_xacts where database = current_database()
"""
START = (0, 0)
Cursor = tuple[int, int]
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class News:
    """An event as it is sent: its place, of what kind, of which workspace and desktop, and its data as JSON."""

    place: Cursor
    kind: str
    workspace: str | None
    desktop: str | None
    subject: str
    data: str

    @cached_property
    def frame(self) -> bytes:
        """As server-sent events are written; once for all watchers."""
        return f"id: {written(self.place)}\nevent: {self.kind}\ndata: {self.data}\n\n".encode()


class Watcher:
    """Somebody who listens from now on."""

    def __init__(self) -> None:
        self._waiting: asyncio.Queue[News] = asyncio.Queue(MOST_WAITING)
        self.is_behind = False

    def hear(self, news: News) -> None:
        """Put it by; who does not take what comes is behind."""
        try:
            self._waiting.put_nowait(news)
        except asyncio.QueueFull:
            self.is_behind = True

    async def next(self) -> list[News]:
        """All news since the last call: a busy watcher gets them together."""
        found = [await self._waiting.get()]
        while not self._waiting.empty():
            found.append(self._waiting.get_nowait())
        return found

    async def changed(self, subject: str) -> None:
        """Wait until something is heard of a subject."""
        while not self.is_behind:
            news = await self._waiting.get()
            if news.subject == subject:
                return
        self.is_behind = False


class Feed:
    """One listener on the database for all watchers of the process."""

    def __init__(self, url: str, pool: AsyncConnectionPool[Link]) -> None:
        self._url, self._pool = url, pool
        self._watchers: set[Watcher] = set()
        self._place: Cursor = START

    @contextlib.contextmanager
    def _heard_by(self, watcher: Watcher) -> Iterator[Watcher]:
        self._watchers.add(watcher)
        try:
            yield watcher
        finally:
            self._watchers.discard(watcher)

    @contextlib.asynccontextmanager
    async def listening(self) -> AsyncIterator[Watcher]:
        """Hear everything from now on."""
        with self._heard_by(Watcher()) as watcher:
            yield watcher

    async def run(self) -> None:
        """Listen for ever; a database that went away is waited for, and what happened meanwhile is read then."""
        is_placed = False
        while True:
            try:
                if not is_placed:
                    self._place, is_placed = await self._newest(), True
                async with await psycopg.AsyncConnection.connect(
                    self._url, autocommit=True, row_factory=dict_row
                ) as link:
                    await link.execute("listen event")
                    while True:
                        waits = HEARTBEAT_SECONDS if await self._pass_on(link) else HELD_BACK_SECONDS
                        async for _ in link.notifies(timeout=waits, stop_after=1):
                            pass
            except AWAY as error:
                log.warning("no events from the database, which is asked again: %s", error)
            except Exception:
                # Nobody waits for this task: were it over, every watcher would hear nothing for ever.
                log.exception("events are read again")
            await asyncio.sleep(AGAIN_SECONDS)

    async def _newest(self) -> Cursor:
        """The last event that none can come before any more: what an open transaction tells is told when it ends."""
        async with self._pool.connection() as link:
            query = """select xid::text as xid, id from event where xid < %s::text::xid8
                order by event.xid desc, id desc limit 1"""
            found = await rows.row(link, query, [await _settled(link)])
        return (int(found["xid"]), found["id"]) if found else START

    async def _pass_on(self, link: Link) -> bool:
        """Tell the watchers what is new; false if something younger than an open transaction has to wait for it."""
        while True:
            found = await _after(link, self._place)
            for news in await _as_news(link, found):
                for watcher in tuple(self._watchers):
                    watcher.hear(news)
            if found:
                self._place = _place(found[-1])
                await asyncio.sleep(min(len(self._watchers) * PAUSE_SECONDS_EACH, MOST_PAUSE_SECONDS))
            if len(found) < AT_ONCE:
                query = "select 1 from event where (xid, id) > (%s::text::xid8, %s) limit 1"
                return await rows.row(link, query, [str(self._place[0]), self._place[1]]) is None

    async def stream(
        self, who: Caller, again: Callable[[], Awaitable[Caller]], after: Cursor | None, only: "Only"
    ) -> AsyncIterator[bytes]:
        """The news that a caller may see, from a place on, as server-sent events; `again` asks whether it still may."""
        with self._heard_by(Watcher()) as watcher:
            yield b": deskyard\n\n"
            last, asked = after or START, Deadline(HEARTBEAT_SECONDS)
            if after is not None and not await self._has(after):
                # What came after it may be deleted by now; or it is of a database that was put back since, whose places
                # say nothing of this one's.
                last = await self._newest()
                yield f"id: {written(last)}\nevent: reset\ndata: {{}}\n\n".encode()
            elif after is not None:
                async for news in self._missed(after):
                    last = news.place
                    if only.takes(who, news):
                        yield news.frame
            while True:
                if watcher.is_behind:
                    yield b"event: reset\ndata: {}\n\n"
                    return
                if asked.is_over:
                    try:
                        who, asked = await again(), Deadline(HEARTBEAT_SECONDS)
                    except Problem:
                        return
                    yield HEARTBEAT
                try:
                    # No task for each: `wait_for` makes one, a thousand times for every event.
                    async with asyncio.timeout(HEARTBEAT_SECONDS):
                        heard = await watcher.next()
                except TimeoutError:
                    continue
                if frames := b"".join(news.frame for news in heard if news.place > last and only.takes(who, news)):
                    yield frames

    async def _has(self, place: Cursor) -> bool:
        """Whether the event of a place is kept, and so all after it; from the start on everything counts that is."""
        if place == START:
            return True
        async with self._pool.connection() as link:
            query = "select 1 from event where xid = %s::text::xid8 and id = %s"
            return await rows.row(link, query, [str(place[0]), place[1]]) is not None

    async def _missed(self, place: Cursor) -> AsyncIterator[News]:
        while True:
            async with self._pool.connection() as link:
                found = await _after(link, place)
                news_found = await _as_news(link, found)
            for news in news_found:
                yield news
            if len(found) < AT_ONCE:
                return
            place = _place(found[-1])


@dataclass(frozen=True)
class Only:
    """A watcher's filter: the workspace and the desktop that it wants to hear of."""

    workspace: str | None = None
    desktop: str | None = None

    def takes(self, who: Caller, news: News) -> bool:
        """Whether the caller may see it, and wants it."""
        if news.workspace is not None and not who.sees(news.workspace):
            return False
        if news.workspace is None and who.workspaces is not None:
            return False
        return self.workspace in (None, news.workspace) and self.desktop in (None, news.desktop)


def parsed(text: str | None) -> Cursor | None:
    """The place that a watcher heard last; None if it says none."""
    first, _, second = (text or "").partition("-")
    return (int(first), int(second)) if first.isdigit() and second.isdigit() and len(text or "") < 60 else None


def written(place: Cursor) -> str:
    """A place as watchers keep it."""
    return f"{place[0]}-{place[1]}"


def _place(found: Row) -> Cursor:
    return int(found["xid"]), found["id"]


async def _after(link: Link, place: Cursor) -> list[Row]:
    """Events after a place: only what no open transaction can come before."""
    query = """select xid::text as xid, id, kind, subject, workspace_id, desktop_id from event
        where (xid, id) > (%s::text::xid8, %s) and xid < %s::text::xid8
        order by event.xid, id limit %s"""
    return await rows.rows(link, query, [str(place[0]), place[1], await _settled(link), AT_ONCE])


async def _settled(link: Link) -> str:
    """The first transaction that may still tell of something; of those before it all is known to the next query.

    The least that a snapshot knows of is of the whole server: it would let a transaction of another database, which
    tells of nothing here, hold back every event for as long as it lasts.
    """
    query = """select pg_snapshot_xmin(now)::text as oldest, pg_snapshot_xmax(now)::text as next
        from pg_current_snapshot() as now"""
    found = await rows.row(link, query, [])
    assert found is not None
    if found["oldest"] == found["next"]:
        return str(found["next"])
    # After that look: what was begun before it runs still, and is seen here, or it is over, and seen by the next query.
    # PostgreSQL keeps what it shows here for the rest of a transaction, in which nobody asks this twice.
    next, number = int(found["next"]), 1 << 32
    running = [
        # Without the epoch, which is that of its neighbours.
        next + (int(record["xid"]) - next + number // 2) % number - number // 2
        for record in await rows.rows(link, RUNNING, [])
    ]
    return str(min([next, *running]))


async def _as_news(link: Link, found: Iterable[Row]) -> list[News]:
    """The events with what they tell of, as it is now; of several of the same subject the last is enough."""
    last = {(event["kind"], event["subject"]): event for event in found}
    texts = {}
    for kind in {kind for kind, _ in last}:
        subjects = [subject for other, subject in last if other == kind]
        texts.update({(kind, subject): text for subject, text in (await data(link, kind, subjects)).items()})
    return [
        News(_place(event), event["kind"], event["workspace_id"], event["desktop_id"], event["subject"], text)
        for place, event in sorted(last.items(), key=lambda item: _place(item[1]))
        if (text := texts.get(place)) is not None
    ]


async def data(link: Link, kind: str, subjects: list[str]) -> dict[str, str]:
    """The present state of subjects of a kind, as JSON for watchers; what cannot be written is left out."""
    if kind == "operation.log":
        numbers: list[Any] = [subject.rpartition("/") for subject in subjects]
        query = (
            "select * from operation_log where (operation_id, number) in (select * from unnest(%s::text[], %s::int[]))"
        )
        found = await rows.rows(link, query, [[part[0] for part in numbers], [int(part[2]) for part in numbers]])
        return {f"{record['operation_id']}/{record['number']}": _json(rows.log_line(record)) for record in found}
    if kind == "conversation":
        # Its messages tell of one that is there; of itself it tells that it was deleted.
        return {id: json.dumps({"id": id, "gone": True}) for id in subjects}
    query, form = FORMS[kind]
    found = await rows.rows(link, query, [subjects])
    gone = [record["id"] for record in found if record.get("gone_at") is not None]
    texts = {id: json.dumps({"id": id, "gone": True}) for id in gone}
    there = [record for record in found if record["id"] not in texts]
    if form is None:
        return texts | {record.id: _json(record) for record in await rows.desktops(link, there)}
    for record in there:
        try:
            texts[record["id"]] = _json(form(record))
        except ValidationError as error:
            # The others are told; a list with it says what is wrong.
            log.error("%s %s cannot be told: %s", kind, record["id"], error)
    return texts


# How the subjects of a kind are read; desktops are read together, as each may have an operation.
FORMS: dict[str, tuple[str, Callable[[Row], BaseModel] | None]] = {
    "desktop": (f"{rows.DESKTOP} where d.id = any(%s)", None),
    "operation": (f"{rows.OPERATION} where o.id = any(%s)", rows.operation),
    "workspace": (f"{rows.WORKSPACE} where w.id = any(%s)", rows.workspace),
    "approval": (f"{rows.APPROVAL} where a.id = any(%s)", rows.approval),
    "alert": ("select * from alert where id = any(%s)", alert),
    "message": (f"{rows.MESSAGE} where id = any(%s)", rows.message),
}


def _json(form: BaseModel) -> str:
    return form.model_dump_json(by_alias=True)
