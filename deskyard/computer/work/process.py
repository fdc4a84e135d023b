"""A process of the desktop, with its pipes or terminal; it is reaped the moment it ends."""

import asyncio
import contextlib
import errno
import fcntl
import os
import pty
import shutil
import signal
import struct
import subprocess
import termios
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http import HTTPStatus
from pathlib import Path

from deskyard.computer.answers import work as answers
from deskyard.computer.problem import Problem
from deskyard.computer.work.output import PATIENCE_SECONDS, Output

SHELL = ("/bin/bash", "-l", "-c")
CHUNK = 1 << 16
# As much as a pipe can hold: what a process said before its end is within.
MOST_LEFT = 32
# Input that a process does not take for so long is refused.
INPUT_SECONDS = 30.0
# How long a terminal may still deliver what was written to it when its process is over.
TERMINAL_SECONDS = 0.5


@dataclass(frozen=True)
class Size:
    """The size of a terminal."""

    columns: int = 80
    rows: int = 24


@dataclass(frozen=True)
class Order:
    """A process to start: without `stdin` it reads an empty file, with `terminal` it has a terminal."""

    argv: tuple[str, ...]
    cwd: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    stdin: bool = False
    terminal: Size | None = None
    tag: str | None = None
    tells_output: bool = False  # among the desktop's events


@dataclass(frozen=True)
class End:
    """How a process ended: by its own exit code, or by a signal (then the code is -1)."""

    code: int
    signal: str | None

    @staticmethod
    def of(returned: int) -> "End":
        """The end that the system reports, where a signal's number is negative."""
        return End(returned, None) if returned >= 0 else End(-1, _name_of(-returned))


class Process:
    """A process that runs or has ended; everything happens on the event loop."""

    def __init__(self, number: str, order: Order) -> None:
        self.number = number
        self.order = order
        self.output = Output()
        self.output.on_room = self._read_on
        self.end: End | None = None
        self.over = asyncio.Event()
        self.started = datetime.now(UTC)
        self._loop = asyncio.get_running_loop()
        self._streams: dict[int, str] = {}
        self._held: set[int] = set()
        self._input = -1
        self._writing = asyncio.Lock()
        self._room: asyncio.Future[None] | None = None
        self._popen = self._start()
        self.pid = self._popen.pid
        self._pidfd = os.pidfd_open(self.pid)
        self._loop.add_reader(self._pidfd, self._reap)
        for descriptor in self._streams:
            os.set_blocking(descriptor, False)
            self._loop.add_reader(descriptor, self._read, descriptor)

    def described(self) -> answers.Process:
        """The process as an answer shows it."""
        return {
            "id": self.number,
            "pid": self.pid,
            "argv": list(self.order.argv),
            "cwd": str(self.order.cwd),
            "tag": self.order.tag,
            "terminal": self.order.terminal is not None,
            "started": self.started.isoformat(timespec="milliseconds"),
            "running": self.end is None,
            "exit_code": self.end.code if self.end else None,
            "signal": self.end.signal if self.end else None,
            "output": {"start": self.output.start, "end": self.output.end},
        }

    def signal(self, number: int) -> None:
        """Send a signal to the process and all that it started in its group."""
        self._require_running()
        try:
            self._send(number)
        except PermissionError as error:
            reason = "runs by now as another account, such as root by sudo, and takes no signals of this one"
            remedy = f"end it with the rights that it has: sudo kill -- -{self.pid}"
            raise Problem(HTTPStatus.FORBIDDEN, "process", self.number, reason, remedy) from error

    def _send(self, number: int) -> None:
        try:
            os.killpg(self.pid, number)
        except ProcessLookupError:
            # On a terminal it makes its group itself, a moment later. Until it is reaped, the number is its own.
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def resize(self, size: Size) -> None:
        """Give the terminal another size."""
        self._require_running()
        if self.order.terminal is None or self._input < 0:
            raise _conflict("terminal", self.number, "is not there", "start the process with one")
        _set_size(self._input, size)

    async def write(self, data: bytes, patience: float | None = INPUT_SECONDS) -> None:
        """Give the process input, as fast as it takes it; it may take none for so many seconds, or for ever (None)."""
        async with self._writing:
            left = memoryview(data)
            try:
                while left:
                    async with asyncio.timeout(patience):
                        left = left[await self._write_some(left) :]
            except TimeoutError:
                reason = f"was not read by the process for {patience:g} seconds"
                raise _conflict("stdin", len(left), reason, "send less at a time, or end the process") from None

    def close_input(self) -> None:
        """Tell the process that there is no more input; in a terminal that is Ctrl+D."""
        self._require_input()
        if self.order.terminal:
            os.write(self._input, b"\x04")
        else:
            self._close_input()

    async def _write_some(self, data: memoryview) -> int:
        self._require_input()
        try:
            return os.write(self._input, data[:CHUNK])
        except BlockingIOError:
            await self._writable(self._input)
            return 0
        except OSError as error:
            if error.errno in (errno.EPIPE, errno.EIO):
                raise _conflict("stdin", self.number, "is closed on the process's side", "start it again") from None
            raise

    async def _writable(self, descriptor: int) -> None:
        """Wait until the process takes more, or its input is closed."""
        self._room = self._loop.create_future()
        self._loop.add_writer(descriptor, _set, self._room)
        try:
            await self._room
        finally:
            # Where it was closed, the number may be another's by now.
            if descriptor == self._input:
                self._loop.remove_writer(descriptor)

    def _require_running(self) -> None:
        if self.end is not None:
            raise Problem(HTTPStatus.NOT_FOUND, "process", self.number, "has ended", "start it again")

    def _require_input(self) -> None:
        self._require_running()
        if self._input < 0:
            raise _conflict("stdin", self.number, "is not open", "start the process with stdin")

    def _start(self) -> "subprocess.Popen[bytes]":
        environment = {**os.environ, **self.order.environment}
        _require_program(self.order, environment)
        return self._on_terminal(environment) if self.order.terminal else self._on_pipes(environment)

    def _on_pipes(self, environment: Mapping[str, str]) -> "subprocess.Popen[bytes]":
        stdin = subprocess.PIPE if self.order.stdin else subprocess.DEVNULL
        pipe = subprocess.PIPE
        started = _popen(self.order, self.order.argv, environment, True, stdin, pipe, pipe)
        assert started.stdout and started.stderr
        # The descriptors are ours from here on: what Popen holds would close them behind our back.
        self._streams = {os.dup(started.stdout.fileno()): "stdout", os.dup(started.stderr.fileno()): "stderr"}
        if started.stdin:
            self._input = os.dup(started.stdin.fileno())
            os.set_blocking(self._input, False)
        for file in (started.stdin, started.stdout, started.stderr):
            if file:
                file.close()
        return started

    def _on_terminal(self, environment: Mapping[str, str]) -> "subprocess.Popen[bytes]":
        assert self.order.terminal
        master, slave = pty.openpty()
        try:
            _set_size(slave, self.order.terminal)
            # What has no session of its own yet gets one, with this terminal, and then becomes the program.
            argv = ("setsid", "--ctty", *self.order.argv)
            environment = {"TERM": "xterm-256color", **environment}
            started = _popen(self.order, argv, environment, False, slave, slave, slave)
        except BaseException:
            os.close(master)
            raise
        finally:
            os.close(slave)
        self._streams = {master: "terminal"}
        self._input = master
        return started

    def _read(self, descriptor: int) -> None:
        if self.end is None and self.output.held_by(self._loop.time()):
            self._loop.remove_reader(descriptor)
            self._held.add(descriptor)
            self._loop.call_later(PATIENCE_SECONDS, self._read_on)
            return
        self._read_some(descriptor)

    def _read_on(self) -> None:
        """Take up reading what was held up."""
        if self._held and (self.end is not None or not self.output.held_by(self._loop.time())):
            for descriptor in self._held & set(self._streams):
                self._loop.add_reader(descriptor, self._read, descriptor)
            self._held.clear()

    def _read_some(self, descriptor: int) -> bool:
        """Read once; False when there is nothing now, or nothing ever again."""
        try:
            data = os.read(descriptor, CHUNK)
        except BlockingIOError:
            return False
        except OSError:
            # A terminal whose last user is gone.
            data = b""
        if not data:
            self._close(descriptor)
            return False
        if not self.output.ended:
            self.output.add(self._streams[descriptor], data)
        return True

    def _close(self, descriptor: int) -> None:
        self._loop.remove_reader(descriptor)
        self._streams.pop(descriptor)
        self._held.discard(descriptor)
        if descriptor == self._input:
            self._give_up_input()
        os.close(descriptor)
        if self.end is not None and not self._streams:
            self._finish()

    def _close_input(self) -> None:
        if self._input >= 0 and self._input not in self._streams:
            os.close(self._give_up_input())

    def _give_up_input(self) -> int:
        """Write no more, and let who waits for room know; the descriptor, to be closed."""
        descriptor, self._input = self._input, -1
        self._loop.remove_writer(descriptor)
        if self._room:
            _set(self._room)
        return descriptor

    def _reap(self) -> None:
        """The process is over: take its exit code, and what it still said."""
        self._loop.remove_reader(self._pidfd)
        os.close(self._pidfd)
        self.end = End.of(self._popen.wait())
        self._close_input()
        for descriptor in list(self._streams):
            for _ in range(MOST_LEFT):
                if not self._read_some(descriptor):
                    break
        self._read_on()
        if self.order.terminal and self._streams:
            self._loop.call_later(TERMINAL_SECONDS, self._finish)
        else:
            # Children in the background may hold the pipes; what they say is read and dropped, so that they live on.
            self._finish()

    def _finish(self) -> None:
        if not self.output.ended:
            self.output.finish()
            self.over.set()


def _name_of(number: int) -> str:
    """The name of a signal; most of those for real-time programs have none."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"SIG{number}"


def _set(ready: "asyncio.Future[None]") -> None:
    if not ready.done():
        ready.set_result(None)


def _popen(
    order: Order,
    argv: Sequence[str],
    environment: Mapping[str, str],
    session: bool,
    stdin: int,
    output: int,
    errors: int,
) -> "subprocess.Popen[bytes]":
    try:
        return subprocess.Popen(
            argv,
            cwd=order.cwd,
            env=environment,
            start_new_session=session,
            stdin=stdin,
            stdout=output,
            stderr=errors,
        )
    except (OSError, ValueError) as error:
        reason = f"cannot be started: {getattr(error, 'strerror', None) or error}"
        remedy = "look at the command and its environment"
        raise Problem(HTTPStatus.BAD_REQUEST, "command", order.argv[0], reason, remedy) from error


def _require_program(order: Order, environment: Mapping[str, str]) -> None:
    """Raise `Problem` where the directory or the program is not there."""
    if not order.cwd.is_dir():
        reason = "is not a directory" if order.cwd.exists() else "does not exist"
        raise Problem(HTTPStatus.BAD_REQUEST, "cwd", str(order.cwd), reason, "name a directory")
    program = order.argv[0]
    place = str(order.cwd / program) if "/" in program else program
    if shutil.which(place, path=environment.get("PATH")) is None:
        remedy = "name a program that is installed, or give the command as text for a shell"
        raise Problem(HTTPStatus.BAD_REQUEST, "command", program, "is not a program of the desktop", remedy)


def _set_size(terminal: int, size: Size) -> None:
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", size.rows, size.columns, 0, 0))


def _conflict(name: str, value: object, reason: str, remedy: str) -> Problem:
    return Problem(HTTPStatus.CONFLICT, name, value, reason, remedy)
