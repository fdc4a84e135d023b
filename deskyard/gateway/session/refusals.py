"""Takes what HAProxy refused by itself into the audit: its log comes here as datagrams, on loopback.

A stranger may knock as often as he likes; the audit holds his first knock of a minute, then a count.
"""

import asyncio
import re
from collections.abc import Callable
from typing import Any

PERIOD_SECONDS = 60
SOURCES = 100  # told apart in one period; more are counted together
WHERE = re.compile(
    r"/redeem|/d/(?P<desktop>[a-z][a-z0-9-]{0,31})/(?P<route>vnc|terminal|recordings|renew|drive|computer(?=/))(?:/[A-Za-z0-9/_.:-]*)?"
)
LINE = re.compile(
    r"(?P<address>[0-9a-f.:]+):\d+ pid=\d+ method=(?P<method>[A-Z]+) path=(?P<path>\S+) status=(?P<status>\d+) "
    r"state=\S+ session=(?P<session>\S+) server=<NOSRV> check=(?P<check>[a-z-]+) "
)
REFUSED = ("400", "401", "403", "405", "413", "421", "423", "426", "429")
EVERYBODY = "many"

Key = tuple[str, int, str]


class Refusals(asyncio.DatagramProtocol):
    """Counts, and writes down."""

    def __init__(self, note: Callable[..., None]) -> None:
        self._note = note
        self._counts: dict[Key, int] = {}

    def datagram_received(self, data: bytes, addr: Any) -> None:
        """Read a line of HAProxy's log."""
        for line in data.decode("ascii", "replace").splitlines():
            found = LINE.match(line)
            place = WHERE.fullmatch(found["path"]) if found else None
            if found and place and found["status"] in REFUSED:
                session = found["session"] if len(found["session"]) > 1 else None
                route = place["route"] or "redeem"
                self.count(found["address"], int(found["status"]), found["check"], session, route, place["desktop"])

    def flush(self) -> None:
        """Write down how often it happened again; called once in a period."""
        counts, self._counts = self._counts, {}
        for (address, status, check), count in counts.items():
            if count > 1:
                self._note("refuse", address=address, status=status, result="refused", reason=check, again=count - 1)

    def count(
        self, address: str, status: int, check: str, session: str | None, route: str, desktop: str | None = None
    ) -> None:
        """Count a refusal; the first of its kind in a period is written down at once."""
        key = (address, status, check)
        if key not in self._counts and len(self._counts) >= SOURCES:
            key = (EVERYBODY, status, check)
        self._counts[key] = self._counts.get(key, 0) + 1
        if self._counts[key] == 1:
            about = {"session": session, "desktop": desktop, "route": route, "address": key[0], "status": status}
            self._note("refuse", **about, result="refused", reason=check)


async def listen(refusals: Refusals, port: int) -> asyncio.DatagramTransport:
    """Take datagrams on loopback."""
    loop = asyncio.get_running_loop()
    transport, _ = await loop.create_datagram_endpoint(lambda: refusals, local_addr=("127.0.0.1", port))
    return transport
