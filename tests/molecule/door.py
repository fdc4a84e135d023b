"""A client outside of the workspace, in front of the door."""

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from deskyard.wire.gateway_settings import Settings

if TYPE_CHECKING:
    from tests.molecule.conftest import Machine

CLIENT = "192.0.2.7"
# Sends a request over TLS, as the forwarder does for a client: the door takes nothing else from its address. Prints the
# answer, and what the certificate is. Trust is shown elsewhere.
SEND = """
import hashlib, json, socket, ssl, sys
address, name, request, proxy = sys.argv[1:]
context = ssl.create_default_context(); context.check_hostname = False; context.verify_mode = ssl.CERT_NONE
plain = socket.create_connection((address, 443), 10)
plain.sendall(proxy.encode())
line = context.wrap_socket(plain, server_hostname=name)
line.settimeout(20)
line.sendall(request.encode())
data = b""
try:
    while part := line.recv(65536):
        data += part
        if data.startswith(b"HTTP/1.1 101"): break
except OSError:
    pass
print(json.dumps([hashlib.sha256(line.getpeercert(True)).hexdigest(), data.decode("latin-1")]))
"""


@dataclass(frozen=True)
class Answer:
    """Head and body of an answer, and the certificate that came with it."""

    head: str
    body: str
    certificate: str

    @property
    def status(self) -> int:
        return int(self.head.split(" ", 2)[1])

    @property
    def cookie(self) -> str:
        found = re.search(r"^set-cookie: ([^;\r]+)", self.head, re.IGNORECASE | re.MULTILINE)
        return found[1] if found else ""


@dataclass(frozen=True)
class Door:
    """The door of the gateway under test."""

    machine: "Machine"
    settings: Settings

    def get(self, path: str, host: str = "") -> Answer:
        return self._send("GET", path, host=host)

    def redeem(self, ticket: str) -> Answer:
        body = json.dumps({"ticket": ticket})
        fields = {"Origin": self.settings.origin, "Content-Type": "application/json", "Content-Length": str(len(body))}
        return self._send("POST", "/redeem", fields, body)

    def upgrade(self, path: str, cookie: str, origin: str = "") -> Answer:
        fields = {
            "Origin": origin or self.settings.origin,
            "Upgrade": "websocket",
            "Connection": "Upgrade",
            "Sec-WebSocket-Version": "13",
            "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
            **({"Cookie": cookie} if cookie else {}),
        }
        return self._send("GET", path, fields)

    def certificate(self) -> str:
        return self.get("/healthz").certificate

    def listens(self) -> bool:
        where = f"{self.settings.uplink_address}:443"
        return self.machine.connects(where)[where]

    def _send(
        self, method: str, path: str, fields: dict[str, str] | None = None, body: str = "", host: str = ""
    ) -> Answer:
        given = {"Host": host or self.settings.authority, **(fields or {})}
        given.setdefault("Connection", "close")
        lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in given.items()), "", body]
        address = self.settings.uplink_address
        proxy = f"PROXY TCP4 {CLIENT} {address} 40000 443\r\n"
        arguments = [address, self.settings.hostname, "\r\n".join(lines), proxy]
        certificate, text = json.loads(self.machine.run("python3", "-c", SEND, *arguments))
        head, _, rest = text.partition("\r\n\r\n")
        return Answer(head, rest, certificate)
