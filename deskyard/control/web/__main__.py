"""python -m deskyard.control.web: serves a socket that it was handed, as its own account, without any network.

What it needs of the file system is read before: afterwards the tree may be closed to it.
"""

import argparse
import asyncio
import gc
import logging
import signal
import socket
from pathlib import Path

import uvicorn

from deskyard.control.ground.confinement import confine, die_with_parent, preload
from deskyard.control.identity.door import Door
from deskyard.control.web.application import create
from deskyard.control.web.pages import Pages

BACKLOG = 512
LIBRARIES = (
    *("anyio", "asyncio", "cryptography", "encodings", "fastapi", "idna", "psycopg", "psycopg_pool", "starlette"),
    *("uvicorn", "webauthn"),
)
# Streams of events never end by themselves.
SHUTDOWN_SECONDS = 2


def main() -> None:
    """Serve until a signal."""
    options = argparse.ArgumentParser(prog="deskyard.control.web")
    for name in ("database", "origin", "pages", "account"):
        options.add_argument(f"--{name}", required=True)
    options.add_argument("--socket", type=int, required=True, help="number of the open socket")
    options.add_argument("--network", type=int, help="number of the closed network that leads to a database elsewhere")
    options.add_argument("--provider", help="what people know the provider by that signs them in, if one was declared")
    options.add_argument("--identity", help="the socket of the process that asks it")
    chosen = options.parse_args()
    # What is loaded now stays for ever: to look through it for garbage meanwhile is a fifth of the start.
    gc.disable()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    door = Door(chosen.provider, chosen.identity) if chosen.provider else None
    app = create(chosen.database, chosen.origin, Pages.read(Path(chosen.pages)), door)
    settings = uvicorn.Config(
        app,
        # The proxy's socket is the only way in, and says nothing that is believed.
        proxy_headers=False,
        server_header=False,
        access_log=False,
        lifespan="on",
        loop="asyncio",
        backlog=BACKLOG,
        timeout_graceful_shutdown=SHUTDOWN_SECONDS,
        http="h11",
        ws="none",
    )
    settings.load()
    app.openapi()
    preload(LIBRARIES)
    # A full collection that looks through all of it would stop every request.
    gc.freeze()
    gc.enable()
    listener = socket.socket(fileno=chosen.socket)
    confine(chosen.account, namespace=chosen.network)
    die_with_parent(signal.SIGKILL)
    asyncio.run(uvicorn.Server(settings).serve([listener]))


if __name__ == "__main__":
    main()
