"""Starts a program and waits for it: argv lists, bounded in time, typed errors, output kept."""

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from deskyard.errors import CommandError, HostError
from deskyard.host.deadline import Alarm

TAIL_LINES = 25
_running: set[subprocess.Popen[str]] = set()
_stopping = threading.Event()


@dataclass(frozen=True)
class Result:
    """The answer of a program: its exit code, standard output and standard error, as text."""

    argv: tuple[str, ...]
    code: int
    stdout: str
    stderr: str
    seconds: float


def run(
    argv: Sequence[str],
    *,
    timeout: float,
    stdin: str | None = None,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    check: bool = True,
    on_line: Callable[[str], None] | None = None,
) -> Result:
    """Run `argv` to its end, at most `timeout` seconds.

    `env` is added to this process's environment. `on_line` gets each line of output while the program runs (standard
    error is then merged into standard output). Raises `HostError` if the program is missing, `CommandError` if it
    ends with an error (unless `check` is false) or does not end in time; the whole process group is ended then.
    """
    started = time.monotonic()
    try:
        process = subprocess.Popen(
            list(argv),
            stdin=subprocess.PIPE if stdin is not None else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT if on_line else subprocess.PIPE,
            env={**os.environ, **env} if env else None,
            cwd=cwd,
            text=True,
            errors="replace",
            start_new_session=True,
        )
    except FileNotFoundError as error:
        raise HostError("program", argv[0], "is not installed", "run ./inv host.prepare") from error
    _running.add(process)
    try:
        if _stopping.is_set():
            raise KeyboardInterrupt
        if on_line is None:
            stdout, stderr = process.communicate(stdin, timeout=timeout)
        else:
            stdout, stderr = _follow(process, stdin, timeout, on_line), ""
    except subprocess.TimeoutExpired as error:
        end_group(process)
        reason = f"did not end within {timeout:.0f} s"
        raise CommandError("command", " ".join(argv[:4]), reason, "see the log, then run it again") from error
    except BaseException:
        end_group(process)
        raise
    finally:
        _running.discard(process)
    if _stopping.is_set():
        raise KeyboardInterrupt
    result = Result(tuple(argv), process.returncode, stdout, stderr, time.monotonic() - started)
    if check and result.code != 0:
        tail = "\n".join((result.stderr.strip() or result.stdout.strip()).splitlines()[-TAIL_LINES:])
        raise CommandError("command", " ".join(argv[:4]), f"exit code {result.code}\n{tail}", "mend the cause above")
    return result


@contextmanager
def stopping() -> Iterator[None]:
    """End what other threads run, and let them start nothing more until the block is over.

    Python hands Ctrl-C to the main thread alone; the others learn of it by this.
    """
    _stopping.set()
    try:
        for process in tuple(_running):
            end_group(process)
        yield
    finally:
        _stopping.clear()


def _follow(process: subprocess.Popen[str], stdin: str | None, timeout: float, on_line: Callable[[str], None]) -> str:
    assert process.stdout is not None
    expired = threading.Event()

    def expire() -> None:
        expired.set()
        end_group(process)

    lines: list[str] = []
    with Alarm(timeout, expire):
        if stdin is not None and process.stdin is not None:
            process.stdin.write(stdin)
            process.stdin.close()
        for line in process.stdout:
            lines.append(line)
            on_line(line.rstrip("\n"))
        process.wait()
    if expired.is_set():
        raise subprocess.TimeoutExpired(process.args, timeout)
    return "".join(lines)


def end_group(process: subprocess.Popen[str]) -> None:
    """End a program and all of its group, which it has to lead."""
    for sign in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, sign)
        except ProcessLookupError:
            return
        try:
            process.wait(timeout=10)
            return
        except subprocess.TimeoutExpired:
            continue
