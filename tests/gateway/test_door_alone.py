"""What the door refuses by itself, where the session service or the filter behind it would refuse as well."""

import json
import socket
import ssl

import pytest

from tests.gateway.conftest import run_gateway
from tests.gateway.support import HOSTNAME, Gateway, wait_for
from tests.gateway.test_door import signed

OTHER_CLIENT = "127.0.0.9"


def line_of(gateway: Gateway, before: int, check: str) -> str:
    """The line that HAProxy wrote of a request that this check refused since; those of requests before may be late."""
    log = gateway.root / "haproxy.log"

    def found() -> list[str]:
        return [line for line in log.read_text()[before:].splitlines() if f"check={check}" in line]

    return str(wait_for(f"a line of the log with check={check}", found)[-1])


def ended_at_the_door(gateway: Gateway, before: int, check: str) -> None:
    """This check refused the request that was made since, and nothing behind the door was asked."""
    assert "server=<NOSRV>" in line_of(gateway, before, check)


def written(gateway: Gateway) -> int:
    """How much HAProxy has written."""
    return len((gateway.root / "haproxy.log").read_text())


@pytest.mark.parametrize("path", ["/redeem", "/d/d1/renew", "/d/d1/drive"])
def test_change_that_says_no_origin_ends_at_the_door(gateway: Gateway, path: str) -> None:
    before = written(gateway)
    assert gateway.request("POST", path, "{}")[0].status == 403
    ended_at_the_door(gateway, before, "origin")


@pytest.mark.parametrize("desktop", ["d1", "d2"])
def test_session_that_nobody_began_has_no_server_among_those_of_others(own_gateway: Gateway, desktop: str) -> None:
    gateway = own_gateway
    for name in ("d1", "d2", "d1", "d2"):
        gateway.session(name)
    gateway.reload()
    cookie = signed(gateway, desktop=desktop).replace("-d1=", f"-{desktop}=", 1)
    for route in ("vnc", "terminal"):
        assert gateway.upgrade(f"/d/{desktop}/{route}", cookie).status == 503


@pytest.mark.parametrize("desktop", ["d1", "d2"])
def test_too_many_streams_are_told_as_such(desktop: str) -> None:
    with run_gateway(Gateway(changes={"streams_per_session": 1})) as gateway:
        _, cookie = gateway.session(desktop)
        first = gateway.upgrade(f"/d/{desktop}/vnc", cookie)
        assert first.status == 101
        second = gateway.upgrade(f"/d/{desktop}/vnc", cookie)
        assert second.status == 429
        assert '"error":"streams"' in second.rest.decode()


def test_client_is_listed_with_the_address_that_it_came_from(gateway: Gateway) -> None:
    id, cookie = gateway.session("d2")
    line = socket.create_connection(("127.0.0.1", gateway.layout.listen_port), 10, source_address=(OTHER_CLIENT, 0))
    lines = [
        f"GET /d/d2/vnc HTTP/1.1\r\nHost: {gateway.authority}\r\nUpgrade: websocket\r\nConnection: Upgrade",
        "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==",
        f"Origin: {gateway.origin}\r\nCookie: {cookie}",
        "X-Deskyard-Address: 192.0.2.99\r\n\r\n",
    ]
    with gateway.trust.wrap_socket(line, server_hostname=HOSTNAME) as wrapped:
        wrapped.sendall("\r\n".join(lines).encode())
        assert b" 101 " in wrapped.recv(4096)
        mine = next(session for session in gateway.listing() if session["id"] == id)
        assert mine["from"] == [OTHER_CLIENT]


def test_program_that_changes_something_gets_json_while_the_service_is_down() -> None:
    with run_gateway(Gateway()) as gateway:
        service = gateway.processes[0]
        service.terminate()
        service.wait(20)
        for path in ("/redeem", "/d/d1/renew", "/d/d1/drive"):
            answer, body = gateway.request("POST", path, "{}", {"Origin": gateway.origin, "Accept": "text/html"})
            assert answer.status == 503
            assert json.loads(body)["error"] == "service", path
        answer, body = gateway.request("GET", "/", None, {"Accept": "text/html"})
        assert answer.status == 503
        assert b"<!doctype html>" in body.lower()


def test_sessions_of_two_desktops_do_not_get_in_each_others_way(gateway: Gateway) -> None:
    first, second = gateway.session("d1")[1], gateway.session("d2")[1]
    for cookies in (f"{first}; {second}", f"{second}; {first}"):
        assert [gateway.upgrade(f"/d/{name}/vnc", cookies).status for name in ("d1", "d2")] == [101, 101]


def test_browser_that_offers_another_protocol_gets_the_one_that_the_door_reads(gateway: Gateway) -> None:
    context = ssl.create_default_context(cadata=gateway.issuer.pem)
    context.set_alpn_protocols(["h2", "http/1.1"])
    line = socket.create_connection(("127.0.0.1", gateway.layout.listen_port), 10)
    with context.wrap_socket(line, server_hostname=HOSTNAME) as wrapped:
        assert wrapped.selected_alpn_protocol() == "http/1.1"


def test_terminal_sees_neither_the_session_nor_what_else_a_browser_knows(gateway: Gateway) -> None:
    _, cookie = gateway.session("d1")
    assert gateway.upgrade("/d/d1/terminal", f"{cookie}; other=canary", Authorization="Basic canary").status == 101
    request = gateway.desktops.requests[-1]
    assert request.startswith("GET /ws ")
    assert "canary" not in request
    assert cookie.partition("=")[2] not in request
