"""The supervisor changes tables for as long as that takes, and is waited for meanwhile."""

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from deskyard.control import control
from deskyard.control.control import Control
from deskyard.control.ground.folder import Folder
from deskyard.control.ground.settings import Settings
from deskyard.control.process import supervisor
from deskyard.control.process.noted import TABLES, note, noted
from deskyard.control.process.supervisor import Supervisor
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
