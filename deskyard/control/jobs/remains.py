"""All that the program of an operation started and that still runs: ended before anything is begun in its place."""

import contextlib
import logging
from dataclasses import dataclass, field

from deskyard.control.queue import claim as claims
from deskyard.control.queue.claim import Claim, Wish
from deskyard.control.store.connection import AWAY
from deskyard.control.store.pool import Lend
from deskyard.host import offspring
from deskyard.host.deadline import Deadline

# The end of its worker tells a program to end, and the engine then ends its step in up to 90 seconds: killed before, it
# may leave a resource that its state does not have. So what is left has the time of what is cancelled, and a person who
# cannot wait for what does not listen ends it by force.
ORDERLY_SECONDS = float(claims.STOP_SECONDS)
log = logging.getLogger(__name__)


class Forced(Exception):
    """It did not end in its own order when a person wanted that, and is to be killed."""


class Lost(Exception):
    """Somebody else has the operation by now: nothing more is written of it."""


@dataclass
class Remains:
    """All that is left of a program; the operation is held meanwhile, and says what the kernel does not end."""

    lend: Lend
    held: Claim
    mark: str
    lease: float
    _stay: str | None = None
    _by_force: bool = False
    _renewal: Deadline = field(default_factory=lambda: Deadline(0))

    def end(self, *, by_force: bool = False) -> None:
        """Return when nothing is left, however long that takes.

        Raises `Lost` if the operation is not ours any more, and `Forced` as soon as it is to end by force and does not.
        """
        self._by_force |= by_force
        found = offspring.running([self.mark]).get(self.mark)
        if found:
            self._say(f"ends what its program left: {_listed(found)}")
        while found:
            found = offspring.end(self.mark, 0 if self._by_force else ORDERLY_SECONDS, self._hold)
            stay = _listed(found) or None
            if stay is not None and stay != self._stay:
                self._say(f"waits, since the kernel does not end {stay}")
            self._stay, self._by_force = stay, True

    def _hold(self) -> None:
        if self._renewal.left > 0:
            return
        self._renewal = Deadline(self.lease / claims.RENEWALS)
        # Away from the database, too, it is better ended than not.
        with contextlib.suppress(*AWAY), self.lend() as link:
            wish = claims.renew(link, self.held, self.lease, self._stay)
            if wish is None:
                raise Lost
            if wish is Wish.KILL and not self._by_force:
                raise Forced

    def _say(self, line: str) -> None:
        log.info("%s: %s", self.held.id, line)
        with contextlib.suppress(*AWAY), self.lend() as link:
            claims.say(link, self.held, line)


def _listed(processes: "list[offspring.Process]") -> str:
    return ", ".join(map(str, processes[:5])) + (f" and {len(processes) - 5} more" if len(processes) > 5 else "")
