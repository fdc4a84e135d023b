"""A program that sleeps on has read all there was for it; one that was woken since is seen by its count."""

import subprocess
from collections.abc import Callable

from deskyard.computer.display.acting import program

MOST_PID = 1 << 22  # the kernel's own bound
ECHO = ["sh", "-c", "while read -r line; do echo $line; done"]


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
