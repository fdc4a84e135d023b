"""The database of this machine as the supervisor keeps it running."""

import logging
import threading
from dataclasses import dataclass

from deskyard.control.store import cluster
from deskyard.control.store.cluster import Cluster
from deskyard.errors import HostError

FIRST_PAUSE, LONGEST_PAUSE = 0.2, 15.0
log = logging.getLogger(__name__)


@dataclass
class Postmaster:
    """A cluster that is started again whenever it ends, until all is to end."""

    database: Cluster
    ended: threading.Event

    def __post_init__(self) -> None:
        self.database.make()
        self._process = self.database.start()

    @property
    def pid(self) -> int:
        """Its process."""
        return self._process.pid

    def look(self) -> None:
        """Start it if it has ended, and try until it starts: its disk may be full for now."""
        if self._process.poll() is None:
            return
        log.warning("the database ended with %d, and is started again", self._process.returncode)
        pause = FIRST_PAUSE
        while True:
            try:
                self._process = self.database.start()
                return
            except HostError as error:
                if self.ended.wait(pause):
                    raise
                log.warning("%s", error)
                pause = min(pause * 2, LONGEST_PAUSE)

    def end(self) -> None:
        """End it; what was committed is kept."""
        cluster.stop(self._process)
