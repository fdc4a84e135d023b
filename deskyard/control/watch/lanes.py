"""Tells receivers at the same time, each in a lane of its own: none that is slow holds up another."""

import logging
import threading
from functools import partial

import psycopg

from deskyard.control.store.connection import AWAY, Link
from deskyard.control.store.pool import Lend
from deskyard.control.watch import webhooks
from deskyard.control.watch.mail import Mailer
from deskyard.control.watch.webhooks import Reach

# So many lanes at once; one that has much to tell leaves its place to others after so many tries.
MOST, MOST_TRIES = 8, 20
log = logging.getLogger(__name__)


class Lanes:
    """The lanes in which something is told now: one for each webhook, and one for the server of all mail."""

    def __init__(self, lend: Lend, reach: Reach, mailer: Mailer) -> None:
        self._lend, self._reach, self._mailer = lend, reach, mailer
        self._going: dict[str, threading.Thread] = {}

    def begin(self, link: Link) -> None:
        """Begin a lane for each receiver to whom something is due, as far as there is a place."""
        self._going = {lane: thread for lane, thread in self._going.items() if thread.is_alive()}
        for lane in webhooks.due(link, list(self._going), MOST - len(self._going)):
            self._going[lane] = threading.Thread(target=self._tell, args=(lane,), daemon=True)
            self._going[lane].start()

    def _tell(self, lane: str) -> None:
        deliver = partial(webhooks.deliver_next, self._lend, self._reach, self._mailer, lane)
        try:
            for _ in range(MOST_TRIES):
                if not deliver():
                    break
        except AWAY as error:
            log.warning("%s: the database went away: %s", lane, error)
        except psycopg.Error:
            log.exception("%s: the database refused a statement, which is a mistake of this program", lane)
