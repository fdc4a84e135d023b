"""A desktop whose machine does not go stays declared as it was, however its removal ends."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from deskyard.control.jobs import claim as claims
from deskyard.control.machines import removal
from deskyard.control.machines.target import DESTROY
from deskyard.declaration import declaration
from deskyard.engine.stack import WorkspaceStack
from deskyard.errors import DeskyardError, SiteError
from deskyard.workspace import workspace

DECLARATION = """config:
  deskyard:network: 10.80.1.0/24   # ours
  deskyard:desktops:
  # of the team that tests
  - name: first
    tier: pro   # large

  - name: second
"""
BROKEN = SiteError("engine", "lab", "ended with 255", "see its log")


@pytest.fixture
def stack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DESKYARD_STACKS", str(tmp_path))
    monkeypatch.setenv("DESKYARD_HOME", str(tmp_path / "home"))
    path = tmp_path / "Pulumi.lab.yaml"
    path.write_text(DECLARATION)
    return path


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """What the engine remembers, and how it ends."""

    def answers(end: BaseException | None = None, *, machines: Any = (), disks: Any = (), asked: Any = None) -> None:
        def up(_: str, remove: Any) -> dict[str, Any]:
            names = [desktop.name for desktop in declaration.read_workspace("lab").desktops]
            assert not set(remove) & set(names)
            if end is not None:
                raise end
            return {"ready": True}

        def exists(_: WorkspaceStack) -> bool:
            if asked is not None:
                raise asked
            return True

        monkeypatch.setattr(workspace, "up", up)
        monkeypatch.setattr(WorkspaceStack, "exists", exists)
        monkeypatch.setattr(WorkspaceStack, "desktops_with_machines", lambda _: set(machines))
        monkeypatch.setattr(WorkspaceStack, "desktops_with_disks", lambda _: set(disks))

    return answers


def kept() -> list[str]:
    return [path.name for path in removal._folder().glob("*")]


def names() -> list[str]:
    return [desktop.name for desktop in declaration.read_workspace("lab").desktops]


@pytest.mark.parametrize(
    ("end", "left"),
    [
        (BROKEN, {"machines": ["first", "second"]}),
        # Somebody cancelled it, and its disk is there yet.
        (KeyboardInterrupt(), {"disks": ["first"]}),
        # Nobody can say what is there.
        (BROKEN, {"asked": SiteError("engine", "lab", "does not start", "see its log")}),
    ],
    ids=["failed", "cancelled", "unknown"],
)
def test_a_desktop_that_is_there_yet_is_declared_as_it_was(
    stack: Path, engine: Callable[..., None], end: BaseException, left: dict[str, Any]
) -> None:
    engine(end, **left)
    with pytest.raises(type(end)):
        removal.remove("lab", "first")
    assert stack.read_text() == DECLARATION
    assert kept() == []


def test_a_desktop_that_is_gone_stays_out_whatever_fails_then(stack: Path, engine: Callable[..., None]) -> None:
    engine(BROKEN, machines=["second"], disks=["second"])
    with pytest.raises(SiteError, match="ended with 255"):
        removal.remove("lab", "first")
    assert (names(), kept()) == (["second"], [])


def test_a_desktop_that_was_removed_leaves_nothing(stack: Path, engine: Callable[..., None]) -> None:
    engine()
    removal.remove("lab", "first")
    assert (names(), kept()) == (["second"], [])


def test_a_desktop_that_cannot_be_put_back_now_is_kept_for_later(
    stack: Path, engine: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    engine(BROKEN, machines=["first"])
    monkeypatch.setattr(declaration, "site_of", lambda _: (_ for _ in ()).throw(SiteError("site", "lab", "no", "look")))
    with pytest.raises(SiteError, match="ended with 255"):
        removal.remove("lab", "first")
    assert (names(), kept()) == (["second"], ["lab.first.json"])


KILLED = """
import os, signal
from deskyard.control.jobs import claim as claims
from deskyard.control.machines import removal
from deskyard.control.machines.target import DESTROY
from deskyard.workspace import workspace

workspace.up = lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL)
removal.remove("lab", "first")
"""


class Operations:
    """A connection to a database that knows which removals run."""

    def __init__(self, *running: str) -> None:
        self.running = running

    def execute(self, _query: str, values: list[Any]) -> "Operations":
        self.asked = values
        return self

    def fetchall(self) -> list[dict[str, str]]:
        return [{"desktop_id": id} for id in self.running]


def look(unfinished: removal.Unfinished, *running: str) -> None:
    """Look, and wait for what that begins."""
    unfinished.look(Operations(*running))  # type: ignore[arg-type]
    if unfinished._thread is not None:
        unfinished._thread.join(60)
        assert not unfinished._thread.is_alive()


@pytest.fixture
def killed(stack: Path) -> Path:
    """A declaration without the desktop whose removal was killed in the midst of it."""
    done = subprocess.run([sys.executable, "-c", KILLED], env=os.environ, check=False, timeout=120)
    assert done.returncode == -signal.SIGKILL
    assert names() == ["second"]
    return stack


def test_a_removal_that_was_killed_is_put_back_at_the_next_look(killed: Path, engine: Callable[..., None]) -> None:
    engine(machines=["first", "second"])
    unfinished = removal.Unfinished()
    # What it started may go on yet.
    look(unfinished, "lab.first")
    assert names() == ["second"]
    look(unfinished)
    assert killed.read_text() == DECLARATION
    assert kept() == []


def test_a_removal_that_was_killed_behind_its_end_is_forgotten(killed: Path, engine: Callable[..., None]) -> None:
    engine(machines=["second"])
    look(removal.Unfinished())
    assert (names(), kept()) == (["second"], [])


def test_a_removal_that_was_killed_is_done_by_the_next_try(killed: Path, engine: Callable[..., None]) -> None:
    engine(BROKEN, machines=["first"])
    with pytest.raises(DeskyardError):
        removal.remove("lab", "first")
    # What stood there before the first try is there again.
    assert killed.read_text() == DECLARATION


@pytest.mark.usefixtures("stack")
def test_a_removal_that_goes_on_is_left_alone(engine: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    engine(machines=["first"])
    looked: list[list[str]] = []

    def up(_: str, remove: Any) -> None:
        look(removal.Unfinished())
        looked.append(names())

    monkeypatch.setattr(workspace, "up", up)
    removal.remove("lab", "first")
    assert looked == [["second"]]


def test_who_ends_a_removal_by_force_is_told_that_the_desktop_comes_back() -> None:
    assert "lab.first is there yet: destroy it again" in claims.forced(DESTROY, "lab", "lab.first")["remedy"]


def test_a_workspace_that_is_gone_takes_what_was_kept_with_it(killed: Path, engine: Callable[..., None]) -> None:
    engine()
    killed.unlink()
    look(removal.Unfinished())
    assert kept() == []
