"""A client's connection to the door outlives sessions: each request on it is answered by the desktop that it names."""

import http.client
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.gateway.conftest import run_gateway
from tests.gateway.desktops import FakeDesktops
from tests.gateway.support import HOSTNAME, Gateway

ROUNDS, BEFORE, AFTER = 12, 4, 6


class Service(ThreadingHTTPServer):
    """A service of a desktop that says its own address, and keeps connections as long as its client does."""

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing of connections that are cut."""


class Answer(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        name = str(self.connection.getsockname()[0]).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(name)))
        self.end_headers()
        self.wfile.write(name)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


class Kept(Gateway):
    """A gateway whose desktops keep the connections to their services."""

    def play_desktops(self) -> FakeDesktops:
        self.services = [Service((address, self.ports["computer"]), Answer) for address in self.names.values()]
        for service in self.services:
            threading.Thread(target=service.serve_forever, daemon=True).start()
        places = [(address, self.ports[name]) for address in self.names.values() for name in ("desktop", "terminal")]
        return FakeDesktops(places, self.talk)

    def stop(self) -> None:
        super().stop()
        for service in self.services:
            service.shutdown()
            service.server_close()


@pytest.fixture(scope="module")
def door() -> Iterator[Gateway]:
    with run_gateway(Kept()) as running:
        yield running


def session(door: Gateway, desktop: str, place: str) -> dict[str, str]:
    """The header of a fresh session that may ask there."""
    return {"Cookie": door.session(desktop)[1]} if place == "recordings" else door.program(desktop)[1]


def answered(line: http.client.HTTPConnection, door: Gateway, path: str, header: dict[str, str]) -> str:
    """By which address a request on this connection is answered."""
    line.putrequest("GET", path, skip_host=True, skip_accept_encoding=True)
    for name, value in {"Host": door.authority, **header}.items():
        line.putheader(name, value)
    line.endheaders()
    answer = line.getresponse()
    assert answer.status == 200
    return answer.read().decode()


@pytest.mark.parametrize("place", ["recordings", "computer/v1/screen"])
def test_request_after_a_revocation_is_answered_by_the_desktop_that_it_names(door: Gateway, place: str) -> None:
    # HAProxy gives a new session's server the place in memory of one that was taken away, often enough to be seen.
    for _ in range(ROUNDS):
        line = http.client.HTTPConnection(HOSTNAME)
        line.sock = door.connect()
        for desktop, sessions in (("d1", BEFORE), ("d2", AFTER)):
            for header in [session(door, desktop, place) for _ in range(sessions)]:
                assert answered(line, door, f"/d/{desktop}/{place}", header) == door.names[desktop]
            door.revoke(all=True)
        line.close()
