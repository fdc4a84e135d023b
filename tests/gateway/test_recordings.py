"""A person looks back at a desktop: through the door, by a session that has its screen, and no further."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from deskyard.wire.computer import FILES, SEE
from tests.gateway.conftest import run_gateway
from tests.gateway.support import Gateway, Opened, wait_for
from tests.gateway.test_actions import check, listed
from tests.gateway.test_parts import Half
from tests.gateway.test_privacy import Person
from tests.gateway.test_weakened import without

LIST = "/d/d1/recordings"
FRAMES = f"{LIST}/1700000000000/frames"
ACTIONS = f"{LIST}/1700000000000/actions"


@pytest.fixture(scope="module")
def door() -> Iterator[Gateway]:
    """A gateway whose drivers have left after a second, and whose desktop d2 has no computer-use service."""
    with run_gateway(Half(changes={"driver_away_seconds": 1.0})) as running:
        yield running


def asks(gateway: Gateway, cookie: str, path: str = LIST, method: str = "GET", **headers: str) -> tuple[int, str]:
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    answer, data = gateway.request(method, path, None, {"Cookie": cookie, **given})
    return answer.status, data.decode("latin-1")


def heard(gateway: Gateway) -> tuple[str, dict[str, str]]:
    """What a desktop was asked last: the line, and the headers."""
    request, *lines = gateway.desktops.requests[-1].strip().split("\r\n")
    return request, {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}


@pytest.mark.parametrize(("mode", "scopes"), [("view", SEE), ("drive", f"{SEE},{FILES}")])
def test_service_hears_that_a_spectator_may_see_and_that_who_drives_may_look_back(
    door: Gateway, mode: str, scopes: str
) -> None:
    id, cookie = door.session("d1", mode=mode)
    for path, wanted in [(LIST, ""), (f"{LIST}?after=17", "?after=17"), (FRAMES, "/1700000000000/frames")]:
        forged = {"X_Deskyard_Scopes": "act,shell", "X_Deskyard_Session": "A" * 24, "Range": "bytes=0-1"}
        assert asks(door, cookie, path, **forged)[0] == 200
        request, headers = heard(door)
        assert request == f"GET /v1/recordings{wanted} HTTP/1.1"
        assert (headers["x-deskyard-session"], headers["x-deskyard-scopes"]) == (id, scopes)
        assert headers.keys() == {"host", "connection", "x-deskyard-session", "x-deskyard-scopes"}


def test_without_a_session_of_the_desktops_screen_nothing_is_read(door: Gateway) -> None:
    _, cookie = door.session("d1")
    _, elsewhere = door.session("d2")
    _, terminal = door.session("d1", routes=["terminal"])
    _, bearer = door.program("d1")
    before = len(door.desktops.requests)
    for path in (LIST, FRAMES, ACTIONS):
        assert asks(door, "", path)[0] == 401
        assert asks(door, elsewhere, path)[0] == 401
        assert asks(door, elsewhere.replace("deskyard-d2", "deskyard-d1"), path)[0] == 403
        assert asks(door, terminal, path)[0] == 403
        assert asks(door, "", path, **bearer)[0] == 401
        token = bearer["Authorization"].removeprefix("Bearer ")
        assert asks(door, f"__Host-deskyard-d1={token}", path)[0] == 401
        assert asks(door, cookie, path, Origin="https://evil.test")[0] == 403
    assert len(door.desktops.requests) == before
    assert asks(door, cookie)[0] == 200


@contextmanager
def begun(door: Gateway, cookie: str) -> Iterator[Opened]:
    """An answer whose desktop says no more of it, and does not end it."""
    door.desktops.answer, door.desktops.holds = b"HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n", True
    try:
        opened = door.raw(f"GET {FRAMES} HTTP/1.1\r\nHost: {door.authority}\r\nCookie: {cookie}\r\n\r\n")
        door.desktops.answer, door.desktops.holds = None, False
        assert opened.status == 200
        assert not opened.closes(0.3), "it stays open by itself"
        yield opened
    finally:
        door.desktops.answer, door.desktops.holds = None, False


def test_revoked_session_reads_no_more_and_what_it_reads_is_cut(door: Gateway) -> None:
    id, cookie = door.session("d1")
    with begun(door, cookie) as reading:
        door.revoke(id)
        assert reading.closes()
    assert asks(door, cookie)[0] == 401


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "HEAD", "PATCH", "OPTIONS"])
def test_nothing_is_changed_by_this_way(door: Gateway, method: str) -> None:
    _, cookie = door.session("d1")
    before = len(door.desktops.requests)
    for path in (LIST, FRAMES):
        assert asks(door, cookie, path, method, Origin=door.origin)[0] == 405
    assert len(door.desktops.requests) == before


@pytest.mark.parametrize(
    ("path", "status"),
    [
        (f"{LIST}/", 404),
        (f"{LIST}/1", 404),
        (f"{LIST}/1/", 404),
        (f"{LIST}/1/privacy", 404),
        (f"{LIST}/../screen", 404),
        (f"{LIST}/1/frames/..", 404),
        (f"{LIST}/x/frames", 404),
        (f"{LIST}/{'1' * 21}/frames", 404),
        (f"{LIST}?after=1&most=1", 400),
        (f"{LIST}?after=", 400),
        (f"{LIST}?before=1", 400),
        ("/d/d1/session?after=1", 400),
    ],
)
def test_no_other_path_of_the_service_is_reached(door: Gateway, path: str, status: int) -> None:
    _, cookie = door.session("d1")
    before = len(door.desktops.requests)
    assert asks(door, cookie, path)[0] == status
    assert len(door.desktops.requests) == before


def test_request_with_a_body_or_an_upgrade_is_refused(door: Gateway) -> None:
    _, cookie = door.session("d1")
    assert asks(door, cookie, Content_Length="0")[0] == 400
    assert door.upgrade(LIST, cookie).status == 400
    head = f"GET {LIST} HTTP/1.1\r\nHost: {door.authority}\r\nCookie: {cookie}\r\n"
    assert door.raw(f"{head}Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n").status == 400


def test_desktop_without_the_service_has_no_recordings(door: Gateway) -> None:
    _, cookie = door.session("d2")
    assert asks(door, cookie, "/d/d2/recordings")[0] == 404


def answered(door: Gateway, answer: bytes, path: str = LIST) -> Any:
    """What a person gets where the desktop answers so."""
    _, cookie = door.session("d1")
    door.desktops.answer = answer
    try:
        return door.request("GET", path, None, {"Cookie": cookie})
    finally:
        door.desktops.answer = None


def test_no_page_and_no_script_of_a_desktop_comes_from_the_gateways_address(door: Gateway) -> None:
    page = b"<script>alert(1)</script>"
    planted = (
        b"HTTP/1.1 200 OK\r\nContent-Type: text/javascript\r\nContent-Length: %d\r\nSet-Cookie: planted=1\r\n"
        b"Clear-Site-Data: *\r\nService-Worker-Allowed: /\r\nContent-Encoding: gzip\r\nLink: </x>; rel=preload\r\n"
        b"Content-Disposition: inline\r\n\r\n%s" % (len(page), page)
    )
    for path in (LIST, FRAMES, ACTIONS):
        answer, data = answered(door, planted, path)
        headers = {name.lower(): value for name, value in answer.getheaders()}
        assert (answer.status, data) == (200, page)
        assert headers["content-type"] == "application/octet-stream"
        assert (headers["x-content-type-options"], headers["content-disposition"]) == ("nosniff", "attachment")
        assert headers["cache-control"] == "no-store"
        assert headers.keys().isdisjoint(
            {"set-cookie", "clear-site-data", "service-worker-allowed", "content-encoding", "link"}
        )


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 302 Found\r\nLocation: https://evil.test/\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Basic\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 206 Partial Content\r\nContent-Length: 1\r\n\r\nx",
        b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nwithout an end",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 100000000\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 18446744073709551617\r\n\r\n",
    ],
)
def test_desktop_sends_nobody_elsewhere_and_only_what_has_a_bounded_length(door: Gateway, answer: bytes) -> None:
    assert answered(door, answer)[0].status == 502


def test_nothing_is_given_out_while_a_person_wants_privacy_and_what_was_open_is_cut(door: Gateway) -> None:
    door.revoke(all=True)
    wait_for("the end of the sessions before", lambda: all(not session["streams"] for session in door.listing()))
    person = Person(door)
    _, spectator = door.session("d1", mode="view")
    assert asks(door, person.cookie)[0] == asks(door, spectator)[0] == 200
    with begun(door, spectator) as reading:
        person.hides()
        assert reading.closes()
    before = len(door.desktops.requests)
    for cookie in (person.cookie, spectator):
        status, body = asks(door, cookie)
        assert (status, json.loads(body)["error"]) == (423, "privacy")
    assert not [request for request in door.desktops.requests[before:] if "/v1/recordings" in request]
    person.does("show")
    wait_for("the end of the privacy", lambda: asks(door, spectator)[0] == 200)


def test_stopped_agents_recordings_are_not_waited_for(door: Gateway) -> None:
    _, cookie = door.session("d1")
    headers = {"Cookie": cookie, "Origin": door.origin}

    def does(action: str) -> None:
        answer, data = door.request("POST", "/d/d1/drive", json.dumps({"action": action}), headers)
        assert answer.status == 200, data

    does("stop")
    wait_for("the stop at the door", lambda: asks(door, cookie)[0] == 423)
    assert json.loads(asks(door, cookie)[1])["error"] == "stopped"
    does("go")
    wait_for("the end of the stop", lambda: asks(door, cookie)[0] == 200)


def test_refusal_is_in_the_audit(own_gateway: Gateway) -> None:
    id, cookie = own_gateway.session("d1", routes=["terminal"])
    assert asks(own_gateway, cookie, FRAMES)[0] == 403

    def refused() -> bool:
        lines = [line for line in own_gateway.audit() if line["event"] == "refuse" and line.get("session") == id]
        return [(line["route"], line["status"], line["reason"]) for line in lines] == [("recordings", 403, "scope")]

    wait_for("the refusal in the audit", refused)


def test_what_a_person_was_shown_is_in_the_chain_and_a_list_of_it_is_not(door: Gateway) -> None:
    sees, spectator = door.session("d1", mode="view", actor="alice")
    drives, driver = door.session("d1", actor="bob")
    for cookie in (spectator, driver):
        for path in (LIST, FRAMES, f"{ACTIONS}?after=17"):
            assert asks(door, cookie, path)[0] == 200
    for session, actor, scopes in [(sees, "alice", [SEE]), (drives, "bob", sorted([SEE, FILES]))]:
        found = listed(door, session, 2)
        assert [line["path"] for line in found] == ["/1700000000000/frames", "/1700000000000/actions"]
        about = {"route": "recordings", "desktop": "d1", "status": 200, "actor": actor, "scopes": scopes}
        assert all({name: line[name] for name in about} == about for line in found)
    assert check(door)["ok"]


def test_weakened_door_that_does_not_look_at_the_route_is_found_out() -> None:
    with run_gateway(Gateway(weaken=without("!{ var(txn.routes) -m reg '(^| )desktop( |"))) as weakened:
        _, terminal = weakened.session("d1", routes=["terminal"])
        assert asks(weakened, terminal)[0] != 403
