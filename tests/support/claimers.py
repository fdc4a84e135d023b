"""Processes that claim desktops at once, some of which are killed at a moment of their claim."""

import json
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from deskyard.plan.pool.seat import Claim
from deskyard.workspace.seats import Seats

FOREVER = 4e9
Doom = Callable[[Seats, str], None]
# Where a claimer dies: before it has the lock, with it, behind the half line, the line, the word of the machine.
MOMENTS = ("before", "locked", "torn", "written", "marked")


def die() -> None:
    """As `kill -9` does."""
    os.kill(os.getpid(), signal.SIGKILL)


def doomed(seats: Seats, moment: str) -> None:
    """Let this process die when its claim comes to a moment."""
    ledger, disposables = seats.ledger, seats.disposables
    note, mark, machines = ledger.note, disposables.mark, ledger.machines

    def torn(handle: int, data: bytes) -> int:
        os.pwrite(handle, data[: len(data) // 2], os.fstat(handle).st_size)
        die()
        return 0

    match moment:
        case "before":
            die()
        case "locked":
            ledger.machines = lambda: die() or machines()  # type: ignore[method-assign, func-returns-value]
        case "torn":
            os.write = torn  # type: ignore[assignment]
        case "written":
            ledger.note = lambda entry: (note(entry), die())[0]  # type: ignore[method-assign, func-returns-value]
        case "marked":
            disposables.mark = lambda seat, words: (mark(seat, words), die())[0]  # type: ignore[method-assign, func-returns-value]


def claimer(
    number: int, seats: Seats, declared: Any, moment: str | None, begin: int, answers: int, doom: Doom = doomed
) -> Callable[[], None]:
    """A process that claims once when all begin, and says what it got."""

    def run() -> None:
        os.read(begin, 1)
        if moment is not None:
            doom(seats, moment)
        taken = seats.take(declared, {seat.name for seat in declared.plan.seats}, Claim(f"c{number}", FOREVER))
        said = {"claimer": number, "seat": taken.seat if taken else None, "machine": taken.number if taken else None}
        os.write(answers, f"{json.dumps(said)}\n".encode())

    return run


def fork(run: Callable[[], None]) -> int:
    """A process of its own for it."""
    pid = os.fork()
    if pid == 0:
        try:
            run()
        finally:
            os._exit(0)
    return pid


def race(
    seats: Seats | Sequence[Seats], declared: Any, claimers: int, kills: Mapping[int, str], doom: Doom = doomed
) -> tuple[list[dict[str, Any]], list[int]]:
    """Let so many claim at once, some of which die at a moment: what the others say, and how all ended.

    With several `seats` they claim in turns from each.
    """
    each = [seats] if isinstance(seats, Seats) else seats
    begin, start = os.pipe()
    heard, answers = os.pipe()
    pids = [
        fork(claimer(number, each[number % len(each)], declared, kills.get(number), begin, answers, doom))
        for number in range(claimers)
    ]
    os.close(answers)
    os.write(start, bytes(claimers))
    with os.fdopen(heard) as lines:
        said = [json.loads(line) for line in lines.read().splitlines()]
    ends = [os.waitpid(pid, 0)[1] for pid in pids]
    os.close(begin)
    os.close(start)
    return said, ends
