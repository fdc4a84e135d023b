"""Follows a program of ours on a desktop while it runs, over SSH through the gateway.

As with `desktop.program`, program and request go by standard input, and nothing but the length of the program is on a
command line. Standard input then stays open: its end tells the program that nobody listens any more, also when this
process is killed.
"""

import contextlib
import json
import subprocess
import threading
from collections.abc import Iterator, Mapping
from functools import partial
from types import ModuleType, TracebackType
from typing import Any, Self

from deskyard.errors import SiteError
from deskyard.host.command import end_group
from deskyard.host.deadline import Alarm
from deskyard.plan.printable import printable
from deskyard.plan.workspace import WorkspacePlan
from deskyard.site.guest_program import sent
from deskyard.site.ssh_link import CONNECT_SECONDS, NO_CONNECTION, SshLink

# So long a program may take to end once nobody listens any more; emulated desktops are slow.
END_SECONDS = 60.0
# A program gets this much more than it asked for before it is ended from here.
SLACK_SECONDS = 2 * CONNECT_SECONDS
# What is longer is no line of ours.
MAX_LINE = 1 << 18
MAX_SAID = 500


class DesktopStream:
    """A program that runs on a desktop, and what it says, while its `with` block lasts."""

    def __init__(
        self,
        plan: WorkspacePlan,
        desktop: str,
        account: str,
        program: ModuleType,
        request: Mapping[str, Any],
        seconds: float,
    ) -> None:
        self.name = f"{plan.name}/{desktop}"
        remote, self._sending = sent(program, request, account)
        self._command = SshLink(plan.site, plan.name).command(desktop, remote)
        self._seconds, self._complaints = seconds + SLACK_SECONDS, ""

    def __enter__(self) -> Self:
        pipe = subprocess.PIPE
        # A session of its own: Ctrl-C is for us, and what runs there is then told to end.
        self._process = subprocess.Popen(
            self._command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, errors="replace", start_new_session=True
        )
        self._patience = Alarm(self._seconds, partial(end_group, self._process))
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._patience.start()
        self._listener.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()

    def lines(self) -> Iterator[dict[str, Any]]:
        """Send the request, then what the program says, to its end; raises `SiteError` if it did not run to it."""
        assert self._process.stdin is not None and self._process.stdout is not None
        # Who cannot be reached hears nothing; the exit code says so.
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(self._sending)
            self._process.stdin.flush()
        while line := self._process.stdout.readline(MAX_LINE):
            try:
                found = json.loads(line)
            except (ValueError, RecursionError):
                found = None
            if not isinstance(found, dict):
                raise SiteError("desktop", self.name, "answered with what makes no sense", "see what runs there")
            yield found
        code = self._process.wait()
        self._listener.join(END_SECONDS)
        said = printable(self._complaints, most=None, mark=" ").strip()
        if code == NO_CONNECTION:
            reason = f"cannot be reached over SSH: {said}"
            raise SiteError("desktop", self.name, reason, "see ./inv workspace.status, then run the same command again")
        if code != 0:
            reason = f"did not do what it was asked: exit code {code}: {said}"
            raise SiteError("desktop", self.name, reason, "see what runs there, then run the same command again")

    def say(self, **answer: Any) -> None:
        """Answer something that the program asked; one that is gone hears nothing, and its end says so."""
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.write(json.dumps(answer) + "\n")
            self._process.stdin.flush()

    def end(self) -> bool:
        """Tell the program that nobody listens any more, and wait for its end; false if it had to be cut off."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._patience.cancel()
        try:
            with Alarm(END_SECONDS, partial(end_group, self._process)):
                with contextlib.suppress(OSError):
                    self._process.stdin.close()
                # What it still says must not be in its way.
                while self._process.stdout.read(MAX_LINE):
                    pass
                return self._process.wait() == 0
        except BaseException:
            end_group(self._process)
            raise

    def _listen(self) -> None:
        assert self._process.stderr is not None
        while piece := self._process.stderr.readline(MAX_LINE):
            self._complaints = (self._complaints + piece)[-MAX_SAID:]
