"""Traffic of the way out on disk: bytes and connections by day, desktop and name.

The second HAProxy only ever counts up, and each of its workers by itself. So what was taken over from each row is kept
in the same transaction as the sums: nothing is counted twice, whoever is started anew. A worker of before a new list
forgets a row with its last connection: what passed since the last reading is lost then.
"""

import os
import sqlite3
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from deskyard.errors import GatewayError
from deskyard.gateway.egress import counters
from deskyard.gateway.egress.counters import OTHERS, ROWS_BELOW, Row
from deskyard.gateway.machine.layout import Layout

SCHEMA = """
create table if not exists traffic (
    day text not null,
    desktop text not null,
    name text not null,
    listed integer not null,
    connections integer not null,
    sent integer not null,
    received integer not null,
    primary key (day, desktop, name)
) without rowid;
create table if not exists taken (
    worker integer not null,
    source text not null,
    desktop text not null,
    name text not null,
    born integer not null,
    connections integer not null,
    sent integer not null,
    received integer not null,
    primary key (worker, source, desktop, name, born)
) without rowid;
"""
KEPT_DAYS = 40
DAY_SECONDS = 86_400
READ_SECONDS = 2.0


@dataclass(frozen=True)
class Traffic:
    """The traffic between a desktop and a name on a day (UTC); `sent` counts the bytes that the desktop sent."""

    day: str
    desktop: str
    name: str
    connections: int
    sent: int
    received: int


def keep(layout: Layout) -> None:
    """Take over what is counted, for ever. Whatever goes wrong with that is said, and holds up nothing else."""
    said = ""
    while True:
        problem = ""
        try:
            add(layout.traffic_file, counters.read(layout), time.time())
        except (OSError, sqlite3.Error) as error:
            problem = f"traffic is not written down: {layout.traffic_file}: {error}; it is counted on"
        if problem != said:
            print(problem or "traffic is written down again", file=sys.stderr, flush=True)
        said = problem
        time.sleep(READ_SECONDS)


def add(path: Path, found: dict[int, list[Row]], now: float) -> None:
    """Add what the rows of each worker grew by since they were last taken over."""
    with _open(path) as db:
        for worker, rows in found.items():
            _take(db, worker, rows, day(now))
        for (worker,) in db.execute("select distinct worker from taken").fetchall():
            if worker not in found and not _lives(worker):
                db.execute("delete from taken where worker = ?", (worker,))
        db.execute("delete from traffic where day <= ?", (day(now - KEPT_DAYS * DAY_SECONDS),))


def read(path: Path, since: str = "") -> list[dict[str, Any]]:
    """The counted traffic from the day `since` on; raises `GatewayError` if it cannot be read."""
    if not path.exists():
        return []
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True, timeout=10)) as db:
            columns = "day, desktop, name, connections, sent, received"
            rows = db.execute(f"select {columns} from traffic where day >= ? order by day, desktop, name", (since,))
            return [asdict(Traffic(*row)) for row in rows]
    except sqlite3.Error as error:
        remedy = "look at `journalctl -u deskyard-egress-watch` in the gateway; a damaged file may be moved away"
        raise GatewayError("traffic", str(path), f"cannot be read: {error}", remedy) from error


def day(seconds: float) -> str:
    """The day of a moment, in UTC."""
    return time.strftime("%Y-%m-%d", time.gmtime(seconds))


@contextmanager
def _open(path: Path) -> Iterator[sqlite3.Connection]:
    path.parent.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(path, timeout=10, isolation_level=None)) as db:
        db.execute("begin")
        for statement in SCHEMA.split(";"):
            db.execute(statement)
        yield db
        db.execute("commit")


def _take(db: sqlite3.Connection, worker: int, rows: list[Row], today: str) -> None:
    columns = "source, desktop, name, born, connections, sent, received"
    taken = {tuple(row[:4]): row[4:] for row in db.execute(f"select {columns} from taken where worker = ?", (worker,))}
    for row in rows:
        key, counts = (row.table, row.desktop, row.name, row.born), (row.connections, row.sent, row.received)
        before = taken.pop(key, (0, 0, 0))
        if counts != before:
            grown = [max(0, count - old) for count, old in zip(counts, before, strict=True)]
            db.execute(
                f"insert or replace into taken (worker, {columns}) values (?, ?, ?, ?, ?, ?, ?, ?)",
                (worker, *key, *counts),
            )
            _count(db, row, today, grown)
    for key in taken:  # rows that ended: idle ones below a wildcard
        where = "worker = ? and source = ? and desktop = ? and name = ? and born = ?"
        db.execute(f"delete from taken where {where}", (worker, *key))


def _count(db: sqlite3.Connection, row: Row, today: str, grown: list[int]) -> None:
    name = row.name if row.listed or _has_room(db, row, today) else OTHERS
    db.execute(
        "insert into traffic (day, desktop, name, listed, connections, sent, received) values (?, ?, ?, ?, ?, ?, ?)"
        " on conflict (day, desktop, name) do update set connections = connections + excluded.connections,"
        " sent = sent + excluded.sent, received = received + excluded.received",
        (today, row.desktop, name, int(row.listed or name == OTHERS), *grown),
    )


def _has_room(db: sqlite3.Connection, row: Row, today: str) -> bool:
    """Whether a name below a wildcard gets a row of its own: a desktop can make up any number of them."""
    where = "from traffic where day = ? and desktop = ?"
    if db.execute(f"select 1 {where} and name = ?", (today, row.desktop, row.name)).fetchone():
        return True
    count = db.execute(f"select count(*) {where} and listed = 0", (today, row.desktop)).fetchone()[0]
    return bool(count < ROWS_BELOW)


def _lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # another account's
    return True
