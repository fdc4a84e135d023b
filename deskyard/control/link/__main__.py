"""python -m deskyard.control.link: asks gateways what waits for a person, carries the chats of their pages, and leaves
the audit's lines there.

All that gateways say is parsed here, and nobody here may do more to one than ask.
"""

import argparse
import logging
import signal
import socket
import threading
from pathlib import Path

from deskyard.control.anchors.visits import Visits
from deskyard.control.approvals.follow import Follower
from deskyard.control.ground.confinement import confine, die_with_parent, preload
from deskyard.control.link.answers import Server
from deskyard.control.link.asker import Asker
from deskyard.control.link.chats import Chats
from deskyard.control.link.gateways import AskedGateways, chats, tickets

LIBRARIES = ("asyncio", "asyncssh", "concurrent", "cryptography", "encodings", "psycopg", "psycopg_pool")


def main() -> None:
    """Ask until a signal, as an account without a file or network of its own."""
    options = argparse.ArgumentParser(prog="deskyard.control.link")
    for name in ("database", "account", "source"):
        options.add_argument(f"--{name}", required=True)
    options.add_argument("--way", type=Path, required=True, help="the socket of who opens connections to gateways")
    options.add_argument("--socket", type=int, required=True, help="number of the open socket for observer and watch")
    options.add_argument("--network", type=int, help="number of the closed network that leads to a database elsewhere")
    chosen = options.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    logging.getLogger("asyncssh").setLevel(logging.WARNING)
    preload(LIBRARIES)
    die_with_parent(signal.SIGKILL)
    confine(chosen.account, namespace=chosen.network)
    # The signal of a parent's death is forgotten when the account changes.
    die_with_parent(signal.SIGKILL)
    asker = Asker(chosen.way)
    visits = Visits(chosen.database, chosen.source, AskedGateways(asker))
    threading.Thread(target=visits.run, daemon=True).start()
    threading.Thread(target=Chats(chosen.database, chats(asker)).run, daemon=True).start()
    server = Server(socket.socket(fileno=chosen.socket), asker)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    Follower(chosen.database, tickets(asker), asker.asks).run()


if __name__ == "__main__":
    main()
