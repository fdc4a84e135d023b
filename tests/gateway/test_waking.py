"""A program that acts on a desktop which does not answer is heard to want it; one that only reads is not."""

import json
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from deskyard_sdk import Desktop

from deskyard.gateway.session import line
from deskyard.wire import session_requests
from tests.gateway.conftest import run_gateway
from tests.gateway.support import HOSTNAME, Gateway, wait_for
from tests.gateway.test_awaiting import Person, noted, switch_off, switch_on, wants

PLACE = "/d/d1/computer"


@pytest.fixture(scope="module")
def door() -> Iterator[Gateway]:
    with run_gateway(Gateway()) as running:
        yield running


@pytest.fixture(autouse=True)
def off(door: Gateway) -> Iterator[None]:
    """The desktops are off, and nobody wants them."""
    switch_off(door)
    door.revoke(all=True)
    yield
    switch_off(door)


def ask(
    gateway: Gateway, bearer: dict[str, str], method: str = "POST", path: str = "/v1/act"
) -> tuple[int, str | None, dict[str, Any]]:
    """Status, after how long to ask again, and what is said."""
    answer, data = gateway.request(method, PLACE + path, None if method == "GET" else "{}", bearer)
    said = json.loads(data) if data.startswith(b"{") else {}
    return answer.status, answer.getheader("Retry-After"), said


def wanted(gateway: Gateway, id: str) -> int | None:
    """What the host reads of a session."""
    (mine,) = (session for session in gateway.listing() if session["id"] == id)
    return mine["wanted"]  # type: ignore[no-any-return]


def test_who_acts_is_heard_to_want_it_and_told_to_ask_again(door: Gateway) -> None:
    id, bearer = door.program(actor="tidier")
    status, again, said = ask(door, bearer)
    assert (status, again, said["error"]) == (503, "5", "desktop")
    assert "being started" in said["remedy"] and said["message"] == "the desktop does not answer"
    wait_for("the want", lambda: wanted(door, id) is not None)
    (line,) = noted(door, id)
    assert (line["actor"], line["desktop"], line["mode"], line["result"]) == ("tidier", "d1", "agent", "wanted")
    assert Person(door).sees(lambda news: news["wanted"])
    switch_on(door)
    assert ask(door, bearer)[:2] == (200, None)


def test_terminal_that_is_opened_wakes_it_as_a_request_does(door: Gateway) -> None:
    id, bearer = door.program(scopes=["shell"])
    assert door.upgrade(f"{PLACE}/v1/processes/7/attach", Origin=None, **bearer).status == 503
    wait_for("the want", lambda: wanted(door, id) is not None)


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "/v1/screen"), ("GET", "/v1/drive"), ("GET", "/v1/processes/7/output"), ("POST", "/v1/wait")],
)
def test_what_only_reads_or_follows_wakes_nothing(door: Gateway, method: str, path: str) -> None:
    id, bearer = door.program()
    status, again, said = ask(door, bearer, method, path)
    assert (status, again, said["error"]) == (503, None, "desktop")
    assert "what reads starts nothing" in said["remedy"]
    # The service reads its log in order: what comes later is heard.
    later, other = door.program()
    ask(door, other)
    wait_for("the want of another", lambda: wanted(door, later) is not None)
    assert (wanted(door, id), noted(door, id)) == (None, [])


def test_who_may_only_see_wants_nothing_by_either_way(door: Gateway) -> None:
    id, bearer = door.program(scopes=["see"])
    assert ask(door, bearer)[:2] == (503, None)
    assert wants(door, bearer) == 403
    assert (wanted(door, id), noted(door, id)) == (None, [])


def test_program_that_reads_first_says_by_itself_that_it_wants_it(door: Gateway) -> None:
    id, bearer = door.program(scopes=["act", "see"])
    headers = {"Origin": door.origin, **bearer}
    answer, data = door.request("POST", "/d/d1/drive", '{"action": "wake"}', headers)
    assert (answer.status, json.loads(data)["wanted"], wanted(door, id)) == (200, True, 0)
    assert door.request("POST", "/d/d1/drive", '{"action": "take"}', headers)[0].status in (401, 403, 409)
    assert door.request("POST", "/d/d1/drive", '{"action": "stop"}', headers)[0].status in (401, 403, 409)


@pytest.mark.parametrize("method", ["HEAD", "OPTIONS", "PATCH"])
def test_other_methods_want_nothing(door: Gateway, method: str) -> None:
    id, bearer = door.program()
    assert door.request(method, f"{PLACE}/v1/act", None, bearer)[0].status == 405
    assert (wanted(door, id), noted(door, id)) == (None, [])


def test_program_wakes_no_desktop_whose_agent_a_person_has_stopped(door: Gateway) -> None:
    id, bearer = door.program()
    _, cookie = door.session("d1")
    headers = {"Cookie": cookie, "Origin": door.origin}
    assert door.request("POST", "/d/d1/drive", '{"action": "stop"}', headers)[0].status == 200
    try:
        assert (ask(door, bearer)[0], wants(door, bearer)) == (423, 423)
        assert (wanted(door, id), noted(door, id)) == (None, [])
    finally:
        assert door.request("POST", "/d/d1/drive", '{"action": "go"}', headers)[0].status == 200


def test_program_is_told_that_what_started_for_it_was_stopped_until_it_boots_again(door: Gateway) -> None:
    id, bearer = door.program()
    assert wants(door, bearer) == 200

    def tell(request: dict[str, Any]) -> None:
        line.ask(door.layout.admin_socket, request)

    tell(session_requests.waking("d1", "starts"))
    # The host's clock, a moment later.
    tell(session_requests.stages({"d1": ("stopped", time.time() + 1)}))
    answer, data = door.request("POST", "/d/d1/drive", '{"action": "wake"}', {"Origin": door.origin, **bearer})
    said = json.loads(data)
    assert (answer.status, said["error"], wanted(door, id)) == (409, "off", None)
    assert "what a person stopped, a person starts" in said["remedy"]
    tell(session_requests.stages({"d1": ("booting", time.time() + 2)}))
    assert (wants(door, bearer), wanted(door, id)) == (200, 0)


def test_session_that_is_over_wants_nothing(door: Gateway) -> None:
    id, bearer = door.program()
    ask(door, bearer)
    wait_for("the want", lambda: wanted(door, id) is not None)
    door.revoke(id)
    assert (wants(door, bearer), ask(door, bearer)[0], wanted(door, id)) == (401, 401, None)


def test_program_that_hammers_is_one_want_and_one_line(door: Gateway) -> None:
    id, bearer = door.program()
    with ThreadPoolExecutor(8) as pool:
        assert {status for status, _, _ in pool.map(lambda _: ask(door, bearer), range(40))} <= {503, 429}
        assert set(pool.map(lambda _: wants(door, bearer), range(40))) == {200}
    assert wanted(door, id) is not None
    assert len(noted(door, id)) == 1


@pytest.mark.parametrize("first", ["screen", "act"])
def test_sdk_wakes_it_and_waits_until_it_answers(
    door: Gateway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: str
) -> None:
    monkeypatch.setattr("deskyard_sdk.waking.AGAIN_SECONDS", 0.05)
    find = socket.getaddrinfo

    def here(host: Any, *rest: Any, **named: Any) -> Any:
        return find("127.0.0.1" if host in (HOSTNAME, HOSTNAME.encode()) else host, *rest, **named)

    monkeypatch.setattr(socket, "getaddrinfo", here)
    authority = tmp_path / "ca.pem"
    authority.write_text(door.issuer.pem)
    granted = door.grant("d1", mode="agent", actor="tidier")

    def start() -> None:
        """As its host does, which reads who wants it."""
        wait_for("the want", lambda: wanted(door, granted["id"]) is not None)
        switch_on(door)
        door.desktops.answer = b'HTTP/1.1 200 OK\r\nContent-Length: 26\r\n\r\n{"results": [], "state":5}'

    with ThreadPoolExecutor(1) as host, Desktop.connect(granted["url"], ca=str(authority)) as desktop:
        started = host.submit(start)
        assert (desktop.screen().state if first == "screen" else desktop.act().results) in (5, [])
        started.result()
    assert [line["actor"] for line in noted(door, granted["id"])] == ["tidier"]
