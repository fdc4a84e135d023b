"""A raw client of a gateway: TLS against the site's authority, tickets, cookies, WebSockets. No browser."""

import http.client
import json
import socket
import ssl
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from websockets.exceptions import InvalidStatus
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Origin, Subprotocol

SECONDS = 60
# What a gateway answers if a request did not reach it whole within five seconds: a machine that is emulated beside
# others may stand still for as long. It was not read, so it may be sent again (RFC 9110, 15.5.9).
LATE, TRIES = 408, 3


@dataclass(frozen=True)
class Door:
    """A gateway as its users see it: `url` is its origin, `listen` where its port is published."""

    url: str
    authority: Path
    listen: str = "127.0.0.1"

    def tls(self) -> ssl.SSLContext:
        """A context that trusts the site's authority and nothing else."""
        return ssl.create_default_context(cafile=str(self.authority))

    def wire(self, seconds: float = SECONDS) -> socket.socket:
        """A TCP connection to the published port; names below localhost need no resolver this way."""
        return socket.create_connection((self.listen, urlsplit(self.url).port or 443), seconds)

    def request(
        self,
        method: str,
        path: str,
        body: str | None = None,
        headers: dict[str, str] | None = None,
        seconds: float = SECONDS,
    ) -> tuple[int, dict[str, str], str]:
        """One HTTP request, which is given up if nothing is heard for `seconds`: status, lower-case headers, body."""
        for _ in range(TRIES):
            answer = self._request(method, path, body, headers, seconds)
            if answer[0] != LATE:
                break
        return answer

    def _request(
        self, method: str, path: str, body: str | None, headers: dict[str, str] | None, seconds: float
    ) -> tuple[int, dict[str, str], str]:
        parts = urlsplit(self.url)
        connection = http.client.HTTPConnection(self.listen, parts.port or 443, timeout=seconds)
        connection.sock = self.tls().wrap_socket(self.wire(seconds), server_hostname=parts.hostname)
        try:
            connection.request(method, path, body, {"Host": parts.netloc, **(headers or {})})
            answer = connection.getresponse()
            names = {name.lower(): value for name, value in answer.getheaders()}
            return answer.status, names, answer.read().decode(errors="replace")
        finally:
            connection.close()

    def redeem(self, url: str) -> tuple[int, str]:
        """Redeem the ticket in a link's fragment: status and the session cookie (`name=value`)."""
        ticket = urlsplit(url).fragment
        headers = {"Origin": self.url, "Content-Type": "application/json"}
        status, names, _ = self.request("POST", "/redeem", json.dumps({"ticket": ticket}), headers)
        return status, names.get("set-cookie", "").split(";")[0]

    def upgrade(
        self, path: str, cookie: str = "", origin: str | None = None, subprotocols: list[str] | None = None
    ) -> ClientConnection:
        """Open a WebSocket; raises `websockets.exceptions.InvalidStatus` if refused."""
        for attempt in range(1, TRIES + 1):
            try:
                return self._upgrade(path, cookie, origin, subprotocols)
            except InvalidStatus as refused:
                if refused.response.status_code != LATE or attempt == TRIES:
                    raise
        raise AssertionError("the last try returns or raises")

    def _upgrade(self, path: str, cookie: str, origin: str | None, subprotocols: list[str] | None) -> ClientConnection:
        return connect(
            f"wss://{urlsplit(self.url).netloc}{path}",
            sock=self.wire(),
            ssl=self.tls(),
            origin=Origin(origin or self.url),
            additional_headers={"Cookie": cookie} if cookie else None,
            subprotocols=[Subprotocol(name) for name in subprotocols] if subprotocols else None,
            open_timeout=SECONDS,
            proxy=None,
            legacy=True,
        )

    def refusal(self, path: str, cookie: str = "", origin: str | None = None) -> int:
        """The status with which an upgrade is refused; 101 if it is not."""
        try:
            self.upgrade(path, cookie, origin).close()
        except InvalidStatus as refused:
            return refused.response.status_code
        return 101
