"""Programs end in time, and their errors say what they said."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from deskyard.errors import CommandError, HostError
from deskyard.host.command import run
from deskyard.host.places import tree


def test_output_and_input_are_carried() -> None:
    result = run(["cat"], stdin="hello", timeout=10)
    assert (result.code, result.stdout) == (0, "hello")


def test_an_error_carries_the_end_of_the_output() -> None:
    with pytest.raises(CommandError, match="exit code 3\nthe cause"):
        run(["sh", "-c", "echo the cause >&2; exit 3"], timeout=10)


def test_an_error_is_an_answer_where_it_is_asked_for() -> None:
    assert run(["false"], timeout=10, check=False).code == 1


def test_a_missing_program_says_what_to_do() -> None:
    with pytest.raises(HostError, match="is not installed"):
        run(["no-such-program-here"], timeout=10)


@pytest.mark.parametrize("follow", [False, True])
def test_a_program_that_does_not_end_is_ended_with_its_children(tmp_path: Path, follow: bool) -> None:
    note = tmp_path / "pid"
    script = f"sleep 300 & echo $! > {note}; wait"
    with pytest.raises(CommandError, match="did not end within"):
        run(["sh", "-c", script], timeout=1, on_line=print if follow else None)
    child = int(note.read_text())
    for _ in range(50):
        if not _runs(child):
            return
        time.sleep(0.1)
    raise AssertionError(f"child {child} still runs")


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return "Z" not in Path(f"/proc/{pid}/stat").read_text().split(")")[1].split()[0]


def test_lines_are_passed_on_while_the_program_runs() -> None:
    lines: list[str] = []
    run(["sh", "-c", "echo one; echo two >&2"], timeout=10, on_line=lines.append)
    assert lines == ["one", "two"]


INTERRUPTED = """
import threading
from deskyard.host.command import run
from deskyard.host.places import tree

begin = threading.Timer.start

def interrupted(timer):
    begin(timer)
    raise KeyboardInterrupt

threading.Timer.start = interrupted
try:
    run(["sleep", "300"], timeout=300, on_line=print)
except KeyboardInterrupt:
    print("stopped", flush=True)
"""


def test_ctrl_c_while_the_limit_begins_leaves_nothing_to_wait_for() -> None:
    argv = [sys.executable, "-c", INTERRUPTED]
    ended = subprocess.run(argv, env={**os.environ, "PYTHONPATH": str(tree())}, capture_output=True, timeout=60)
    assert (ended.returncode, ended.stdout) == (0, b"stopped\n"), ended.stderr.decode()
