"""Requests that try to be two, to be something else, or to come back through the tunnel of a hostile desktop."""

import json
from collections.abc import Callable

import pytest

from deskyard.gateway.view.websocket import BINARY, frame
from tests.gateway.support import Gateway, Opened


def smuggled(gateway: Gateway, *fields: str) -> Opened:
    """A redemption with a second request hidden in its body."""
    hidden = f"GET /d/d1/session HTTP/1.1\r\nHost: {gateway.authority}\r\n\r\n"
    lines = ["POST /redeem HTTP/1.1", f"Host: {gateway.authority}", f"Origin: {gateway.origin}", *fields]
    return gateway.raw("\r\n".join([*lines, "", ""]) + f"0\r\n\r\n{hidden}")


def everything(opened: Opened) -> bytes:
    """What comes until the connection ends."""
    said = b""
    while part := opened.line.recv(4096):
        said += part
    return said


@pytest.mark.parametrize(
    "fields",
    [
        ("Content-Length: 5", "Transfer-Encoding: chunked"),
        ("Transfer-Encoding: chunked", "Transfer-Encoding: identity"),
        ("Transfer-Encoding: xchunked",),
        ("Transfer-Encoding : chunked",),
        ("Content-Length: 5", "Content-Length: 6"),
        ("Content-Length: +5",),
        ("Content-Length: 0x5",),
    ],
    ids=str,
)
def test_request_that_could_be_read_in_two_ways_is_refused(gateway: Gateway, fields: tuple[str, ...]) -> None:
    opened = smuggled(gateway, *fields)
    assert opened.status in (400, 422, 501)
    # Nothing after it is read as a request of its own: the connection ends.
    assert b"HTTP/1.1" not in opened.rest + everything(opened)


@pytest.mark.parametrize("path", ["/d/d1/terminal", "/d/d1/vnc"])
def test_tunnel_never_turns_back_into_requests(gateway: Gateway, path: str) -> None:
    _, cookie = gateway.session("d1")
    opened = gateway.upgrade(path, cookie)
    assert opened.status == 101
    before = len(gateway.desktops.requests)
    opened.read_until(b"|")
    opened.line.sendall(f"GET /healthz HTTP/1.1\r\nHost: {gateway.authority}\r\n\r\n".encode())
    opened.line.sendall(frame(BINARY, b"GET / HTTP/1.1\r\n\r\n"))
    opened.line.settimeout(3)
    answer = b""
    try:
        while part := opened.line.recv(4096):
            answer += part
    except OSError:
        pass
    assert b"HTTP/1.1 200" not in answer
    assert b"ok\n" not in answer
    assert len(gateway.desktops.requests) == before


@pytest.mark.parametrize("upgrade", ["h2c", "websocket, h2c", "TLS/1.0"])
def test_other_protocols_are_not_upgraded_to(gateway: Gateway, upgrade: str) -> None:
    _, cookie = gateway.session("d1")
    settings = "AAMAAABkAARAAAAAAAIAAAAA"
    assert gateway.upgrade(cookie=cookie, Upgrade=upgrade, HTTP2_Settings=settings).status == 426
    assert gateway.upgrade("/", cookie, Upgrade=upgrade, HTTP2_Settings=settings).status == 400


@pytest.mark.parametrize(
    "line",
    [
        "GET https://evil.test/ HTTP/1.1",
        "CONNECT 127.0.0.1:22 HTTP/1.1",
        "GET //evil.test/%2f.. HTTP/1.1",
        "GET /\\evil.test HTTP/1.1",
        "GET /d/d1/vnc#x HTTP/1.1",
        "PRI * HTTP/2.0",
    ],
)
def test_strange_targets_lead_nowhere(gateway: Gateway, line: str) -> None:
    opened = gateway.raw(f"{line}\r\nHost: {gateway.authority}\r\n\r\n")
    assert opened.status in (400, 404, 405, 421)
    assert "location" not in opened.head.lower()


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 302 Found\r\nLocation: https://evil.test/\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nSet-Cookie: __Host-deskyard-d1=x; Secure; Path=/\r\nContent-Length: 2\r\n\r\nhi",
        b"HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Basic\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 429 No\r\nContent-Type: text/html\r\nSet-Cookie: a=b\r\nContent-Length: 9\r\n\r\n<b>hi</b>",
        b"garbage\r\n\r\n",
    ],
    ids=["redirect", "cookie", "password", "status-of-ours", "garbage"],
)
@pytest.mark.parametrize("path", ["/d/d1/terminal", "/d/d1/vnc"])
def test_hostile_desktop_says_nothing_to_the_browser(gateway: Gateway, path: str, answer: bytes) -> None:
    _, cookie = gateway.session("d1")
    gateway.desktops.answer = answer
    try:
        opened = gateway.upgrade(path, cookie)
    finally:
        gateway.desktops.answer = None
    assert opened.status in (429, 502)
    for word in ("location", "set-cookie", "www-authenticate", "text/html"):
        assert word not in opened.head.lower()
    assert set(json.loads(opened.rest or b'{"error": 0, "message": 0, "remedy": 0}')) == {"error", "message", "remedy"}


def test_client_cannot_choose_where_its_connection_goes(gateway: Gateway) -> None:
    _, mine = gateway.session("d1")
    other, _ = gateway.session("d2")
    forge: list[Callable[[], Opened]] = [
        lambda: gateway.upgrade(cookie=mine, X_Deskyard_Session=other, X_Deskyard_Desktop="d2"),
        lambda: gateway.upgrade(cookie=mine, x_deskyard_desktop="d2"),
    ]
    for attempt in forge:
        assert attempt().read_until(b"|").decode().startswith("127.0.1.10:")
