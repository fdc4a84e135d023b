"""agent.task: where its text stands, what it prints, and how it ends."""

import io
import json
from collections.abc import Callable, Generator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from deskyard.agent import task as agent_task
from deskyard.errors import SiteError
from tests.support.inv import inv

BEGIN = {"event": "begin", "workspace": "lab", "desktop": "dev1", "session": "s"}
Events = Callable[..., list[agent_task.Task]]


@pytest.fixture
def happening(monkeypatch: pytest.MonkeyPatch) -> Events:
    """Lets these events happen to each task, and an error at their end."""

    def let(*events: dict[str, Any], error: BaseException | None = None) -> list[agent_task.Task]:
        asked: list[agent_task.Task] = []

        def happen(task: agent_task.Task) -> Generator[dict[str, Any], None, None]:
            asked.append(task)
            yield from events
            if error is not None:
                raise error

        monkeypatch.setattr(agent_task, "events", happen)
        return asked

    return let


def said(text: str) -> dict[str, Any]:
    return {"event": "text", "text": text}


def end(status: str = "done") -> dict[str, Any]:
    return {"event": "end", "status": status, "seconds": 1.5}


@pytest.mark.parametrize(
    "arguments",
    [["do it"], ["--text", "do it"], ["-"], ["--file", "FILE"], ["--file=FILE"]],
    ids=lambda given: " ".join(given),
)
def test_text_stands_on_the_command_line_in_a_file_or_on_standard_input(
    happening: Events,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    arguments: list[str],
) -> None:
    asked = happening(BEGIN, end())
    monkeypatch.setattr("sys.stdin", io.StringIO("do it"))
    (tmp_path / "task.md").write_text("do it")
    given = [argument.replace("FILE", str(tmp_path / "task.md")) for argument in arguments]
    assert inv(capsys, "agent.task", "lab/dev1", *given, "--timeout", "2h", "--session", "s").code == 0
    assert [replace(task, id="") for task in asked] == [agent_task.Task("lab/dev1", "do it", "s", 7200)]


def test_file_may_stand_before_the_desktop(
    happening: Events, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    asked = happening(BEGIN, end())
    (tmp_path / "task.md").write_text("do it")
    assert inv(capsys, "agent.task", "--file", str(tmp_path / "task.md"), "lab/dev1").code == 0
    assert [(request.target, request.text, request.seconds) for request in asked] == [("lab/dev1", "do it", 3600)]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "did not receive required positional arguments: 'text'"),
        (["a", "--file", "task.md"], "are two tasks"),
        (["--file", "none.md"], "cannot be read: No such file"),
        (["--file", "."], "cannot be read: Is a directory"),
        (["--file", "latin.md"], "is no UTF-8"),
        ([""], "is empty"),
        (["a", "--timeout", "soon"], "--timeout = 'soon': is no duration"),
        (["a", "--session", "a b"], "--session = 'a b'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_is_no_task_is_refused(
    happening: Events,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    arguments: list[str],
    message: str,
) -> None:
    asked = happening(BEGIN, end())
    monkeypatch.chdir(tmp_path)
    (tmp_path / "latin.md").write_bytes(b"caf\xe9")
    output = inv(capsys, "agent.task", "lab/dev1", *arguments)
    assert output.code == 1 and message in output.err and not asked


def test_answer_is_printed_as_it_comes_and_ends_its_line(happening: Events, capsys: pytest.CaptureFixture[str]) -> None:
    happening(BEGIN, said("one\n"), said("two"), said(""), end())
    output = inv(capsys, "agent.task", "lab/dev1", "a")
    assert (output.code, output.out, output.err) == (0, "one\ntwo\n", "conversation s\n")
    happening(BEGIN, said("one\n"), end())
    assert inv(capsys, "agent.task", "lab/dev1", "a").out == "one\n"


def test_terminal_is_not_driven_and_json_holds_all(happening: Events, capsys: pytest.CaptureFixture[str]) -> None:
    happening(BEGIN, said("\x1b]0;x\x07\tü\r\n\u202e"), end())
    assert inv(capsys, "agent.task", "lab/dev1", "a").out == "?]0;x?\tü?\n?\n"
    output = inv(capsys, "agent.task", "lab/dev1", "a", "--json")
    assert [json.loads(line) for line in output.out.splitlines()][1] == said("\x1b]0;x\x07\tü\r\n\u202e")
    assert output.out.isascii()


@pytest.mark.parametrize(("status", "code"), [("done", 0), ("timeout", 124)], ids=["done", "timeout"])
def test_exit_code_says_how_it_ended(
    happening: Events, capsys: pytest.CaptureFixture[str], status: str, code: int
) -> None:
    happening(BEGIN, end(status))
    assert inv(capsys, "agent.task", "lab/dev1", "a").code == code
    assert inv(capsys, "agent.task", "lab/dev1", "a", "--json").code == code


@pytest.mark.parametrize(
    ("error", "code", "status"),
    [(SiteError("agent", "lab/dev1", "broke", "mend it"), 1, "failed"), (KeyboardInterrupt(), 130, "stopped")],
    ids=["failed", "stopped"],
)
def test_last_line_of_json_is_the_end_whatever_happened(
    happening: Events, capsys: pytest.CaptureFixture[str], error: BaseException, code: int, status: str
) -> None:
    happening(BEGIN, said("a"), error=error)
    output = inv(capsys, "agent.task", "lab/dev1", "a", "--json")
    last = json.loads(output.out.splitlines()[-1])
    assert (output.code, last["event"], last["status"]) == (code, "end", status)
    assert status == "stopped" or last["error"]["remedy"] == "mend it"
    # What was said stands on a line of its own.
    assert inv(capsys, "agent.task", "lab/dev1", "a").out == "a\n"
