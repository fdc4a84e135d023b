"""A program that waits for its operation does it, and another is started for what comes next."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from deskyard.control.jobs.running import CHILD
from deskyard.control.jobs.standby import NoProgram, Program, Standby
from deskyard.host.command import end_group

SECONDS = 60
# Notes that it was started, and says what it was told.
ECHO = (
    "import os, sys; print(os.getpid(), file=open(sys.argv[1], 'a'), flush=True); print(sys.stdin.readline(), end='')"
)


class Log:
    """The programs that were started."""

    def __init__(self, path: Path, code: str = ECHO) -> None:
        os.mkfifo(path)
        self._started = os.fdopen(os.open(path, os.O_RDWR))
        self.standby = Standby([sys.executable, "-c", code, str(path)])
        self.begun: list[Program] = []

    def next(self) -> int:
        """The process that is started next, waited for."""
        return int(self._started.readline())

    def begin(self, **wanted: str) -> Program:
        self.begun.append(self.standby.begin(wanted))
        return self.begun[-1]


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    found = Log(tmp_path / "started")
    yield found
    # The one that waits ends as well, once it is told anything.
    found.begin()
    for program in found.begun:
        end_group(program)


def said(program: Program) -> object:
    return json.loads(program.communicate(timeout=SECONDS)[0])


def test_what_waits_does_what_is_wanted_and_the_next_one_is_started_when_it_is_to_be_kept(log: Log) -> None:
    log.standby.keep()
    waiting = log.next()
    log.standby.keep()
    first = log.begin(kind="first")
    assert (first.pid, said(first)) == (waiting, {"kind": "first"})
    second = log.begin(kind="second")
    # Had it been kept ready before, its process would not be the one that is started last.
    assert (second.pid, said(second)) == (log.next(), {"kind": "second"})
    log.standby.keep()
    assert log.next() == log.begin(kind="third").pid


def test_in_place_of_what_ended_as_it_waited_another_does_it(log: Log) -> None:
    log.standby.keep()
    waiting = log.next()
    os.kill(waiting, 9)
    os.waitid(os.P_PID, waiting, os.WEXITED | os.WNOWAIT)
    log.standby.keep()  # starts none: it may be broken
    program = log.begin(kind="first")
    assert (program.pid, said(program)) == (log.next(), {"kind": "first"})


def test_a_child_that_is_wanted_for_nothing_ends_well() -> None:
    done = subprocess.run(CHILD, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_where_none_can_be_started_now_nothing_ends_and_the_next_call_starts_it(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> Program:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    with monkeypatch.context() as patched:
        patched.setattr(Standby, "_started", refused)
        log.standby.keep()
        with pytest.raises(NoProgram):
            log.begin(kind="none")
    log.standby.keep()
    waiting = log.next()
    assert log.begin(kind="first").pid == waiting
