"""What tasks change at the host shows in Mission Control: a line once, whoever is killed, and never as a person's."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from deskyard.control.jobs import observer as observer_module
from deskyard.control.jobs.observer import Observer
from deskyard.control.store.cluster import WORKER
from deskyard.control.store.connection import Link, connect
from deskyard.control.watch import changes as intake
from deskyard.control.watch.changes import Intake
from deskyard.host import changes
from deskyard.host.changes import DONE, FAILED, INTERRUPTED, RUNNING, Run, Spool
from deskyard.host.lock import alone
from tests.control.lab import TREE, WAIT_SECONDS, Lab
from tests.control.test_timeline import shown

Row = dict[str, Any]
STOP = Run("desktop.stop", "lab", "first", {"force": True, "text": None}, "ada")


@pytest.fixture
def spool(mission: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Spool:
    """The host's lines; two desktops of Mission Control are what they tell of."""
    monkeypatch.setenv("DESKYARD_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("DESKYARD_STACKS", str(tmp_path))
    mission.declare("lab", "first", "second")
    mission.link.execute("delete from usage_interval")
    return Spool()


@pytest.fixture
def before(mission: Lab) -> int:
    """The number of the audit's last line before the test; what waits for the recorder is in it."""
    mission.until("select 1 where not exists (select from audit_intake)", [])
    row = mission.link.execute("select coalesce(max(number), 0) as number from audit_entry").fetchone()
    assert row is not None
    return int(row["number"])


def lines(mission: Lab, before: int) -> list[Row]:
    """The lines of the host in the audit since then, once the recorder has all."""
    mission.until("select 1 where not exists (select from audit_intake)", [])
    query = "select * from audit_entry where number > %s and action like 'host.%%' order by number"
    return mission.link.execute(query, [before]).fetchall()


def named(found: list[Row]) -> list[tuple[str, str]]:
    return [(entry["action"], entry["detail"].get("state", "")) for entry in found]


def test_a_task_of_the_host_stands_in_the_audit_and_in_the_timeline(
    mission: Lab, owner: httpx.Client, worker: Link, spool: Spool, before: int
) -> None:
    reader = Intake()
    spool.note(STOP, RUNNING)
    reader.look(worker)
    (moment,) = shown(owner, kind="task")
    assert (moment["what"], moment["actor"], moment["state"]) == ("desktop.stop", "host:ada", RUNNING)
    spool.note(STOP, FAILED, "gateway", "does not answer")
    reader.look(worker)
    reader.look(worker)
    began, ended = lines(mission, before)
    assert named([began, ended]) == [("host.desktop.stop", RUNNING), ("host.desktop.stop", FAILED)]
    assert {entry["actor"] for entry in (began, ended)} == {"host:ada"} and ended["target"] == "lab.first"
    assert began["detail"]["source"] == "host" and began["detail"]["options"] == {"force": True, "text": None}
    assert (ended["detail"]["field"], ended["detail"]["reason"]) == ("gateway", "does not answer")
    (moment,) = shown(owner)
    assert (moment["kind"], moment["state"]) == ("task", FAILED)
    assert moment["detail"] == "--force --text ...: gateway: does not answer"
    assert shown(owner, "lab.second") == []


def test_what_is_done_to_a_whole_workspace_shows_in_each_of_its_desktops(
    mission: Lab, owner: httpx.Client, worker: Link, spool: Spool
) -> None:
    mission.declare("other", "first")
    spool.note(Run("workspace.stop", "lab", operator="ada"), DONE)
    spool.note(Run("toolchain.get", operator="ada"), DONE)
    Intake().look(worker)
    for desktop in ("lab.first", "lab.second"):
        assert [moment["what"] for moment in shown(owner, desktop, kind="task")] == ["workspace.stop"]
    assert shown(owner, "other.first", kind="task") == []


def test_each_line_comes_once_at_whichever_statement_who_takes_it_in_is_killed(
    mission: Lab, owner: httpx.Client, spool: Spool, before: int
) -> None:
    spool.note(STOP, RUNNING)
    spool.note(STOP, DONE)
    kills, code = 0, -signal.SIGKILL
    while code == -signal.SIGKILL:
        argv = [sys.executable, "-m", "tests.control.killed_intake", mission.url(WORKER), str(kills)]
        code = subprocess.run(argv, cwd=TREE, env=dict(os.environ), check=False, timeout=WAIT_SECONDS).returncode
        kills += 1
    assert code == 0 and kills > 8
    assert named(lines(mission, before)) == [("host.desktop.stop", RUNNING), ("host.desktop.stop", DONE)]
    assert [moment["state"] for moment in shown(owner)] == [DONE]


def test_two_who_take_in_at_once_take_each_line_once(
    mission: Lab, worker: Link, spool: Spool, before: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(intake, "AT_ONCE", 3)
    for _ in range(20):
        spool.note(replace(STOP, id=os.urandom(8).hex()), DONE)

    def take() -> None:
        with connect(mission.url(WORKER)) as link:
            Intake().look(link)

    threads = [threading.Thread(target=take) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT_SECONDS)
    found = lines(mission, before)
    assert len(found) == len({entry["detail"]["run"] for entry in found}) == 20


def test_lines_that_went_before_they_were_read_are_counted(
    mission: Lab, worker: Link, spool: Spool, before: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changes, "MOST_BYTES", 2_000)
    reader = Intake()
    spool.note(STOP, DONE)
    reader.look(worker)
    for _ in range(30):
        spool.note(STOP, DONE)
    reader.look(worker)
    first, missed, *rest = lines(mission, before)
    assert (missed["action"], missed["actor"], missed["target"]) == ("host.missed", "host:host", "host")
    assert missed["detail"]["lines"] == 30 - len(rest) > 0
    assert named([first, *rest]) == [("host.desktop.stop", DONE)] * (1 + len(rest))


def test_lines_of_a_host_that_begins_anew_are_taken_in_from_its_first(
    mission: Lab, worker: Link, spool: Spool, tmp_path: Path, before: int
) -> None:
    reader = Intake()
    for _ in range(3):
        spool.note(STOP, DONE)
    reader.look(worker)
    for path in (tmp_path / "home/state/changes").iterdir():
        path.unlink()
    spool.note(STOP, FAILED)
    reader.look(worker)
    assert [state for _, state in named(lines(mission, before))] == [DONE, DONE, DONE, FAILED]


def test_a_run_whose_process_was_killed_was_interrupted_and_one_that_goes_on_was_not(
    mission: Lab, owner: httpx.Client, worker: Link, spool: Spool, before: int
) -> None:
    with subprocess.Popen(["sleep", "60"]) as process:
        killed = replace(STOP, id="killed", process=changes.process(process.pid))
        spool.note(killed, RUNNING)
        spool.note(replace(STOP, id="goes on", desktop="second"), RUNNING)
        reader = Intake()
        for _ in range(2):
            reader.look(worker)
            assert [moment["state"] for moment in shown(owner)] == [RUNNING]
        process.kill()
    for _ in range(2):
        reader.look(worker)
    assert [moment["state"] for moment in shown(owner)] == [INTERRUPTED]
    assert [moment["state"] for moment in shown(owner, "lab.second")] == [RUNNING]
    last = lines(mission, before)[-1]
    assert named([last]) == [("host.desktop.stop", INTERRUPTED)] and len(lines(mission, before)) == 3
    assert last["detail"]["reason"] == intake.SILENT and last["actor"] == "host:ada"


def test_a_run_that_wrote_its_end_and_ended_is_done(
    mission: Lab, owner: httpx.Client, worker: Link, spool: Spool, before: int
) -> None:
    with subprocess.Popen(["sleep", "60"]) as process:
        run = replace(STOP, process=changes.process(process.pid))
        spool.note(run, RUNNING)
        reader = Intake()
        reader.look(worker)
        spool.note(run, DONE)
        process.kill()
    with alone(changes.LOCK):
        # Somebody writes: nothing is said of what is not read.
        reader.look(worker)
        assert [moment["state"] for moment in shown(owner)] == [RUNNING]
    reader.look(worker)
    assert [moment["state"] for moment in shown(owner)] == [DONE]
    assert [state for _, state in named(lines(mission, before))] == [RUNNING, DONE]


@pytest.mark.parametrize(
    "run",
    [
        Run("gateway.head", "lab", "first", operator="ada"),
        Run("x'); drop table person; --", "lab", "first", operator="person:ada"),
        Run("desktop.stop", "\x00\x1b[31m" * 20, "\udcff\ud800" * 40, {"\x00" * 99: "\x00" * 200}, "\x00" * 200),
        Run("desktop.stop", "", "", {"a": 10**400, "b": float("inf")}, "\u202emoor"),  # type: ignore[dict-item]
        Run("desktop.stop", "lab", "first", {"a": [{}], "b": {"c": 1}}, "", "", ""),  # type: ignore[dict-item]
        Run("a" * 500, "lab/../x", "<script>", {str(number): number for number in range(200)}, "ada"),
    ],
)
def test_a_line_is_text_of_the_host_whatever_stands_in_it(
    mission: Lab, worker: Link, spool: Spool, tmp_path: Path, before: int, run: Run
) -> None:
    mission.link.execute("insert into person (id, name, role) values ('pe_a', 'ada', 'viewer')")
    spool.note(STOP, DONE)
    path = tmp_path / "home/state/changes/now.jsonl"
    line = json.loads(path.read_text()) | {"number": 2, "reason": "\x00" * 320, "run": run.__dict__}
    with path.open("a") as file:
        file.write(f"{json.dumps(line)}\n")
    spool.note(STOP, DONE)
    Intake().look(worker)
    found = lines(mission, before)
    assert len(found) == 3 and found[1]["actor"].startswith("host:") and found[1]["action"].startswith("host.")
    text = json.dumps([found[1]["actor"], found[1]["target"], found[1]["detail"]], ensure_ascii=False)
    assert text.isprintable() and len(text) < 4_000


@pytest.fixture
def observed(mission: Lab, spool: Spool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Observer]:
    """An observer that runs."""
    monkeypatch.setattr(Observer, "_follow", lambda *_: None)
    monkeypatch.setattr(observer_module, "LOOK_SECONDS", 0.05)
    (tmp_path / "Pulumi.lab.yaml").write_text(
        "config:\n  deskyard:network: 10.80.1.0/24\n  deskyard:desktops:\n  - name: first\n"
    )
    observer = Observer(mission.url(WORKER))
    thread = threading.Thread(target=observer.run)
    thread.start()
    yield observer
    observer.stop()
    thread.join(WAIT_SECONDS)
    assert not thread.is_alive()


def test_a_task_that_somebody_runs_shows_without_being_asked_for(
    mission: Lab, owner: httpx.Client, observed: Observer, before: int
) -> None:
    argv = [sys.executable, "-m", "invoke", "desktop.set-key", "nowhere", "anthropic", "--json"]
    env = {**os.environ, "SUDO_USER": "grace"}
    done = subprocess.run(argv, cwd=TREE, env=env, input="sk-secret", capture_output=True, text=True, check=False)
    assert done.returncode == 1 and json.loads(done.stdout)["error"]["field"] == "workspace"
    mission.until("select 1 from audit_entry where number > %s and detail ->> 'state' = 'failed'", [before])
    began, ended = lines(mission, before)
    assert named([began, ended]) == [("host.desktop.set-key", RUNNING), ("host.desktop.set-key", FAILED)]
    assert ended["target"] == "nowhere" and ended["detail"]["field"] == "workspace"
    assert began["actor"] == ended["actor"] == f"host:{changes.operator() if login() else 'grace'}"
    assert "sk-secret" not in json.dumps([entry["detail"] for entry in (began, ended)])


def login() -> bool:
    """Whether this process is of somebody's login, which says more than a variable."""
    return int(Path("/proc/self/loginuid").read_text()) != changes.NO_LOGIN
