"""Tables as CSV: what of them is held while they are read, and what becomes of one that breaks off."""

import contextlib
import csv
from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from deskyard.control.api.application import create
from deskyard.control.api.pages import Pages
from deskyard.control.api.watch import tables, usage
from deskyard.control.store.cluster import WEB
from deskyard.host.deadline import Deadline
from tests.control.lab import ORIGIN, WAIT_SECONDS, Lab
from tests.control.test_every_call import served

DESKTOPS, DAYS = 300, 300
FIRST = date(2026, 1, 1)
DAYS_OF = {"since": str(FIRST), "until": str(FIRST + timedelta(days=DAYS - 1))}
# The database waits to be asked for more of a table, and has for a second.
WAITS = """select pid from pg_stat_activity where usename = session_user and application_name = 'tables'
    and state = 'idle in transaction' and query like 'FETCH%%' and state_change < clock_timestamp() - interval '1 s'"""


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
def counted(mission: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[httpx.Client, Counted]]:
    """A client of an application of this process, by the rights of the real one, and what that reads of tables."""
    cells = Counted(usage._cells)
    monkeypatch.setattr(usage, "_cells", cells)
    app = create(f"{mission.url_as(WEB)}&application_name=tables", ORIGIN, Pages())
    with served(app, tmp_path / "socket") as path, mission.client(mission.key("read"), path) as client:
        yield client, cells


def test_a_reader_that_stops_stops_the_database_and_has_the_whole_when_it_goes_on(
    mission: Lab, long: int, counted: tuple[httpx.Client, Counted]
) -> None:
    client, cells = counted
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


def test_a_table_that_breaks_off_does_not_pass_for_whole(
    mission: Lab, long: int, counted: tuple[httpx.Client, Counted]
) -> None:
    client, cells = counted
    with client.stream("GET", "/api/usage.csv", params=DAYS_OF) as answer:
        row = mission.until(WAITS, [])
        mission.link.execute("select pg_terminate_backend(%s)", [row["pid"]])
        with pytest.raises(httpx.RemoteProtocolError):
            answer.read()
    assert cells.rows < long


def test_readers_that_stop_keep_no_connection_from_others_and_leave_theirs_when_they_go(
    mission: Lab, long: int, counted: tuple[httpx.Client, Counted]
) -> None:
    client, _ = counted
    query = f"select 1 where (select count(*) from ({WAITS}) as waiting) = %s"
    with contextlib.ExitStack() as readers:
        for _ in range(3 * tables.AT_ONCE):
            readers.enter_context(client.stream("GET", "/api/usage.csv", params=DAYS_OF))
        # Those beyond wait for their turn, and hold no connection meanwhile.
        mission.until(query, [tables.AT_ONCE])
        assert client.get("/api/prices").status_code == 200
    assert Deadline(WAIT_SECONDS).wait_for(lambda: mission.link.execute(query, [0]).fetchone() is not None, 0.1)
    assert client.get("/api/usage.csv", params={**DAYS_OF, "desktop": "lab.d1"}).text.count("lab.d1") == DAYS
