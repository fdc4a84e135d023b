"""A program of operations that was started ahead: what it imports takes longer than what most operations do."""

import subprocess
import threading
from collections.abc import Mapping, Sequence
from json import dumps
from typing import Any

from deskyard.host.command import end_group
from deskyard.host.places import tree

Program = subprocess.Popen[str]


class Standby:
    """Starts the program `argv`, which reads from a line what it is to do; `keep` has one wait for that."""

    def __init__(self, argv: Sequence[str]) -> None:
        self._argv = list(argv)
        self._ready: Program | None = None
        self._lock = threading.Lock()

    def keep(self) -> None:
        """See that one waits. It ends with the thread that calls this: the kernel takes that for its parent.

        In place of one that ended as it waited there is a new one after the next operation: it may be broken.
        """
        with self._lock:
            if self._ready is None:
                self._ready = self._started()

    def begin(self, wanted: Mapping[str, Any]) -> Program:
        """A program that was told what it is to do: the one that waits, or a new one."""
        with self._lock:
            ready, self._ready = self._ready, None
        text = dumps(wanted) + "\n"
        if ready is not None:
            try:
                return _handed(ready, text)
            except OSError:
                # It ended as it waited, and so has done nothing.
                end_group(ready)
        return _handed(self._started(), text)

    def _started(self) -> Program:
        return subprocess.Popen(
            self._argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=tree(),
            text=True,
            errors="replace",
            start_new_session=True,
        )


def _handed(program: Program, text: str) -> Program:
    assert program.stdin is not None
    program.stdin.write(text)
    program.stdin.flush()
    return program
