"""When programs used their desktops last: HAProxy has a row for each session, in each of its workers.

To act, and to work with files and processes, is use, for as long as it is open; to look is none. A reload forgets what
is over: the host, which looks every minute, has it by then.
"""

import asyncio
import re
from collections.abc import Mapping
from typing import Protocol

from deskyard.gateway.actions.table import KEEP_SECONDS, TABLE, WORKING
from deskyard.gateway.session.store import Session

_ROW = re.compile(r"0x[0-9a-f]+: key=([A-Za-z0-9_-]{16,40}) .*\bexp=(\d+) .*\bconn_cur=(\d+)\b")


class Workers(Protocol):
    """The workers of a running HAProxy, and the rows of their tables."""

    async def workers(self) -> list[int]:
        """The workers."""

    async def rows(self, pid: int, table: str) -> str | None:
        """The rows of a table of a worker, as it lists them; nothing if it does not answer, or not to the end."""


async def look(proxy: Workers) -> dict[str, float] | None:
    """For how many seconds each session of a program has not used its desktop.

    Nothing if a worker does not answer, or says it in other words.
    """
    pids = await proxy.workers()
    listings = await asyncio.gather(*(proxy.rows(pid, TABLE) for pid in pids))
    found: dict[str, float] = {}
    if not pids or None in listings:
        return None
    for line in "".join(filter(None, listings)).splitlines():
        if line.startswith("0x"):
            if (row := _ROW.match(line)) is None:
                return None
            id, left, open_now = row.groups()
            idle = 0.0 if int(open_now) else max(0.0, KEEP_SECONDS - int(left) / 1000)
            found[id] = min(idle, found.get(id, idle))
    return found


def of(session: Session, uses: Mapping[str, float] | None, *, active: bool) -> int | None:
    """For how many seconds a session has not used its desktop; none if it never did.

    What cannot be asked counts as use.
    """
    if uses is None:
        return 0 if active and set(WORKING) & set(session.scopes) else None
    idle = uses.get(session.id)
    return None if idle is None else int(idle)
