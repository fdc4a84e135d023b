"""The server that answers the web process on a socket: where a browser goes to sign in, and who came back.

State, nonce and verifier stay here: whoever takes the web process sees codes that only this process can use, and none
of the client's secret. What is under way is kept in memory; after a restart people begin again.
"""

import hmac
import json
import logging
import secrets
import socketserver
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import psycopg

from deskyard.control.identity.persons import person_of
from deskyard.control.identity.provider import Provider
from deskyard.control.identity.refusal import Away, Refusal, refused
from deskyard.control.identity.standing import Standings
from deskyard.control.store.connection import AWAY, Link
from deskyard.host.deadline import Deadline

LIFE_SECONDS = 600.0
MOST_PENDING = 5000
AT_ONCE = 16
LINE_SECONDS, MOST_LINE = 30.0, 16_384
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Pending:
    """A sign-in under way; `browser` is the hash of what only its browser has."""

    nonce: str
    verifier: str
    browser: str
    until: Deadline


@dataclass
class SignIns:
    """The sign-ins under way at one provider."""

    provider: Provider
    database: Callable[[], Link]
    standings: Standings = field(init=False)
    _pending: dict[str, Pending] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _places: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(AT_ONCE))

    def __post_init__(self) -> None:
        self.standings = Standings(self.provider, self.database)

    def answer(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """The answer to a question: `url`; `person` and for how long that counts; or `problem` and its `status`."""
        if not self._places.acquire(blocking=False):
            return _problem(Away("provider", None, "has too many sign-ins under way", "try again"))
        try:
            if "begin" in asked:
                return {"url": self.begin(str(asked["begin"]["browser"]))}
            return self.finish(**asked["finish"])
        except Refusal as error:
            log.info("refused: %s", error.reason)
            return _problem(error)
        except AWAY as error:
            log.warning("no database: %s", error)
            return _problem(Away("database", None, "does not answer", "try again"))
        except psycopg.Error:
            log.exception("the database refused a statement, which is a mistake of this program")
            return _problem(Away("database", None, "refused what was to be written down", "see the log of identity"))
        except Exception:
            log.exception("a sign-in broke off")
            return _problem(Away("provider", None, "said something that was not expected", "see the log of identity"))
        finally:
            self._places.release()

    def begin(self, browser: str) -> str:
        """Where a browser goes."""
        state, nonce, verifier = (secrets.token_urlsafe(32) for _ in range(3))
        address = self.provider.address(state, nonce, verifier)
        with self._lock:
            for old in [name for name, found in self._pending.items() if found.until.is_over]:
                del self._pending[old]
            while len(self._pending) >= MOST_PENDING:
                del self._pending[next(iter(self._pending))]
            self._pending[state] = Pending(nonce, verifier, browser, Deadline(LIFE_SECONDS))
        return address

    def finish(
        self, browser: str, state: str, code: str | None, error: str | None, issuer: str | None
    ) -> dict[str, Any]:
        """The person who came back, for how many seconds that counts, and the name by which it may go on.

        Each state counts once, whatever came of it.
        """
        with self._lock:
            found = self._pending.pop(state, None)
        if found is None or found.until.is_over or not hmac.compare_digest(found.browser, browser):
            raise refused("was not begun in this browser, was answered before, or took too long")
        self.provider.require_issuer(issuer)
        if code is None:
            denied = error == "access_denied"
            raise refused(f"was {'cancelled, or not allowed, at' if denied else 'broken off by'} the provider")
        claims, grant = self.provider.who(code, found.verifier, found.nonce)
        with self.database() as link:
            person = person_of(link, self.provider.declared, claims)
        return {"person": person, "seconds": self.standings.seconds, "standing": self.standings.keep(person, grant)}


def _problem(error: Refusal) -> dict[str, Any]:
    return {"problem": error.as_dict(), "status": int(error.status)}


class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    """One question and one answer, each a line of JSON, on a connection."""

    daemon_threads = True
    sign_ins: SignIns


class Handler(socketserver.StreamRequestHandler):
    """One connection of the web process."""

    timeout = LINE_SECONDS
    server: Server

    def handle(self) -> None:
        """Answer a question; what is none is answered by nothing."""
        try:
            asked = json.loads(self.rfile.readline(MOST_LINE))
            if not isinstance(asked, dict):
                return
        except (OSError, ValueError, RecursionError):
            return
        try:
            self.wfile.write(json.dumps(self.server.sign_ins.answer(asked)).encode() + b"\n")
        except OSError:
            log.info("whoever asked is gone")
