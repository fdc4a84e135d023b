"""python -m deskyard.control.e2b: answers E2B's clients as its own account, with the caller's own keys alone.

The network is open to it, as desktops are behind gateways, and no file of the host but those of a folder of its own.
"""

import argparse
import asyncio
import importlib
import logging
import signal
import sys

from deskyard.control.ground.confinement import confine, die_with_parent, preload
from deskyard.host.places import tree

LIBRARIES = (
    *("anyio", "asyncio", "certifi", "deskyard_e2b", "deskyard_sdk", "encodings", "h11", "httpcore", "httpx", "idna"),
    *("sqlite3", "starlette", "uvicorn", "websockets"),
)


def main() -> None:
    """Serve until a signal."""
    options = argparse.ArgumentParser(prog="deskyard.control.e2b")
    options.add_argument("--account", required=True)
    chosen, rest = options.parse_known_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    logging.getLogger("httpx").setLevel(logging.WARNING)
    # It is a package of its own, which imports nothing of this one.
    sys.path.insert(0, str(tree() / "sdk"))
    program = importlib.import_module("deskyard_e2b.__main__")
    settings = program.read(rest, {})
    preload(LIBRARIES)
    die_with_parent(signal.SIGKILL)
    confine(chosen.account, network=True)
    # The signal of a parent's death is forgotten when the account changes.
    die_with_parent(signal.SIGKILL)
    asyncio.run(program.serve(settings))


if __name__ == "__main__":
    main()
