"""All that a program started and that still runs, in whatever session: known by a secret in its environment.

Its mark is the hash of that secret: whoever reads the mark starts nothing that counts as the program's. The kernel
hands the environment on at every fork, also once the parents are gone: no session, group or parent has to be known, and
no control group has to be ours. What a program leaves on purpose is started with an empty secret. The connection that
ssh keeps for others (`ControlPersist`) writes its title over its environment, and so is nobody's.
"""

import contextlib
import hashlib
import os
import secrets
import select
import signal
from collections.abc import Callable, Collection, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from deskyard.host.deadline import Deadline

SECRET = "DESKYARD_PROGRAM"
KILL_SECONDS = 10.0
LOOK_SECONDS = 0.5
PROC = Path("/proc")
# So often all is looked at again where something ended meanwhile, or began to be another program. To be missed, a
# program would have to start another and end in each of these looks.
MOST_LOOKS = 5
# The kernel's own threads, which have no environment.
PF_KTHREAD = 0x0020_0000


@dataclass(frozen=True)
class Process:
    """A process that runs; with the time of its start, since numbers are given again."""

    pid: int
    started: int
    parent: int = field(compare=False)
    name: str = field(compare=False)

    def __str__(self) -> str:
        return f"{self.name} (process {self.pid})"


def fresh() -> str:
    """A secret that no program has yet."""
    return secrets.token_hex(16)


def mark_of(secret: bytes) -> str:
    """The mark of a program that has this secret in its environment."""
    return hashlib.sha256(secret).hexdigest()


def of_nobody() -> dict[str, str]:
    """Variables beside ours in the environment of a program that is to go on, whoever of ours is ended."""
    return {SECRET: ""} if SECRET in os.environ else {}


def running(marks: Collection[str], held: Mapping[Process, str] | None = None) -> dict[str, list[Process]]:
    """Find all that runs of the programs with these marks, themselves among it; only marks of which something runs.

    `held` are those of which it is known already: their parents, by which they were found, may be gone.
    """
    found: dict[str, list[Process]] = {}
    for _ in range(MOST_LOOKS):
        seen, is_whole = _look(frozenset(marks), held or {})
        found |= seen
        if is_whole or found.keys() == set(marks):
            break
    return found


def end(mark: str, term_seconds: float, tick: Callable[[], object] = lambda: None) -> list[Process]:
    """End all of a program, with SIGTERM and then with SIGKILL; what the kernel has not ended in time.

    The topmost are told first, which end what they started in its order. `tick` is called again and again meanwhile.
    """
    held: dict[Process, str] = {}
    ending: set[Process] = set()
    terming, killing = Deadline(term_seconds), Deadline(term_seconds + KILL_SECONDS)
    while left := running([mark], held).get(mark, []):
        if killing.is_over:
            return left
        held.update(dict.fromkeys(left, mark))
        if terming.is_over:
            _send(left, signal.SIGKILL)
        else:
            pids = {process.pid for process in left}
            topmost = [process for process in left if process.parent not in pids and process not in ending]
            _send(topmost, signal.SIGTERM)
            ending.update(topmost)
        tick()
        _wait(left, min(LOOK_SECONDS, (killing if terming.is_over else terming).left))
    return []


def _look(marks: frozenset[str], held: Mapping[Process, str]) -> tuple[dict[str, list[Process]], bool]:
    """Look once; whether nothing can have been missed, too: who ended as it was looked at may have left others."""
    processes: dict[int, Process] = {}
    owner: dict[int, str | None] = {}
    is_whole = True
    for pid in [int(path.name) for path in PROC.iterdir() if path.name.isdecimal()]:
        try:
            process = _process(pid)
            if process is None:
                continue
            environment = _environment(pid)
            is_whole = is_whole and not (environment == b"" and _is_between(pid))
        except PermissionError:
            # Not ours: whoever started it could look at it.
            continue
        except OSError:
            is_whole = False
            continue
        processes[pid] = process
        secret = _secret(environment)
        if secret is not None or process in held:
            owner[pid] = held.get(process) if secret is None else mark_of(secret)
    found: dict[str, list[Process]] = {}
    for pid, process in processes.items():
        mark = _owner(pid, processes, owner)
        if mark is not None and mark in marks:
            found.setdefault(mark, []).append(process)
    return found, is_whole


def _owner(pid: int, processes: Mapping[int, Process], owner: dict[int, str | None]) -> str | None:
    """The mark of a process: its own, or that of the next of its parents that has one."""
    line = []
    while pid in processes and pid not in owner:
        owner[pid] = None
        line.append(pid)
        pid = processes[pid].parent
    mark = owner.get(pid)
    owner.update(dict.fromkeys(line, mark))
    return mark


def _process(pid: int) -> Process | None:
    """The process with this number; None for a zombie, which holds nothing any more, and for a thread of the kernel.

    One whose first thread alone has ended looks like a zombie, and goes on, as what waits for a disk in another does.
    """
    before, _, after = (PROC / str(pid) / "stat").read_text(errors="replace").rpartition(")")
    fields = after.split()
    if (fields[0] in "ZX" and int(fields[17]) < 2) or int(fields[6]) & PF_KTHREAD:
        return None
    return Process(pid, int(fields[19]), int(fields[1]), before.partition("(")[2])


def _environment(pid: int) -> bytes:
    """That of a process, by any thread that has it still; empty if none has."""
    folder = PROC / str(pid)
    with contextlib.suppress(ProcessLookupError):
        if environment := (folder / "environ").read_bytes():
            return environment
    for thread in (folder / "task").iterdir():
        with contextlib.suppress(ProcessLookupError, FileNotFoundError):
            if environment := (thread / "environ").read_bytes():
                return environment
    return b""


def _is_between(pid: int) -> bool:
    """Whether it becomes another program just now, of which the kernel has not written down anything yet."""
    return not (PROC / str(pid) / "cmdline").read_bytes()


def _secret(environment: bytes) -> bytes | None:
    start = f"{SECRET}=".encode()
    return next((part[len(start) :] for part in environment.split(b"\0") if part.startswith(start)), None)


def _send(processes: Collection[Process], sign: signal.Signals) -> None:
    """Send a signal to each that is still the same: what is opened by its number keeps to it."""
    for process in processes:
        # Whoever is gone by now has no number, and no file.
        with contextlib.suppress(ProcessLookupError, FileNotFoundError):
            opened = os.pidfd_open(process.pid)
            try:
                if _process(process.pid) == process:
                    signal.pidfd_send_signal(opened, sign)
            finally:
                os.close(opened)


def _wait(processes: Collection[Process], seconds: float) -> None:
    """Return when one of them has ended, or the time is over."""
    with ExitStack() as closing:
        ends = select.poll()
        for process in processes:
            with contextlib.suppress(ProcessLookupError):
                opened = os.pidfd_open(process.pid)
                closing.callback(os.close, opened)
                ends.register(opened, select.POLLIN)
        ends.poll(max(1.0, seconds * 1000))
