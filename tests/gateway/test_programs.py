"""Programs at the door: a bearer token for the computer-use service of a desktop, and never a cookie."""

import json
import socket
import time
from pathlib import Path
from typing import Any

import jwt
import pytest
from deskyard_sdk import Desktop, DesktopError

from deskyard.errors import GatewayError
from deskyard.gateway.session import signing
from deskyard.wire.computer import SCOPES
from tests.gateway.support import HOSTNAME, Gateway, wait_for
from tests.gateway.test_door_alone import ended_at_the_door, written

PLACE = "/d/d1/computer/v1/screen"


def asked(gateway: Gateway, path: str, headers: dict[str, str], method: str = "GET", body: str | None = None) -> Any:
    """Status, headers, body of what a program asks for."""
    answer, data = gateway.request(method, path, body, headers)
    return answer.status, {name.lower(): value for name, value in answer.getheaders()}, data.decode()


def test_program_reaches_the_service_of_its_desktop_below_its_place(gateway: Gateway) -> None:
    id, bearer = gateway.program()
    status, headers, text = asked(gateway, f"{PLACE}?format=png&max=1568", bearer)
    assert status == 200
    assert text.startswith("GET /v1/screen?format=png&max=1568 HTTP/1.1\r\n")
    assert f"x-deskyard-session: {id}\r\n" in text
    assert f"x-deskyard-scopes: {','.join(sorted(SCOPES))}\r\n" in text.lower()
    assert "bearer" not in text.lower(), "the desktop never sees the token"
    assert "set-cookie" not in headers
    assert headers["content-disposition"] == "attachment"
    assert headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE"])
def test_program_asks_by_all_methods_of_the_service(gateway: Gateway, method: str) -> None:
    status, _, text = asked(gateway, PLACE, gateway.program()[1], method, None if method == "GET" else "{}")
    assert (status, text.split(" ", 1)[0]) == (200, method)


@pytest.mark.parametrize("method", ["PATCH", "OPTIONS", "TRACE", "CONNECT"])
def test_program_asks_by_no_other_method(gateway: Gateway, method: str) -> None:
    assert asked(gateway, PLACE, gateway.program()[1], method)[0] in (400, 405)


def test_program_opens_a_websocket_at_the_service(gateway: Gateway) -> None:
    opened = gateway.upgrade("/d/d1/computer/v1/events", Origin=None, **gateway.program()[1])
    assert opened.status == 101
    assert opened.read_until(b"|").decode() == f"127.0.1.10:{gateway.ports['computer']}"
    assert gateway.desktops.requests[-1].startswith("GET /v1/events HTTP/1.1\r\n")


def test_scopes_that_were_granted_are_what_the_service_hears(gateway: Gateway) -> None:
    _, bearer = gateway.program(scopes=["see"])
    text = asked(gateway, PLACE, {**bearer, "X-Deskyard-Scopes": "act,shell", "X-Deskyard-Session": "forged"})[
        2
    ].lower()
    assert "x-deskyard-scopes: see\r\n" in text
    assert "shell" not in text
    assert "forged" not in text


def test_cookie_of_a_person_opens_nothing_for_programs(gateway: Gateway) -> None:
    _, cookie = gateway.session("d1")
    before = written(gateway)
    assert asked(gateway, PLACE, {"Cookie": cookie})[0] == 401
    ended_at_the_door(gateway, before, "cookie")
    token = cookie.partition("=")[2]
    assert asked(gateway, PLACE, {"Authorization": f"Bearer {token}"})[0] == 401


def test_token_of_a_program_opens_nothing_for_people(gateway: Gateway) -> None:
    token = gateway.program()[1]["Authorization"].removeprefix("Bearer ")
    for place in ("vnc", "terminal"):
        assert gateway.upgrade(f"/d/d1/{place}", f"__Host-deskyard-d1={token}").status == 401
        assert gateway.upgrade(f"/d/d1/{place}", Authorization=f"Bearer {token}").status == 401
    # As a cookie it never reaches the service either.
    assert asked(gateway, PLACE, {"Cookie": f"__Host-deskyard-d1={token}"})[0] == 401


def test_token_with_the_audience_of_programs_and_the_mode_of_people_is_refused(gateway: Gateway) -> None:
    kid, key = signing.newest(gateway.layout.signing_keys)
    _, bearer = gateway.program()
    claims = jwt.decode(bearer["Authorization"].removeprefix("Bearer "), options={"verify_signature": False})
    for changed in ({"mode": "drive"}, {"routes": "desktop"}, {"desktop": "d2"}, {"workspace": "other"}):
        token = jwt.encode({**claims, **changed}, key, algorithm="ES256", headers={"kid": kid})
        assert asked(gateway, PLACE, {"Authorization": f"Bearer {token}"})[0] == 403, changed
    token = jwt.encode({**claims, "exp": int(time.time()) - 1}, key, algorithm="ES256", headers={"kid": kid})
    assert asked(gateway, PLACE, {"Authorization": f"Bearer {token}"})[0] == 401


def test_program_reaches_its_own_desktop_alone(gateway: Gateway) -> None:
    _, bearer = gateway.program("d1")
    assert asked(gateway, "/d/d2/computer/v1/screen", bearer)[0] == 403


@pytest.mark.parametrize(
    "path",
    [
        "/d/d1/computer",
        "/d/d1/computer/../terminal",
        "/d/d1/computer/v1/..",
        "/d/d1/computer/./v1",
        "/d/d1/computer/%2e%2e/x",
        "/d/d1/computer/" + "x" * 201,
    ],
)
def test_odd_path_leads_nowhere(gateway: Gateway, path: str) -> None:
    assert asked(gateway, path, gateway.program()[1])[0] in (400, 404)


def test_page_of_another_origin_asks_nothing(gateway: Gateway) -> None:
    _, bearer = gateway.program()
    assert asked(gateway, PLACE, {**bearer, "Origin": "https://evil.test"})[0] == 403
    assert asked(gateway, PLACE, {**bearer, "Origin": gateway.origin})[0] == 200


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_desktop_sends_no_program_elsewhere(gateway: Gateway, status: int) -> None:
    _, bearer = gateway.program()
    gateway.desktops.answer = (
        f"HTTP/1.1 {status} X\r\nLocation: https://evil.test/\r\nContent-Length: 0\r\n\r\n".encode()
    )
    try:
        found, headers, _ = asked(gateway, PLACE, bearer)
    finally:
        gateway.desktops.answer = None
    assert found == 502
    assert "location" not in headers


def test_revoked_program_loses_its_socket_and_is_refused(gateway: Gateway) -> None:
    id, bearer = gateway.program()
    opened = gateway.upgrade("/d/d1/computer/v1/events", Origin=None, **bearer)
    assert opened.status == 101
    opened.read_until(b"|")
    gateway.revoke(id)
    assert opened.closes()
    assert asked(gateway, PLACE, bearer)[0] == 401


def test_program_renews_its_token(gateway: Gateway) -> None:
    _, bearer = gateway.program()
    status, _, text = asked(gateway, "/d/d1/renew", {**bearer, "Origin": gateway.origin}, "POST", "{}")
    renewed = json.loads(text)
    assert status == 200
    assert renewed["mode"] == "agent"
    assert asked(gateway, PLACE, {"Authorization": f"Bearer {renewed['token']}"})[0] == 200


def test_grant_of_a_person_has_no_route_for_programs(gateway: Gateway) -> None:
    assert gateway.grant()["routes"] == ["desktop", "terminal"]
    assert gateway.grant(mode="agent")["routes"] == ["computer"]


@pytest.mark.parametrize(
    ("asking", "field"),
    [
        ({"mode": "drive", "routes": ["computer"]}, "routes"),
        ({"mode": "agent", "routes": ["terminal"]}, "routes"),
        ({"mode": "drive", "scopes": ["see"]}, "scopes"),
        ({"mode": "agent", "scopes": ["everything"]}, "scopes"),
        ({"mode": "agent", "scopes": []}, "scopes"),
    ],
)
def test_grant_that_makes_no_sense_is_refused(gateway: Gateway, asking: dict[str, Any], field: str) -> None:
    with pytest.raises(GatewayError) as caught:
        gateway.grant(**asking)
    assert caught.value.field == field


def test_audit_names_the_scopes_of_a_program(gateway: Gateway) -> None:
    id, _ = gateway.program(scopes=["see", "act"])
    events = [event for event in gateway.audit() if event.get("session") == id]
    assert {event["event"] for event in events} == {"grant", "redeem"}
    assert all(event["scopes"] == ["act", "see"] for event in events)


def test_sdk_redeems_and_renews_and_hears_that_it_was_revoked(
    gateway: Gateway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    find = socket.getaddrinfo

    def here(host: Any, *rest: Any, **named: Any) -> Any:
        return find("127.0.0.1" if host in (HOSTNAME, HOSTNAME.encode()) else host, *rest, **named)

    monkeypatch.setattr(socket, "getaddrinfo", here)
    monkeypatch.setattr("deskyard_sdk.door.AGAIN_SECONDS", 0.05)
    monkeypatch.setattr("deskyard_sdk.door.LEFT", 0.0)
    authority = tmp_path / "ca.pem"
    authority.write_text(gateway.issuer.pem)
    granted = gateway.grant("d1", mode="agent", scopes=["see"])
    with Desktop.connect(granted["url"], ca=str(authority)) as desktop:
        assert desktop.facts["scopes"] == ["see"]

        def renewed() -> list[Any]:
            return [e for e in gateway.audit() if (e["event"], e.get("session")) == ("renew", granted["id"])]

        wait_for("a renewal", renewed)
        gateway.revoke(granted["id"])
        with pytest.raises(DesktopError) as refused:
            desktop.screen()
    assert refused.value.status == 401
