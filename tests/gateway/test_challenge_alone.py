"""The port that an ACME server asks: what gets through to certbot, and what certbot gets to see."""

import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from deskyard.wire.gateway_settings import Acme
from tests.gateway.conftest import run_gateway
from tests.gateway.support import HOSTNAME
from tests.gateway.test_acme import WHERE, OrderingGateway
from tests.support.ports import free_ports

CHALLENGE = f"{WHERE}{'a' * 43}"
GOOD = (f"Host: {HOSTNAME}",)


@pytest.fixture(scope="module")
def ordering() -> Iterator[OrderingGateway]:
    """A gateway that may order a certificate; nobody asks its server for one."""
    ports = free_ports(2)
    where = {"acme_port": ports[0], "challenge_port": ports[1], "acme_user": "nobody", "acme_group": "nogroup"}
    named = Acme("https://acme.test:8443/dir", "admin@desk.test", "")
    gateway = OrderingGateway(server=named, changes=where)
    with run_gateway(gateway):
        yield gateway


@pytest.fixture(scope="module")
def certbot(ordering: OrderingGateway) -> Iterator[socket.socket]:
    """Who listens where certbot would."""
    with socket.create_server(("127.0.0.1", ordering.layout.acme_port)) as listener:
        listener.settimeout(20)
        yield listener


def ask(ordering: OrderingGateway, path: str, headers: tuple[str, ...], method: str = "GET") -> int:
    """The status of a request to the port."""
    with socket.create_connection(("127.0.0.1", ordering.layout.challenge_port), 20) as line:
        line.sendall("\r\n".join([f"{method} {path} HTTP/1.1", *headers, "Connection: close", "", ""]).encode())
        return int(line.makefile("rb").readline().split()[1])


def seen(listener: socket.socket) -> str:
    """Answer one request; what it said."""
    line, _ = listener.accept()
    with line:
        line.settimeout(20)
        text = b""
        while b"\r\n\r\n" not in text:
            part = line.recv(4096)
            assert part, text
            text += part
        line.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
    return text.decode()


@pytest.mark.parametrize("host", [HOSTNAME, HOSTNAME.upper(), f"{HOSTNAME}:80"])
def test_challenge_gets_through_and_takes_no_cookie_along(
    ordering: OrderingGateway, certbot: socket.socket, host: str
) -> None:
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(ask, ordering, CHALLENGE, (f"Host: {host}", "Cookie: canary=1"))
        request = seen(certbot)
        assert answer.result() == 200
    assert request.startswith(f"GET {CHALLENGE} ")
    assert "canary" not in request


@pytest.mark.parametrize(
    ("path", "headers", "method"),
    [
        (CHALLENGE, GOOD, "HEAD"),
        (CHALLENGE, GOOD, "POST"),
        (CHALLENGE, ("Host: evil.test",), "GET"),
        (CHALLENGE, (f"Host: {HOSTNAME}.evil.test",), "GET"),
        (CHALLENGE, (*GOOD, "Host: evil.test"), "GET"),
        (CHALLENGE, (), "GET"),
        (f"/x{CHALLENGE}", GOOD, "GET"),
        (f"{CHALLENGE}/x", GOOD, "GET"),
        (f"{CHALLENGE}%0a", GOOD, "GET"),
        (f"{CHALLENGE}?x", GOOD, "GET"),
        (f"{WHERE}{'a' * 15}", GOOD, "GET"),
        (f"{WHERE}{'a' * 129}", GOOD, "GET"),
    ],
)
def test_anything_else_is_refused_also_while_certbot_listens(
    ordering: OrderingGateway, certbot: socket.socket, path: str, headers: tuple[str, ...], method: str
) -> None:
    assert ask(ordering, path, headers, method) in (400, 404)
    certbot.settimeout(0.2)
    try:
        with pytest.raises(TimeoutError):
            certbot.accept()
    finally:
        certbot.settimeout(20)
