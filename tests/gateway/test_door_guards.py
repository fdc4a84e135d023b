"""Refusals of the door that something behind it would give too: they are the door's own."""

import time

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from deskyard.gateway.config import keys
from deskyard.gateway.session import signing
from deskyard.wire.routes import ROUTES
from tests.gateway.conftest import run_gateway
from tests.gateway.support import Gateway
from tests.gateway.test_door import claims, signed
from tests.gateway.test_door_alone import ended_at_the_door, line_of, written


def test_page_is_given_to_no_other_page(gateway: Gateway) -> None:
    before = written(gateway)
    assert gateway.request("GET", "/", None, {"Origin": "https://evil.test"})[0].status == 403
    ended_at_the_door(gateway, before, "origin")


@pytest.mark.parametrize(("method", "path"), [("GET", "/redeem"), ("GET", "/d/d1/drive"), ("POST", "/d/d1/session")])
def test_method_that_an_address_does_not_take_ends_at_the_door(gateway: Gateway, method: str, path: str) -> None:
    before = written(gateway)
    assert gateway.request(method, path, None, {"Origin": gateway.origin})[0].status == 405
    ended_at_the_door(gateway, before, "request")


def test_pages_count_toward_no_rate_of_tickets() -> None:
    with run_gateway(Gateway(false_tickets_per_minute=5)) as gateway:
        assert {gateway.request("GET", "/")[0].status for _ in range(8)} == {200}
        assert gateway.redeem("no-such-ticket")[0] != 429


def test_large_body_is_refused_at_the_door_however_it_comes(gateway: Gateway) -> None:
    before = written(gateway)
    lines = ["POST /redeem HTTP/1.1", f"Host: {gateway.authority}", f"Origin: {gateway.origin}"]
    head = "\r\n".join([*lines, "Content-Type: application/json", "Transfer-Encoding: chunked", "", ""])
    with gateway.connect() as line:
        line.sendall(head.encode())
        for _ in range(5):
            # Of what is still on its way nobody knows the size.
            time.sleep(0.05)
            line.sendall(b"400\r\n" + b"x" * 0x400 + b"\r\n")
        assert line.recv(4096).split()[1] == b"413"
    ended_at_the_door(gateway, before, "ticket")


def test_key_that_is_the_only_one_vouches_for_its_own_sessions_alone(own_gateway: Gateway) -> None:
    gateway = own_gateway
    old = signing.newest(gateway.layout.signing_keys)[1]
    assert gateway.upgrade(cookie=signed(gateway)).status == 503  # let in, and nobody's
    assert gateway.upgrade(cookie=signed(gateway, kid="k2")).status == 401
    keys.rotate(gateway.layout, gateway.system(), at_once=True, actor="alice")
    assert gateway.upgrade(cookie=gateway.session("d1")[1]).status == 101
    kid, new = signing.newest(gateway.layout.signing_keys)
    for key, named in ((ec.generate_private_key(ec.SECP256R1()), kid), (old, kid), (old, "k1"), (new, "k1")):
        token = jwt.encode(claims(gateway), key, algorithm="ES256", headers={"kid": named})
        assert gateway.upgrade(cookie=f"__Host-deskyard-d1={token}").status == 401, named


@pytest.mark.parametrize("desktop", ["d1", "d2"])
@pytest.mark.parametrize("route", ["vnc", "terminal"])
def test_no_desktop_shows_a_page_instead_of_its_screen(gateway: Gateway, desktop: str, route: str) -> None:
    _, cookie = gateway.session(desktop)
    gateway.desktops.answer = b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\nConnection: close\r\n\r\n<b>hi</b>"
    try:
        opened = gateway.upgrade(f"/d/{desktop}/{route}", cookie)
    finally:
        gateway.desktops.answer = None
    assert opened.status == 502
    assert b"<b>" not in opened.rest


@pytest.mark.parametrize("desktop", ["d1", "d2"])
@pytest.mark.parametrize("route", ["vnc", "terminal"])
def test_no_desktop_plants_what_a_browser_would_keep(gateway: Gateway, desktop: str, route: str) -> None:
    opened = gateway.upgrade(f"/d/{desktop}/{route}", gateway.session(desktop)[1])
    assert opened.status == 101
    assert "planted" not in opened.head.lower()


@pytest.mark.parametrize("header", ["Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Deskyard-Address"])
@pytest.mark.parametrize("route", ["vnc", "terminal"])
def test_no_desktop_learns_where_its_user_is(gateway: Gateway, route: str, header: str) -> None:
    _, cookie = gateway.session("d2")
    assert gateway.upgrade(f"/d/d2/{route}", cookie, **{header: "canary"}).status == 101
    seen = gateway.desktops.requests[-1].lower()
    assert "canary" not in seen
    assert "127.0.0.1" not in seen


@pytest.mark.parametrize("id", ["!" + "A" * 24, "a b" + "A" * 24, "../" + "A" * 24])
def test_session_of_an_odd_name_is_none(gateway: Gateway, id: str) -> None:
    assert gateway.upgrade(cookie=signed(gateway, jti=id)).status == 401


@pytest.mark.parametrize(("granted", "other"), [("desktop", "terminal"), ("terminal", "desktop")])
def test_session_of_one_route_has_that_route_and_no_other(gateway: Gateway, granted: str, other: str) -> None:
    places = {"desktop": "vnc", "terminal": "terminal"}
    _, cookie = gateway.session("d1", routes=[granted])
    assert gateway.upgrade(f"/d/d1/{places[granted]}", cookie).status == 101
    assert gateway.upgrade(f"/d/d1/{places[other]}", cookie).status == 403


def test_log_tells_that_the_streams_were_too_many() -> None:
    with run_gateway(Gateway(changes={"streams_per_session": 1})) as gateway:
        _, cookie = gateway.session("d1")
        first = gateway.upgrade("/d/d1/vnc", cookie)
        before = written(gateway)
        assert first.status == 101
        assert gateway.upgrade("/d/d1/vnc", cookie).status == 429
        assert line_of(gateway, before, "streams")


def test_without_the_filter_the_gateway_is_told_to_be_away_and_not_the_desktop() -> None:
    with run_gateway(Gateway()) as gateway:
        _, cookie = gateway.session("d1")
        view = gateway.processes[1]
        view.terminate()
        view.wait(20)
        opened = gateway.upgrade("/d/d1/vnc", cookie)
        assert opened.status == 503
        assert '"error":"service"' in opened.rest.decode()


@pytest.mark.parametrize("desktop", ["d1", "d2"])
@pytest.mark.parametrize(("place", "route"), [("vnc", "desktop"), ("terminal", "terminal")])
def test_desktop_is_asked_at_the_path_that_it_knows(gateway: Gateway, desktop: str, place: str, route: str) -> None:
    assert gateway.upgrade(f"/d/{desktop}/{place}", gateway.session(desktop)[1]).status == 101
    assert gateway.desktops.requests[-1].startswith(f"GET {ROUTES[route].path} HTTP/1.1\r\n")
