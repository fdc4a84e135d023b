"""A server that answers what a test wrote down, over TLS on loopback, and keeps what it was asked."""

import ipaddress
import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding

from deskyard.model.site import Site
from tests.support.self_signed import self_signed

TOKEN = "deskyard@pve!site=5d1ff0d8-2f0c-4f0e-9a0a-0123456789ab"
SECRET = TOKEN.partition("=")[2]


@dataclass
class Reply:
    """One scripted answer; `cut` closes the connection instead."""

    status: int = 200
    data: Any = None
    reason: str = ""
    errors: dict[str, str] | None = None
    raw: bytes | None = None
    cut: bool = False
    location: str = ""
    total: int | None = None


@dataclass
class Stub:
    """The server: its script, and what came."""

    port: int
    certificate: Path
    fingerprint: str
    script: list[Reply] = field(default_factory=list)
    calls: list[tuple[str, str]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)

    def site(self, endpoint: str = "", **cluster: Any) -> Site:
        """A site whose API this server is."""
        trust = {} if "fingerprint" in cluster or "ca" in cluster else {"ca": str(self.certificate)}
        return Site.check(site_values(endpoint or f"https://127.0.0.1:{self.port}", **trust, **cluster), "site.yaml")


def site_values(endpoint: str, **cluster: Any) -> dict[str, Any]:
    """A declaration of a site of one cluster, as small as it can be."""
    uplink = {"network": "192.0.2.0/24", "router": "192.0.2.1", "first": "192.0.2.10", "last": "192.0.2.99"}
    proxmox = {
        "endpoint": endpoint,
        "uplink": {**uplink, "resolvers": ["192.0.2.1"]},
        "zone": {"peers": ["198.51.100.1", "198.51.100.2"]},
        **cluster,
    }
    return {"name": "rack", "backend": "proxmox", "domain": "example.org", "proxmox": proxmox}


@contextmanager
def serving(folder: Path, *script: Reply) -> Iterator[Stub]:
    """Serve a script, one reply a call; the last is repeated."""
    pem, fingerprint = _certificate()
    certificate = folder / "stub.pem"
    certificate.write_bytes(pem)
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    stub = Stub(server.server_port, certificate, fingerprint, list(script))
    server.stub = stub  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield stub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def _answer(self) -> None:
        stub: Stub = self.server.stub  # type: ignore[attr-defined]
        stub.calls.append((self.command, self.path.removeprefix("/api2/json")))
        stub.headers.append(dict(self.headers))
        stub.bodies.append(self.rfile.read(int(self.headers.get("Content-Length") or 0)))
        reply = stub.script.pop(0) if len(stub.script) > 1 else stub.script[0]
        self.close_connection = True
        if reply.cut:
            return
        body: dict[str, Any] = {"data": reply.data}
        body |= {"errors": reply.errors} if reply.errors else {}
        body |= {"total": reply.total} if reply.total is not None else {}
        content = reply.raw if reply.raw is not None else json.dumps(body).encode()
        self.send_response(reply.status, reply.reason or None)
        if reply.location:
            self.send_header("Location", reply.location)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST = do_PUT = do_DELETE = _answer

    def log_message(self, format: str, *args: Any) -> None:
        """Keep test output quiet."""


@cache
def _certificate() -> tuple[bytes, str]:
    secret, certificate = self_signed("stub", [x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    pem = secret + certificate.public_bytes(Encoding.PEM)
    return pem, certificate.fingerprint(hashes.SHA256()).hex(":").upper()
