"""python -m deskyard.control.api: serves a socket that it was handed, as its own account, without any network.

What it needs of the file system is read before: afterwards the tree may be closed to it.
"""

import argparse
import asyncio
import contextlib
import gc
import importlib
import logging
import pkgutil
import signal
import socket
import warnings
from pathlib import Path

import uvicorn

from deskyard.control.api.application import create
from deskyard.control.api.pages import Pages
from deskyard.control.confinement import confine, die_with_parent

BACKLOG = 512
LIBRARIES = (
    *("anyio", "asyncio", "cryptography", "encodings", "fastapi", "psycopg", "psycopg_pool", "starlette"),
    *("uvicorn", "webauthn"),
)
# Streams of events never end by themselves.
SHUTDOWN_SECONDS = 2


def preload() -> None:
    """Import all that the libraries would import at the first use of something, when no file can be read any more."""
    for name in LIBRARIES:
        package = importlib.import_module(name)
        for module in pkgutil.walk_packages(package.__path__, f"{name}.", onerror=lambda _: None):
            # Some are for programs that are not here.
            if not module.name.endswith("__main__"):
                with contextlib.suppress(Exception), warnings.catch_warnings(action="ignore"):
                    importlib.import_module(module.name)


def main() -> None:
    """Serve until a signal."""
    options = argparse.ArgumentParser(prog="deskyard.control.api")
    for name in ("database", "origin", "pages", "account"):
        options.add_argument(f"--{name}", required=True)
    options.add_argument("--socket", type=int, required=True, help="number of the open socket")
    chosen = options.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    app = create(chosen.database, chosen.origin, Pages.read(Path(chosen.pages)))
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
    preload()
    # What is loaded now stays for ever: a full collection that looks through all of it stops every request.
    gc.freeze()
    listener = socket.socket(fileno=chosen.socket)
    confine(chosen.account)
    die_with_parent(signal.SIGKILL)
    asyncio.run(uvicorn.Server(settings).serve([listener]))


if __name__ == "__main__":
    main()
