"""A server of the product on a Unix socket that it is handed, as the supervisor hands it."""

import socket
import socketserver
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

SECONDS = 30


@contextmanager
def served(path: Path, make: Callable[[socket.socket], socketserver.BaseServer]) -> Iterator[None]:
    """Have the server that is made of the socket at this path answer, in a thread of its own."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen()
    server = make(listener)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join(SECONDS)
