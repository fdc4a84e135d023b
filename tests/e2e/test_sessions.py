"""The door: nobody comes in without a valid session, and a valid one opens what it names and no more."""

import json
import ssl
import time

import pytest
from websockets.exceptions import ConnectionClosed

from tests.e2e.conftest import door_of
from tests.support.door import Door
from tests.support.workspaces import Running

pytestmark = [pytest.mark.vm, pytest.mark.sampled(keeps=0)]


def test_an_upgrade_without_a_cookie_gets_401(door: Door) -> None:
    assert door.refusal("/d/desk/vnc") == 401
    assert door.refusal("/d/desk/terminal") == 401


def test_a_session_opens_the_desktop_it_names(ours: Running, door: Door) -> None:
    _, cookie = door.redeem(ours.grant()["url"])
    with door.upgrade("/d/desk/vnc", cookie, subprotocols=["binary"]) as socket:
        banner = socket.recv(timeout=60)
    assert bytes(banner if isinstance(banner, bytes) else banner.encode()).startswith(b"RFB 003.")


def test_a_session_opens_only_the_routes_it_was_granted(ours: Running, door: Door) -> None:
    _, cookie = door.redeem(ours.grant("desk", "--routes", "terminal")["url"])
    assert door.refusal("/d/desk/vnc", cookie) == 403
    assert door.refusal("/d/desk/terminal", cookie) == 101


def test_a_session_of_one_workspace_does_not_open_another(ours: Running, other: Running, door: Door) -> None:
    _, cookie = door.redeem(ours.grant()["url"])
    assert door_of(other).refusal("/d/desk/vnc", cookie) == 401


def test_a_ticket_works_once(ours: Running, door: Door) -> None:
    link = ours.grant()["url"]
    assert door.redeem(link)[0] in (200, 204)
    status, cookie = door.redeem(link)
    assert status in (401, 403, 409, 410)
    assert cookie == ""


def test_a_session_cookie_is_out_of_reach_of_scripts_and_other_sites(ours: Running, door: Door) -> None:
    link = ours.grant()["url"]
    body = json.dumps({"ticket": link.split("#")[1]})
    _, names, _ = door.request("POST", "/redeem", body, {"Origin": door.url, "Content-Type": "application/json"})
    attributes = {part.strip().lower() for part in names["set-cookie"].split(";")[1:]}
    assert {"httponly", "secure", "samesite=strict", "path=/"} <= attributes
    assert not any(part.startswith("domain=") for part in attributes)


def test_an_upgrade_from_a_foreign_page_is_refused(ours: Running, door: Door) -> None:
    _, cookie = door.redeem(ours.grant()["url"])
    assert door.refusal("/d/desk/vnc", cookie, origin="https://evil.example") == 403


def test_an_expired_session_is_refused(ours: Running, door: Door) -> None:
    _, cookie = door.redeem(ours.grant("desk", "--ttl", "60s")["url"])
    assert door.refusal("/d/desk/vnc", cookie) == 101
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and door.refusal("/d/desk/vnc", cookie) == 101:
        time.sleep(2)
    assert door.refusal("/d/desk/vnc", cookie) == 401


def test_revoking_a_session_closes_its_socket_and_refuses_the_next(ours: Running, door: Door) -> None:
    granted = ours.grant()
    _, cookie = door.redeem(granted["url"])
    listed = json.loads(ours.inv("access.list", ours.name, "--json").stdout)
    session = next(entry["id"] for entry in listed if entry["id"] == granted["id"])
    with door.upgrade("/d/desk/vnc", cookie, subprotocols=["binary"]) as socket:
        socket.recv(timeout=60)
        ours.inv("access.revoke", ours.name, "--session", session)
        with pytest.raises(ConnectionClosed):
            socket.recv(timeout=60)
    assert door.refusal("/d/desk/vnc", cookie) == 401


def test_the_list_says_who_does_what_from_where(ours: Running, door: Door) -> None:
    granted = ours.grant("desk", "--mode", "view")
    _, cookie = door.redeem(granted["url"])
    with door.upgrade("/d/desk/vnc", cookie, subprotocols=["binary"]) as socket:
        socket.recv(timeout=60)
        listed = json.loads(ours.inv("access.list", ours.name, "--json").stdout)
        mine = next(entry for entry in listed if entry["id"] == granted["id"])
    assert (mine["does"], mine["streams"], mine["state"]) == ("watches", 1, "active")
    assert mine["from"] == [mine["address"]]
    assert mine["idle"] >= 0


def test_keys_rotate_under_an_open_session(ours: Running, door: Door) -> None:
    _, cookie = door.redeem(ours.grant("desk", "--mode", "view")["url"])
    with door.upgrade("/d/desk/vnc", cookie, subprotocols=["binary"]) as socket:
        socket.recv(timeout=60)
        done = json.loads(ours.inv("access.rotate-keys", ours.name, "--json").stdout)
        assert done["signs"] != done["accepted"][0]
        assert door.refusal("/d/desk/vnc", cookie) == 101
        socket.ping().wait(60)


def test_the_audit_is_whole_and_names_what_was_done(ours: Running, door: Door) -> None:
    granted = ours.grant()
    door.redeem(granted["url"])
    door.redeem(granted["url"])
    ours.inv("access.revoke", ours.name, "--session", granted["id"])
    events = json.loads(ours.inv("access.audit", ours.name, "--json").stdout)
    mine = [event["event"] for event in events if event.get("session") == granted["id"]]
    assert mine == ["grant", "redeem", "refuse", "revoke"]
    assert json.loads(ours.inv("access.audit", ours.name, "--verify", "--json").stdout)["ok"]


def test_the_certificate_is_the_sites(door: Door) -> None:
    with door.tls().wrap_socket(door.wire(), server_hostname="e2e-a.localhost") as wire:
        assert wire.version() in ("TLSv1.2", "TLSv1.3")
    with pytest.raises(ssl.SSLCertVerificationError):
        ssl.create_default_context().wrap_socket(door.wire(), server_hostname="e2e-a.localhost")
