"""Tickets: what a desktop wants to reach and what a person answered. Knows no socket; remembers all over a reboot."""

import json
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from deskyard.errors import GatewayError
from deskyard.gateway.machine import files
from deskyard.gateway.machine.clock import Clock

TICKETS_PER_DESKTOP = 20  # that nobody has answered yet: a wildcard has more names than a person can read
OVER_PER_DESKTOP = 50  # that are over, kept to be shown
OPEN_SECONDS = 86_400  # a ticket can be answered so long
REFUSED_SECONDS = 900  # a refusal stands so long; after that the desktop may ask again
UNUSED_SECONDS = 3600  # an answer for a single connection waits so long for it
ONCE_SECONDS = 900  # a single connection lasts no longer
LONGEST_SECONDS = 86_400
ONCE, FOR, ALWAYS, REFUSE = "once", "for", "always", "refuse"
VERDICTS = (ONCE, FOR, ALWAYS, REFUSE)


@dataclass(frozen=True)
class Answer:
    """A person's answer to a ticket; what it opens or refuses ends by itself at `until`."""

    verdict: str
    actor: str
    reason: str
    time: int
    until: int | None


@dataclass(frozen=True)
class Ticket:
    """A desktop's wish to reach a name on a port."""

    id: str
    desktop: str
    address: str
    name: str
    port: int
    since: int
    until: int
    tries: int = 1
    last: int = 0
    used: bool = False
    answer: Answer | None = None
    signed: tuple[str, ...] = ()  # what people signed for it, each of which counts once

    def state(self, now: float) -> str:
        """Where it stands: waiting, allowed, refused; used, over or lapsed if the next try asks anew."""
        if self.answer is None:
            return "waiting" if now < self.until else "lapsed"
        if self.used:
            return "used"
        if self.answer.until is not None and now >= self.answer.until:
            return "over"
        return "refused" if self.answer.verdict == REFUSE else "allowed"

    def brought_forward(self, seconds: int) -> "Ticket":
        """The same with all its times so many seconds earlier: the clock was set back by as many."""
        answer = self.answer
        if answer is not None:
            until = None if answer.until is None else answer.until - seconds
            answer = replace(answer, time=answer.time - seconds, until=until)
        since, until, last = (moment - seconds for moment in (self.since, self.until, self.last))
        return replace(self, since=since, until=until, last=last, answer=answer)

    def ends(self, now: float) -> float | None:
        """How many seconds a connection that begins now may last."""
        if self.answer is None or self.answer.verdict == ONCE:
            return ONCE_SECONDS
        return None if self.answer.until is None else self.answer.until - now

    def shown(self, now: float, held: Sequence[float]) -> dict[str, Any]:
        """The ticket as programs get it; `held` says when each connection that waits will be refused."""
        answer = self.answer
        return {
            **{key: getattr(self, key) for key in ("id", "desktop", "address", "name", "port", "tries")},
            "since": moment(self.since),
            "until": moment(self.until),
            "last": moment(self.last or self.since),
            "state": self.state(now),
            "held": len(held),
            "held_until": moment(max(held)) if held else None,
            "answer": answer
            and {
                **asdict(answer),
                "time": moment(answer.time),
                "until": None if answer.until is None else moment(answer.until),
            },
        }


class TooMany(Exception):
    """A desktop asks about more names than a person is asked about at once."""


class Book:
    """All tickets; `changed` hears of each that is new or answered."""

    def __init__(
        self, path: Path, clock: Callable[[], float] = time.time, ticks: Callable[[], float] = time.monotonic
    ) -> None:
        self._path = path
        self._clock = clock
        self._own_clock = Clock(clock, ticks)
        self.changed: Callable[[Ticket], None] = lambda _: None
        text = files.read(path)
        rows = json.loads(text) if text else []
        self._tickets = {row["id"]: _stored(row) for row in rows}

    def now(self) -> float:
        """The time by which tickets are judged; nothing lasts longer because the clock was set back."""
        self._own_clock.follow(self._bring_forward)
        return self._clock()

    def _bring_forward(self, seconds: float) -> bool:
        self._replace([ticket.brought_forward(round(seconds)) for ticket in self._tickets.values()])
        return True

    def all(self) -> list[Ticket]:
        """Every ticket that is kept, oldest first."""
        return list(self._tickets.values())

    def of(self, desktop: str, name: str | None = None) -> list[Ticket]:
        """Those of a desktop."""
        return [t for t in self._tickets.values() if t.desktop == desktop and name in (None, t.name)]

    def meet(self, desktop: str, address: str, name: str, port: int, *, again: bool = False) -> Ticket:
        """The ticket that stands for this wish, or a new one; `again` is not another try. Raises `TooMany`."""
        now = int(self.now())
        for ticket in self.of(desktop, name):
            if ticket.port == port and ticket.state(now) in ("waiting", "allowed", "refused"):
                return ticket if again else self._keep(replace(ticket, tries=ticket.tries + 1, last=now))
        if sum(ticket.state(now) == "waiting" for ticket in self.of(desktop)) >= TICKETS_PER_DESKTOP:
            raise TooMany
        fresh = Ticket(secrets.token_hex(6), desktop, address, name, port, now, now + OPEN_SECONDS, last=now)
        self._forget(desktop, now)
        return self._keep(fresh, on_disk=True)

    def use(self, ticket: Ticket) -> None:
        """Note that a connection passes, before it does: an answer for a single one is over with it."""
        if ticket.answer is not None and ticket.answer.verdict == ONCE:
            self._keep(replace(ticket, used=True), on_disk=True)

    def answerable(self, ticket_id: str) -> Ticket:
        """The ticket, if it can be answered, also in place of an earlier answer; raises `GatewayError`."""
        now, ticket = self.now(), self._tickets.get(ticket_id)
        remedy = "see the open ones: deskyard-gateway asks"
        if ticket is None:
            raise GatewayError("ticket", ticket_id, "is not known here", remedy)
        state = ticket.state(now)
        if state not in ("waiting", "allowed", "refused"):
            reason = f"is {state}: nothing waits for its answer"
            raise GatewayError("ticket", ticket_id, reason, "wait for the desktop's next try, which asks anew")
        return ticket

    def decide(
        self, ticket_id: str, verdict: str, seconds: int | None, actor: str, reason: str, signed: Sequence[str] = ()
    ) -> Ticket:
        """Write an answer down; from then on it is in force. Raises `GatewayError`."""
        ticket = self.answerable(ticket_id)
        check(verdict, seconds, reason)
        now = int(self.now())
        lasting = {ONCE: UNUSED_SECONDS, FOR: seconds, ALWAYS: None, REFUSE: REFUSED_SECONDS}[verdict]
        until = None if lasting is None else now + lasting
        answer = Answer(verdict, actor, reason, now, until)
        return self._keep(replace(ticket, answer=answer, signed=(*ticket.signed, *signed)), on_disk=True)

    def _keep(self, ticket: Ticket, on_disk: bool = False) -> Ticket:
        """Remember it. A try that is counted alone is not worth a write: desktops try as often as they like."""
        self._replace([ticket], on_disk)
        return ticket

    def _replace(self, tickets: Sequence[Ticket], on_disk: bool = True) -> None:
        after = {**self._tickets, **{ticket.id: ticket for ticket in tickets}}
        if on_disk:
            files.write(self._path, json.dumps([asdict(kept) for kept in after.values()], indent=1) + "\n", 0o600)
        self._tickets = after
        for ticket in tickets:
            self.changed(ticket)

    def _forget(self, desktop: str, now: int) -> None:
        over = [t for t in self.of(desktop) if t.state(now) in ("used", "over", "lapsed")]
        for ticket in over[: max(0, len(over) - OVER_PER_DESKTOP + 1)]:
            del self._tickets[ticket.id]


def check(verdict: str, seconds: int | None, reason: str) -> None:
    """Raise `GatewayError` unless this is an answer."""
    if verdict not in VERDICTS:
        raise GatewayError("answer", verdict, "is no answer", f"choose one of: {', '.join(VERDICTS)}")
    if verdict == FOR and (seconds is None or not 1 <= seconds <= LONGEST_SECONDS):
        raise GatewayError("for", seconds, "is no time from a second to a day", "write for example --for 900")
    if verdict == REFUSE and not reason:
        raise GatewayError("reason", None, "is missing", "say why: the desktop's log of refusals shows it")


def moment(seconds: float) -> str:
    """A time as all documents of the gateway write it."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def _stored(row: dict[str, Any]) -> Ticket:
    answer = row["answer"] and Answer(**row["answer"])
    return Ticket(**{**row, "answer": answer, "signed": tuple(row.get("signed", ()))})
