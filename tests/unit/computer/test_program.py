"""A program that sleeps on has read all there was for it; one that was woken since is seen by its count."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from deskyard.computer.display.acting import program

MOST_PID = 1 << 22  # the kernel's own bound
ECHO = ["sh", "-c", "while read -r line; do echo $line; done"]
FIRST_ENDS = """
import ctypes, sys, threading
threading.Thread(target=sys.stdin.read).start()
ctypes.CDLL(None).pthread_exit(None)
"""


def test_who_was_woken_between_two_looks_is_not_in_the_same_sleep(
    eventually: Callable[[Callable[[], bool], str], None],
) -> None:
    def asleep() -> bool:
        found = program.look(shell.pid)
        return found is not None and found.sleeps

    with subprocess.Popen(ECHO, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as shell:
        assert shell.stdin is not None and shell.stdout is not None
        eventually(asleep, "it waits for a line")
        before = program.look(shell.pid)
        assert program.look(shell.pid) == before
        shell.stdin.write("line\n")
        shell.stdin.flush()
        assert shell.stdout.readline() == "line\n"
        eventually(asleep, "it waits for another line")
        assert program.look(shell.pid) != before
        shell.stdin.close()


def test_who_has_work_does_not_sleep_and_is_seen_to_run(
    eventually: Callable[[Callable[[], bool], str], None],
) -> None:
    with subprocess.Popen(["sh", "-c", "echo; while :; do :; done"], stdout=subprocess.PIPE) as busy:
        assert busy.stdout is not None
        busy.stdout.readline()
        try:
            first = program.look(busy.pid)
            assert first is not None
            assert not any(found.sleeps for _ in range(20) if (found := program.look(busy.pid)))
            eventually(lambda: (now := program.look(busy.pid)) is not None and now.ran > first.ran, "it runs")
        finally:
            busy.kill()


def test_a_program_of_elsewhere_is_not_known() -> None:
    assert program.look(MOST_PID) is None


def test_who_has_ended_is_seen_to_have_ended_until_the_parent_collects_it() -> None:
    with subprocess.Popen(["true"]) as over:
        # As by a parent that never collects it: told of the end, and no more.
        os.waitid(os.P_PID, over.pid, os.WEXITED | os.WNOWAIT)
        found = program.look(over.pid)
        assert found is not None and found.ended and not found.sleeps
    assert program.look(over.pid) is None


def test_who_is_stopped_has_not_ended_and_does_not_sleep() -> None:
    with subprocess.Popen(ECHO, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as shell:
        shell.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, shell.pid, os.WSTOPPED | os.WNOWAIT)
        found = program.look(shell.pid)
        shell.kill()
    assert found is not None and not found.ended and not found.sleeps


def test_who_has_threads_that_live_on_has_not_ended(eventually: Callable[[Callable[[], bool], str], None]) -> None:
    def first_is_over() -> bool:
        return Path(f"/proc/{python.pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"

    with subprocess.Popen([sys.executable, "-c", FIRST_ENDS], stdin=subprocess.PIPE) as python:
        eventually(first_is_over, "its first thread ends")
        found = program.look(python.pid)
        python.kill()
    assert found is not None and not found.ended
