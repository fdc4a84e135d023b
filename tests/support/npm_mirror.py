"""A mirror of npm's registry, behind TLS: hands on what it is asked for.

It knows only the standard library, for it runs on a host: python3 npm_mirror.py PORT CERTIFICATE KEY LOG
"""

import ssl
import sys
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

REGISTRY = "https://registry.npmjs.org"
ASKED = ("accept", "user-agent")


class Mirror(BaseHTTPRequestHandler):
    """Asks the registry."""

    # The end of an answer is its length: the end of a TLS connection is told to nobody here.
    protocol_version = "HTTP/1.1"
    log = Path("/dev/null")

    def do_GET(self) -> None:
        """One file, or what is known of a package."""
        with self.log.open("a") as log:
            log.write(f"{self.path}\n")
        headers = {name: value for name, value in self.headers.items() if name.lower() in ASKED}
        try:
            with urllib.request.urlopen(
                urllib.request.Request(REGISTRY + self.path, None, headers), timeout=120
            ) as got:
                self._answer(got.status, got.headers.get("Content-Type", "text/plain"), got.read())
        except urllib.error.HTTPError as error:
            self._answer(error.code, "text/plain", b"")

    do_HEAD = do_GET

    def _answer(self, status: int, kind: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


if __name__ == "__main__":
    port, certificate, key, log = sys.argv[1:]
    Mirror.log = Path(log)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server = ThreadingHTTPServer(("127.0.0.1", int(port)), Mirror)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    server.serve_forever()
