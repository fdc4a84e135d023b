"""A command of Deskyard in a process of its own, which can be killed with everything that it started.

The processes are forked from one that has loaded the program and started no thread: a test's own process has both the
peer and Pulumi's server in it.
"""

import contextlib
import multiprocessing
import os
import signal
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

from deskyard.errors import DeskyardError
from deskyard.workspace import status, workspace
from tests.proxmox.rack import Rack, stand_ins
from tests.proxmox.weakened import without

COMMANDS: dict[str, Callable[..., Any]] = {
    "preview": workspace.preview,
    "up": workspace.up,
    "destroy": workspace.destroy,
    "status": status.status,
}
SECONDS, END_SECONDS = 900.0, 60.0
KILLED = "killed"
PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload([__name__])


class Ending(NamedTuple):
    """How a command ended: the text of its error, nothing if it succeeded, and what it answered."""

    error: str
    answer: Any = None


class ClientProcess:
    """One run of a command on a workspace, of a build that lacks these; its output goes to a file of the rack's."""

    def __init__(self, rack: Rack, lacking: Sequence[str], command: str, *arguments: Any, **named: Any) -> None:
        self.log = rack.folder / "client.log"
        self._answers, answer = PROCESSES.Pipe(duplex=False)
        given = (dict(os.environ), self.log, answer, tuple(lacking), command, arguments, named)
        self._process = PROCESSES.Process(target=_work, args=given, daemon=True)
        self._process.start()
        answer.close()

    def wait(self) -> Ending:
        """How it ended; one that was killed has the error KILLED."""
        try:
            if not self._answers.poll(SECONDS):
                self.kill()
                raise AssertionError(f"goes on after {SECONDS:.0f} s:\n{self.tail()}")
            ending = Ending(*self._answers.recv())
        except EOFError:
            ending = Ending(KILLED)
        self._process.join(END_SECONDS)
        return ending

    def kill(self) -> None:
        """End it at once, with all that runs in its session and in those of the engines that it started."""
        assert self._process.pid is not None
        with contextlib.suppress(ProcessLookupError):
            # So that it starts nothing while it is looked at.
            os.kill(self._process.pid, signal.SIGSTOP)
        sessions = {self._process.pid, *_sessions_below(self._process.pid)} - {os.getsid(0)}
        deadline = time.monotonic() + END_SECONDS
        while (left := [pid for pid, (_, session) in _processes().items() if session in sessions]) and (
            time.monotonic() < deadline
        ):
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.01)

    def tail(self) -> str:
        """The end of what it said."""
        return self.log.read_text(errors="replace")[-4000:] if self.log.exists() else ""


def _work(
    environment: Mapping[str, str],
    log: Path,
    answer: Connection,
    lacking: Sequence[str],
    command: str,
    arguments: tuple[Any, ...],
    named: dict[str, Any],
) -> None:
    os.setsid()
    with log.open("ab") as file:
        for descriptor in (1, 2):
            os.dup2(file.fileno(), descriptor)
    os.environ.clear()
    os.environ.update(environment)
    for place, name, value in stand_ins():
        setattr(place, name, value)
    try:
        with without(*lacking):
            answer.send(("", COMMANDS[command](*arguments, **named)))
    except DeskyardError as error:
        answer.send((str(error),))
    except BaseException:
        answer.send((traceback.format_exc(),))


def _processes() -> dict[int, tuple[int, int]]:
    """Process -> its parent and its session, of those that have not ended."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError, ValueError, IndexError):
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                if fields[0] not in "ZX":
                    found[int(entry.name)] = (int(fields[1]), int(fields[3]))
    return found


def _sessions_below(pid: int) -> set[int]:
    """The sessions of its descendants: a plugin has a process group of its own, but the session of its engine."""
    running = _processes()
    below, found = {pid}, set()
    while fresh := {pid for pid, (parent, _) in running.items() if parent in below and pid not in below}:
        below |= fresh
        found |= {running[pid][1] for pid in fresh}
    return found
