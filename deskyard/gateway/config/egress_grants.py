"""Grants: what was allowed or forbidden since the settings came, and names that are closed whatever is allowed."""

import json
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace

from deskyard.errors import GatewayError
from deskyard.gateway.machine import files
from deskyard.gateway.machine.layout import Layout
from deskyard.wire.egress_list import Entry, closable, parse
from deskyard.wire.gateway_settings import Settings

LONGEST_SECONDS = 365 * 86_400
MOST_CLOSED = 200


@dataclass(frozen=True)
class Grant:
    """An entry that is allowed for now; `once` ends it with the first connection."""

    entry: str
    until: int | None
    once: bool
    actor: str
    since: int

    def brought_forward(self, seconds: int) -> "Grant":
        """The same so many seconds earlier, if it ends."""
        return self if self.until is None else replace(self, until=self.until - seconds, since=self.since - seconds)


@dataclass(frozen=True)
class Closing:
    """Names that nobody reaches, whatever allows them, until they are reopened for the same reason."""

    entry: str
    reason: str
    actor: str
    since: int


@dataclass(frozen=True)
class Grants:
    """All grants, the declared entries that were taken back until the next settings, and what is closed."""

    granted: tuple[Grant, ...] = ()
    withdrawn: tuple[str, ...] = ()
    closed: tuple[Closing, ...] = ()

    def live(self, now: float) -> "Grants":
        """Keep the grants whose time has not passed."""
        return replace(self, granted=tuple(grant for grant in self.granted if grant.until is None or grant.until > now))

    def brought_forward(self, seconds: int) -> "Grants":
        """Move the ends so many seconds forward: the clock was set back by as many."""
        return replace(self, granted=tuple(grant.brought_forward(seconds) for grant in self.granted))

    def timed(self) -> "Grants":
        """Keep what outlives new settings: closings, and grants that end; others that stay are in the declaration."""
        ending = tuple(grant for grant in self.granted if grant.until is not None or grant.once)
        return replace(self, granted=ending, withdrawn=())

    def allowing(self, grant: Grant) -> "Grants":
        """Add a grant, in place of an older one for the same entry."""
        others = tuple(other for other in self.granted if other.entry != grant.entry)
        withdrawn = tuple(entry for entry in self.withdrawn if entry != grant.entry)
        return replace(self, granted=(*others, grant), withdrawn=withdrawn)

    def forbidding(self, entry: str, declared: Iterable[str]) -> "Grants":
        """Take an entry away, whether it was granted or declared."""
        withdrawn = {*self.withdrawn, entry} if entry in declared else set(self.withdrawn)
        granted = tuple(grant for grant in self.granted if grant.entry != entry)
        return replace(self, granted=granted, withdrawn=tuple(sorted(withdrawn)))

    def closing(self, entries: Iterable[str], reason: str, actor: str) -> "Grants":
        """Close entries for a reason; those that are closed for it already stay as they are."""
        now, there = int(time.time()), {closing.entry for closing in self.closed if closing.reason == reason}
        added = [Closing(entry, reason, actor, now) for entry in dict.fromkeys(entries) if entry not in there]
        if added and len(self.closed) + len(added) > MOST_CLOSED:
            refused, remedy = f"would make more than {MOST_CLOSED} closed names", "close all names below: *.example.org"
            raise GatewayError("name", added[0].entry, refused, remedy)
        return replace(self, closed=(*self.closed, *added))

    def reopening(self, entries: Iterable[str], reason: str) -> "Grants":
        """Take back what was closed for a reason; raises `GatewayError` naming what was not."""
        named = set(entries)
        there = [closing.entry for closing in self.closed if closing.reason == reason]
        for entry in sorted(named.difference(there)):
            why = f" for the reason {reason!r}" if reason else ""
            raise GatewayError("name", entry, f"is not closed{why}", f"choose one of: {', '.join(there) or 'none is'}")
        kept = tuple(closing for closing in self.closed if closing.reason != reason or closing.entry not in named)
        return replace(self, closed=kept)

    def used(self, name: str, port: int) -> "Grants":
        """Take away the grants for a single connection that this connection used up."""
        return replace(
            self, granted=tuple(grant for grant in self.granted if not (grant.once and _covers(grant, name, port)))
        )

    @property
    def closings(self) -> tuple[Entry, ...]:
        """The names that nobody reaches, whatever the list in force says."""
        return tuple(parse(text) for text in sorted({closing.entry for closing in self.closed}))

    @property
    def next_end(self) -> int | None:
        """When the next one ends by itself."""
        return min((grant.until for grant in self.granted if grant.until is not None), default=None)

    def effective(self, settings: Settings) -> Settings:
        """The settings with the list that is in force."""
        declared = [entry for entry in settings.egress_rules.allow if entry not in self.withdrawn]
        entries = [*declared, *(grant.entry for grant in self.granted)]
        return replace(settings, egress_rules=settings.egress_rules.with_entries(entries))


def load(layout: Layout) -> Grants:
    """Read the grants that are in force now."""
    text = files.read(layout.grants_file)
    return Grants() if text is None else stored(text).live(time.time())


def stored(text: str) -> Grants:
    """Read all grants of the file, also those that have ended and wait to be taken away."""
    document = json.loads(text)
    # A file of before names could be closed says nothing of them.
    closed = tuple(Closing(**row) for row in document.get("closed", ()))
    return Grants(tuple(Grant(**row) for row in document["granted"]), tuple(document["withdrawn"]), closed)


def save(grants: Grants, layout: Layout) -> None:
    """Remember them, also over a reboot."""
    files.write(layout.grants_file, json.dumps(asdict(grants), indent=2) + "\n", 0o600)


def grant(entry: str, seconds: int | None, once: bool, actor: str) -> Grant:
    """Check and make a grant; raises `GatewayError` naming what is wrong."""
    check(entry)
    if seconds is not None and not 1 <= seconds <= LONGEST_SECONDS:
        raise GatewayError("for", seconds, "is no time from a second to a year", "write for example --for 1h")
    now = int(time.time())
    return Grant(entry, None if seconds is None else now + seconds, once, actor, now)


def check(entry: str, read: Callable[[str], Entry] = parse) -> None:
    """Raise `GatewayError` unless `entry` may stand on a list, or is what `read` takes."""
    try:
        normal = str(read(entry))
    except ValueError as error:
        reason, _, remedy = str(error).partition(" -> ")
        raise GatewayError("name", entry, reason, remedy) from error
    if normal != entry:
        raise GatewayError("name", entry, "is not in its normal form", f"write {normal}")


def check_closable(entry: str) -> None:
    """Raise `GatewayError` unless `entry` may be closed: a name, or all names below it, on each port."""
    check(entry, closable)


def _covers(grant: Grant, name: str, port: int) -> bool:
    entry = parse(grant.entry)
    return port in entry.ports and entry.covers(name)
