"""An error a user can mend ends as one message with four parts, and never as a traceback."""

import json
import subprocess
import sys
from typing import Any

import pytest
from invoke import Context, Exit

from deskyard.errors import ConfigError
from deskyard.tasks.front import Unnoted, command


@command(changes=Unnoted.LOOKS)
def broken(_: Context, json: bool = False) -> None:
    raise ConfigError("desktops[0].tier", "huge", "is no tier", "choose one of: free, pro, max")


@command(changes=Unnoted.LOOKS)
def interrupted(_: Context) -> None:
    raise KeyboardInterrupt


def outcome(task: Any, **options: Any) -> int | None:
    with pytest.raises(Exit) as caught:
        task(Context(), **options)
    code: int | None = caught.value.code
    return code


def test_a_person_reads_field_value_reason_and_remedy(capsys: pytest.CaptureFixture[str]) -> None:
    assert outcome(broken) == 1
    printed = capsys.readouterr()
    assert printed.err == "error: desktops[0].tier = 'huge': is no tier\n  -> choose one of: free, pro, max\n"
    assert printed.out == ""


def test_a_program_reads_the_same_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert outcome(broken, json=True) == 1
    assert json.loads(capsys.readouterr().out) == {
        "error": {
            "field": "desktops[0].tier",
            "value": "huge",
            "reason": "is no tier",
            "remedy": "choose one of: free, pro, max",
        }
    }


def test_an_interruption_says_that_the_command_goes_on(capsys: pytest.CaptureFixture[str]) -> None:
    assert outcome(interrupted) == 130
    assert "goes on from here" in capsys.readouterr().err


def test_a_reader_that_has_enough_is_no_error() -> None:
    program = "from deskyard.tasks.front import show; show(None, as_json=False, text='line\\n' * 100_000)"
    shell = ["sh", "-c", '"$1" -c "$2" | head -n 1', "sh", sys.executable, program]
    done = subprocess.run(shell, capture_output=True, text=True, timeout=60, check=True)
    assert (done.stdout, done.stderr) == ("line\n", "")
