"""The seats of a workspace: who has which machine, and what of theirs has had its time.

A claim is one line of the ledger. Each machine carries the same as a word of its own, so that one that was given to
somebody stays theirs even if the ledger is lost.
"""

import secrets
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace

from deskyard.access import access
from deskyard.declaration.declaration import Declared
from deskyard.desktop import customise_delivery, process_cap
from deskyard.engine.backend import Disposables, Record
from deskyard.errors import DeskyardError, HostError, SiteError
from deskyard.host import jump
from deskyard.host.lock import alone
from deskyard.host.progress import say
from deskyard.plan.pool import seat as seat_plan
from deskyard.plan.pool.seat import Claim, Entry, Event, Seated, State
from deskyard.plan.workspace import DesktopPlan
from deskyard.site.ssh_link import SshLink
from deskyard.workspace import turn
from deskyard.workspace.ledger import Ledger

LEFT, OVER = "a killed task has left it", "its time is over"
KILLED, LATE = "whoever made it was killed", "it has been in the making for too long"
# By the clock alone.
TIMED = frozenset({OVER, LATE})
# So long nobody takes a machine away that is made from another operator's machine.
MAKING_SECONDS = 3600.0


class _BusyError(Exception):
    """Somebody is at work there."""


class HadError(Exception):
    """A claimer whose name stands for one claim alone has a machine already."""


class Seats:
    """The seats of one workspace, and the machines at them."""

    def __init__(self, site: str, workspace: str, disposables: Disposables) -> None:
        self.site, self.workspace, self.disposables = site, workspace, disposables
        self.ledger: Record = disposables.record() or Ledger(site, workspace)

    @contextmanager
    def hold(self, seat: str, *, at_once: bool = True) -> Iterator[None]:
        """Make a machine at a seat, hold it for a task, or remove it: a `HostError` if another does, or it waits."""
        with alone(f"seat-{self.site}-{self.workspace}.{seat}", at_once=at_once):
            yield

    def of(self, claimer: str) -> Seated | None:
        """The machine that a claimer has, or that is made for them."""
        return _of(claimer, self.ledger.machines())

    def claimed(self) -> list[str]:
        """The seats with a machine that somebody has."""
        return sorted(name for name, seated in self.ledger.machines().items() if seated.claim is not None)

    def begin(self, declared: Declared, seat: DesktopPlan, claim: Claim | None, *, once: bool = False) -> Entry:
        """Note that a machine is made at a free seat; raises `SiteError` if one is there.

        With `once` it raises `HadError` if the claimer has one, wherever.
        """
        with self.ledger.alone():
            there = self.ledger.machines()
            if once and claim is not None and _of(claim.by, there) is not None:
                raise HadError
            if seat.name in there:
                raise SiteError("seat", f"{self.workspace}/{seat.name}", "is taken", "see ./inv pool.list")
            wiring, image = seat_plan.wiring(declared.plan, seat), declared.seat_image(seat.name)
            entry = Entry(Event.BEGUN, seat.name, secrets.token_hex(8), time.time(), claim, wiring, image)
            self.ledger.note(entry)
        return entry

    def ready(self, begun: Entry) -> None:
        """Note that the machine is of use: it waits for a claim unless it was made for one."""
        with self.ledger.alone():
            self.disposables.mark(begun.seat, words(begun.machine, begun.claim))
            self._note(Entry(Event.READY, begun.seat, begun.machine, time.time()))

    def take(self, declared: Declared, among: Collection[str], claim: Claim, *, once: bool = False) -> Seated | None:
        """Give the machine that waited longest to one claimer for ever; None if none waits that is as declared.

        With `once` it raises `HadError` if the claimer has one already.
        """
        with self.ledger.alone():
            machines = self.ledger.machines()
            if once and _of(claim.by, machines) is not None:
                raise HadError
            waiting = [seated for seated in machines.values() if seated.state is State.WAITING and seated.seat in among]
            marks = self.disposables.marks() if waiting else {}
            for seated in sorted(waiting, key=lambda seated: seated.since):
                if marks.get(seated.seat) != words(seated.number, None) or self._spent(declared, seated, marks):
                    continue
                # This line is the claim: whoever is killed behind it has had the machine.
                if not self.ledger.note(Entry(Event.CLAIMED, seated.seat, seated.number, time.time(), claim)):
                    continue
                self.disposables.mark(seated.seat, words(seated.number, claim))
                return replace(seated, state=State.CLAIMED, claim=claim)
        return None

    def remove(self, seat: str, only: State | None = None) -> bool:
        """Remove the machine at a seat with all its data; whoever calls holds the seat.

        With `only` nothing is removed, and the answer is false, if it is in another state by now.
        """
        with self.ledger.alone():
            found = self.ledger.machines().get(seat)
            if only is not None and (found is None or found.state is not only):
                return False
            self._strike(seat, found)
        self._clear(seat)
        return True

    def require_fit(self, declared: Declared) -> None:
        """Raise `SiteError` for a machine that somebody has, and whose seat is declared otherwise by now."""
        for seated in self.ledger.machines().values():
            if seated.claim is not None and not _planned(declared, seated):
                target = f"{self.workspace}/{seated.seat}"
                reason = f"{seated.claim.by} has a machine there, and seat or network are declared otherwise by now"
                remedy = f"./inv desktop.release {target}, or take the change back"
                raise SiteError("seat", target, reason, remedy)

    def sweep(self, declared: Declared, *, whole: bool = False) -> list[str]:
        """Remove what has had its time or has nobody any more, and name the seats.

        `whole`: nobody else moves machines of the workspace. While the clock has jumped ahead, what somebody has stays,
        and what is made from another operator's machine.
        """
        removed = []
        jumped = jump.look(self.workspace)
        there = {*self.ledger.machines(), *self.disposables.there()}
        for seat in sorted(there):
            with suppress(_BusyError), self._turn(declared, seat, whole=whole):
                with self.ledger.alone():
                    found, marks = self.ledger.machines().get(seat), self.disposables.marks()
                    found = found or self._adopted(declared, seat, marks.get(seat, {}))
                    why = LEFT if found is None else self._spent(declared, found, marks) or _dated(declared, found)
                    if why is None:
                        continue
                    if why in TIMED and jumped is not None:
                        say(f"    seat {seat} stays: the clock {jumped.reason} -> {jumped.remedy}")
                        continue
                    try:
                        self._strike(seat, found)
                    except DeskyardError as error:
                        say(f"    seat {seat} cannot be marked as gone: {error.reason} -> {error.remedy}")
                        continue
                say(f"    seat {seat}: {why}; it is removed")
                try:
                    self._clear(seat)
                except DeskyardError as error:
                    if whole and (found is None or not _planned(declared, found)):
                        # It may run on, and the place in the network that it has be given to another.
                        raise
                    # It keeps nobody from the other seats; each sweep tries it again.
                    say(f"    seat {seat} cannot be removed: {error.reason} -> {error.remedy}")
                    continue
                removed.append(seat)
        if there:
            self.ledger.tidy()
        return removed

    def is_free(self, seat: str) -> bool:
        """Whether nothing is at a seat, also nothing that could not be removed."""
        return seat not in self.ledger.machines() and seat not in self.disposables.there()

    def spent(self, declared: Declared) -> dict[str, str]:
        """Why what is at a seat has to go, by its seat; nothing is touched, and what a task holds is not named."""
        there, found = self.ledger.machines(), {}
        marks = self.disposables.marks()
        for seat in sorted({*there, *self.disposables.there()}):
            seated = there.get(seat)
            if seated is None and marks.get(seat, {}).get("state") == State.CLAIMED:
                continue
            why = LEFT if seated is None else self._spent(declared, seated, marks)
            # A lock is looked at only here: whoever finds it taken for that moment would have found nothing of use.
            if why is not None and not self._is_held(seat) and self.ledger.machines().get(seat) == seated:
                found[seat] = why
        return found

    def remove_all(self) -> None:
        """Remove every machine at every seat: the workspace goes."""
        machines = self.ledger.machines()
        for seat in sorted({*machines, *self.disposables.there()}):
            self._strike(seat, machines.get(seat))
            self.disposables.remove(seat)

    def _is_held(self, seat: str) -> bool:
        try:
            with self.hold(seat):
                return False
        except HostError:
            return True

    @contextmanager
    def _turn(self, declared: Declared, seat: str, *, whole: bool) -> Iterator[None]:
        """Raises `_BusyError` if somebody makes, holds or moves it."""
        with ExitStack() as held:
            try:
                held.enter_context(self.hold(seat))
                if not whole:
                    held.enter_context(turn.of(declared.plan, seat, at_once=True))
            except HostError as error:
                raise _BusyError from error
            yield

    def _spent(self, declared: Declared, seated: Seated, marks: Mapping[str, Mapping[str, str]]) -> str | None:
        """Why a machine that nobody holds has to go; None if it has not."""
        now = time.time()
        # Nobody here can see whether a task of another machine still runs.
        elsewhere = seated.host not in ("", self.ledger.host)
        if seated.state is State.MAKING:
            if not elsewhere:
                return KILLED
            return LATE if now - seated.since > MAKING_SECONDS else None
        if seated.claim is not None:
            if seated.claim.run and not elsewhere:
                return "the task that had it has ended"
            return OVER if seated.claim.until <= now else None
        pool = declared.workspace.pool
        if pool is None or not _planned(declared, seated):
            return "it is declared otherwise by now"
        # One that waits since a time to come was made before the clock was set back.
        if abs(now - seated.since) > pool.max_seconds:
            return f"it waited for more than {pool.max_age}"
        return None if seated.seat in marks else "it does not run"

    def _adopted(self, declared: Declared, seat: str, mark: Mapping[str, str]) -> Seated | None:
        """The machine that the ledger has lost, if somebody has it by its own word."""
        if mark.get("state") != State.CLAIMED:
            return None
        claim = Claim(mark["by"], float(mark["until"]))
        planned = [seated for seated in declared.plan.seats if seated.name == seat]
        wiring = seat_plan.wiring(declared.plan, planned[0]) if planned else ""
        self.ledger.note(Entry(Event.BEGUN, seat, mark["machine"], time.time(), claim, wiring))
        self.ledger.note(Entry(Event.READY, seat, mark["machine"], time.time()))
        return self.ledger.machines()[seat]

    def _strike(self, seat: str, seated: Seated | None) -> None:
        """From here on nobody can claim it, and nobody has it."""
        if seated is None:
            return
        with suppress(SiteError):
            self.disposables.mark(seat, {"machine": seated.number, "state": Event.GONE})
        self._note(Entry(Event.GONE, seat, seated.number, time.time()))

    def _note(self, entry: Entry) -> None:
        if not self.ledger.note(entry):
            target, reason = f"{self.workspace}/{entry.seat}", "another task has changed it meanwhile"
            raise SiteError("seat", target, reason, f"see ./inv pool.list {self.workspace}, then run it again")

    def _clear(self, seat: str) -> None:
        """Whoever had it gets nothing of the next one: no session, no key."""
        with suppress(DeskyardError):
            access.revoke(self.workspace, desktop=seat)
        self.disposables.remove(seat)
        SshLink(self.site, self.workspace).unpin(seat)
        customise_delivery.forget(self.site, self.workspace, seat)
        process_cap.forget(self.site, self.workspace, seat)


def _dated(declared: Declared, seated: Seated) -> str | None:
    """Why one that waits is made anew though it could be given: to look for its image takes as long as a claim."""
    newer = seated.state is State.WAITING and seated.image != declared.seat_image(seated.seat)
    return "its image is another one by now" if newer else None


def _of(claimer: str, machines: Mapping[str, Seated]) -> Seated | None:
    return next((each for each in machines.values() if each.claim is not None and each.claim.by == claimer), None)


def words(number: str, claim: Claim | None) -> dict[str, str]:
    """The record that a machine keeps of itself: that it waits, or who has it and until when."""
    if claim is None:
        return {"machine": number, "state": State.WAITING}
    return {"machine": number, "state": State.CLAIMED, "by": claim.by, "until": f"{claim.until:.0f}"}


def _planned(declared: Declared, seated: Seated) -> bool:
    """Whether its seat is declared, with the place in the network that the machine has."""
    seats = [seat for seat in declared.plan.seats if seat.name == seated.seat]
    return bool(seats) and seat_plan.wiring(declared.plan, seats[0]) == seated.wiring
