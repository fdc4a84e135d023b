"""Programs that go on running after the command that started them, found again by a pid file."""

import contextlib
import json
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deskyard.errors import HostError
from deskyard.host import offspring
from deskyard.host.deadline import Deadline
from deskyard.host.secret_file import make_folder, opened

END_SECONDS = 10.0


@dataclass(frozen=True)
class Background:
    """A program in the background. Its pid file also holds its start time: pids are used again for strangers."""

    name: str
    folder: Path
    # A forwarder's processes, one per connection, end with it; a daemon's (running machines) do not.
    whole_group: bool = False
    end_seconds: float = END_SECONDS  # how long it may take to end in order, before it is killed

    @property
    def pid_file(self) -> Path:
        """Where pid, start time and argv are kept."""
        return self.folder / f"{self.name}.pid"

    @property
    def log_file(self) -> Path:
        """The file of what the program printed."""
        return self.folder / f"{self.name}.log"

    def pid(self) -> int | None:
        """The pid if the program that we started is still running."""
        record = self._record()
        if record is None or start_time(record["pid"]) != record["started"]:
            return None
        return int(record["pid"])

    def runs(self, argv: Sequence[str]) -> bool:
        """True if it is running and was started with just this command line."""
        record = self._record()
        return self.pid() is not None and record is not None and record["argv"] == list(argv)

    def start(self, argv: Sequence[str], *, cwd: Path | None = None, env: Mapping[str, str] | None = None) -> None:
        """Start the program unless it already runs with this command line; a different one is ended first."""
        if self.runs(argv):
            return
        self.stop()
        make_folder(self.folder)
        with os.fdopen(opened(self.log_file, os.O_WRONLY | os.O_APPEND, 0o644), "ab") as log:
            try:
                process = subprocess.Popen(
                    list(argv),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    cwd=cwd,
                    env={**os.environ, **(env or {}), **offspring.of_nobody()},
                    start_new_session=True,
                )
            except FileNotFoundError as error:
                raise HostError("program", argv[0], "is not installed", "run ./inv host.prepare") from error
        record = {"pid": process.pid, "started": start_time(process.pid), "argv": list(argv)}
        with os.fdopen(opened(self.pid_file, os.O_WRONLY | os.O_TRUNC, 0o644), "w") as file:
            file.write(json.dumps(record))

    def stop(self) -> None:
        """End the program if it is ours and running; forget the pid file."""
        pid = self.pid()
        if pid is not None:
            for sign in (signal.SIGTERM, signal.SIGKILL):
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(pid, sign) if self.whole_group else os.kill(pid, sign)
                if self._gone_within(self.end_seconds):
                    break
        self.pid_file.unlink(missing_ok=True)

    def log_tail(self, lines: int = 8) -> str:
        """The end of what the program printed."""
        try:
            return "\n".join(self.log_file.read_text(errors="replace").splitlines()[-lines:])
        except FileNotFoundError:
            return ""

    def _gone_within(self, seconds: float) -> bool:
        return Deadline(seconds).wait_for(self._is_gone, 0.05)

    def _is_gone(self) -> bool:
        pid = self.pid()
        if pid is None:
            return True
        # A child of ours that has ended counts as running until it is waited for.
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)
        return self.pid() is None

    def _record(self) -> dict[str, Any] | None:
        try:
            record = json.loads(self.pid_file.read_text())
        except (FileNotFoundError, ValueError):
            return None
        return record if isinstance(record, dict) and {"pid", "started", "argv"} <= record.keys() else None


def is_gone(host: str, pid: int) -> bool:
    """True if this process of this machine has ended; of another machine's nothing is known."""
    return host == os.uname().nodename and start_time(pid) is None


def start_time(pid: int) -> int | None:
    """When the process started, in clock ticks after boot; None if it is gone or a zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] == "Z" else int(fields[19])
