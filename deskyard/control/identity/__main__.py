"""python -m deskyard.control.identity: signs people in by the declared provider, as its own account.

The network is open to it, and no file of the host: the client's secret is read before root's rights are gone.
"""

import argparse
import logging
import signal
import socket
import sys
import threading
from functools import partial
from pathlib import Path

from deskyard.control.ground.confinement import confine, die_with_parent, preload
from deskyard.control.identity import declared
from deskyard.control.identity.provider import Provider
from deskyard.control.identity.service import Handler, Server, SignIns
from deskyard.control.store.connection import connect

LIBRARIES = ("cryptography", "encodings", "jwt", "psycopg", "urllib3")
ANSWER = "/sign-in/answer"


def main() -> None:
    """Answer on a socket that it was handed until a signal."""
    options = argparse.ArgumentParser(prog="deskyard.control.identity")
    for name in ("database", "origin", "account", "declared"):
        options.add_argument(f"--{name}", required=True)
    options.add_argument("--socket", type=int, required=True, help="number of the open socket")
    chosen = options.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    found = declared.kept(Path(chosen.declared))
    if found is None:
        sys.exit(f"{chosen.declared} declares no provider: run ./inv control.oidc")
    sign_ins = SignIns(Provider(found, chosen.origin + ANSWER), partial(connect, chosen.database))
    server = Server("", Handler, bind_and_activate=False)
    server.socket.close()
    server.socket, server.sign_ins = socket.socket(fileno=chosen.socket), sign_ins
    preload(LIBRARIES)
    die_with_parent(signal.SIGKILL)
    confine(chosen.account, network=True)
    # The signal of a parent's death is forgotten when the account changes.
    die_with_parent(signal.SIGKILL)
    threading.Thread(target=sign_ins.standings.run, daemon=True).start()
    server.serve_forever()


if __name__ == "__main__":
    main()
