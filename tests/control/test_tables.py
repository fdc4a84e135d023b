"""Tables: what of them is held while they are read, who may read them at once, and what becomes of those cut short."""

import contextlib
import csv
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import date, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest

from deskyard.control.store.cluster import WEB
from deskyard.control.web.application import create
from deskyard.control.web.pages import Pages
from deskyard.control.web.watch import added, tables, turns, usage
from deskyard.host.deadline import Deadline
from tests.control.lab import ORIGIN, WAIT_SECONDS, Lab
from tests.control.test_every_call import served

DESKTOPS, DAYS = 300, 300
FIRST = date(2026, 1, 1)
DAYS_OF = {"since": str(FIRST), "until": str(FIRST + timedelta(days=DAYS - 1))}
# Whether so many tables are read.
READ = """select 1 where (select count(*) from pg_stat_activity where usename = session_user
    and application_name = 'tables' and state <> 'idle' and query like 'FETCH%%') = %s"""
# The database waits to be asked for more of a table, and has for a second.
WAITS = """select pid from pg_stat_activity where usename = session_user and application_name = 'tables'
    and state = 'idle in transaction' and query like 'FETCH%%' and state_change < clock_timestamp() - interval '1 s'"""


class Served(NamedTuple):
    """A client of an application, what that reads of tables, and its socket."""

    client: httpx.Client
    cells: "Counted"
    path: Path


class Counted:
    """A table's cells, with the number of rows that were read of it."""

    def __init__(self, cells: tables.Cells) -> None:
        self._cells, self.rows = cells, 0

    def __call__(self, row: dict[str, Any]) -> Any:
        self.rows += 1
        return self._cells(row)


@pytest.fixture
def long(mission: Lab) -> int:
    """Machine time of many desktops on many days; the number of its lines."""
    mission.link.execute(
        "insert into usage_interval (desktop_id, workspace_id, tier, began_at, ended_at)"
        " select 'lab.d' || n, 'lab', 'free', %(since)s::date, %(until)s::date + 1 from generate_series(1, %(n)s) n",
        {**DAYS_OF, "n": DESKTOPS},
    )
    return DESKTOPS * DAYS


@pytest.fixture
def counted(mission: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    """A client of an application of this process, by the rights of the real one, and what that reads of tables."""
    cells = Counted(usage._cells)
    monkeypatch.setattr(usage, "_cells", cells)
    app = create(f"{mission.url_as(WEB)}&application_name=tables", ORIGIN, Pages())
    with served(app, tmp_path / "socket") as path, mission.client(mission.key("read"), path) as client:
        yield Served(client, cells, path)


def test_a_reader_that_stops_stops_the_database_and_has_the_whole_when_it_goes_on(
    mission: Lab, long: int, counted: Served
) -> None:
    client, cells, _ = counted
    with client.stream("GET", "/api/usage.csv", params=DAYS_OF) as answer:
        assert answer.headers["content-type"].startswith("text/csv")
        mission.until(WAITS, [])
        before = cells.rows
        # What the socket and the server hold on the way, and no more: of a table ten times as long it is the same.
        assert tables.ROWS <= before < long / 10
        lines = answer.iter_lines()
        assert next(lines).split(",") == usage.COLUMNS
        read = list(csv.reader(lines))
    assert len(read) == cells.rows == long
    assert read[0][:3] == [str(FIRST), "lab", "lab.d1"] and read[-1][0] == DAYS_OF["until"]


def test_a_table_that_breaks_off_does_not_pass_for_whole(mission: Lab, long: int, counted: Served) -> None:
    client, cells, _ = counted
    with client.stream("GET", "/api/usage.csv", params=DAYS_OF) as answer:
        row = mission.until(WAITS, [])
        mission.link.execute("select pg_terminate_backend(%s)", [row["pid"]])
        with pytest.raises(httpx.RemoteProtocolError):
            answer.read()
    assert cells.rows < long


def test_usage_as_json_is_read_as_it_is_taken_and_whole_at_the_end(
    mission: Lab, long: int, counted: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = 0

    class Counting(added.Together):
        def used(self, row: dict[str, Any]) -> added.Used:
            nonlocal read
            read += 1
            return super().used(row)

    monkeypatch.setattr(added, "Together", Counting)
    with counted.client.stream("GET", "/api/usage", params=DAYS_OF) as answer:
        assert answer.headers["content-type"] == "application/json"
        mission.until(WAITS, [])
        assert tables.ROWS <= read < long / 10
        found = json.loads(answer.read())
    assert len(found["items"]) == read == long
    assert found["microseconds"] == sum(item["microseconds"] for item in found["items"])
    assert found == added.Usage.model_validate(found).model_dump(mode="json", by_alias=True)


def test_usage_as_json_that_breaks_off_does_not_pass_for_whole(mission: Lab, long: int, counted: Served) -> None:
    with counted.client.stream("GET", "/api/usage", params=DAYS_OF) as answer:
        row = mission.until(WAITS, [])
        mission.link.execute("select pg_terminate_backend(%s)", [row["pid"]])
        with pytest.raises(httpx.RemoteProtocolError):
            answer.read()


@contextlib.contextmanager
def readers(client: httpx.Client, count: int) -> Iterator[None]:
    """So many tables of a caller, of which nothing more is read than how they begin."""
    with contextlib.ExitStack() as open_ones:
        for _ in range(count):
            answer = open_ones.enter_context(client.stream("GET", "/api/usage.csv", params=DAYS_OF))
            assert answer.status_code == 200
        yield


def until_read(mission: Lab, count: int) -> None:
    """Wait until so many tables are read; the database tells nobody of that."""
    assert Deadline(WAIT_SECONDS).wait_for(lambda: mission.link.execute(READ, [count]).fetchone() is not None, 0.1)


def refusal(client: httpx.Client, path: str = "/api/usage.csv") -> tuple[int, str, str]:
    """How a table is refused: its status, how many are read, and after how many seconds to send it again."""
    answer = client.get("/api/usage.csv", params=DAYS_OF)
    problem = answer.json()
    assert (problem["field"], answer.headers["content-type"]) == ("tables", "application/problem+json")
    assert "send it again" in problem["remedy"]
    return answer.status_code, problem["value"], answer.headers["retry-after"]


def test_a_caller_whose_readers_stop_is_refused_more_and_keeps_none_from_others(
    mission: Lab, long: int, counted: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turns, "TURN_SECONDS", 0.5)
    client = counted.client
    with readers(client, turns.OF_CALLER):
        until_read(mission, turns.OF_CALLER)
        assert refusal(client) == (429, str(turns.OF_CALLER), "5")
        assert client.get("/api/prices").status_code == client.get("/api/usage", params=DAYS_OF).status_code == 200
        with mission.client(mission.key("read"), counted.path) as other:
            assert other.get("/api/usage.csv", params={**DAYS_OF, "desktop": "lab.d1"}).text.count("lab.d1") == DAYS
    mission.until("select 1 from audit_entry where action = 'request.refused' and detail ->> 'field' = 'tables'", [])


def test_where_others_read_all_there_may_be_a_table_is_refused_and_read_when_one_of_them_ends(
    mission: Lab, long: int, counted: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = [mission.key("read") for _ in range(turns.AT_ONCE // turns.OF_CALLER)]
    client = counted.client
    with contextlib.ExitStack() as others:
        for key in keys:
            other = others.enter_context(mission.client(key, counted.path))
            others.enter_context(readers(other, turns.OF_CALLER))
        until_read(mission, turns.AT_ONCE)
        with monkeypatch.context() as patch:
            patch.setattr(turns, "TURN_SECONDS", 0.5)
            assert refusal(client) == (503, str(turns.AT_ONCE), "5")
        with ThreadPoolExecutor(1) as pool:
            waits = pool.submit(client.get, "/api/usage.csv", params={**DAYS_OF, "desktop": "lab.d1"})
            others.close()
            assert waits.result(WAIT_SECONDS).text.count("lab.d1") == DAYS
    until_read(mission, 0)


def test_a_reader_that_takes_too_little_is_cut_off_and_leaves_its_turn(
    mission: Lab, long: int, counted: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turns, "PAUSE_SECONDS", 2.0)
    client, cells, _ = counted
    with client.stream("GET", "/api/usage.csv", params=DAYS_OF) as answer:
        until_read(mission, 0)
        with pytest.raises(httpx.RemoteProtocolError):
            answer.read()
    assert cells.rows < long


def test_a_table_that_breaks_off_before_it_begins_is_a_problem_and_no_table(mission: Lab, counted: Served) -> None:
    with ThreadPoolExecutor(1) as pool, mission.link.transaction():
        mission.link.execute("lock table usage_interval in access exclusive mode")
        asked = pool.submit(counted.client.get, "/api/usage.csv", params=DAYS_OF)
        row = mission.until("select pid from pg_locks where not granted and relation = 'usage_interval'::regclass", [])
        mission.link.execute("select pg_terminate_backend(%s)", [row["pid"]])
        answer = asked.result(WAIT_SECONDS)
    assert (answer.status_code, answer.json()["field"]) == (503, "database")
