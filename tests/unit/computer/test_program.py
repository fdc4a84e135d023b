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
        found = program.sleep(shell.pid)
        return found is not None and found[0]

    with subprocess.Popen(ECHO, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as shell:
        assert shell.stdin is not None and shell.stdout is not None
        eventually(asleep, "it waits for a line")
        before = program.sleep(shell.pid)
        assert program.sleep(shell.pid) == before
        shell.stdin.write("line\n")
        shell.stdin.flush()
        assert shell.stdout.readline() == "line\n"
        eventually(asleep, "it waits for another line")
        assert program.sleep(shell.pid) != before
        shell.stdin.close()


def test_who_has_work_does_not_sleep() -> None:
    with subprocess.Popen(["sh", "-c", "echo; while :; do :; done"], stdout=subprocess.PIPE) as busy:
        assert busy.stdout is not None
        busy.stdout.readline()
        try:
            assert program.sleep(busy.pid) is not None
            assert not any(found[0] for _ in range(20) if (found := program.sleep(busy.pid)))
        finally:
            busy.kill()


def test_a_program_of_elsewhere_is_not_known() -> None:
    assert program.sleep(MOST_PID) is None
