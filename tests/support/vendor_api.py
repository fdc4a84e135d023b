"""Vendors' APIs as far as a test needs them: one that is served, and one with prepared answers."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Api(BaseHTTPRequestHandler):
    """Answers JSON with JSON."""

    def answer(self, asked: dict[str, Any]) -> dict[str, Any]:
        """What is answered to a request."""
        raise NotImplementedError

    def do_POST(self) -> None:
        """One turn."""
        body = json.dumps(self.answer(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def served(api: type[Api]) -> Iterator[str]:
    """Serve an API on loopback; its address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), api)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def scripted(*answers: dict[str, Any]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Serve these answers in their order; the address, and the requests that came."""
    left, requests = list(answers), list[dict[str, Any]]()

    class Scripted(Api):
        def answer(self, asked: dict[str, Any]) -> dict[str, Any]:
            requests.append(asked)
            return left.pop(0)

    with served(Scripted) as url:
        yield url, requests
