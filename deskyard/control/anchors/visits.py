"""Visits to all gateways from time to time, so that each chain holds the other's lines."""

import logging
import threading
from concurrent.futures import ThreadPoolExecutor

import psycopg

from deskyard.control.anchors.gateways import AT_ONCE, Gateways
from deskyard.control.anchors.visit import visit
from deskyard.control.store.connection import Link, attend, connect
from deskyard.errors import DeskyardError

# A gateway takes one anchor in five minutes.
PAUSE_SECONDS = 600.0
# Who says which gateways there are may have to begin again.
AGAIN_SECONDS = 5.0
log = logging.getLogger(__name__)


class Visits:
    """Visits every gateway that answers; one that does not holds up nobody but the next visit."""

    def __init__(self, url: str, source: str, gateways: Gateways, pause: float = PAUSE_SECONDS) -> None:
        self._url, self._source, self._gateways, self._pause = url, source, gateways, pause
        self._ended = threading.Event()

    def run(self) -> None:
        """Visit until stopped; a database that went away is waited for."""
        attend(self._url, self._ended, self._visit_again)

    def stop(self) -> None:
        """Visit no more."""
        self._ended.set()

    def _visit_again(self, link: Link) -> None:
        while not self._ended.is_set():
            pause = self._pause
            try:
                self.visit_all(link)
            except DeskyardError as error:
                log.info("which gateways there are is not known now: %s", error)
                pause = AGAIN_SECONDS
            self._ended.wait(pause)

    def visit_all(self, link: Link) -> None:
        """Visit each gateway once, some at a time."""
        names = self._gateways.names()
        link.execute("delete from anchor where not workspace_id = any(%s)", [names])
        with ThreadPoolExecutor(AT_ONCE) as pool:
            list(pool.map(self._visit, names))

    def _visit(self, name: str) -> None:
        try:
            with connect(self._url) as link:
                visit(link, name, self._source, self._gateways)
        except (DeskyardError, psycopg.Error) as error:
            log.info("%s is not visited now: %s", name, str(error).splitlines()[0])
        except Exception:
            log.exception("%s: the visit broke off", name)
