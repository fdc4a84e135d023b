"""Tells the computer-use services of desktops which sessions of programs are over, so that they let go what those hold.

A service is told once, at once; one that does not take it is asked for about two minutes, as after that what nobody
uses was let go by itself. It also hears for how long this machine has run, in the first word of each filter: a gateway
that was started anew has cut all connections, and told nobody.
"""

import time
from collections.abc import Callable, Mapping

from deskyard.gateway.view.criers import Criers
from deskyard.gateway.view.word import put
from deskyard.wire.computer import SESSIONS_PATH

AGAIN_SECONDS = 0.5  # at first, then twice as long each time
MOST_SECONDS = 64.0

Ended = tuple[str, int, tuple[str, ...]]  # where a desktop is told, and which sessions are over


def since_boot() -> float:
    """For how long this machine has run."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Endings:
    """Says to each desktop which of its sessions are over, until it is taken."""

    def __init__(self, ran: Callable[[], float] = since_boot) -> None:
        self._ran = ran
        self._pauses: dict[str, tuple[Ended, float]] = {}
        self._criers: Criers[Ended] = Criers(self._tell)
        self._over: dict[str, Ended] = {}  # there is no more to say of it
        self.tasks = self._criers.tasks

    def send(self, ended: Mapping[str, Ended]) -> None:
        """Have these desktops hear which of their sessions are over."""
        self._over = {desktop: word for desktop, word in self._over.items() if ended.get(desktop) == word}
        self._criers.send(ended)

    async def _tell(self, desktop: str, ended: Ended | None) -> float | None:
        before, pause = self._pauses.pop(desktop, (None, AGAIN_SECONDS))
        if ended is None or self._over.get(desktop) == ended:
            return None
        address, port, sessions = ended
        word = {"ended": sessions, "gateway_seconds": self._ran()}
        taken = await put((address, port), SESSIONS_PATH, word)
        pause = pause if before == ended else AGAIN_SECONDS
        if not taken and pause <= MOST_SECONDS:
            self._pauses[desktop] = (ended, pause * 2)
            return pause
        self._over[desktop] = ended
        return None
