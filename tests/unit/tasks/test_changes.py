"""A task that changes something is noted as it begins and as it ends; one that looks is not, and no secret ever is."""

import inspect
import io
import json
import os
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from invoke import Context, Exit

from deskyard.errors import CommandError, ConfigError
from deskyard.host import changes
from deskyard.host.changes import DONE, FAILED, INTERRUPTED, RUNNING, Spool
from deskyard.life import care, power
from deskyard.life.idle import idle
from deskyard.life.pool import filling, pool
from deskyard.plan.power import NoRoom
from deskyard.tasks import front
from deskyard.tasks.front import Changes, Unnoted, command
from tasks import ns
from tests.support.clock import Clock
from tests.support.inv import inv

TREE = Path(__file__).resolve().parents[3]
TASKS = {name: ns[name] for name in ns.task_names}
# Whoever adds a task that only looks adds it here, too.
LOOKING = {
    *("access.list", "access.audit", "backup.list", "backup.files", "control.status", "control.audit", "desktop.wait"),
    *("desktop.events", "desktop.health", "desktop.system", "desktop.keys", "egress.list", "egress.denied"),
    *("egress.traffic", "egress.ask", "host.prepare", "host.show", "image.list", "image.diff", "image.hygiene"),
    *("image.sbom", "image.scan", "image.show", "image.verify", "image.test", "pool.list", "site.show", "site.check"),
    *("site.roles", "site.images", "snapshot.list", "toolchain.show", "workspace.preview", "workspace.environment"),
    *("workspace.status", "workspace.verify", "workspace.health"),
}
AUDITED = {
    "control.backup",
    "control.person",
    "control.key",
    "control.oidc",
    "control.mail",
    "e2b.declare",
    "e2b.serve",
}
SECRET = "correct horse battery"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DESKYARD_HOME", str(tmp_path))
    monkeypatch.setenv("DESKYARD_STACKS", str(tmp_path / "stacks"))
    (tmp_path / "stacks").mkdir()
    monkeypatch.delenv(front.INVOCATION, raising=False)
    monkeypatch.setattr(front, "has_terminal", lambda: False)
    return tmp_path


@pytest.fixture
def unit(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A unit of systemd runs it."""
    monkeypatch.setenv(front.INVOCATION, "0a1b" * 8)


def noted() -> list[tuple[str, str]]:
    return [(line.run.task, line.state) for line in Spool().lines()]


def kept(home: Path) -> str:
    """All that stands in the spool."""
    return "".join(path.read_text() for path in (home / "state/changes").iterdir())


@command(changes=Changes("desktop.mend", "target", ("how",), only_with="really"))
def mend(
    _: Context,
    target: str,
    how: str = "",
    word: str = "",
    really: bool = True,
    dry_run: bool = False,
    json: bool = False,
) -> str:
    if how == "wrong":
        raise ConfigError("--how", SECRET, "is no way", "choose another")
    if how == "said":
        raise CommandError("command", "script", f"exit code 1\n+ export TOKEN={SECRET}", "mend it")
    if how in ("crash", "stop", "leave"):
        raise {"crash": RuntimeError(SECRET), "stop": KeyboardInterrupt(), "leave": Exit(code=3)}[how]
    return "mended"


@command(changes=Unnoted.LOOKS)
def look(_: Context, target: str) -> str:
    return target


def test_a_task_that_changes_something_is_noted_as_it_begins_and_as_it_ends(home: Path) -> None:
    assert mend(Context(), target="lab/first", how="well", word=SECRET, json=True) == "mended"
    began, ended = Spool().lines()
    assert (began.state, ended.state) == (RUNNING, DONE) and began.run == ended.run
    run = began.run
    assert (run.task, run.workspace, run.desktop, run.operator) == ("desktop.mend", "lab", "first", changes.operator())
    # Of an option whose value is not for everybody its name stands there.
    assert run.options == {"how": "well", "word": None} and SECRET not in kept(home)
    assert not changes.is_gone(run.process)


def test_what_a_program_said_before_it_failed_is_not_noted(home: Path) -> None:
    with pytest.raises(Exit):
        mend(Context(), target="lab/first", how="said")
    assert (Spool().lines()[-1].reason, SECRET in kept(home)) == ("exit code 1", False)


@pytest.mark.parametrize(
    ("how", "state", "field", "reason"),
    [
        ("wrong", FAILED, "--how", "is no way"),
        ("crash", FAILED, "", "RuntimeError"),
        ("leave", FAILED, "", "exit code 3"),
        ("stop", INTERRUPTED, "", ""),
    ],
)
def test_a_task_that_fails_is_noted_with_its_reason_and_not_its_value(
    home: Path, how: str, state: str, field: str, reason: str
) -> None:
    with pytest.raises((Exit, RuntimeError)):
        mend(Context(), target="lab/first", how=how)
    ended = Spool().lines()[-1]
    assert (ended.state, ended.field, ended.reason) == (state, field, reason)
    assert SECRET not in kept(home) and len(noted()) == 2


def test_a_dry_run_and_a_look_are_not_noted(home: Path) -> None:
    assert mend(Context(), target="lab/first", dry_run=True) == "mended"
    assert mend(Context(), target="lab/first", really=False) == "mended"
    assert look(Context(), target="lab") == "lab"
    assert not (home / "state").exists()


@command(changes=Changes("desktop.tend", "target", on_timer="due"))
def tend(
    _: Context, target: str, due: bool = False, does: bool = False, fails: bool = False, reason: str = "is not there"
) -> bool:
    if fails:
        raise ConfigError("target", target, reason, "choose another")
    return does


def test_what_a_timer_runs_is_noted_only_if_it_did_something_or_failed(home: Path) -> None:
    assert not tend(Context(), target="lab", due=True)
    assert not (home / "state").exists()
    assert tend(Context(), target="lab", due=True, does=True)
    with pytest.raises(Exit):
        tend(Context(), target="lab", due=True, fails=True)
    assert noted() == [("desktop.tend", DONE), ("desktop.tend", FAILED)]
    # A person who runs it is noted in any case.
    assert not tend(Context(), target="lab")
    assert noted()[2:] == [("desktop.tend", RUNNING), ("desktop.tend", DONE)]


def fails(target: str = "lab", reason: str = "is not there") -> None:
    """A timer's run fails."""
    with pytest.raises(Exit):
        tend(Context(), target=target, due=True, fails=True, reason=reason)


def test_failure_of_a_timer_is_noted_once_until_it_is_another_or_something_was_done(home: Path) -> None:
    for free in (90, 4096, 100):
        fails(reason=f"{free} MiB are free for lab-seat{free}")
    assert noted() == [("desktop.tend", FAILED)]
    fails(reason="its hypervisor does not run")
    fails("lab/first", "its hypervisor does not run")
    for _ in range(2):
        fails("lab", "its hypervisor does not run")
    assert len(noted()) == 3
    assert tend(Context(), target="lab", due=True, does=True)
    fails("lab", "its hypervisor does not run")
    assert [state for _, state in noted()[3:]] == [DONE, FAILED]


def test_failure_of_a_timer_that_lasts_is_noted_once_a_day(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr(time, "time", clock)
    for _ in range(3 * 48):
        fails()
        clock.now += 1800
    assert len(noted()) == 3


def test_failure_with_a_long_reason_whose_numbers_have_other_lengths_is_noted_once(home: Path) -> None:
    for free in (9, 1_000_000):
        fails(reason=f"{free} MiB are free; " + "x" * 300)
    assert len(noted()) == 1


def test_person_at_a_terminal_is_noted_with_begin_and_end_also_with_a_timers_option(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(front, "has_terminal", lambda: True)
    assert not tend(Context(), target="lab", due=True)
    for _ in range(2):
        fails()
    assert [state for _, state in noted()] == [RUNNING, DONE, RUNNING, FAILED, RUNNING, FAILED]


@pytest.mark.parametrize("has_terminal", [True, False])
def test_terminal_is_one_that_is_read_or_printed_to(has_terminal: bool) -> None:
    ours, theirs = os.openpty()
    try:
        done = subprocess.run(
            [sys.executable, "-c", "from deskyard.tasks.front import has_terminal as has; print(has())"],
            cwd=TREE, stdin=theirs if has_terminal else subprocess.DEVNULL, capture_output=True, text=True, check=True,
        )  # fmt: skip
    finally:
        os.close(ours)
        os.close(theirs)
    assert done.stdout == f"{has_terminal}\n"


def test_units_of_the_examples_run_tasks_that_are_for_a_timer_as_a_timer_does() -> None:
    units = sorted((TREE / "examples").glob("*/*.service"))
    found = set()
    for unit in units:
        _, name, *words = next(line.split() for line in unit.read_text().splitlines() if line.startswith("ExecStart="))
        found.add(name)
        on_timer = TASKS[name].changes.on_timer
        assert on_timer is not None
        assert not on_timer or f"--{on_timer}" in words
    assert found == {name for name, task in TASKS.items() if getattr(task.changes, "on_timer", None) is not None}


@pytest.mark.parametrize(("state", "used_at", "woken", "is_noted"), [
    ("off", None, [], False), ("off", 1.0, [], True), ("running", 1.0, [], False), ("running", 1.0, ["first"], True),
])  # fmt: skip
def test_a_timer_that_stops_what_nobody_uses_is_noted_when_it_stopped_or_started_something(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    state: str, used_at: float | None, woken: list[str], is_noted: bool,
) -> None:  # fmt: skip
    use = idle.Use("first", state, "a program", used_at, None, asleep=state == "off")
    monkeypatch.setattr(idle, "stop_unused", lambda _: [use])
    monkeypatch.setattr(idle, "wake_wanted", lambda _: woken)
    assert inv(capsys, "desktop.idle", "lab", "--stop").code == 0
    assert noted() == [("desktop.idle", DONE)] * is_noted


@pytest.mark.parametrize(("row", "is_noted"), [({}, False), ({"restarted": True}, True), ({"backup": "b1"}, True)])
def test_a_timer_that_cares_is_noted_when_it_did_something(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], row: dict[str, Any], is_noted: bool
) -> None:
    found = {"workspace": "lab", "halted": [], "trouble": False, "desktops": [asdict(care.Report("first", **row))]}
    monkeypatch.setattr(care, "run", lambda *_: found)
    assert inv(capsys, "care.run", "lab", "--due").code == 0
    assert noted() == [("care.run", DONE)] * is_noted


def test_care_with_trouble_is_noted_once_and_again_when_it_did_something(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    desktops = [asdict(care.Report("first"))]
    monkeypatch.setattr(
        care, "run", lambda *_: {"workspace": "lab", "halted": [], "trouble": True, "desktops": desktops}
    )
    for _ in range(3):
        assert inv(capsys, "care.run", "lab", "--due").code == 1
    assert noted() == [("care.run", FAILED)]
    desktops[0]["backup"] = "b1"
    for _ in range(2):
        assert inv(capsys, "care.run", "lab", "--due").code == 1
    assert noted() == [("care.run", FAILED)] * 3


@pytest.mark.parametrize(("made", "removed"), [([], []), (["s1"], []), ([], ["s1"])])
def test_a_timer_that_fills_a_pool_is_noted_when_it_made_or_removed_a_desktop(
    unit: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], made: list[str], removed: list[str]
) -> None:
    monkeypatch.setattr(filling, "fill", lambda _: {"seats": [], "made": made, "removed": removed})
    monkeypatch.setattr(pool, "text", lambda _: "filled")
    assert inv(capsys, "pool.fill", "lab").code == 0
    assert noted() == [("pool.fill", DONE)] * bool(made or removed)


def test_who_fills_a_pool_without_a_timer_is_noted_with_begin_and_end_whatever_it_did(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fill(_: str) -> dict[str, Any]:
        # Also if it is killed now, this stands there.
        assert noted() == [("pool.fill", RUNNING)]
        return {"seats": [], "made": [], "removed": []}

    monkeypatch.setattr(filling, "fill", fill)
    monkeypatch.setattr(pool, "text", lambda _: "full")
    assert inv(capsys, "pool.fill", "lab").code == 0
    assert noted() == [("pool.fill", RUNNING), ("pool.fill", DONE)]


def test_timer_of_a_pool_for_which_there_is_no_room_is_noted_once(
    unit: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for free in range(100, 110):
        error = NoRoom("memory", "4096 MiB", f"{free} MiB are free for lab-seat1", "stop others")
        monkeypatch.setattr(filling, "fill", Mock(side_effect=error))
        assert inv(capsys, "pool.fill", "lab").code == 1
    assert noted() == [("pool.fill", FAILED)]


def test_a_disk_that_takes_no_line_is_said_and_keeps_nobody_from_their_work(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*_: Any) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    assert mend(Context(), target="lab/first") == "mended"
    assert capsys.readouterr().err.count("not noted for Mission Control's audit: [Errno 28] No space left") == 2


def test_every_task_says_whether_it_changes_something_and_by_its_own_name() -> None:
    by_why: dict[str, set[str]] = {why: set() for why in Unnoted}
    for name, task in TASKS.items():
        marked = task.changes
        if isinstance(marked, Unnoted):
            by_why[marked].add(name)
            continue
        parameters = set(inspect.signature(task.body).parameters)
        named = {*marked.shown, *marked.not_with, marked.of, marked.only_with, marked.on_timer or ""} - {"", "dry_run"}
        assert (marked.task, named - parameters) == (name, set())
    assert by_why[Unnoted.LOOKS] == LOOKING
    assert by_why[Unnoted.AUDITED] == AUDITED
    of_tree = {name for name in by_why[Unnoted.TREE] if name.partition(".")[0] not in ("bench", "check")}
    assert of_tree == {"test", "image.new", "docs.build", "release.check"}


def test_a_task_without_a_mark_cannot_be_declared() -> None:
    with pytest.raises(TypeError, match="changes"):
        command(help={})  # type: ignore[call-arg]


def test_words_that_are_given_to_an_agent_and_keys_are_in_no_line(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(SECRET))
    for arguments in (
        ("agent.task", "lab/first", SECRET, "--session", "report"),
        ("desktop.set-key", "lab", "anthropic"),
        ("snapshot.create", "lab/first", "before", "--text", SECRET),
        ("egress.decide", "lab", "0a1b2c", "--refuse", "--reason", SECRET),
    ):
        assert inv(capsys, *arguments).code == 1
    found = [(line.run.task, line.run.options) for line in Spool().lines() if line.state == FAILED]
    assert found == [
        ("agent.task", {"text": None, "session": "report"}),
        ("desktop.set-key", {"key": "anthropic"}),
        ("snapshot.create", {"name": "before", "text": None}),
        ("egress.decide", {"ticket": "0a1b2c", "refuse": True, "reason": None}),
    ]
    assert SECRET not in kept(home)


def test_what_stands_behind_two_dashes_is_in_no_line(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert inv(capsys, "desktop.run", "lab", "--", "export", f"TOKEN={SECRET}").code == 1
    assert noted() == [("desktop.run", RUNNING), ("desktop.run", FAILED)]
    assert SECRET not in kept(home)


def test_what_a_worker_does_is_noted_by_no_task(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wanted = {"kind": "desktop.stop", "workspace": "lab", "desktop": "lab.first", "input": {}}
    done = subprocess.run(
        [sys.executable, "-m", "deskyard.control.jobs.child"],
        cwd=TREE, env=dict(os.environ), input=json.dumps(wanted) + "\n", text=True, capture_output=True, check=False,
    )  # fmt: skip
    # It came as far as the task does, in the same home.
    assert json.loads(done.stdout.splitlines()[-1])["problem"]["field"] == "workspace"
    assert not (home / "state/changes").exists()
    assert inv(capsys, "desktop.stop", "lab/first").code == 1
    assert noted() == [("desktop.stop", RUNNING), ("desktop.stop", FAILED)]


def test_what_a_task_changes_is_noted_without_mission_control(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    done = {"workspace": "lab", "desktop": "first", "power": "stopped"}
    monkeypatch.setattr(power, "stop", lambda *_, force: done | {"force": force})
    monkeypatch.setattr(power, "text", lambda _: "stopped")
    assert inv(capsys, "desktop.stop", "lab/first", "--force").code == 0
    (_, ended) = Spool().lines()
    assert (ended.state, ended.run.desktop, ended.run.options) == (DONE, "first", {"force": True})
    assert not (home / "control").exists()
