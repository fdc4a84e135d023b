"""What tasks change is on the disk whoever is killed, bounded, and nobody's to write but its owner's."""

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from deskyard.errors import HostError
from deskyard.host import changes
from deskyard.host.changes import DONE, FAILED, MOST_BYTES, MOST_LINE, RUNNING, Line, Run, Spool
from deskyard.host.lock import alone
from tests.support.requirements import need_root

TREE = Path(__file__).resolve().parents[3]
RUN = Run("desktop.stop", "lab", "first", {"force": True, "reason": None}, "ada")
WRITER = """
from deskyard.host.changes import Run, Spool
for number in range({lines}):
    Spool().note(Run("desktop.start", "lab", "d" + str(number)), "running")
    print(number, flush=True)
"""


@pytest.fixture
def spool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Spool:
    monkeypatch.setenv("DESKYARD_HOME", str(tmp_path))
    return Spool()


def writer(lines: int) -> "subprocess.Popen[str]":
    argv = [sys.executable, "-c", WRITER.format(lines=lines)]
    return subprocess.Popen(argv, cwd=TREE, stdout=subprocess.PIPE, text=True)


def now(tmp_path: Path) -> Path:
    return tmp_path / "state/changes/now.jsonl"


def test_a_line_says_who_ran_what_on_what_and_how_it_ended(spool: Spool) -> None:
    assert spool.lines() == []
    spool.note(RUN, RUNNING)
    spool.note(RUN, FAILED, "gateway", "does not answer")
    began, ended = spool.lines()
    assert (began.number, ended.number, began.spool) == (1, 2, ended.spool)
    assert began.run == ended.run == RUN and began.at <= ended.at
    assert (began.state, ended.state, ended.field, ended.reason) == (RUNNING, FAILED, "gateway", "does not answer")


def test_none_but_its_owner_reads_or_writes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    need_root("asks as another account")
    with tempfile.TemporaryDirectory() as folder:
        monkeypatch.setenv("DESKYARD_HOME", folder)
        Spool().note(RUN, DONE)
        # As open as it can be above.
        for above in (Path(folder), Path(folder) / "state"):
            above.chmod(0o777)
        path, plain = now(Path(folder)), Path(folder) / "state/plain"
        plain.write_text("x\n")
        plain.chmod(0o666)
        for command in (f"cat {path}", f"echo >> {path}", f"ls {path.parent}", f"rm {path}"):
            argv = ["sh", "-c", command]
            done = subprocess.run(
                argv, user="nobody", group="nogroup", extra_groups=[], capture_output=True, check=False
            )
            assert done.returncode != 0 and b"Permission denied" in done.stderr, command
        assert subprocess.run(["sh", "-c", f"echo >> {plain}"], user="nobody", check=False).returncode == 0


@pytest.mark.parametrize("spoil", [lambda path: path.chmod(0o622), lambda path: os.chown(path, 65534, 65534)])
def test_a_file_that_others_may_have_written_is_neither_read_nor_written(
    spool: Spool, tmp_path: Path, spoil: Callable[[Path], None]
) -> None:
    need_root("gives a file to another account")
    spool.note(RUN, DONE)
    spoil(now(tmp_path))
    for use in (spool.lines, lambda: spool.note(RUN, DONE)):
        with pytest.raises(HostError, match="not this account's alone"):
            use()


def test_a_link_in_its_place_is_followed_by_nobody(spool: Spool, tmp_path: Path) -> None:
    spool.note(RUN, DONE)
    now(tmp_path).rename(tmp_path / "elsewhere")
    now(tmp_path).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic link"):
        spool.note(RUN, DONE)


def test_it_is_bounded_and_what_went_shows_in_the_numbers(
    spool: Spool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changes, "MOST_BYTES", 4_000)
    for _ in range(60):
        spool.note(RUN, DONE)
    files = list(now(tmp_path).parent.iterdir())
    assert sorted(file.name for file in files) == ["before.jsonl", "now.jsonl"]
    assert sum(file.stat().st_size for file in files) <= 2 * 4_000
    numbers = [line.number for line in spool.lines()]
    assert numbers == [*range(numbers[0], 61)] and 1 < numbers[0] < 55
    assert MOST_BYTES >= 1 << 20


def test_half_a_line_of_a_killed_writer_spoils_no_other(spool: Spool, tmp_path: Path) -> None:
    for _ in range(2):
        spool.note(RUN, DONE)
    whole = now(tmp_path).read_bytes()
    first = whole.index(b"\n") + 1
    for length in (*range(first, len(whole), 9), len(whole) - 1):
        now(tmp_path).write_bytes(whole[:length])
        spool.note(RUN, RUNNING)
        numbers = [line.number for line in spool.lines()]
        # All but its line end is a line.
        assert numbers == ([1, 2, 3] if length == len(whole) - 1 else [1, 2]), length


def test_what_was_noted_is_there_though_its_writer_is_killed(spool: Spool) -> None:
    said = 0
    for round_ in range(1, 6):
        with writer(1000) as process:
            assert process.stdout is not None
            for _ in range(round_):
                said += bool(process.stdout.readline())
            process.send_signal(signal.SIGKILL)
            said += len(process.stdout.read().splitlines())
        numbers = [line.number for line in spool.lines()]
        # The last may have been written and not said.
        assert numbers == [*range(1, len(numbers) + 1)] and said <= len(numbers) <= said + round_


def test_who_writes_at_once_loses_nothing(spool: Spool) -> None:
    with ThreadPoolExecutor(3) as pool:
        processes = [writer(20) for _ in range(3)]
        list(pool.map(lambda process: process.communicate(timeout=120), processes))
    assert [line.number for line in spool.lines()] == [*range(1, 61)]
    assert len({line.run.id for line in spool.lines()}) == 60


def test_who_reads_waits_for_nobody(spool: Spool) -> None:
    spool.note(RUN, DONE)
    with alone(changes.LOCK), pytest.raises(HostError, match="another task holds it"):
        spool.lines()
    assert len(spool.lines()) == 1


def test_a_stamp_changes_with_each_line(spool: Spool) -> None:
    seen = [spool.stamp()]
    for _ in range(3):
        spool.note(RUN, DONE)
        seen.append(spool.stamp())
    assert len(set(seen)) == 4


@pytest.mark.parametrize(
    "change",
    [
        {"number": 0}, {"number": 1 << 60}, {"number": "1"}, {"number": True}, {"spool": ""}, {"state": "well"},
        {"at": -1}, {"at": float("nan")}, {"at": 1e18}, {"run": {}}, {"run": []}, {"reason": 3}, {"more": 1},
    ],
)  # fmt: skip
def test_what_is_no_line_is_passed_over(spool: Spool, tmp_path: Path, change: dict[str, object]) -> None:
    spool.note(RUN, DONE)
    values = json.loads(now(tmp_path).read_text())
    assert Line.read(json.dumps(values).encode()) is not None
    with now(tmp_path).open("a") as file:
        file.write(json.dumps({**values, **change}) + "\n[]\nnull\nrubbish\n" + "[" * MOST_LINE + "\n")
    spool.note(RUN, DONE)
    assert [line.number for line in spool.lines()] == [1, 2]


def test_what_is_too_long_or_no_text_is_cut_and_is_a_line(spool: Spool) -> None:
    options = {f"o{number}": "\U0001f600" * 200 for number in range(30)}
    spool.note(
        Run("desktop.stop", "\x00" * 9000, "\udcff" * 9000, options, "\x1b" * 9000), FAILED, "f" * 9000, "\x00" * 9000
    )
    (line,) = spool.lines()
    assert line.run.options == {} and len(line.run.workspace) == len(line.reason) == changes.MOST_TEXT


def test_the_operator_is_who_logged_in_or_called_sudo_and_not_who_that_became(monkeypatch: pytest.MonkeyPatch) -> None:
    login = str(changes.NO_LOGIN)
    monkeypatch.setattr(Path, "read_text", lambda *_: login)
    monkeypatch.setenv("SUDO_USER", "ada")
    assert changes.operator() == "ada"
    monkeypatch.delenv("SUDO_USER")
    monkeypatch.setattr(os, "getuid", lambda: 0)
    assert changes.operator() == "root"
    login = "65534"
    monkeypatch.setenv("SUDO_USER", "somebody else")
    assert changes.operator() == "nobody"
    login = "1234567"
    assert changes.operator() == "1234567"


def test_a_process_that_is_gone_is_seen_and_one_that_runs_is_not() -> None:
    with subprocess.Popen(["sleep", "60"]) as process:
        name = changes.process(process.pid)
        assert not changes.is_gone(name)
        process.kill()
    assert changes.is_gone(name)
    assert changes.is_gone(f"{os.getpid()}:1") and changes.is_gone("x") and changes.is_gone("9" * 99)
