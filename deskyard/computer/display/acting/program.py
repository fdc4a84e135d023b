"""Whether the program of a window has read what was sent to it, for those that say nothing of themselves."""

import itertools
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import xcffib.sync

from deskyard.computer.display.x_server import Line, XConnection

FIELDS = ("State", "Threads", "voluntary_ctxt_switches")
TICKS = os.sysconf("SC_CLK_TCK")
# In stat(5), behind the name in brackets: the time in the program itself, and in the kernel for it.
USER_TIME, SYSTEM_TIME = 11, 12
# Of the extension SYNC: the server serves whoever has a higher priority first; all others have 0. It goes on serving
# one connection for some milliseconds before it looks who else has asked, save when the priority of that one changes.
VERSION, OF_THIS_CONNECTION, LAST = (3, 1), 0, -(1 << 31)


@dataclass(frozen=True)
class Look:
    """A program's first thread at a moment: whether it sleeps, for how manieth time, and seconds that it ran so far.

    A program that has `ended` reads nothing any more; it stays to be seen until its parent collects it.
    """

    ended: bool
    sleeps: bool
    sleep: int
    ran: float


def look(pid: int) -> Look | None:
    """A program's first thread as it is now; None if there is none on this machine.

    The kernel wakes whoever has something to read at once. So who is found in the same sleep after the server has sent
    all has read all, and waits for no answer of the server either (`Answered`).
    """
    folder = Path(f"/proc/{pid}")
    try:
        lines = (folder / "status").read_text().splitlines()
        times = (folder / f"task/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    found = dict(line.split(":\t", 1) for line in lines if line.startswith(FIELDS))
    ran = (int(times[USER_TIME]) + int(times[SYSTEM_TIME])) / TICKS
    # A first thread may end before the others do, and these may still read.
    ended = found["State"].startswith("Z") and found["Threads"] == "1"
    return Look(ended, found["State"].startswith("S"), int(found["voluntary_ctxt_switches"]), ran)


class Answered:
    """That the server has answered all that programs had asked of it, seen by a connection that it serves last.

    A program that sleeps may wait for an answer: an xterm asks for the keyboard's map when it gets a key. A server that
    has much to do serves whom it likes first, and a question of our own proves nothing of another's.
    """

    def __init__(self, display: str) -> None:
        self.line = Line(display, self._prepare)
        self._sync: Any = None
        self._turns = itertools.cycle((LAST, LAST + 1))

    def _prepare(self, connection: XConnection) -> None:
        self._sync = connection.extension(xcffib.sync)
        self._sync.Initialize(*VERSION).reply()

    def wait(self, until: float) -> bool:
        """Return True when it has, False when the time is over: there may be no end of questions."""
        connection = self.line.get()
        self._sync.SetPriority(OF_THIS_CONNECTION, next(self._turns))
        if connection.is_answered(connection.core.GetInputFocus(), until):
            return True
        # The question stays in the server: whoever asked again would wait for its answer first.
        self.line.close()
        return False
