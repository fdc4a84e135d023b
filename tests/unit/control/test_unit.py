"""The unit of Mission Control: used where it was installed for this folder, and asked for the supervisor's process."""

from pathlib import Path
from typing import Any

import pytest

from deskyard.control.ground.folder import Folder
from deskyard.control.process import unit
from deskyard.control.state import supervisor
from deskyard.host.background import Background


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a Mission Control whose unit is installed."""
    file = tmp_path / "deskyard-control.service"
    file.write_text(f"ExecStart=python -m deskyard.control.process.supervisor {tmp_path / 'control'}\n")
    monkeypatch.setattr(unit, "FILE", file)
    monkeypatch.setattr(unit, "BOOTED", tmp_path)
    return tmp_path / "control"


def test_it_is_used_where_it_is_installed_for_this_folder(installed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert unit.is_installed(installed)
    assert not unit.is_installed(installed.with_name("contro")) and not unit.is_installed(installed / "other")
    assert isinstance(supervisor(Folder(installed / "other")), Background)
    with monkeypatch.context() as patch:
        patch.setattr(unit, "BOOTED", installed / "no-systemd")
        assert not unit.is_installed(installed)


def test_it_is_asked_for_its_process_and_started_and_ended(installed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    class Done:
        stdout = "4711\n"

    def run(argv: list[str], **_: Any) -> Done:
        asked.append(" ".join(argv))
        return Done()

    monkeypatch.setattr("deskyard.host.command.run", run)
    found = supervisor(Folder(installed))
    assert isinstance(found, unit.Unit) and found.pid() == 4711
    Done.stdout = "0\n"
    assert found.pid() is None
    found.start()
    found.stop()
    assert asked[-2:] == [f"systemctl restart {unit.NAME}", f"systemctl stop {unit.NAME}"]
