"""Seats: where disposable machines are made one after another, and who has which. Pure.

What happened is a list of entries, the oldest first. Each machine has a number of its own that never comes again; one
that was claimed stays so, whatever becomes of whoever claimed it, until it is gone.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Any

from deskyard.plan.names import short_id
from deskyard.plan.workspace import DesktopPlan, WorkspacePlan


class Event(StrEnum):
    """An event at a seat."""

    BEGUN = "begun"
    READY = "ready"
    CLAIMED = "claimed"
    GONE = "gone"


class State(StrEnum):
    """How a seat is."""

    FREE = "free"
    MAKING = "making"
    WAITING = "waiting"
    CLAIMED = "claimed"


@dataclass(frozen=True)
class Claim:
    """Who has a machine, and until when (Unix time); with `run` it is held by a running task, and ends with that."""

    by: str
    until: float
    run: bool = False


@dataclass(frozen=True)
class Entry:
    """Something that happened to one machine at a seat, at a Unix time."""

    event: Event
    seat: str
    machine: str
    at: float
    claim: Claim | None = None
    # Of a machine that begins: what its place in the network was, and the image that it is made from.
    wiring: str = ""
    image: str = ""


@dataclass(frozen=True)
class Seated:
    """The machine at a seat: its number, how far it is, since when, and who has it."""

    seat: str
    number: str
    state: State
    wiring: str
    image: str
    since: float
    claim: Claim | None = None
    # Where the task runs that makes or holds it, if that may be another machine than this one.
    host: str = ""


def machines(entries: Iterable[Entry]) -> dict[str, Seated]:
    """The machines that are there or half made, by their seats."""
    found: dict[str, Seated] = {}
    for entry in entries:
        known = found.get(entry.seat)
        if entry.event is Event.BEGUN:
            found[entry.seat] = Seated(
                entry.seat, entry.machine, State.MAKING, entry.wiring, entry.image, entry.at, entry.claim
            )
        elif known is None or known.number != entry.machine:
            continue
        elif entry.event is Event.GONE:
            del found[entry.seat]
        elif entry.event is Event.CLAIMED:
            # Whoever comes second changes nothing.
            found[entry.seat] = known if known.claim else replace(known, state=State.CLAIMED, claim=entry.claim)
        elif known.state is State.MAKING:
            found[entry.seat] = replace(known, state=State.CLAIMED if known.claim else State.WAITING, since=entry.at)
    return found


def kept(entries: Sequence[Entry]) -> list[Entry]:
    """The entries without those of machines that are gone."""
    there = {machine.number for machine in machines(entries).values()}
    return [entry for entry in entries if entry.machine in there]


def wiring(plan: WorkspacePlan, seat: DesktopPlan) -> str:
    """Stands for a seat's place in the network, and what binds it to that: a machine of another one is not let in."""
    return short_id(
        seat.mac,
        seat.address,
        str(seat.isolated),
        plan.network.name,
        plan.network.bridge,
        plan.desktop_filter.name,
    )


def chosen(seats: Iterable[DesktopPlan], image: str | None, tier: str | None) -> list[DesktopPlan]:
    """The seats of an image and a tier, or of any."""
    return [seat for seat in seats if image in (None, seat.machine.image) and tier in (None, seat.tier)]


def written(entry: Entry) -> str:
    """An entry as a line."""
    return json.dumps(asdict(entry), separators=(",", ":"))


def read(line: str) -> Entry | None:
    """The entry of a line; None for one that a killed writer left half written."""
    try:
        values: Mapping[str, Any] = json.loads(line)
        claim = values["claim"]
        return Entry(**{**values, "event": Event(values["event"]), "claim": Claim(**claim) if claim else None})
    except (ValueError, TypeError, KeyError):
        return None
