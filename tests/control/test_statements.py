"""What a page costs the database, counted by the database itself: PostgreSQL's log is the witness."""

import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from deskyard.control.store.cluster import WEB
from tests.control.lab import WAIT_SECONDS, Lab

LINE = re.compile(r"\[(?P<backend>\d+)\] LOG:  (?:statement|execute [^:]*):\s*(?P<word>\w*)")
DESKTOPS = 60
# More than the pool of the web process would find lost within its patience if it looked at each by itself.
MANY, ROUNDS = 8, 20

Words = Callable[[str], list[str]]


def connect_anew(mission: Lab) -> None:
    """End the idle connections of the web process, but for that which listens."""
    query = """select pg_terminate_backend(pid, %s) from pg_stat_activity
        where usename = %s and state = 'idle' and query !~ 'event'"""
    mission.link.execute(query, [round(WAIT_SECONDS * 1000), WEB])


@pytest.fixture
def words(mission: Lab, owner: httpx.Client) -> Iterator[Words]:
    """The first word of each statement that a request took."""
    log = mission.folder.logs / "postgres.log"

    def asked(path: str) -> list[str]:
        before = len(log.read_text(errors="replace"))
        assert owner.get(path).status_code == httpx.codes.OK
        lines = [match.group("backend", "word") for match in LINE.finditer(log.read_text(errors="replace")[before:])]
        # The listener, of another connection, reads events at any time.
        backends = {backend for backend, word in lines if word == "BEGIN"}
        return [word for backend, word in lines if backend in backends]

    mission.link.execute(f"alter role {WEB} set log_statement = 'all'".encode())
    connect_anew(mission)
    try:
        yield asked
    finally:
        mission.link.execute(f"alter role {WEB} reset log_statement".encode())
        connect_anew(mission)


def test_a_page_takes_as_many_statements_however_many_desktops_it_has(mission: Lab, words: Words) -> None:
    mission.declare("lab", *(f"d{number}" for number in range(DESKTOPS)))
    insert = """insert into operation (id, kind, workspace_id, desktop_id, lane, actor, state, lease_until)
        select 'op_' || id, 'desktop.start', workspace_id, id, id, 'test', 'running', now() + interval '1 hour'
        from desktop"""
    mission.link.execute(insert)
    words("/api/desktops?limit=1")
    # Who asks, the page with its total, and what runs for its desktops and why it waits; the key's use is known by now.
    page = ["BEGIN", "select", "select", "with", "COMMIT"]
    assert words("/api/desktops?limit=1") == page
    assert words(f"/api/desktops?limit={DESKTOPS}") == page


def test_a_page_of_what_is_not_there_says_so_and_counts_all(mission: Lab, owner: httpx.Client) -> None:
    mission.declare("lab", "d1", "d2")
    first = owner.get("/api/desktops", params={"limit": 1}).json()
    mission.link.execute("update desktop set gone_at = now() where name = 'd2'")
    rest = owner.get("/api/desktops", params={"limit": 1, "after": first["nextCursor"]}).json()
    assert (rest["items"], rest["nextCursor"], rest["total"]) == ([], None, 1)
    none = owner.get("/api/desktops", params={"workspace": "other"}).json()
    assert (none["items"], none["total"]) == ([], 0)


def test_who_asks_after_the_database_sent_everybody_away_is_answered(mission: Lab, owner: httpx.Client) -> None:
    count = "select count(*) from pg_stat_activity where usename = %s and state = 'idle'"

    def ask(_: int) -> int:
        return owner.get("/api/desktops").status_code

    with ThreadPoolExecutor(16) as askers:
        for _ in range(ROUNDS):
            assert set(askers.map(ask, range(32))) == {httpx.codes.OK}
            held = mission.link.execute(count, [WEB]).fetchone()
            if held and held["count"] >= MANY:
                break
    assert held and held["count"] >= MANY
    connect_anew(mission)
    assert [owner.get("/api/desktops").status_code for _ in range(3)] == [200, 200, 200]
