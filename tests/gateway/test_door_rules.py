"""Rules of the door that stand behind another one, each seen alone."""

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from deskyard.gateway.config import keys
from deskyard.gateway.session import signing
from tests.gateway.support import Gateway, wait_for
from tests.gateway.test_door import claims, signed


def test_while_two_keys_are_good_neither_vouches_for_a_stranger_or_for_the_other(own_gateway: Gateway) -> None:
    gateway = own_gateway
    old = signing.newest(gateway.layout.signing_keys)[1]
    _, cookie = gateway.session("d1")
    keys.rotate(gateway.layout, gateway.system(), at_once=False, actor="alice")
    new = signing.newest(gateway.layout.signing_keys)[1]
    assert gateway.upgrade(cookie=cookie).status == 101
    assert gateway.upgrade(cookie=gateway.session("d1")[1]).status == 101
    stranger = ec.generate_private_key(ec.SECP256R1())
    for key, kid in ((stranger, "k1"), (stranger, "k2"), (old, "k2"), (new, "k1"), (old, "k3"), (new, "k3")):
        token = jwt.encode(claims(gateway), key, algorithm="ES256", headers={"kid": kid})
        assert gateway.upgrade(cookie=f"__Host-deskyard-d1={token}").status == 401, kid


@pytest.mark.parametrize("path", ["/odd;canary/x", "/canary%20x", "/" + "canary" * 50, "/x/canary~"])
def test_path_of_an_unknown_shape_is_not_written_down(gateway: Gateway, path: str) -> None:
    log = gateway.root / "haproxy.log"
    before = len(log.read_text())
    assert gateway.request("GET", path)[0].status == 404
    # It is written once the answer is out.
    written = wait_for("a line of the log", lambda: log.read_text()[before:])
    assert "path=BAD" in written
    assert "canary" not in written


def test_asset_that_is_called_like_an_action_is_an_asset(gateway: Gateway) -> None:
    for path in ("/assets/redeem", "/assets/renew", "/assets/vnc"):
        assert gateway.request("GET", path)[0].status == 404


@pytest.mark.parametrize("version", ["8", "12", "14", "", None])
def test_websocket_of_another_version_is_refused(gateway: Gateway, version: str | None) -> None:
    _, cookie = gateway.session("d1")
    assert gateway.upgrade(cookie=cookie, Sec_WebSocket_Version=version).status == 400


def test_second_upgrade_header_is_refused(gateway: Gateway) -> None:
    _, cookie = gateway.session("d1")
    lines = [
        "GET /d/d1/vnc HTTP/1.1",
        f"Host: {gateway.authority}",
        *("Upgrade: websocket", "Upgrade: websocket", "Connection: Upgrade"),
        *("Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA=="),
        *(f"Origin: {gateway.origin}", f"Cookie: {cookie}"),
    ]
    assert gateway.raw("\r\n".join([*lines, "", ""])).status in (400, 426)


@pytest.mark.parametrize("length", [0, 10, 59, 3001])
def test_token_of_a_senseless_length_is_refused_whatever_it_says(gateway: Gateway, length: int) -> None:
    token = signed(gateway, pad="x" * 3000) if length > 3000 else "__Host-deskyard-d1=" + "e" * length
    assert gateway.upgrade(cookie=token).status == 401


@pytest.mark.parametrize("header", ["Forwarded", "X-Forwarded-Host", "X-Forwarded-Proto"])
def test_desktop_is_told_nothing_of_how_it_was_reached(gateway: Gateway, header: str) -> None:
    _, cookie = gateway.session("d1")
    assert gateway.upgrade(cookie=cookie, **{header: "canary"}).status == 101
    assert "canary" not in gateway.desktops.requests[-1]


def test_page_is_alone_in_its_window_and_in_no_frame(gateway: Gateway) -> None:
    for path in ("/", "/d/d1/", "/nothing"):
        answer, _ = gateway.request("GET", path)
        found = {name.lower(): value for name, value in answer.getheaders()}
        assert found["x-frame-options"] == "DENY"
        assert found["cross-origin-opener-policy"] == "same-origin"
        assert found["cross-origin-resource-policy"] == "same-origin"


def test_log_names_the_check_that_refused(gateway: Gateway) -> None:
    log = gateway.root / "haproxy.log"
    id, cookie = gateway.session("d1")
    seen: dict[str, str] = {}

    def ask(check: str, path: str = "/d/d1/vnc", cookie: str | None = cookie, **headers: str | None) -> None:
        before = len(log.read_text())
        gateway.upgrade(path, cookie, **headers)
        wait_for("the log", lambda: "check=" in log.read_text()[before:])
        seen[check] = log.read_text()[before:].partition("check=")[2].split()[0]

    ask("request", "/d/d1/nothing")
    ask("origin", Origin="https://evil.test")
    ask("upgrade", Upgrade="h2c")
    ask("cookie", cookie=None)
    ask("claims", cookie=signed(gateway, iss="somebody"))
    ask("scope", cookie=signed(gateway, workspace="other"))
    gateway.revoke(id)
    ask("revoked")
    assert seen == {check: check for check in seen}
