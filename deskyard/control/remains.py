"""All that the program of an operation started and that still runs: ended before anything is begun in its place."""

import contextlib
import logging
from dataclasses import dataclass, field

from deskyard.control.jobs import claim as claims
from deskyard.control.jobs.claim import Claim
from deskyard.control.store.connection import AWAY
from deskyard.control.store.pool import Lend
from deskyard.host import offspring
from deskyard.host.deadline import Deadline

log = logging.getLogger(__name__)


class Lost(Exception):
    """Somebody else has the operation by now: nothing more is written of it."""


@dataclass
class Remains:
    """What is left of a program; the operation is held meanwhile, and says what the kernel does not end."""

    lend: Lend
    held: Claim
    mark: str
    lease: float
    _stay: str | None = None
    _renewal: Deadline = field(default_factory=lambda: Deadline(0))

    def end(self, term_seconds: float = offspring.TERM_SECONDS) -> None:
        """Return when nothing is left, however long that takes; raises `Lost` if the operation is not ours any more."""
        found = offspring.running([self.mark]).get(self.mark)
        if found:
            self._say(f"ends what its program left: {_listed(found)}")
        while found:
            found = offspring.end(self.mark, term_seconds, self._hold)
            stay = _listed(found) or None
            if stay is not None and stay != self._stay:
                self._say(f"waits, since the kernel does not end {stay}")
            self._stay, term_seconds = stay, 0

    def _hold(self) -> None:
        if self._renewal.left > 0:
            return
        self._renewal = Deadline(self.lease / claims.RENEWALS)
        # Away from the database, too, it is better ended than not.
        with contextlib.suppress(*AWAY), self.lend() as link:
            if claims.renew(link, self.held, self.lease, self._stay) is None:
                raise Lost

    def _say(self, line: str) -> None:
        log.info("%s: %s", self.held.id, line)
        with contextlib.suppress(*AWAY), self.lend() as link:
            claims.say(link, self.held, line)


def _listed(processes: "list[offspring.Process]") -> str:
    return ", ".join(map(str, processes[:5])) + (f" and {len(processes) - 5} more" if len(processes) > 5 else "")
