"""Asks the provider again about who is signed in by it: what it says no more is over, and so are their sessions.

The tokens for it are in this process's memory alone. Who cannot be asked about, since the provider gives nothing to ask
with, is away, or this process began anew, stays signed in until the time of asking is over, and signs in again then.
"""

import logging
import secrets
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

import psycopg

from deskyard.control.identity.persons import note, person_of
from deskyard.control.identity.provider import Grant, Provider
from deskyard.control.identity.refusal import Away, NotHere, Refusal, refused
from deskyard.control.identity.token import UnknownKey
from deskyard.control.store.connection import Link
from deskyard.host.deadline import Deadline

# Of the time for which a sign-in counts: asked before it is over, and soon again where the provider is away.
ASK_AFTER, AGAIN_AFTER = 3 / 4, 1 / 16
MOST = 20_000
# The session is written down right after the sign-in, by another process.
BEGIN_SECONDS = 60.0
log = logging.getLogger(__name__)


@dataclass
class Standing:
    """Somebody who signed in, what to ask the provider with, and when."""

    person: str
    grant: Grant
    due: Deadline
    begin: Deadline = field(default_factory=lambda: Deadline(BEGIN_SECONDS))


@dataclass
class Standings:
    """Everybody who is signed in by one provider and can be asked about, by the names that their sessions have."""

    provider: Provider
    database: Callable[[], Link]
    _kept: dict[str, Standing] = field(default_factory=dict)
    _changed: threading.Condition = field(default_factory=threading.Condition)

    @property
    def seconds(self) -> float:
        """For how long what the provider said counts."""
        return self.provider.declared.recheck_seconds

    def keep(self, person: str, grant: Grant) -> str | None:
        """The name for the session of somebody who signed in now; None if the provider gave nothing to ask with."""
        if not self.provider.can_be_asked(grant):
            return None
        name = secrets.token_hex(16)
        with self._changed:
            while len(self._kept) >= MOST:
                del self._kept[next(iter(self._kept))]
            self._kept[name] = Standing(person, grant, Deadline(self.seconds * ASK_AFTER))
            self._changed.notify()
        return name

    def run(self) -> None:
        """Ask about everybody in time, for ever."""
        while True:
            with self._changed:
                self._changed.wait(min((found.due.left for found in self._kept.values()), default=None))
            self.look()

    def look(self) -> None:
        """Ask about everybody who is due."""
        with self._changed:
            due = [(name, found) for name, found in self._kept.items() if found.due.is_over]
        for name, found in due:
            try:
                goes_on = self._ask(name, found)
            except (Away, UnknownKey, psycopg.Error) as error:
                log.warning("who is signed in is asked for again: %s", error)
                found.due = Deadline(self.seconds * AGAIN_AFTER)
                continue
            except Exception:
                log.exception("an answer about who is signed in was not expected")
                goes_on = False
            if not goes_on:
                with self._changed:
                    self._kept.pop(name, None)

    def _ask(self, name: str, found: Standing) -> bool:
        """Ask about somebody; false if there is no more to ask."""
        with self.database() as link:
            query = "select ended_at is not null or expires_at <= now() as over from session where standing = %s"
            session = link.execute(query, [name]).fetchone()
        if session is None or session["over"]:
            found.due = Deadline(self.seconds * AGAIN_AFTER)
            return session is None and not found.begin.is_over
        counts = Deadline(self.seconds)
        try:
            claims = self.provider.again(found.grant)
            with self.database() as link:
                if person_of(link, self.provider.declared, claims) != found.person:
                    raise refused("the account is another person's now")
                query = """update session set confirmed_until = now() + make_interval(secs => %s)
                    where standing = %s and ended_at is null"""
                link.execute(query, [counts.left, name])
        except (Away, UnknownKey):
            raise
        except Refusal as error:
            self._end(name, found.person, error)
            return False
        found.due = Deadline(counts.left * ASK_AFTER)
        return True

    def _end(self, name: str, person: str, error: Refusal) -> None:
        """End the session; all of the person's by the provider, if that knows them and they are nobody here."""
        log.info("a session is over: %s", error.reason)
        which = "person_id = %s and confirmed_until is not null" if isinstance(error, NotHere) else "standing = %s"
        with self.database() as link, link.transaction():
            query = f"update session set ended_at = now() where ended_at is null and {which}"
            link.execute(query.encode(), [person if isinstance(error, NotHere) else name])
            row = link.execute("select name from person where id = %s", [person]).fetchone()
            note(link, row["name"] if row else person, "session.over", reason=error.reason)
