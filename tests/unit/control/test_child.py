"""What a child does with a declaration, whose refused desktop is taken out again, and what it tells of an agent."""

import io
import json
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from deskyard.access import gateway_program
from deskyard.agent import task as agent_task
from deskyard.control.jobs import child
from deskyard.control.jobs.child import JOBS
from deskyard.errors import ConfigError, DeskyardError, HostError, SiteError
from deskyard.life import power
from deskyard.life.backup import final
from deskyard.plan.power import NoRoom
from deskyard.workspace import workspace

DECLARATION = """config:
  deskyard:network: 10.80.1.0/24   # ours
  deskyard:desktops:
  - name: first
"""
WANTED = {"workspace": "lab", "desktop": "lab.second", "input": {"name": "second", "tier": "pro", "keys": []}}


@pytest.fixture
def stack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DESKYARD_STACKS", str(tmp_path))
    monkeypatch.setenv("DESKYARD_HOME", str(tmp_path / "home"))
    path = tmp_path / "Pulumi.lab.yaml"
    path.write_text(DECLARATION)
    return path


def up(monkeypatch: pytest.MonkeyPatch, error: Exception | None = None) -> list[Any]:
    """Stand in for the engine; what it was asked to remove."""
    removed: list[Any] = []

    def run(
        _: str,
        *,
        remove: Any = (),
        on_route: Any = None,
        on_turn: Callable[[], object] = lambda: None,
        on_steps: Callable[[], object] = lambda: None,
    ) -> dict[str, Any]:
        on_turn()
        on_steps()
        removed.extend(remove)
        if error is not None:
            raise error
        return {"ready": True}

    monkeypatch.setattr(workspace, "up", run)
    return removed


def test_a_desktop_is_declared_and_brought_up(stack: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    up(monkeypatch)
    assert JOBS["desktop.create"](WANTED) == {"result": {"desktop": "lab.second", "ready": True}}
    assert stack.read_text() == DECLARATION + "  - {name: second, tier: pro}\n"


REFUSALS = (
    ConfigError("quotas.desktops", 3, "is more than the site grants", "ask for fewer"),
    NoRoom("memory", None, "100 MiB are free", "stop others"),
    HostError("gateway_port", 8443, "is taken by another program", "choose another"),
)


@pytest.mark.parametrize("refusal", REFUSALS, ids=lambda error: str(error.field))
def test_a_desktop_that_is_refused_is_not_declared(
    stack: Path, monkeypatch: pytest.MonkeyPatch, refusal: DeskyardError
) -> None:
    up(monkeypatch, refusal)
    with pytest.raises(type(refusal), match=refusal.reason):
        JOBS["desktop.create"](WANTED)
    assert stack.read_text() == DECLARATION


def test_a_desktop_that_was_made_stays_declared_whatever_lacks_then(
    stack: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    up(monkeypatch, REFUSALS[1])
    monkeypatch.setattr(power, "opened", lambda target: {"lab/second": object()}[target])
    with pytest.raises(NoRoom):
        JOBS["desktop.create"](WANTED)
    assert "name: second" in stack.read_text()


@pytest.mark.parametrize("error", [REFUSALS[1], REFUSALS[2]], ids=lambda error: type(error).__name__)
def test_the_worker_is_told_whether_room_lacks(
    stack: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: DeskyardError
) -> None:
    up(monkeypatch, error)
    monkeypatch.setattr(child, "die_with_parent", lambda _: None)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.setattr(sys, "stdin", io.StringIO(json.dumps({"kind": "desktop.create", **WANTED}) + "\n"))
    assert child.main() == 1
    assert json.loads(capsys.readouterr().out) == {"problem": error.as_dict(), "lacks_room": isinstance(error, NoRoom)}


def test_a_desktop_that_broke_off_stays_declared_for_the_next_try(stack: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    up(monkeypatch, SiteError("machine", "second", "did not start", "try again"))
    with pytest.raises(SiteError):
        JOBS["desktop.create"](WANTED)
    up(monkeypatch)
    assert JOBS["desktop.create"](WANTED)
    assert stack.read_text().count("second") == 1


def test_a_desktop_that_is_destroyed_is_backed_up_and_removed_by_its_name(
    stack: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    removed, kept = up(monkeypatch), list[Any]()
    monkeypatch.setattr(final, "held", lambda _: (["first", "second"], []))
    monkeypatch.setattr(final, "keep", lambda name, desktops, _: kept.append((name, desktops, stack.read_text())))
    JOBS["desktop.create"](WANTED)
    declared = stack.read_text()
    assert JOBS["desktop.destroy"](WANTED) == {"result": {"desktop": "lab.second"}}
    assert (removed, stack.read_text(), kept) == (["second"], DECLARATION, [("lab", ["second"], declared)])
    # What was killed behind the edit is done again.
    JOBS["desktop.destroy"](WANTED)
    assert removed == ["second", "second"]


def test_a_desktop_without_a_machine_to_back_its_data_up_by_is_not_destroyed(
    stack: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    removed = up(monkeypatch)
    JOBS["desktop.create"](WANTED)
    declared = stack.read_text()
    monkeypatch.setattr(final, "held", lambda _: (["first"], ["second", "third"]))
    with pytest.raises(SiteError, match=r"none of second, whose data would go\n.*--remove second --no-backup"):
        JOBS["desktop.destroy"](WANTED)
    assert (removed, stack.read_text()) == ([], declared)


def test_the_only_desktop_is_refused_before_it_is_backed_up(stack: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    removed = up(monkeypatch)
    monkeypatch.setattr(final, "held", lambda _: (["first"], []))
    monkeypatch.setattr(final, "keep", lambda *_: pytest.fail("it was backed up"))
    with pytest.raises(ConfigError, match=r"only one[^>]*> .*workspace\.destroy lab"):
        JOBS["desktop.destroy"]({**WANTED, "desktop": "lab.first"})
    assert (removed, stack.read_text()) == ([], DECLARATION)


def test_a_desktop_whose_last_backup_fails_stays_declared_and_is_told_how_it_goes_without(
    stack: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def keep(_name: str, _desktops: Any, without: str) -> None:
        raise SiteError("last backup", "lab/second", "did not boot", without)

    removed = up(monkeypatch)
    monkeypatch.setattr(final, "held", lambda _: (["second"], []))
    monkeypatch.setattr(final, "keep", keep)
    JOBS["desktop.create"](WANTED)
    declared = stack.read_text()
    with pytest.raises(SiteError, match="--remove second --no-backup"):
        JOBS["desktop.destroy"](WANTED)
    assert (removed, stack.read_text()) == ([], declared)


def test_what_an_agent_says_beside_its_text_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def events(task: agent_task.Task, ask: agent_task.Ask) -> Iterator[dict[str, Any]]:
        assert (task.target, task.session, task.id) == ("lab/second", "cv-1", "ms_1")
        yield {"event": "begin", "workspace": "lab", "desktop": "second", "session": "cv-1"}
        yield {"event": "tool", "id": "a", "name": "exec", "state": "started"}
        yield {"event": "text", "text": "done"}
        yield {"event": "approval", "id": "b", "kind": "exec", "asked": "rm"}
        yield {"event": "usage", "input": 1, "output": 2, "cached": 3}
        yield {"event": "heard", "id": "q1", "option": ask({"id": "q1", "asked": "rm", "options": []})}
        # The worker is gone.
        yield {"event": "heard", "id": "q2", "option": ask({"id": "q2"})}
        yield {"event": "end", "status": "done", "seconds": 1.0}

    monkeypatch.setattr(agent_task, "events", events)
    answers = [{"id": "q0", "option": "no"}, {"id": "q1", "option": "yes"}]
    monkeypatch.setattr(sys, "stdin", io.StringIO("".join(json.dumps(answer) + "\n" for answer in answers)))
    asked = {"conversation": "cv_1", "message": "ms_1", "text": "do it"}
    assert JOBS["desktop.chat"]({**WANTED, "input": asked}) == {"result": {"status": "done"}}
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == [
        {"tool": {"id": "a", "name": "exec", "state": "started"}},
        {"part": "done"},
        {"usage": {"input": 1, "output": 2, "cached": 3}},
        {"question": {"id": "q1", "asked": "rm", "options": []}},
        {"heard": {"id": "q1", "option": "yes"}},
        {"question": {"id": "q2"}},
        {"heard": {"id": "q2", "option": None}},
    ]


@pytest.mark.parametrize("answer", [[], {}, None, ["x"], [{"event": "say", "seq": 7}]], ids=str)
def test_what_no_page_said_is_not_delivered(monkeypatch: pytest.MonkeyPatch, answer: Any) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(agent_task, "events", lambda *_: pytest.fail("it was delivered"))
    monkeypatch.setattr(gateway_program, "require", lambda name: name)

    def ask(name: str, words: list[str]) -> Any:
        asked.append((name, words))
        return answer

    monkeypatch.setattr(gateway_program, "ask", ask)
    page = {"request": "-session.wish", "line": 7}
    given = {"conversation": "cv_1", "message": "ms_1", "text": "do it", "said_by": "person:Ada", "page": page}
    with pytest.raises(ConfigError, match="was not said on that page"):
        JOBS["desktop.chat"]({**WANTED, "actor": "person:Ada", "input": given})
    # The id of a session may begin with what would be an option.
    assert asked == [("lab", ["audit", "--since=6", "--session=-session"])]
