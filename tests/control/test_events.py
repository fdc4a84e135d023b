"""What happens is heard to every watcher, in order, and not lost over a cut, a restart or a late commit."""

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator, Iterator
from types import SimpleNamespace
from typing import Any, cast

import httpx
import psycopg
import pytest
from psycopg.rows import dict_row
from psycopg_pool import AsyncConnectionPool, PoolTimeout
from pydantic import BaseModel

from deskyard.control.api.caller import Caller, Link
from deskyard.control.queue import claim as claims
from deskyard.control.store.cluster import DATABASE, OWNER
from deskyard.control.web import feed
from tests.control.lab import EVERYTHING, WAIT_SECONDS, Lab
from tests.control.stream import watching
from tests.control.test_operations import want


def until_done(stream: Iterator[Any], operation: str) -> list[tuple[str, str, dict[str, Any]]]:
    found = []
    for event in stream:
        found.append(event)
        if event[1] == "operation" and event[2]["id"] == operation and event[2]["state"] == "done":
            return found
    raise AssertionError(f"the stream ended after {found}")


def test_an_operation_is_told_from_its_beginning_to_its_end(mission: Lab, owner: httpx.Client) -> None:
    mission.declare("lab", "blocks")
    mission.gate("blocks")
    with watching(mission, mission.key("read")) as stream:
        operation = want(owner, "lab.blocks")
        mission.until("select 1 from operation_log where operation_id = %s", [operation])
        mission.open("blocks")
        heard = until_done(stream, operation)
    kinds = [kind for _, kind, _ in heard]
    assert kinds[-1] == "operation" and "operation.log" in kinds
    assert [data["line"] for _, kind, data in heard if kind == "operation.log"] == ["blocks begins"]
    places = [tuple(map(int, place.split("-"))) for place, _, _ in heard]
    assert places == sorted(places)


def test_what_happened_while_nobody_listened_is_told_afterwards(mission: Lab, owner: httpx.Client) -> None:
    mission.declare("lab", "first")
    key = mission.key("read")
    with watching(mission, key) as stream:
        first = want(owner, "lab.first")
        last = until_done(stream, first)[-1][0]
    second = want(owner, "lab.first")
    mission.state(second, "done")
    mission.end("web", signal.SIGKILL)
    mission.web()
    with watching(mission, key, last=last) as stream:
        heard = until_done(stream, second)
    assert all(data["id"] != first for _, kind, data in heard if kind == "operation")


@pytest.mark.parametrize("lost", ["ahead", "between", "swept"])
def test_who_heard_last_what_is_not_kept_is_told_to_begin_anew_and_then_what_happens(
    mission: Lab, owner: httpx.Client, lost: str
) -> None:
    mission.declare("lab", "first")
    key = mission.key("read")
    with watching(mission, key) as stream:
        heard = until_done(stream, want(owner, "lab.first"))
    xid, id = map(int, heard[-1][0].split("-"))
    # Of another database, whose numbers were higher; or of one that happened to have some between those of here.
    last = {"ahead": f"{xid + 10**6}-{id + 10**6}", "between": f"{xid - 1}-{id}", "swept": heard[0][0]}[lost]
    if lost == "swept":
        mission.link.execute("update event set at = at - interval '25 hours'")
        claims.sweep(mission.link)
    with watching(mission, key, last=last) as stream:
        place, kind, _ = next(stream)
        assert kind == "reset"
        until_done(stream, want(owner, "lab.first"))
    # From there it goes on as from any other.
    with watching(mission, key, last=place) as stream:
        assert "reset" not in [kind for _, kind, _ in until_done(stream, want(owner, "lab.first"))]


def test_who_heard_all_before_a_day_without_events_goes_on(mission: Lab, owner: httpx.Client) -> None:
    mission.declare("lab", "first")
    key = mission.key("read")
    with watching(mission, key) as stream:
        until_done(stream, want(owner, "lab.first"))
        # Something may be told behind that, such as how its desktop is.
        mission.link.execute("update desktop set detail = 'seen'")
        last = next(place for place, kind, data in stream if kind == "desktop" and data["detail"] == "seen")
    mission.link.execute("update event set at = at - interval '25 hours'")
    claims.sweep(mission.link)
    with watching(mission, key, last=last) as stream:
        assert "reset" not in [kind for _, kind, _ in until_done(stream, want(owner, "lab.first"))]


def test_an_event_of_a_transaction_that_ends_late_is_not_left_out(mission: Lab) -> None:
    mission.declare("lab", "early", "late")
    update = "update desktop set detail = 'moved' where id = %s"
    with watching(mission, mission.key("read")) as stream, psycopg.connect(mission.url(OWNER)) as late:
        # Its event has the smaller number, and is seen by nobody until it ends.
        late.execute(update, ["lab.late"])
        mission.link.execute(update, ["lab.early"])
        late.commit()
        seen: set[str] = set()
        # What was declared may still be told first.
        while seen != {"lab.early", "lab.late"}:
            _, kind, data = next(stream)
            if kind == "desktop" and data["detail"] == "moved":
                seen.add(data["id"])


def test_what_another_database_of_the_server_writes_for_long_holds_back_nothing(mission: Lab) -> None:
    mission.declare("lab", "first")
    other = mission.url(OWNER).replace(DATABASE, "postgres", 1)
    with psycopg.connect(other) as stranger:
        stranger.execute("set idle_in_transaction_session_timeout = 0")
        stranger.execute("select pg_current_xact_id()")
        with watching(mission, mission.key("read")) as stream:
            mission.link.execute("update desktop set detail = 'moved' where id = 'lab.first'")
            assert any(kind == "desktop" and data["detail"] == "moved" for _, kind, data in stream)


def test_events_are_told_though_the_database_is_away_as_the_process_begins(
    mission: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    mission.declare("lab", "first")
    monkeypatch.setattr(feed, "AGAIN_SECONDS", 0.0)

    async def hear() -> None:
        async with AsyncConnectionPool(mission.url(OWNER), open=False, kwargs={"row_factory": dict_row}) as pool:
            begun, asked = asyncio.Event(), 0

            @contextlib.asynccontextmanager
            async def connection() -> AsyncIterator[Any]:
                nonlocal asked
                asked += 1
                if asked == 1:
                    raise PoolTimeout("nobody answered")
                async with pool.connection() as link:
                    yield link
                begun.set()

            found = feed.Feed(mission.url(OWNER), cast(Any, SimpleNamespace(connection=connection)))
            running = asyncio.create_task(found.run())
            try:
                async with asyncio.timeout(WAIT_SECONDS), found.listening() as watcher:
                    await asyncio.wait({running, asyncio.create_task(begun.wait())}, return_when="FIRST_COMPLETED")
                    assert not running.done()
                    mission.link.execute("update desktop set detail = 'moved' where id = 'lab.first'")
                    await watcher.changed("lab.first")
            finally:
                running.cancel()

    asyncio.run(hear())


def test_an_event_of_a_transaction_that_outlives_the_web_process_is_told_by_the_next(mission: Lab) -> None:
    mission.declare("lab", "early", "late")
    update = "update desktop set detail = 'moved' where id = %s"
    with psycopg.connect(mission.url(OWNER)) as late:
        # It is to outlive a start of the web process, however long that takes.
        late.execute("set idle_in_transaction_session_timeout = 0")
        late.execute(update, ["lab.late"])
        mission.link.execute(update, ["lab.early"])
        mission.end("web", signal.SIGKILL)
        mission.web()
        with watching(mission, mission.key("read")) as stream:
            late.commit()
            for _, _, data in stream:
                if data["id"] == "lab.late":
                    break


def test_what_was_written_in_part_is_told_and_listed_and_silences_nothing(mission: Lab, owner: httpx.Client) -> None:
    mission.declare("lab", "first")
    with watching(mission, mission.key("read")) as stream:
        mission.link.execute(
            "insert into operation (id, kind, workspace_id, desktop_id, actor, state, problem)"
            """ values ('op_x', 'desktop.start', 'lab', 'lab.first', 'x', 'failed', '{"reason": "no room"}')"""
        )
        heard = until_done(stream, want(owner, "lab.first"))
    (failed,) = [data for _, kind, data in heard if kind == "operation" and data["id"] == "op_x"]
    assert failed["problem"] == {"field": "", "value": "", "reason": "no room", "remedy": ""}
    assert [o["problem"] for o in owner.get("/api/operations").json()["items"] if o["id"] == "op_x"] == [
        failed["problem"]
    ]


def test_what_cannot_be_told_is_left_out_and_the_rest_is_told(mission: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    mission.declare("good")
    mission.declare("bad")
    query, form = feed.FORMS["workspace"]
    assert form is not None

    def picky(record: dict[str, Any]) -> BaseModel:
        return form({**record, "state": None} if record["id"] == "bad" else record)

    monkeypatch.setitem(feed.FORMS, "workspace", (query, picky))

    async def texts() -> dict[str, str]:
        async with await psycopg.AsyncConnection.connect(mission.url(OWNER), row_factory=dict_row) as link:
            return await feed.data(link, "workspace", ["good", "bad"])

    assert set(asyncio.run(texts())) == {"good"}


def test_a_watcher_hears_only_of_what_its_key_may_see(mission: Lab, owner: httpx.Client) -> None:
    mission.declare("mine", "first")
    mission.declare("theirs", "first")
    with watching(mission, mission.key("read", workspaces=["mine"])) as stream:
        mission.state(want(owner, "theirs.first"), "done")
        heard = until_done(stream, want(owner, "mine.first"))
    assert {data.get("workspaceId", "mine") for _, kind, data in heard if kind == "operation"} == {"mine"}


def test_a_watcher_may_ask_for_one_desktop_alone(mission: Lab, owner: httpx.Client) -> None:
    mission.declare("lab", "first", "second")
    with watching(mission, mission.key(*EVERYTHING), "/api/events?desktop=lab.second") as stream:
        mission.state(want(owner, "lab.first"), "done")
        heard = until_done(stream, want(owner, "lab.second"))
    assert {data["desktopId"] for _, kind, data in heard if kind == "operation"} == {"lab.second"}


@pytest.mark.parametrize("happens", ["nothing", "much elsewhere"])
def test_heartbeat_is_told_whatever_happens(monkeypatch: pytest.MonkeyPatch, happens: str) -> None:
    monkeypatch.setattr(feed, "HEARTBEAT_SECONDS", 0.01)
    elsewhere = feed.News((1, 1), "workspace", "other", None, "other", "{}")
    who = Caller("key:ci:1", frozenset({"read"}), workspaces=frozenset({"mine"}))

    async def busy(_watcher: feed.Watcher) -> list[feed.News]:
        return [elsewhere]

    async def still() -> Caller:
        return who

    async def heard() -> list[bytes]:
        stream = feed.Feed("", cast("AsyncConnectionPool[Link]", None)).stream(who, still, None, feed.Only())
        async with asyncio.timeout(WAIT_SECONDS):
            return [await anext(stream) for _ in range(3)]

    if happens != "nothing":
        monkeypatch.setattr(feed.Watcher, "next", busy)
    assert asyncio.run(heard())[1:] == [b"event: heartbeat\ndata: {}\n\n"] * 2


def test_the_database_may_go_away_and_come_back(mission: Lab, owner: httpx.Client) -> None:
    mission.declare("lab", "first")
    with watching(mission, mission.key("read")) as stream:
        # Each is waited for: a connection that is about to end is refused as one that is lost, and the client told so.
        cut = "select pg_terminate_backend(pid, %s) from pg_stat_activity where usename <> 'mc_owner' and usename <> ''"
        mission.link.execute(cut, [round(WAIT_SECONDS * 1000)])
        heard = until_done(stream, want(owner, "lab.first"))
    assert heard
