"""A desktop whose machine does not go stays declared as it was, however its removal ends."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from deskyard.control.jobs.child import JOBS
from deskyard.control.machines import removal
from deskyard.control.people.intent import DESTROY, END
from deskyard.control.queue import claim as claims
from deskyard.declaration import declaration
from deskyard.declaration.desktop_list import undeclare
from deskyard.engine.stack import WorkspaceStack
from deskyard.errors import DeskyardError, SiteError
from deskyard.host import lock
from deskyard.host.lock import alone
from deskyard.host.secret_file import write_secret
from deskyard.life.backup import final
from deskyard.workspace import turn, workspace

DECLARATION = """config:
  deskyard:network: 10.80.1.0/24   # ours
  deskyard:desktops:
  # of the team that tests
  - name: first
    tier: pro   # large
    backup: never

  - name: second
"""
BROKEN = SiteError("engine", "lab", "ended with 255", "see its log")
WAIT_SECONDS = 60.0
MUTE = SiteError("engine", "lab", "does not start", "see its log")


@pytest.fixture
def stack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DESKYARD_STACKS", str(tmp_path))
    monkeypatch.setenv("DESKYARD_HOME", str(tmp_path / "home"))
    path = tmp_path / "Pulumi.lab.yaml"
    path.write_text(DECLARATION)
    return path


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """What the engine remembers, and how it ends: before its first step, or in the midst of them."""

    def answers(
        end: BaseException | None = None,
        *,
        machines: Any = (),
        disks: Any = (),
        asked: Any = None,
        begun: bool = True,
    ) -> None:
        def up(_: str, remove: Any, on_turn: Callable[[], object], on_steps: Callable[[], object]) -> dict[str, Any]:
            on_turn()
            names = [desktop.name for desktop in declaration.read_workspace("lab").desktops]
            assert not set(remove) & set(names)
            if begun:
                on_steps()
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


def names(workspace: str = "lab") -> list[str]:
    return [desktop.name for desktop in declaration.read_workspace(workspace).desktops]


def declared(name: str) -> Any:
    return next(desktop for desktop in declaration.read_workspace("lab").desktops if desktop.name == name)


@pytest.mark.parametrize(
    ("end", "left"),
    [
        (BROKEN, {"machines": ["first", "second"]}),
        # Somebody cancelled it, and its disk is there yet.
        (KeyboardInterrupt(), {"disks": ["first"]}),
        # Nobody can say what is there, and nothing of it was touched.
        (BROKEN, {"asked": MUTE, "begun": False}),
    ],
    ids=["failed", "cancelled", "refused"],
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


@pytest.mark.usefixtures("stack")
def test_a_desktop_is_declared_while_its_removal_waits_for_its_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    waits, seen, ended = threading.Event(), list[list[str]](), list[BaseException]()
    monkeypatch.setattr(lock, "say", lambda _: waits.set())
    monkeypatch.setattr(WorkspaceStack, "exists", lambda _: True)
    monkeypatch.setattr(WorkspaceStack, "desktops_with_machines", lambda _: {"first", "second"})
    monkeypatch.setattr(WorkspaceStack, "desktops_with_disks", lambda _: set[str]())

    def checked(name: str) -> Any:
        seen.append(names(name))
        raise BROKEN

    monkeypatch.setattr(workspace, "_checked", checked)

    def remove() -> None:
        try:
            removal.remove("lab", "first")
        except BaseException as error:
            ended.append(error)
            waits.set()

    thread = threading.Thread(target=remove)
    with turn.whole("local", "lab"):
        thread.start()
        assert waits.wait(WAIT_SECONDS) and not ended, ended
        assert names() == ["first", "second"]
    thread.join(WAIT_SECONDS)
    # It goes out once the turn has come, and back as what was to remove it fails.
    assert (seen, ended, names(), kept()) == ([["second"]], [BROKEN], ["first", "second"], [])


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
from deskyard.control.queue import claim as claims
from deskyard.control.machines import removal
from deskyard.workspace import workspace

workspace.up = lambda *_, on_turn, **__: (on_turn(), os.kill(os.getpid(), signal.SIGKILL))
removal.remove("lab", "first")
"""
# A program of an operation, which comes as far as its turn.
CANCELLED = """
from types import SimpleNamespace
from deskyard.control.jobs import child
from deskyard.control.machines import removal
from deskyard.workspace import workspace

workspace._checked = lambda _: SimpleNamespace(site=SimpleNamespace(name="local"))
child.listen()
removal.remove("lab", "first")
"""
# What every task with a machine of the workspace holds together, and a change of it alone.
MACHINES = "machines-local-lab"


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


def test_the_next_try_of_a_removal_that_was_killed_puts_back_what_stood_there_before_the_first(
    killed: Path, engine: Callable[..., None]
) -> None:
    engine(BROKEN, machines=["first"])
    with pytest.raises(DeskyardError):
        removal.remove("lab", "first")
    assert killed.read_text() == DECLARATION


def test_a_destroy_that_was_killed_is_done_by_the_next_try_and_backed_up_as_it_was_declared(
    killed: Path, engine: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    def keep(_name: str, desktops: list[str], _without: str) -> None:
        backed_up.append((desktops, declared("first").backup))

    backed_up: list[Any] = []
    monkeypatch.setattr(final, "held", lambda _: (["first", "second"], []))
    monkeypatch.setattr(final, "keep", keep)
    engine(machines=["first", "second"])
    done = JOBS[DESTROY]({"workspace": "lab", "desktop": "lab.first"})
    assert done == {"result": {"desktop": "lab.first"}}
    assert (names(), kept(), backed_up) == (["second"], [], [(["first"], "never")])


def test_a_destroy_that_was_killed_does_not_begin_again_while_nobody_can_say_what_is_there(
    killed: Path, engine: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(final, "held", lambda _: (["first"], []))
    monkeypatch.setattr(final, "keep", lambda *_: pytest.fail("it was backed up"))
    engine(asked=MUTE)
    with pytest.raises(SiteError, match="does not start"):
        JOBS[DESTROY]({"workspace": "lab", "desktop": "lab.first"})
    assert (names(), kept()) == (["second"], ["lab.first.json"])


@pytest.mark.usefixtures("killed")
def test_a_removal_that_was_killed_is_put_back_once_the_engine_says_what_is_there(
    engine: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(removal, "AGAIN_SECONDS", 0)
    unfinished = removal.Unfinished()
    engine(asked=MUTE)
    look(unfinished)
    # It would be made anew, and empty, if it is gone.
    assert (names(), kept()) == (["second"], ["lab.first.json"])
    engine(machines=["second"])
    look(unfinished)
    assert (names(), kept()) == (["second"], [])


@pytest.mark.usefixtures("stack")
def test_a_removal_that_failed_within_its_steps_is_put_back_once_the_engine_says_what_is_there(
    engine: Callable[..., None],
) -> None:
    engine(BROKEN, asked=MUTE)
    with pytest.raises(SiteError, match="ended with 255"):
        removal.remove("lab", "first")
    assert (names(), kept()) == (["second"], ["lab.first.json"])
    engine(machines=["first", "second"])
    look(removal.Unfinished())
    assert (names(), kept()) == (["first", "second"], [])


def test_who_cancels_a_removal_that_waits_for_its_turn_has_the_desktop_as_it_was(stack: Path) -> None:
    with alone(MACHINES, shared=True):
        process = subprocess.Popen([sys.executable, "-c", CANCELLED], env=os.environ, stderr=subprocess.PIPE, text=True)
        with process:
            assert process.stderr is not None
            try:
                said = next(line for line in process.stderr if "waiting for its end" in line)
                assert "another task moves machines of lab" in said
                assert names() == ["first", "second"]
                process.send_signal(signal.SIGTERM)
                assert "KeyboardInterrupt" in process.communicate(timeout=60)[1]
            finally:
                process.kill()
        assert stack.read_text() == DECLARATION
        assert kept() == []


@pytest.mark.parametrize("shared", [True, False], ids=["moved", "changed"])
def test_a_workspace_whose_machines_are_changed_keeps_no_other_waiting(
    killed: Path, engine: Callable[..., None], monkeypatch: pytest.MonkeyPatch, shared: bool
) -> None:
    monkeypatch.setattr(removal, "AGAIN_SECONDS", 0)
    other = killed.parent / "Pulumi.other.yaml"
    other.write_text(DECLARATION.replace("10.80.1", "10.80.2"))
    undeclare(
        other, "first", lambda found: write_secret(removal._file("other", "first"), json.dumps(asdict(found)).encode())
    )
    engine(machines=["first", "second"])
    unfinished = removal.Unfinished()
    with alone(MACHINES, shared=shared):
        look(unfinished)
        # Who stops or backs up another desktop is not in its way.
        assert names() == (["first", "second"] if shared else ["second"])
        assert names("other") == ["first", "second"]
    look(unfinished)
    assert (names(), kept()) == (["first", "second"], [])


@pytest.mark.usefixtures("stack")
def test_a_removal_that_goes_on_is_left_alone(engine: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    engine(machines=["first"])
    looked: list[list[str]] = []

    def up(_: str, remove: Any, on_turn: Any, on_steps: Any) -> None:
        on_turn()
        look(removal.Unfinished())
        looked.append(names())

    monkeypatch.setattr(workspace, "up", up)
    removal.remove("lab", "first")
    assert looked == [["second"]]


def test_who_ends_a_removal_by_force_is_told_that_the_desktop_comes_back() -> None:
    assert "lab.first is there yet: destroy it again" in claims.forced(DESTROY, "lab", "lab.first")["remedy"]


def test_who_ends_the_end_of_a_workspace_by_force_is_not_told_to_make_it_anew() -> None:
    remedy = claims.forced(END, "lab", None)["remedy"]
    assert remedy.startswith("destroy lab again: the last backups") and "workspace.up" not in remedy
    assert "workspace.up lab puts right" in claims.forced("workspace.up", "lab", None)["remedy"]


def test_a_workspace_that_is_gone_takes_what_was_kept_with_it(killed: Path, engine: Callable[..., None]) -> None:
    engine()
    killed.unlink()
    look(removal.Unfinished())
    assert kept() == []
