"""Takes what programs do into the chain of actions: HAProxy's log of it comes here as datagrams, on loopback.

A program may act as often as it likes: each session has its share of lines and bytes in a minute, and what is above it
is counted. The chain has files of its own, so that no action pushes a decision out of those that are kept; the audit
takes down its last line from time to time, so that neither can be changed without the other.
"""

import asyncio
import contextlib
import json
import re
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from deskyard.gateway.actions.line import facts, is_unanswered, read
from deskyard.gateway.machine.layout import Layout
from deskyard.gateway.session.audit import Audit, Event
from deskyard.gateway.session.audit_check import ANCHOR

BATCH_SECONDS = 0.25  # what comes within shares one wait for the disk
PERIOD_SECONDS = 60
LINES = 120  # of a session in a period
BYTES = 128 * 1024  # the same, of what the lines say
SESSIONS = 1000  # told apart in a period; more have a share together
MANY = "many"
KEEP_FILES = 12
HEARD_BYTES = 1 << 20  # of datagrams that wait to be read, if the kernel allows


@dataclass
class Share:
    """A session's share of the log in this period: how much of it is used, and how much came above it."""

    session: str
    desktop: str
    actor: str | None
    lines: int = 0
    bytes: int = 0
    counted: int = 0
    failed: int = 0
    first: int = 0
    last: int = 0

    def take(self, found: re.Match[str]) -> dict[str, Any] | None:
        """The facts of a line that is listed still; nothing of one that is counted, which costs less to read."""
        read = facts(found) if self.lines < LINES else None
        size = len(json.dumps(read))
        if read is None or self.bytes + size > BYTES:
            self._count(int(found["number"]), int(found["status"]))
            return None
        self.lines += 1
        self.bytes += size
        return read

    def _count(self, number: int, status: int) -> None:
        self.counted += 1
        self.failed += status >= 400
        self.first = min(self.first or number, number)
        self.last = max(self.last, number)

    def as_event(self) -> Event:
        """How many requests were not listed."""
        numbers = {"first": self.first, "last": self.last} if self.session != MANY else {}
        about = {"session": self.session, "desktop": self.desktop, "actor": self.actor}
        return "counted", {**about, "requests": self.counted, "failed": self.failed, **numbers}


class Ledger(asyncio.DatagramProtocol):
    """Reads the log, keeps each session to its share, and writes batches.

    `unanswered` hears of a session whose desktop did not answer what wakes it.
    """

    def __init__(
        self,
        actions: Audit,
        audit: Audit,
        actor: Callable[[str], str | None],
        clock: Callable[[], float] = time.monotonic,
        unanswered: Callable[[str], object] = lambda _: None,
    ) -> None:
        self._unanswered = unanswered
        self._actions = actions
        self._audit = audit
        self._actor = actor
        self._clock = clock
        self._shares: dict[str, Share] = {}
        self._pending: list[Event] = []
        self._woken = asyncio.Event()
        self._ends = clock() + PERIOD_SECONDS
        self._anchored = (0, "")

    def datagram_received(self, data: bytes, addr: Any) -> None:
        """Read lines of HAProxy's log."""
        for line in data.decode("ascii", "replace").splitlines():
            found = read(line)
            if found is None:
                continue
            if is_unanswered(found):
                self._unanswered(found["session"])
            share = self._share(found["session"], found["desktop"])
            if (action := share.take(found)) is not None:
                self._pending.append(("action", {**action, "actor": share.actor}))
                self._woken.set()

    def _share(self, key: str, desktop: str) -> Share:
        if key not in self._shares:
            if len(self._shares) >= SESSIONS:
                return self._shares.setdefault(MANY, Share(MANY, MANY, None))
            self._shares[key] = Share(key, desktop, self._actor(key))
        return self._shares[key]

    async def run(self) -> None:
        """Write what comes, for ever."""
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._woken.wait(), PERIOD_SECONDS)
            await asyncio.sleep(BATCH_SECONDS)
            self._woken.clear()
            self.write()

    def write(self) -> None:
        """Write what came since the last time; at the end of a period what was counted, and the anchor."""
        over = self._clock() >= self._ends
        if over:
            self._close_period()
        batch, self._pending = self._pending, []
        if batch:
            self._actions.note_all(batch)
        if over:
            self._anchor()

    def close(self) -> None:
        """Write all of it, as the service ends."""
        self._ends = self._clock()
        self.write()

    def _close_period(self) -> None:
        self._ends = self._clock() + PERIOD_SECONDS
        shares, self._shares = self._shares, {}
        self._pending += [share.as_event() for share in shares.values() if share.counted]

    def _anchor(self) -> None:
        number, digest = self._actions.last
        if number and (number, digest) != self._anchored:
            self._anchored = (number, digest)
            self._audit.note(ANCHOR, last=number, head=digest)


def chain(layout: Layout) -> Audit:
    """The chain of actions."""
    return Audit(layout.actions_file, keep_files=KEEP_FILES)


async def listen(ledger: Ledger, port: int) -> asyncio.DatagramTransport:
    """Take datagrams on loopback."""
    line = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, HEARD_BYTES)
    line.bind(("127.0.0.1", port))
    transport, _ = await asyncio.get_running_loop().create_datagram_endpoint(lambda: ledger, sock=line)
    return transport
