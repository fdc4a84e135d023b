"""Whether the program of a window has read what was sent to it, for those that say nothing of themselves."""

from pathlib import Path

FIELDS = ("State", "voluntary_ctxt_switches")


def sleep(pid: int) -> tuple[bool, int] | None:
    """Whether a program's first thread sleeps, and for how manieth time; None if there is none on this machine.

    The kernel wakes whoever has something to read at once. So who is found in the same sleep after the server has sent
    all has read all, and waits for no answer of the server either.
    """
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return None
    found = dict(line.split(":\t", 1) for line in lines if line.startswith(FIELDS))
    return found["State"].startswith("S"), int(found["voluntary_ctxt_switches"])
