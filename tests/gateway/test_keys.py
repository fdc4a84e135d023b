"""Keys change while sessions go on; sessions live while they are used."""

import json
import time

import pytest

from deskyard.errors import GatewayError
from deskyard.gateway.config import keys
from deskyard.gateway.session import signing
from tests.gateway.conftest import run_gateway
from tests.gateway.support import Checks, Gateway, wait_for


def kid_of(cookie: str) -> str:
    import jwt

    return str(jwt.get_unverified_header(cookie.partition("=")[2])["kid"])


def renew(gateway: Gateway, cookie: str, **headers: str) -> tuple[int, str]:
    """Status, and the new cookie."""
    given = {"Cookie": cookie, "Origin": gateway.origin, **headers}
    answer, _ = gateway.request("POST", "/d/d1/renew", "{}", given)
    return answer.status, (answer.getheader("Set-Cookie") or "").partition(";")[0]


def test_rotation_ends_no_session_and_the_old_key_leaves_with_its_last_cookie() -> None:
    with run_gateway(Gateway(changes={"lease_seconds": 20})) as gateway:
        _, cookie = gateway.session("d1")
        opened = gateway.upgrade(cookie=cookie)
        opened.read_until(b"|")
        done = keys.rotate(gateway.layout, gateway.system(), at_once=False, actor="alice")
        assert (done["signs"], done["accepted"]) == ("k2", ["k1", "k2"])
        assert not (gateway.layout.signing_keys / "k1.key").exists()
        assert opened.echo("still here") == "still here"
        assert gateway.upgrade(cookie=cookie).status == 101
        _, fresh = gateway.session("d1")
        assert (kid_of(cookie), kid_of(fresh)) == ("k1", "k2")
        status, renewed = renew(gateway, cookie)
        assert (status, kid_of(renewed)) == (200, "k2")
        assert keys.retire(gateway.layout, gateway.system())["dropped"] == []
        retired = gateway.layout.signing_keys / "retired.json"
        assert json.loads(retired.read_text())["k1"] > time.time() + 20
        retired.write_text(json.dumps({"k1": time.time() - 1}))
        assert keys.retire(gateway.layout, gateway.system()) == {
            "dropped": ["k1"],
            "accepted": ["k2"],
        }
        assert gateway.upgrade(cookie=cookie).status == 401
        assert gateway.upgrade(cookie=renewed).status == 101
        assert opened.echo("still here") == "still here"
        assert [line["key"] for line in gateway.audit() if line["event"] == "keys"] == ["k2"]


def test_key_that_was_lost_is_void_at_once(own_gateway: Gateway) -> None:
    gateway = own_gateway
    _, cookie = gateway.session("d1")
    opened = gateway.upgrade(cookie=cookie)
    opened.read_until(b"|")
    keys.rotate(gateway.layout, gateway.system(), at_once=True, actor="alice")
    assert gateway.upgrade(cookie=cookie).status == 401
    assert renew(gateway, cookie)[0] == 401
    _, fresh = gateway.session("d1")
    assert gateway.upgrade(cookie=fresh).status == 101
    assert opened.echo("still here") == "still here"


def test_key_that_haproxy_refuses_changes_nothing(own_gateway: Gateway) -> None:
    gateway = own_gateway
    before = gateway.layout.proxy_file.read_text()
    for failing in ("haproxy -c", "reload-or-restart"):
        with pytest.raises(GatewayError):
            keys.rotate(gateway.layout, Checks(failing=failing), at_once=False, actor="alice")
        assert gateway.layout.proxy_file.read_text() == before
        assert signing.active(gateway.layout.signing_keys) == "k1"
        assert signing.kids(gateway.layout.signing_keys) == ["k1"]
    assert gateway.upgrade(cookie=gateway.session("d1")[1]).status == 101


def test_session_lives_while_it_is_renewed_and_lapses_when_it_is_not() -> None:
    with run_gateway(Gateway(changes={"lease_seconds": 6})) as gateway:
        used_id, used = gateway.session("d1")
        idle_id, idle = gateway.session("d1")
        kept, dropped = gateway.upgrade(cookie=used), gateway.upgrade(cookie=idle)
        for opened in (kept, dropped):
            opened.read_until(b"|")
        first = used
        end = time.monotonic() + 9
        while time.monotonic() < end:
            status, used = renew(gateway, used)
            assert status == 200
            time.sleep(0.5)
        assert kept.echo("still here") == "still here"
        assert dropped.closes()
        assert gateway.upgrade(cookie=idle).status == 401
        # A cookie that was stolen earlier does not become good again by the renewals of its owner.
        assert gateway.upgrade(cookie=first).status == 401
        assert renew(gateway, first)[0] == 401
        assert gateway.upgrade(cookie=used).status == 101
        assert {session["id"]: session["state"] for session in gateway.listing()} == {
            used_id: "active",
            idle_id: "idle",
        }
        answer, data = gateway.request("GET", "/d/d1/session", headers={"Cookie": idle})
        assert (answer.status, json.loads(data)["error"]) == (401, "idle")
        ended = [
            line["session"] for line in gateway.audit() if (line["event"], line.get("reason")) == ("expire", "idle")
        ]
        assert ended == [idle_id]


def test_renewal_ends_with_the_grant_and_needs_our_own_page(gateway: Gateway) -> None:
    id, cookie = gateway.session("d1", ttl=600)
    answer, data = gateway.request("POST", "/d/d1/renew", "{}", {"Cookie": cookie, "Origin": gateway.origin})
    facts = json.loads(data)
    assert facts["renew_before"] <= facts["expires"]
    assert {"HttpOnly", "Secure", "SameSite=strict"} <= set((answer.getheader("Set-Cookie") or "").split("; "))
    for origin in ("https://evil.test", "null"):
        assert renew(gateway, cookie, Origin=origin)[0] == 403
    assert gateway.request("POST", "/d/d1/renew", "{}", {"Cookie": cookie})[0].status == 403
    assert gateway.request("GET", "/d/d1/renew", headers={"Cookie": cookie, "Origin": gateway.origin})[0].status == 405
    assert renew(gateway, "")[0] == 401
    gateway.revoke(id)
    assert renew(gateway, cookie)[0] == 401
    wait_for("the audit", lambda: any(line["event"] == "renew" and line["session"] == id for line in gateway.audit()))
