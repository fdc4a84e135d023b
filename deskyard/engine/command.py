"""Starts Pulumi's engine so that Ctrl-C ends it in order: it finishes its step, writes its state, lifts its lock."""

import os
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO

from pulumi import automation
from pulumi.automation import CommandResult
from pulumi.automation.errors import create_command_error
from semver import VersionInfo

from deskyard.host.progress import say

ORDERLY_SECONDS = 90.0
Callback = Callable[[str], object] | None


class EngineCommand(automation.PulumiCommand):
    """The engine in a session of its own: a Ctrl-C at the terminal reaches us alone, and we ask it once to end."""

    def __init__(self, program: Path, version: str) -> None:
        # The parent class asks the program on PATH for its version; the toolchain did that for this one.
        self.command = str(program)
        self.version = VersionInfo.parse(version)

    def run(
        self,
        args: list[str],
        cwd: str,
        additional_env: Mapping[str, str],
        on_output: Callback = None,
        on_error: Callback = None,
    ) -> CommandResult:
        """Run one command of the engine; raises its typed error, or `KeyboardInterrupt` once it has ended."""
        process = subprocess.Popen(
            [self.command, "--non-interactive", *args],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=cwd,
            env={**os.environ, **additional_env, "PULUMI_AUTOMATION_API": "true"},
            encoding="utf-8",
            errors="replace",
            start_new_session=True,
        )
        output, errors = _Reader(process.stdout, on_output), _Reader(process.stderr, on_error)
        try:
            process.wait()
        except KeyboardInterrupt:
            _end_in_order(process)
            raise
        finally:
            output.join()
            errors.join()
        result = CommandResult(stdout=output.text, stderr=errors.text, code=process.returncode)
        if process.returncode != 0:
            raise create_command_error(result)
        return result


class _Reader(threading.Thread):
    """Keeps what the engine prints, and hands each line on."""

    def __init__(self, stream: IO[str] | None, callback: Callback) -> None:
        super().__init__(daemon=True)
        self._stream, self._callback = stream, callback
        self._lines: list[str] = []
        self.start()

    @property
    def text(self) -> str:
        """The text of all that was printed."""
        return "\n".join(self._lines)

    def run(self) -> None:
        """Read to the end."""
        assert self._stream is not None
        for line in self._stream:
            self._lines.append(line.rstrip())
            if self._callback is not None:
                self._callback(line.rstrip())


def _end_in_order(process: subprocess.Popen[str]) -> None:
    say("\n    stopping (Ctrl-C again stops at once)")
    try:
        process.send_signal(signal.SIGINT)
        process.wait(ORDERLY_SECONDS)
    except (KeyboardInterrupt, subprocess.TimeoutExpired):
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
