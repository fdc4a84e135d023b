"""A program of operations that was started ahead: what it imports takes longer than what most operations do."""

import logging
import os
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from json import dumps
from typing import Any

from deskyard.host import offspring
from deskyard.host.command import end_group
from deskyard.host.places import tree

log = logging.getLogger(__name__)


class Program(subprocess.Popen[str]):
    """A program of operations, and the mark by which all that it starts is found."""

    mark = ""


class NoProgram(Exception):
    """The machine has no room for a program now: nothing was begun."""


class Standby:
    """Starts the program `argv`, which reads from a line what it is to do; `keep` has one wait for that."""

    def __init__(self, argv: Sequence[str]) -> None:
        self._argv = list(argv)
        self._ready: Program | None = None
        self._lock = threading.Lock()

    def keep(self) -> None:
        """See that one waits. It ends with the thread that calls this: the kernel takes that for its parent.

        In place of one that ended as it waited there is a new one after the next operation: it may be broken. One
        for which the machine has no room now comes at the next call: nobody asked for it.
        """
        with self._lock:
            if self._ready is None:
                try:
                    self._ready = self._started()
                except OSError as error:
                    log.warning("no program waits for the next operation: %s", error)

    def begin(self, wanted: Mapping[str, Any], note: Callable[[str], object] = lambda _: None) -> Program:
        """A program that was told what it is to do: the one that waits, or a new one.

        `note` gets its mark before: whatever it starts then, somebody knows of it. Raises `NoProgram`.
        """
        with self._lock:
            ready, self._ready = self._ready, None
        text = dumps(wanted) + "\n"
        if ready is not None:
            try:
                return _handed(ready, text, note)
            except OSError:
                # It ended as it waited, and so has done nothing.
                pass
        try:
            started = self._started()
        except OSError as error:
            raise NoProgram from error
        return _handed(started, text, note)

    def _started(self) -> Program:
        secret = offspring.fresh()
        program = Program(
            self._argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=tree(),
            env={**os.environ, offspring.SECRET: secret},
            text=True,
            errors="replace",
            start_new_session=True,
        )
        program.mark = offspring.mark_of(secret.encode())
        return program


def _handed(program: Program, text: str, note: Callable[[str], object]) -> Program:
    try:
        note(program.mark)
        assert program.stdin is not None
        program.stdin.write(text)
        program.stdin.flush()
    except BaseException:
        # It reads no line, and ends.
        end_group(program)
        raise
    return program
