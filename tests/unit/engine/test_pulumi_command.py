"""Ctrl-C lets the engine end in order."""

import os
import signal
import threading
from pathlib import Path

import pytest
from pulumi.automation.errors import CommandError, StackNotFoundError

from deskyard.engine.command import EngineCommand


def _engine(folder: Path, script: str) -> EngineCommand:
    program = folder / "pulumi"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return EngineCommand(program, "3.253.0")


def test_output_is_kept_and_handed_on(tmp_path: Path) -> None:
    heard: list[str] = []
    result = _engine(tmp_path, 'echo "$@"; echo warned >&2').run(["up"], str(tmp_path), {}, heard.append)
    assert (result.stdout, result.stderr) == ("--non-interactive up", "warned")
    assert heard == ["--non-interactive up"]


@pytest.mark.parametrize(
    ("script", "expected"),
    [("exit 1", CommandError), ("echo 'no stack named x found' >&2; exit 1", StackNotFoundError)],
    ids=["any", "no stack"],
)
def test_failures_are_typed(tmp_path: Path, script: str, expected: type[Exception]) -> None:
    with pytest.raises(expected):
        _engine(tmp_path, script).run([], str(tmp_path), {})


@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_waits_until_the_engine_has_tidied_up(tmp_path: Path) -> None:
    script = f"trap 'sleep 1; touch {tmp_path}/tidy; exit 1' INT; touch {tmp_path}/up; while :; do sleep 0.1; done"
    threading.Timer(1.0, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        _engine(tmp_path, script).run([], str(tmp_path), {})
    assert (tmp_path / "up").exists()
    assert (tmp_path / "tidy").exists()
