"""python -m deskyard.control.jobs.worker: claims operations for this site, some at a time, for ever."""

import argparse
import contextlib
import logging
import os
import secrets
import signal
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from psycopg.types.json import Jsonb

from deskyard.control.jobs import waiting
from deskyard.control.jobs.remains import Forced, Lost, Remains
from deskyard.control.jobs.running import CHILD, Runner
from deskyard.control.jobs.slots import full, slots
from deskyard.control.jobs.standby import NoProgram, Standby
from deskyard.control.machines.removal import Unfinished
from deskyard.control.people.passkeys import Passkeys
from deskyard.control.queue import claim as claims
from deskyard.control.queue.claim import Claim
from deskyard.control.store.clock import Clock
from deskyard.control.store.connection import AWAY, Link, attend
from deskyard.control.store.pool import pool
from deskyard.host import offspring
from deskyard.host.facts import total_memory_mib

LOOK_SECONDS = 2.0
log = logging.getLogger(__name__)


class Worker:
    """One worker, which runs no more operations of a share at a time than it has slots: by default as its host has."""

    def __init__(
        self, url: str, runner: Runner, slots_of: Mapping[str, int] | None = None, clock: Clock | None = None
    ) -> None:
        self._url, self._runner, self._clock = url, runner, clock or Clock()
        self._slots = slots(total_memory_mib()) if slots_of is None else slots_of
        self._pool = pool(url)
        self._name = f"{os.uname().nodename}-{os.getpid()}-{secrets.token_hex(3)}"
        self._running: dict[threading.Thread, str] = {}
        self._unfinished = Unfinished()
        self._ended = threading.Event()

    def stop(self, *_: Any) -> None:
        """Begin nothing more."""
        self._ended.set()

    def run(self) -> None:
        """Claim and run until it is stopped; a database that went away is waited for."""
        with self._pool:
            attend(self._url, self._ended, self._claim_all)

    def _claim_all(self, link: Link) -> None:
        link.execute("listen work")
        while not self._ended.is_set():
            self.look(link)
            for _ in link.notifies(timeout=LOOK_SECONDS, stop_after=1):
                pass

    def look(self, link: Link) -> None:
        """Say that this worker is there, give back what others left, and begin what there is to do."""
        query = "insert into worker (id, slots) values (%s, %s) on conflict (id) do update set seen_at = now()"
        link.execute(query, [self._name, Jsonb(dict(self._slots))])
        if jump := self._clock.jump(link):
            log.warning("the clock of the database jumped by %.0f s: every lease begins anew", jump)
            claims.hold_anew(link, self._runner.lease)
        claims.sweep(link, self._runner.lease, self._gone(link))
        waiting.end_late(link)
        self._unfinished.look(link)
        self._runner.deciders.look(link, self._pool.connection, self._runner.passkeys.origin)
        self._running = {thread: share for thread, share in self._running.items() if thread.is_alive()}
        while (held := self._next(link)) is not None:
            self._begin(link, held)
        self._runner.standby.keep()

    def _gone(self, link: Link) -> list[str]:
        """Those whose worker is gone and of whose programs nothing runs; what runs of the others is ended meanwhile."""
        if not (left := claims.expired(link)):
            return []
        running = offspring.running({row["program"] for row in left})
        for row in left:
            if row["program"] not in running:
                continue
            if (held := claims.take_over(link, row, self._name, self._runner.lease)) is not None:
                remains = Remains(self._pool.connection, held, row["program"], self._runner.lease)
                # Without room for a thread its lease runs out, and it is looked at again.
                with contextlib.suppress(RuntimeError):
                    threading.Thread(target=self._clear, args=(remains,), daemon=True).start()
        return [row["id"] for row in left if row["program"] not in running]

    def _clear(self, remains: Remains) -> None:
        try:
            try:
                remains.end()
            except Forced:
                remains.end(by_force=True)
            with self._pool.connection() as link:
                claims.give_back(link, remains.held)
        except Lost:
            log.warning("%s is another worker's by now", remains.held.id)
        except AWAY as error:
            # Its lease runs out, and it is looked at again.
            log.warning("%s: the database went away: %s", remains.held.id, error)
        except Exception:
            log.exception("%s: what its program left was not ended", remains.held.id)

    def _next(self, link: Link) -> Claim | None:
        return claims.claim(link, self._name, self._runner.lease, full(self._slots, self._running.values()))

    def _begin(self, link: Link, held: Claim) -> None:
        log.info("%s %s %s, attempt %d", held.id, held.kind, held.desktop or held.workspace or "", held.attempt)
        thread = threading.Thread(target=self._run, args=(held,), daemon=True)
        try:
            thread.start()
        except RuntimeError as error:
            # The machine has no room for a thread now; what runs goes on.
            log.warning("%s cannot be begun now: %s", held.id, error)
            claims.put_back(link, held)
        else:
            self._running[thread] = held.share

    def _run(self, held: Claim) -> None:
        try:
            self._runner.run(self._pool.connection, held)
        except AWAY as error:
            # Its lease runs out, and whoever claims it then goes on.
            log.warning("%s: the database went away: %s", held.id, error)
        except NoProgram as error:
            log.warning("%s cannot be begun now: %s", held.id, error.__cause__)
            self._put_back(held)
        except Exception:
            log.exception("%s: its run broke off", held.id)

    def _put_back(self, held: Claim) -> None:
        # Where that fails its lease runs out, and it counts as begun.
        with contextlib.suppress(*AWAY), self._pool.connection() as link:
            claims.put_back(link, held)


def main(arguments: Sequence[str] | None = None) -> None:
    """Work until SIGTERM; what runs then is given back when its lease is over."""
    options = argparse.ArgumentParser(prog="deskyard.control.jobs.worker")
    options.add_argument("--database", required=True)
    options.add_argument("--origin", required=True)
    options.add_argument("--child", nargs=argparse.REMAINDER, default=CHILD, help="program that does an operation")
    options.add_argument("--lease", type=float, default=claims.LEASE_SECONDS, help="seconds")
    chosen = options.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    worker = Worker(chosen.database, Runner(Passkeys(chosen.origin), Standby(chosen.child), chosen.lease))
    signal.signal(signal.SIGTERM, worker.stop)
    worker.run()


if __name__ == "__main__":
    main()
