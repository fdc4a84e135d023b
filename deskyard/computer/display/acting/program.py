"""Whether the program of a window has read what was sent to it, for those that say nothing of themselves."""

import os
from dataclasses import dataclass
from pathlib import Path

FIELDS = ("State", "Threads", "voluntary_ctxt_switches")
TICKS = os.sysconf("SC_CLK_TCK")
# In stat(5), behind the name in brackets: the time in the program itself, and in the kernel for it.
USER_TIME, SYSTEM_TIME = 11, 12


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
    all has read all, and waits for no answer of the server either.
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
