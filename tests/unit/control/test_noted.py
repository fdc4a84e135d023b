"""What a killed supervisor left behind is waited for, ended by force if need be, and never taken for a stranger."""

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from deskyard.control.ground.folder import Folder
from deskyard.control.process import noted
from deskyard.control.process.noted import DATABASE
from deskyard.host.background import start_time

SECONDS = 0.2


@pytest.fixture
def process() -> Iterator["subprocess.Popen[bytes]"]:
    """A process that ends when its input does, or by force."""
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as found:
        yield found
        found.kill()


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> Callable[[int, Callable[[], object]], None]:
    """Does something just before the look with a number at a process."""
    seen = 0

    def at(number: int, act: Callable[[], object]) -> None:
        def look(pid: int) -> int | None:
            nonlocal seen
            seen += 1
            if seen == number:
                act()
            return start_time(pid)

        monkeypatch.setattr(noted, "start_time", look)

    return at


@pytest.mark.parametrize("name", [DATABASE, "web"])
def test_what_still_ends_is_waited_for(
    tmp_path: Path, process: "subprocess.Popen[bytes]", looks: Callable[..., None], name: str
) -> None:
    folder = Folder(tmp_path)
    noted.note(folder, {name: process.pid})
    assert noted.noted(folder) == {name: True}
    looks(3, lambda: process.communicate(timeout=60))
    noted.end_left(folder, 60)
    assert process.returncode == 0 and noted.noted(folder) == {name: False}


def test_what_does_not_end_is_ended_by_force(tmp_path: Path, process: "subprocess.Popen[bytes]") -> None:
    folder = Folder(tmp_path)
    noted.note(folder, {"web": process.pid})
    noted.end_left(folder, SECONDS)
    assert process.wait(60) == -9


def test_the_database_is_never_ended_by_force(tmp_path: Path, process: "subprocess.Popen[bytes]") -> None:
    folder = Folder(tmp_path)
    noted.note(folder, {DATABASE: process.pid})
    noted.end_left(folder, SECONDS)
    assert process.poll() is None


@pytest.mark.parametrize("kept", [lambda pid: pid, lambda pid: {"pid": pid, "started": 1}])
def test_what_may_be_a_stranger_with_its_number_is_left_alone(
    tmp_path: Path, process: "subprocess.Popen[bytes]", kept: Callable[[int], object]
) -> None:
    folder = Folder(tmp_path)
    folder.processes.write_text(json.dumps({"web": kept(process.pid)}))
    noted.end_left(folder, 60)
    assert process.poll() is None


def test_where_nothing_was_noted_nothing_is_waited_for(tmp_path: Path) -> None:
    noted.end_left(Folder(tmp_path), 60)
    assert noted.noted(Folder(tmp_path)) == {}
