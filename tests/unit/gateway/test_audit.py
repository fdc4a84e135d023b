"""The audit's chain: whatever is done to it afterwards shows, and is named by line."""

import errno
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import pytest

from deskyard.errors import GatewayError
from deskyard.gateway.cli import main
from deskyard.gateway.machine.layout import Layout
from deskyard.gateway.session.audit import Audit, each, events, files, head_file, lines
from deskyard.gateway.session.audit_check import verify

SMALL = 1200  # bytes: some lines to a file


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A chain of 40 lines in several files."""
    path = tmp_path / "audit.jsonl"
    audit = Audit(path, SMALL, 100)
    for number in range(40):
        audit.note("grant", session=f"s{number}", actor="alice", result="granted")
    assert len(files(path)) > 3
    return path


def rewrite(path: Path, change: Callable[[list[bytes]], list[bytes]]) -> None:
    path.write_bytes(b"".join(change(path.read_bytes().splitlines(keepends=True))))


def test_untouched_chain_is_good_and_whole(path: Path) -> None:
    checked = verify(path)
    assert (checked["ok"], checked["lines"], checked["first"], checked["last"]) == (True, 40, 1, 40)
    found = events(path)
    assert [event["seq"] for event in found] == list(range(1, 41))
    assert [event["hash"] for event in found[:-1]] == [event["prev"] for event in found[1:]]
    assert [event["seq"] for event in events(path, since=37)] == [38, 39, 40]
    # What ends before is not read, however much of it there is.
    for since in range(40):
        assert [event["seq"] for event in events(path, since=since)] == list(range(since + 1, 41))
    read = [{file for file, _, _ in lines(path, since)} for since in (0, 39)]
    assert len(read[0]) > 2 >= len(read[1])
    assert {"time", "event", "session", "actor", "result"} <= set(found[0])


def test_oldest_or_newest_events_are_given_and_no_more_are_read_than_those_need(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    everything = events(path)
    for since in range(0, 41, 3):
        for count in (0, 1, 2, 7, 40, 41):
            assert events(path, since, first=count) == everything[since : since + count]
            assert events(path, since, last=count) == everything[since:][max(0, 40 - since - count) :]
    assert [event["seq"] for event in events(path, last=2, about={"session": "s7"})] == [8]
    loads = mock.Mock(wraps=json.loads)
    monkeypatch.setattr("deskyard.gateway.session.audit.json.loads", loads)
    assert len(events(path, last=1)) == len(events(path, first=1)) == 1
    assert loads.call_count < 10


def test_program_prints_oldest_newest_or_all_events(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    layout = Layout(root=tmp_path)
    monkeypatch.setattr("deskyard.gateway.cli.load", lambda: layout)

    def printed(*options: str) -> list[int]:
        assert main(["audit", *options]) == 0
        return [event["seq"] for event in json.loads(capsys.readouterr().out)]

    assert printed() == []
    audit = Audit(layout.audit_file)
    for number in range(5):
        audit.note("grant", session=f"s{number}", result="granted")
    assert printed() == [1, 2, 3, 4, 5]
    assert printed("--since", "1", "--first", "2") == [2, 3]
    assert printed("--since", "1", "--last", "2") == [4, 5]


def test_file_that_is_turned_over_or_dropped_while_another_is_read_is_no_gap(path: Path) -> None:
    audit, reading = Audit(path, SMALL, len(files(path)) - 1), each(path)
    found, before = [next(reading)["seq"]], set(files(path))
    while len(before - set(files(path))) < 2:
        audit.note("grant", session="later", result="granted")
    found += [event["seq"] for event in reading]
    assert found[:40] == list(range(1, 41)) and found == list(range(1, len(found) + 1))


@pytest.mark.parametrize("last", [None, 100], ids=["all", "newest"])
@pytest.mark.parametrize("written", [True, False], ids=["next line", "no line yet"])
def test_file_that_is_turned_over_before_it_is_opened_is_no_gap(
    path: Path, monkeypatch: pytest.MonkeyPatch, written: bool, last: int | None
) -> None:
    def listed(chain: Path) -> list[Path]:
        there = files(chain)
        monkeypatch.undo()
        path.rename(path.with_name(f"audit-{begun:012d}.jsonl"))
        if written:
            Audit(path).note("grant", session="later", result="granted")
        return there

    begun = json.loads(path.read_bytes().splitlines()[0])["seq"]
    monkeypatch.setattr("deskyard.gateway.session.audit.files", listed)
    assert [event["seq"] for event in events(path, last=last)] == list(range(1, 42 if written else 41))


@pytest.mark.parametrize("line", [1, 2, 3])
@pytest.mark.parametrize("which", [0, 1, -1], ids=["oldest", "middle", "newest"])
def test_changed_line_is_named(path: Path, which: int, line: int) -> None:
    file = files(path)[which]
    rewrite(file, lambda all: [*all[: line - 1], all[line - 1].replace(b"alice", b"mallo"), *all[line:]])
    problems = verify(path)["problems"]
    assert [(problem["file"], problem["line"]) for problem in problems] == [(file.name, line)]


def test_changed_last_line_is_named(path: Path) -> None:
    rewrite(path, lambda all: [*all[:-1], all[-1].replace(b"alice", b"mallo")])
    [problem] = verify(path)["problems"]
    assert (problem["file"], "line 40 was changed" in problem["problem"]) == (path.name, True)


@pytest.mark.parametrize("which", [0, 1, -1], ids=["oldest", "middle", "newest"])
def test_deleted_line_is_named(path: Path, which: int) -> None:
    file = files(path)[which]
    gone = json.loads(file.read_bytes().splitlines()[1])["seq"]
    rewrite(file, lambda all: [all[0], *all[2:]])
    [problem] = verify(path)["problems"]
    assert problem == {"file": file.name, "line": 2, "problem": f"lines {gone} to {gone} are missing before it"}


@pytest.mark.parametrize("which", [0, 1, -1], ids=["oldest", "middle", "newest"])
def test_deleted_file_is_named(path: Path, which: int) -> None:
    file = files(path)[which]
    gone = [json.loads(line)["seq"] for line in file.read_bytes().splitlines()]
    file.unlink()
    [problem] = verify(path)["problems"]
    assert f"lines {gone[0]} to {gone[-1]} are missing" in problem["problem"]


def test_truncated_end_is_seen(path: Path) -> None:
    rewrite(path, lambda all: all[:-1])
    [problem] = verify(path)["problems"]
    assert problem["problem"] == "lines 40 to 40 are missing at the end"


def test_reordered_lines_are_named(path: Path) -> None:
    file = files(path)[0]
    rewrite(file, lambda all: [all[1], all[0], *all[2:]])
    named = {(problem["file"], problem["line"]) for problem in verify(path)["problems"]}
    assert {(file.name, 1), (file.name, 2)} <= named


def test_line_that_is_put_in_is_named(path: Path) -> None:
    file = files(path)[0]
    rewrite(file, lambda all: [all[0], b'{"event": "nothing happened"}\n', *all[1:]])
    assert ("is no line of the audit") in [problem["problem"] for problem in verify(path)["problems"]]


def test_missing_head_is_seen(path: Path) -> None:
    head_file(path).unlink()
    assert [problem["file"] for problem in verify(path)["problems"]] == ["audit.head"]


def test_chain_that_was_made_anew_is_seen_by_who_took_a_line_down(path: Path) -> None:
    taken = events(path)[19]
    assert verify(path, {taken["seq"]: taken["hash"]})["ok"]
    for file in (*files(path), head_file(path)):
        file.unlink()
    audit = Audit(path)
    for _ in range(40):
        audit.note("grant", actor="mallory")
    assert verify(path)["ok"]  # by itself it cannot be told
    assert not verify(path, {taken["seq"]: taken["hash"]})["ok"]


def test_chain_goes_on_after_a_restart_and_a_cut_line(path: Path) -> None:
    Audit(path).note("revoke", session="s1")
    with path.open("ab") as stream:
        stream.write(b'{"seq": 42, "ti')
    Audit(path).note("revoke", session="s2")
    checked = verify(path)
    assert (checked["ok"], checked["last"]) == (True, 43)
    assert [event["event"] for event in events(path, since=40)] == ["revoke", "recover", "revoke"]


def test_line_that_is_not_in_the_head_yet_is_kept(path: Path) -> None:
    before = head_file(path).read_text()
    Audit(path, SMALL, 100).note("grant")
    head_file(path).write_text(before)
    Audit(path, SMALL, 100).note("grant")
    assert verify(path)["ok"]


def test_restart_does_not_hide_what_was_cut_off(path: Path) -> None:
    rewrite(path, lambda all: all[:-1])
    Audit(path).note("grant")
    [problem] = verify(path)["problems"]
    assert problem["problem"] == "lines 40 to 40 are missing before it"


def test_old_files_are_dropped_and_the_rest_is_good(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    audit = Audit(path, SMALL, 3)
    for _ in range(60):
        audit.note("grant", actor="alice")
    assert len(files(path)) == 3
    checked = verify(path)
    assert checked["ok"]
    assert checked["first"] > 1
    files(path)[0].unlink()
    assert not verify(path)["ok"]


def test_nothing_opens_without_its_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    audit = Audit(tmp_path / "logs" / "audit.jsonl")
    shutil.rmtree(tmp_path / "logs")
    for event in ("grant", "redeem", "renew", "driver"):
        with pytest.raises(GatewayError, match="cannot be written"):
            audit.note(event)
    audit.note("revoke")  # what ends something happens all the same
    assert "revoke" in capsys.readouterr().err


@pytest.fixture
def no_room_for_heads(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Lines would still fit into their file, but there is no room for another one. Call it to make room."""
    write = Path.write_text

    def refuse(path: Path, text: str) -> int:
        if path.suffix == ".new":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(path, text)

    monkeypatch.setattr(Path, "write_text", refuse)
    return lambda: monkeypatch.setattr(Path, "write_text", write)


def test_chain_goes_on_after_a_disk_that_was_full(path: Path, no_room_for_heads: Callable[[], None]) -> None:
    audit = Audit(path, SMALL, 100)
    for _ in range(3):
        audit.note("revoke", session="s1")
        with pytest.raises(GatewayError, match="disk is full"):
            audit.note("grant")
    no_room_for_heads()
    audit.note("grant", session="s2")
    assert verify(path)["ok"]
    assert [(event["event"], event.get("reason")) for event in events(path, since=40)] == [
        ("recover", "3 lines could not be written"),
        ("grant", None),
    ]


def test_restart_on_a_full_disk_keeps_the_chain(path: Path, no_room_for_heads: Callable[[], None]) -> None:
    audit = Audit(path, SMALL, 100)
    for _ in range(3):
        audit.note("revoke", session="s1")
    Audit(path, SMALL, 100).note("revoke", session="s2")
    no_room_for_heads()
    Audit(path, SMALL, 100).note("grant", session="s3")
    assert verify(path)["ok"]
