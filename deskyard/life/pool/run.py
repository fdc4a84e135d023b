"""Gives a task a desktop of its own: one that waits or a new one, and removes it at the end if that was wanted."""

import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from deskyard.access.gateway_program import actor
from deskyard.declaration.declaration import Declared
from deskyard.engine.backend import machines_of
from deskyard.errors import HostError, SiteError
from deskyard.host.command import end_group
from deskyard.host.deadline import Deadline
from deskyard.life.pool import pool
from deskyard.life.pool.making import make
from deskyard.plan.account import AGENT
from deskyard.plan.pool.seat import Claim, State
from deskyard.plan.workspace import DesktopPlan
from deskyard.site.ssh_link import SshLink
from deskyard.wire.stages import Stage
from deskyard.workspace import turn
from deskyard.workspace.seats import HadError, Seats, words

# As `timeout` of coreutils and shells say it.
TIMEOUT = 124
QUIET_SECONDS = 60.0
# The command is text that the agent's own shell reads, as ssh has it; `$0` is that text.
SHELL = ("sudo", "-n", "-H", "-u", AGENT, "--", "bash", "-lc", 'cd && eval "$0"')


@dataclass(frozen=True)
class Wanted:
    """Which desktop of a workspace, and for how many seconds; `command` says that it is wanted for a command alone."""

    workspace: str
    image: str | None
    tier: str | None
    seconds: int
    remove: bool
    command: bool


@contextmanager
def desktop(wanted: Wanted) -> Iterator[dict[str, Any]]:
    """A desktop that nobody else has, and what there is to know of it; with `remove` it is gone after the block."""
    declared, seats = pool.opened(wanted.workspace)
    among = pool.candidates(declared, wanted.image, wanted.tier)
    seats.sweep(declared)
    claim = Claim(actor(), time.time() + wanted.seconds, run=wanted.remove)
    with ExitStack() as held:
        name = _seized(held, seats, declared, among, _Wish(claim, routes=not wanted.command))
        try:
            yield pool.facts(declared, seats.ledger.machines()[name])
        finally:
            if wanted.remove:
                with turn.of(declared.plan, name):
                    seats.remove(name)


def begin(wanted: Wanted, claimer: str) -> dict[str, Any]:
    """The desktop of a claimer whose name stands for one claim alone: however often they ask, it is the same one.

    Whoever asks again finds what was claimed or is being made for them; what a killed task half made is made anew.
    """
    declared, seats = pool.opened(wanted.workspace)
    among = pool.candidates(declared, wanted.image, wanted.tier)
    wish = _Wish(Claim(claimer, time.time() + wanted.seconds), once=True)
    while True:
        seats.sweep(declared)
        had = seats.of(claimer)
        if had is None:
            with suppress(HadError), ExitStack() as held:
                name = _seized(held, seats, declared, among, wish)
                return pool.facts(declared, seats.ledger.machines()[name])
        elif had.state is State.CLAIMED:
            # Who was killed behind the line of the ledger had not given the machine its own word.
            seats.disposables.mark(had.seat, words(had.number, had.claim))
            return pool.facts(declared, had)
        else:
            with seats.hold(had.seat, at_once=False), turn.of(declared.plan, had.seat):
                if seats.of(claimer) == had:
                    seats.remove(had.seat)


def run(workspace: str, name: str, command: str, seconds: float) -> int:
    """Run a command as the agent of a desktop, with the streams of this process; its exit code.

    124 if it does not end in time; an interruption here ends the connection.
    """
    declared, _ = pool.opened(workspace)
    argv = SshLink(declared.site.name, workspace).command(name, [*SHELL, command])
    with subprocess.Popen(argv, text=True, start_new_session=True) as process:
        try:
            return process.wait(seconds)
        except subprocess.TimeoutExpired:
            return TIMEOUT
        finally:
            end_group(process)


def wait(workspace: str, name: str, seconds: float) -> None:
    """Return when the time is over, or the desktop has stopped."""
    declared, _ = pool.opened(workspace)
    deadline, domain = Deadline(seconds), declared.plan.seat(name).machine.domain
    with machines_of(declared.plan).moves() as moves:
        while not deadline.is_over:
            moved = moves.next(min(QUIET_SECONDS, deadline.left))
            if moved is not None and moved.domain == domain and moved.stage in (Stage.STOPPED, Stage.ERROR):
                return


@dataclass(frozen=True)
class _Wish:
    """A claim, whether the routes of what is made for it have to answer, and whether its claimer gets no second one."""

    claim: Claim
    routes: bool = True
    once: bool = False


def _seized(held: ExitStack, seats: Seats, declared: Declared, among: list[DesktopPlan], wish: _Wish) -> str:
    """The seat at which there is a desktop for this claim; one that waits is taken before another is made.

    If the claim is that of a running task, the seat is held by it until its end.
    """
    for at_once in (True, False):
        there = seats.ledger.machines()
        waits = {name for name, seated in there.items() if seated.state is State.WAITING}
        # Whoever only looks at a seat, or clears it, holds it for a moment: that alone is waited for.
        open_now = [seat for seat in among if at_once or seat.name in waits or seat.name not in there]
        for seat in sorted(open_now, key=lambda seat: seat.name not in waits):
            with ExitStack() as trying:
                try:
                    trying.enter_context(seats.hold(seat.name, at_once=at_once))
                except HostError:
                    continue
                if seats.take(declared, {seat.name}, wish.claim, once=wish.once) is None:
                    if not seats.is_free(seat.name):
                        continue
                    make(seats, declared, seat, wish.claim, routes=wish.routes, once=wish.once)
                if wish.claim.run:
                    held.push(trying.pop_all())
                return seat.name
    reason = f"all {len(among)} that fit are taken"
    raise SiteError("seat", declared.workspace.name, reason, "release one (pool.list), or declare more")
