"""python -m deskyard.control.store.relay HOST PORT ACCOUNT LISTENER...: leads closed networks to a database.

It cannot read them: TLS begins in the process that connects, and ends in the database.
"""

import asyncio
import contextlib
import logging
import signal
import socket
import sys
from collections.abc import Sequence
from functools import partial

from deskyard.control.ground.confinement import confine, die_with_parent, preload

CONNECT_SECONDS = 10.0
BLOCK = 1 << 16
# A database that is gone without a word is noticed within a minute, and who waits for it with it.
KEEPALIVE = (
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 30),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 10),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3),
    (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 30_000),
)
log = logging.getLogger(__name__)


async def relay(host: str, port: int, near: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
    """Carry a connection both ways until either side ends it."""
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            far, out = await asyncio.open_connection(host, port)
    except OSError as error:
        log.warning("%s:%d is not reached: %s", host, port, error)
        back.close()
        return
    for option in KEEPALIVE:
        out.get_extra_info("socket").setsockopt(*option)
    ways = [asyncio.create_task(_carry(near, out)), asyncio.create_task(_carry(far, back))]
    await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
    for way in ways:
        way.cancel()
    for writer in (out, back):
        writer.close()


async def _carry(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while block := await source.read(BLOCK):
            sink.write(block)
            await sink.drain()


async def serve(host: str, port: int, listeners: Sequence[socket.socket]) -> None:
    """Carry what comes to any of the listeners, for ever."""
    servers = [await asyncio.start_server(partial(relay, host, port), sock=listener) for listener in listeners]
    await asyncio.gather(*(server.serve_forever() for server in servers))


def main() -> None:
    """Carry until a signal, as an account that owns nothing."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    host, port, account, *numbers = sys.argv[1:]
    listeners = [socket.socket(fileno=int(number)) for number in numbers]
    preload(("asyncio", "encodings"))
    confine(account, network=True)
    die_with_parent(signal.SIGKILL)
    asyncio.run(serve(host, int(port), listeners))


if __name__ == "__main__":
    main()
