"""Traffic on disk: counted once, bounded, kept for some weeks, and whole again when there is room."""

import contextlib
import os
import sqlite3
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from deskyard.errors import GatewayError
from deskyard.gateway.egress import counters, router, traffic
from deskyard.gateway.egress.counters import OTHERS, ROWS_BELOW, Row
from deskyard.gateway.machine.layout import Layout
from tests.support.requirements import need_root

NOON = 1_796_040_000.0  # 2026-11-30
HERE = os.getpid()  # a worker that lives
ROW = Row("traffic", "d1", "api.example.org", 1000, 1, 100, 2000)
BELOW = replace(ROW, table="traffic_below_d1", name="a.example.net")
WORKERS = """#<PID> <type> <reloads> <uptime> <version>
10 master 1 [failed: 0] 0d00h00m55s 2.6.12
# workers
12 worker 0 0d00h00m09s 2.6.12
# old workers
11 worker 1 0d00h00m55s 2.6.12
# programs

"""
TABLES = """# table: traffic, type: string, size:18, used:2
# table: traffic_below_d1, type: string, size:200, used:0
# table: other, type: ip, size:200, used:7

"""
COUNTED = "0x7f1: key={key} use=1 exp=0 shard=0 gpt0={born} conn_cnt=3 bytes_in_cnt=264 bytes_out_cnt=30\n"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "egress/traffic.db"


def sums(path: Path, since: str = "") -> dict[tuple[str, str], tuple[int, int, int]]:
    """Connections, sent, received of each desktop and name; no day has two rows of them here."""
    rows = traffic.read(path, since)
    return {(r["desktop"], r["name"]): (r["connections"], r["sent"], r["received"]) for r in rows}


def test_a_row_is_counted_once_however_often_it_is_read(path: Path) -> None:
    for row in (ROW, ROW, replace(ROW, sent=150), replace(ROW, sent=150, connections=2)):
        traffic.add(path, {HERE: [row]}, NOON)
    assert sums(path) == {("d1", "api.example.org"): (2, 150, 2000)}
    assert traffic.read(path)[0]["day"] == "2026-11-30"


def test_workers_desktops_and_rows_that_began_anew_add_up(path: Path) -> None:
    parent = os.getppid()
    traffic.add(path, {HERE: [ROW], parent: [ROW]}, NOON)
    traffic.add(path, {HERE: [replace(ROW, born=2000)], parent: [ROW, replace(ROW, desktop="d2")]}, NOON)
    traffic.add(path, {HERE: [replace(ROW, born=2000)], parent: [ROW, replace(ROW, desktop="d2")]}, NOON)
    assert sums(path) == {("d1", "api.example.org"): (3, 300, 6000), ("d2", "api.example.org"): (1, 100, 2000)}


def test_a_worker_that_did_not_answer_goes_on_where_it_was_and_one_that_ended_is_forgotten(path: Path) -> None:
    ended = subprocess.Popen(["true"])
    ended.wait(10)
    traffic.add(path, {HERE: [ROW], ended.pid: [ROW]}, NOON)
    traffic.add(path, {}, NOON)
    traffic.add(path, {HERE: [ROW]}, NOON)
    assert sums(path) == {("d1", "api.example.org"): (2, 200, 4000)}
    with sqlite3.connect(path) as db:
        assert db.execute("select distinct worker from taken").fetchall() == [(HERE,)]


def test_names_that_can_be_made_up_are_bounded_for_a_desktop_and_day(path: Path) -> None:
    made = [replace(BELOW, name=f"n{number}.example.net") for number in range(ROWS_BELOW + 7)]
    traffic.add(path, {HERE: made}, NOON)
    traffic.add(path, {HERE: [*made, ROW, replace(BELOW, desktop="d2")]}, NOON)
    found = sums(path)
    assert found["d1", OTHERS] == (7, 700, 14_000)
    assert len([name for desktop, name in found if desktop == "d1" and name != OTHERS]) == ROWS_BELOW + 1
    assert found["d1", "api.example.org"] == found["d2", "a.example.net"] == (1, 100, 2000)
    traffic.add(path, {HERE: [replace(made[0], sent=101), *made[1:]]}, NOON)
    assert sums(path)["d1", "n0.example.net"] == (1, 101, 2000)
    traffic.add(path, {HERE: [replace(row, born=2000) for row in reversed(made)]}, NOON + traffic.DAY_SECONDS)
    assert sums(path, "2026-12-01")["d1", OTHERS] == (7, 700, 14_000)


def test_days_are_kept_for_a_while(path: Path) -> None:
    traffic.add(path, {HERE: [ROW]}, NOON)
    traffic.add(path, {HERE: [replace(ROW, sent=101)]}, NOON + (traffic.KEPT_DAYS - 1) * traffic.DAY_SECONDS)
    assert [row["sent"] for row in traffic.read(path)] == [100, 1]
    traffic.add(path, {HERE: []}, NOON + traffic.KEPT_DAYS * traffic.DAY_SECONDS)
    assert [row["sent"] for row in traffic.read(path)] == [1]


def test_nothing_was_counted_before_the_first_row(path: Path) -> None:
    assert traffic.read(path) == []


def test_a_damaged_file_is_named(path: Path) -> None:
    path.parent.mkdir()
    path.write_text("no database" * 100)
    with pytest.raises(GatewayError, match="cannot be read") as caught:
        traffic.read(path)
    assert "journalctl" in caught.value.remedy
    with pytest.raises(sqlite3.Error):
        traffic.add(path, {HERE: [ROW]}, NOON)


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A disk of its own that has little room."""
    need_root("mounts a disk of its own")
    folder = tmp_path / "small"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=128k", "none", str(folder)], check=True, timeout=60)
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=False, timeout=60)


def test_what_found_the_disk_full_is_counted_whole_when_there_is_room(small: Path) -> None:
    path = small / "traffic.db"
    traffic.add(path, {HERE: [ROW]}, NOON)
    ballast = small / "ballast"
    with ballast.open("wb", buffering=0) as stream, contextlib.suppress(OSError):
        while stream.write(bytes(4096)):
            pass
    with pytest.raises(sqlite3.OperationalError):
        traffic.add(path, {HERE: [replace(ROW, sent=500)]}, NOON)
    assert sums(path) == {("d1", "api.example.org"): (1, 100, 2000)}
    ballast.unlink()
    traffic.add(path, {HERE: [replace(ROW, sent=600)]}, NOON)
    assert sums(path) == {("d1", "api.example.org"): (1, 600, 2000)}


def reading(monkeypatch: pytest.MonkeyPatch, answers: dict[str, str]) -> dict[int, list[Row]]:
    def ask(_: Layout, command: str) -> str:
        if command not in answers:
            raise ConnectionRefusedError(command)
        return answers[command]

    monkeypatch.setattr(router, "ask", ask)
    return counters.read(Layout())


def test_rows_of_all_workers_are_read_and_what_is_no_row_of_ours_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = (
        "d1/api.example.org",
        "d1/git.example.org:22",
        "d2/others",
        "d2/UP.example.org",
        "d2/a",
        "/x.test",
        "d1/x\\ y",
    )
    rows = "# table: traffic, type: string, size:18, used:2\n" + "".join(COUNTED.format(key=k, born=9) for k in keys)
    answers: dict[str, str] = {"show proc": WORKERS}
    for worker in (11, 12):
        answers |= {f"@!{worker} show table": TABLES, f"@!{worker} show table traffic": rows + "\n"}
    found = reading(monkeypatch, answers)
    wanted = [("d1", "api.example.org"), ("d1", "git.example.org:22"), ("d2", "others")]
    assert {worker: [(row.desktop, row.name) for row in rows] for worker, rows in found.items()} == {
        12: wanted,
        11: wanted,
    }
    assert found[11][0] == Row("traffic", "d1", "api.example.org", 9, 3, 264, 30)


@pytest.mark.parametrize(
    "change",
    [
        {"@!11 show table traffic": "# table: traffic, type: string, size:18, used:2\n"},
        {"@!11 show table": "# table: traffic, type: string, size:18, used:2\n"},
        {"@!11 show table": ""},
    ],
    ids=["rows", "tables", "nothing"],
)
def test_an_answer_that_was_broken_off_is_none(monkeypatch: pytest.MonkeyPatch, change: dict[str, Any]) -> None:
    rows = COUNTED.format(key="d1/api.example.org", born=9) + COUNTED.format(key="d1/b.example.org", born=0)
    answers: dict[str, str] = {"show proc": WORKERS}
    for worker in (11, 12):
        answers |= {f"@!{worker} show table": TABLES, f"@!{worker} show table traffic": rows + "\n"}
    found = reading(monkeypatch, {**answers, **change})
    assert list(found) == [12]
    # A row that has not begun is left for the next time.
    assert [row.name for row in found[12]] == ["api.example.org"]
    assert reading(monkeypatch, {}) == {}
