"""A proxy on loopback that answers CONNECT: whatever host is asked for, the connection goes to one port of loopback.

By it a client reaches a server under a name that nothing resolves.
"""

import contextlib
import selectors
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

_CHUNK = 1 << 16


class ConnectProxy:
    """Listens while its `with` block lasts; `asked` are the hosts that were asked for."""

    def __init__(self, port: int) -> None:
        self.asked: set[str] = set()
        asked = self.asked

        class Handler(BaseHTTPRequestHandler):
            def do_CONNECT(self) -> None:
                asked.add(self.path.rpartition(":")[0])
                with socket.create_connection(("127.0.0.1", port)) as far:
                    self.send_response(200)
                    self.end_headers()
                    _relay(self.connection, far)
                self.close_connection = True

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)

    @property
    def url(self) -> str:
        """Its address, for HTTPS_PROXY."""
        return f"http://127.0.0.1:{self._server.server_port}"

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """It answers."""
        thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._server.shutdown()
            self._server.server_close()
            thread.join()


def _relay(near: socket.socket, far: socket.socket) -> None:
    """Carry bytes both ways until one side has ended."""
    with selectors.DefaultSelector() as ready, contextlib.suppress(OSError):
        ready.register(near, selectors.EVENT_READ, far)
        ready.register(far, selectors.EVENT_READ, near)
        while True:
            for key, _ in ready.select():
                source: socket.socket = key.fileobj  # type: ignore[assignment]
                data = source.recv(_CHUNK)
                if not data:
                    return
                key.data.sendall(data)
