"""The supervisor goes on whatever cannot be begun or written, bounds logs, and changes tables as long as that takes."""

import logging
import math
import os
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from deskyard.control import control
from deskyard.control.control import Control
from deskyard.control.ground.folder import Folder
from deskyard.control.ground.reasons import Reasons
from deskyard.control.ground.settings import Settings
from deskyard.control.process import logs, supervisor
from deskyard.control.process.noted import TABLES, note, noted
from deskyard.control.process.supervisor import BARE, Piece, Supervisor
from deskyard.control.store import migration

SETTINGS = Settings("local", "localhost", "127.0.0.1", 9443)


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    found = Folder(tmp_path)
    found.logs.mkdir()
    return found


def test_a_signal_breaks_off_the_change_of_the_tables_which_is_noted_while_it_lasts(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = SimpleNamespace(wait=lambda: None, url=lambda _: "")
    monkeypatch.setattr(supervisor, "database_at", lambda *_: elsewhere)
    begun, seen = Supervisor(folder, SETTINGS), list[object]()

    def change(*_: object) -> None:
        seen.append(noted(folder))
        begun.end()
        seen.append("went on")

    monkeypatch.setattr(migration, "migrate", change)
    for _ in range(2):
        # The second time it was told before.
        with pytest.raises(KeyboardInterrupt):
            begun.run()
    assert seen == [{TABLES: True}]


def test_what_changes_tables_is_waited_for_beyond_the_time_of_a_start(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    note(folder, {TABLES: os.getpid()})
    looks = 0

    def seen(found: Folder) -> dict[str, bool]:
        nonlocal looks
        looks += 1
        if looks == 3:
            note(found, {})
        return noted(found)

    monkeypatch.setattr(control, "UP_SECONDS", 0.0)
    monkeypatch.setattr(control, "noted", seen)
    monkeypatch.setattr(control, "runs", lambda _: True)
    monkeypatch.setattr(control, "ready", lambda found: not noted(found))
    assert Control(folder)._came_up()
    monkeypatch.setattr(control, "ready", lambda _: False)
    assert not Control(folder)._came_up()


def test_a_program_that_cannot_be_begun_ends_nothing_and_is_tried_again(
    folder: Folder, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    program = tmp_path / "program"
    piece = Piece("proxy", [str(program)], BARE)
    piece.look(folder.logs)
    assert piece.has_ended() and "proxy cannot be begun" in caplog.text
    program.write_text("#!/bin/sh\nexec cat\n")
    program.chmod(0o755)
    piece.again = math.inf
    piece.look(folder.logs)
    assert piece.process is None, "its pause is not over"
    piece.again = 0.0
    piece.look(folder.logs)
    assert piece.process is not None
    piece.process.wait(60)


def test_a_disk_that_is_full_ends_nothing_and_is_said_once(
    folder: Folder, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    elsewhere = SimpleNamespace(wait=lambda: None, url=lambda _: "")
    monkeypatch.setattr(supervisor, "database_at", lambda *_: elsewhere)
    monkeypatch.setattr(migration, "migrate", lambda *_: None)
    monkeypatch.setattr(supervisor, "LOOK_SECONDS", 0.0)
    begun, looks = Supervisor(folder, SETTINGS), 0

    class Seen(Piece):
        def look(self, _: Path) -> None:
            nonlocal looks
            looks += 1
            self.process = cast("subprocess.Popen[bytes]", SimpleNamespace(pid=looks, poll=lambda: 0))
            if looks == 3:
                begun.end()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(begun, "_pieces", lambda _: [Seen("web", [], BARE)])
    monkeypatch.setattr(supervisor, "note", full)
    begun.run()
    assert (looks, caplog.text.count("No space left")) == (3, 1)


def test_a_log_that_grew_beyond_its_bound_begins_anew_and_its_end_stays_beside_it(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "MOST_BYTES", 8)
    log, small = folder.logs / "web.log", folder.logs / "link.log"
    small.write_text("12345678")
    with log.open("ab", buffering=0) as writer:
        writer.write(b"0123456789")
        logs.bound(folder.logs)
        writer.write(b"after")
    assert (log.read_text(), small.read_text()) == ("after", "12345678")
    assert (folder.logs / "web.log.1").read_text() == "23456789"
    assert len(list(folder.logs.iterdir())) == 3


def test_a_log_that_filled_the_disk_begins_anew_without_its_end(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "MOST_BYTES", 8)
    log = folder.logs / "web.log"
    log.write_text("0123456789")
    # A place that takes no byte, as a disk that is full.
    (folder.logs / "web.log.1").symlink_to("/dev/full")
    logs.bound(folder.logs)
    assert log.read_text() == ""
    assert list(folder.logs.iterdir()) == [log]


def test_a_reason_is_said_once_until_it_changes_or_all_is_well(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    reasons = Reasons(logging.getLogger("tests"), "is not followed now")
    for why in ("away", "away", "refused"):
        reasons.say("lab", why)
    reasons.forget("lab")
    reasons.say("lab", "refused")
    assert [record.message.rpartition(" ")[2] for record in caplog.records] == ["away", "refused", "refused"]
