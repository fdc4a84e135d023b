"""Whoever is refused learns why and what to do: a person from a page, a program from JSON."""

import json
import socket
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.gateway.conftest import run_gateway
from tests.gateway.support import Gateway
from tests.support.answers_described import DOCUMENT, Described


def redeem_from(gateway: Gateway, fields: dict[str, str]) -> int:
    given = {"Origin": gateway.origin, "Content-Type": "application/json", **fields}
    return gateway.request("POST", "/redeem", json.dumps({"ticket": "A" * 43}), given)[0].status


@pytest.mark.parametrize(("path", "status"), [("/nothing", 404), ("/?x=1", 400), ("/redeem", 405)])
def test_person_who_is_lost_gets_a_page(gateway: Gateway, path: str, status: int) -> None:
    answer, page = gateway.request("GET", path)
    assert answer.status == status
    assert (answer.getheader("Content-Type") or "").startswith("text/html")
    assert b"Open the link as you were given it." in page
    assert "default-src 'none'" in (answer.getheader("Content-Security-Policy") or "")


def test_page_of_another_name_says_so(gateway: Gateway) -> None:
    answer, page = gateway.request("GET", "/", headers={"Host": "evil.test"})
    assert (answer.status, b"Another door" in page) == (421, True)


def test_program_gets_json_with_a_remedy(gateway: Gateway) -> None:
    id, cookie = gateway.session("d1")
    view = gateway.session("d1", mode="view")[1]
    origin = {"Origin": gateway.origin}
    bodies = [
        gateway.upgrade(),
        gateway.upgrade(cookie=cookie, Origin="https://evil.test"),
        gateway.upgrade("/d/d1/terminal", view),
        gateway.upgrade(cookie=cookie, Upgrade=None, Connection=None),
    ]
    for opened, status in zip(bodies, (401, 403, 403, 426), strict=True):
        assert opened.status == status
        assert "application/json" in opened.head
        assert set(json.loads(opened.rest)) == {"error", "message", "remedy"}
    gateway.revoke(id)
    for path, body in (
        ("/d/d1/renew", "{}"),
        ("/d/d1/drive", '{"action": "take"}'),
        ("/redeem", '{"ticket": "short"}'),
    ):
        answer, data = gateway.request("POST", path, body, {"Cookie": cookie, **origin})
        assert answer.status in (400, 401)
        assert set(json.loads(data)) == {"error", "message", "remedy"}


def test_door_refuses_programs_as_the_document_of_their_desktop_says(gateway: Gateway) -> None:
    described, path = Described(DOCUMENT), "/d/d1/computer"
    id, bearer = gateway.program()

    def refused(headers: dict[str, str]) -> int:
        answer, data = gateway.request("GET", f"{path}/v1/windows", headers=headers)
        media_type = (answer.getheader("Content-Type") or "").partition(";")[0]
        assert described.objection("GET", "/v1/windows", answer.status, media_type, data) == ""
        return answer.status

    assert refused({}) == 401
    assert refused({"Authorization": "Bearer x"}) == 401
    gateway.revoke(id)
    assert refused(bearer) == 401


def test_desktop_that_does_not_run_is_told_from_a_gateway_that_is_down(own_gateway: Gateway) -> None:
    gateway = own_gateway
    _, cookie = gateway.session("d1")
    gateway.desktops.close()
    opened = gateway.upgrade(cookie=cookie)
    assert (opened.status, json.loads(opened.rest)["error"]) == (502, "desktop")
    service = gateway.processes[0]
    service.kill()
    service.wait(10)
    opened = gateway.upgrade(cookie=cookie)
    assert (opened.status, json.loads(opened.rest)["error"]) == (503, "service")
    answer, page = gateway.request("GET", "/")
    assert (answer.status, b"Load this page again" in page) == (503, True)
    answer, data = gateway.request("GET", "/d/d1/session", headers={"Cookie": cookie, "Accept": "application/json"})
    assert (answer.status, json.loads(data)["error"]) == (503, "service")


DODGES = [
    {"X-Forwarded-For": "10.0.0.{n}"},
    {"Forwarded": "for=10.0.0.{n}"},
    {"X-Real-IP": "10.0.0.{n}"},
    {"X-Deskyard-Address": "10.0.0.{n}"},
    {"Authorization": "Bearer {n}"},
    {"Cookie": "__Host-deskyard-d1={n}"},
    {"User-Agent": "agent {n}", "X-Request-Id": "{n}"},
]


def test_rate_limit_holds_against_headers_and_over_a_reload() -> None:
    with run_gateway(Gateway(false_tickets_per_minute=5)) as gateway:
        assert [redeem_from(gateway, {}) for _ in range(6)] == [403] * 5 + [429]
        for n, dodge in enumerate(DODGES):
            assert redeem_from(gateway, {name: value.format(n=n) for name, value in dodge.items()}) == 429
        gateway.reload()
        assert redeem_from(gateway, {}) == 429
        # A PROXY line would name another address if the door listened to it.
        with socket.create_connection(("127.0.0.1", gateway.layout.listen_port), 10) as line:
            line.sendall(b"PROXY TCP4 10.0.0.1 10.0.0.2 1234 443\r\n")
            line.settimeout(20)
            assert line.recv(4096)[:1] != b"\x16"
        assert {line["reason"] for line in gateway.audit() if line.get("status") == 429} == {"ticket"}


def test_slow_and_silent_clients_are_cut_off_and_hold_up_nobody(own_gateway: Gateway) -> None:
    gateway = own_gateway
    _, cookie = gateway.session("d1")
    opened = gateway.upgrade(cookie=cookie)
    opened.read_until(b"|")
    silent = [socket.create_connection(("127.0.0.1", gateway.layout.listen_port), 10) for _ in range(100)]
    half: list[socket.socket] = [gateway.connect() for _ in range(20)]
    for line in half:
        line.sendall(b"GET / HTTP/1.1\r\nHost: ")
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda _: gateway.request("GET", "/healthz")[0].status, range(20))) == [200] * 20
    assert opened.echo("still here") == "still here"
    started = time.monotonic()
    for line in (*half, *silent):
        line.settimeout(60)
        while line.recv(4096):
            pass
        line.close()
    print(f"all cut off within {time.monotonic() - started:.1f} s")
    assert opened.echo("still here") == "still here"
