"""What the door lets in and what it refuses, before any upgrade."""

import base64
import hashlib
import hmac
import json
import time
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from deskyard.gateway.session import signing
from tests.gateway.support import Gateway


def claims(gateway: Gateway, **changes: Any) -> dict[str, Any]:
    now = int(time.time())
    good: dict[str, Any] = {
        "iss": "deskyard-sessions",
        "aud": "deskyard-gateway",
        "jti": "A" * 24,
        "workspace": "demo",
        "desktop": "d1",
        "routes": "desktop terminal",
        "mode": "drive",
        "iat": now,
        "nbf": now,
        "exp": now + 600,
        **changes,
    }
    return {name: value for name, value in good.items() if value is not None}


def signed(gateway: Gateway, kid: str = "k1", **changes: Any) -> str:
    key = signing.newest(gateway.layout.signing_keys)[1]
    token = jwt.encode(claims(gateway, **changes), key, algorithm="ES256", headers={"kid": kid})
    return f"__Host-deskyard-d1={token}"


def assembled(header: dict[str, Any], body: dict[str, Any], signature: bytes) -> str:
    def part(data: bytes) -> str:
        return base64.urlsafe_b64encode(data).rstrip(b"=").decode()

    token = f"{part(json.dumps(header).encode())}.{part(json.dumps(body).encode())}"
    return f"__Host-deskyard-d1={token}.{part(signature)}"


def test_good_session_reaches_its_own_desktop_and_bytes_flow(gateway: Gateway) -> None:
    _, cookie = gateway.session("d1")
    opened = gateway.upgrade("/d/d1/vnc", cookie)
    assert opened.status == 101
    assert opened.read_until(b"|").decode() == f"127.0.1.10:{gateway.ports['desktop']}"
    assert opened.echo("ping") == "ping"


def test_terminal_route_reaches_the_terminal_port_at_its_path(gateway: Gateway) -> None:
    _, cookie = gateway.session("d2")
    opened = gateway.upgrade("/d/d2/terminal", cookie)
    assert opened.status == 101
    assert opened.read_until(b"|").decode() == f"127.0.1.11:{gateway.ports['terminal']}"
    assert gateway.desktops.requests[-1].startswith("GET /ws HTTP/1.1")


def test_desktop_sees_neither_cookie_nor_forged_headers(gateway: Gateway) -> None:
    _, cookie = gateway.session("d1")
    opened = gateway.upgrade("/d/d1/vnc", cookie, X_Forwarded_For="1.2.3.4", Authorization="Bearer x")
    assert opened.status == 101
    seen = gateway.desktops.requests[-1].lower()
    assert "cookie" not in seen
    assert "eyj" not in seen
    assert "x-forwarded" not in seen
    assert "authorization" not in seen


@pytest.mark.parametrize("path", ["/d/d1/vnc", "/d/d1/terminal"])
def test_no_header_that_only_the_door_sets_comes_from_a_client(gateway: Gateway, path: str) -> None:
    _, cookie = gateway.session("d1")
    assert gateway.upgrade(path, cookie, X_Deskyard_Session="forged", X_Deskyard_Other="forged").status == 101
    assert "forged" not in gateway.desktops.requests[-1]


def test_upgrade_passes_nothing_a_browser_would_keep(gateway: Gateway) -> None:
    _, cookie = gateway.session("d1")
    head = gateway.upgrade("/d/d1/vnc", cookie).head.lower()
    assert "sec-websocket-accept" in head
    assert "planted" not in head


def test_page_of_a_hostile_desktop_is_not_shown(gateway: Gateway) -> None:
    _, cookie = gateway.session("d1")
    gateway.desktops.answer = (
        b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 9\r\nConnection: close\r\n\r\n<b>hi</b>"
    )
    try:
        opened = gateway.upgrade("/d/d1/vnc", cookie)
    finally:
        gateway.desktops.answer = None
    assert opened.status == 502
    assert b"<b>" not in opened.rest


@pytest.mark.parametrize("path", ["/d/d1/vnc", "/d/d1/terminal"])
def test_without_cookie_there_is_no_upgrade(gateway: Gateway, path: str) -> None:
    assert gateway.upgrade(path).status == 401


@pytest.mark.parametrize(
    "changes",
    [
        {"exp": 1},
        {"exp": None},
        {"exp": int(time.time()) + 30 * 24 * 3600},
        {"exp": [int(time.time()) + 600]},
        {"exp": 2**64 + 5},
        {"nbf": int(time.time()) + 24 * 3600},
        {"nbf": None},
        {"iss": "somebody"},
        {"aud": "something"},
        {"aud": ["deskyard-gateway"]},
        {"jti": None},
        {"jti": "short"},
        {"jti": "A" * 16 + "\n"},
        {"jti": "../" * 8},
    ],
    # Names without the values: times differ between the processes of a parallel run.
    ids=lambda changes: "-".join(changes),
)
def test_signed_token_with_bad_claims_is_refused_with_401(gateway: Gateway, changes: dict[str, Any]) -> None:
    assert gateway.upgrade(cookie=signed(gateway, **changes)).status == 401


@pytest.mark.parametrize(
    "changes",
    [
        {"desktop": "d2"},
        {"desktop": "d1\0"},
        {"desktop": None},
        {"workspace": "other"},
        {"workspace": None},
        {"routes": "terminal"},
        {"routes": ""},
        {"routes": None},
        {"routes": "desktops"},
        {"mode": "root"},
        {"mode": None},
    ],
    ids=lambda changes: "-".join(f"{name}_{value!r}" for name, value in changes.items()),
)
def test_signed_token_for_something_else_is_refused_with_403(gateway: Gateway, changes: dict[str, Any]) -> None:
    assert gateway.upgrade(cookie=signed(gateway, **changes)).status == 403


def test_signed_token_of_an_unknown_session_reaches_no_desktop_at_all(gateway: Gateway) -> None:
    _, cookie = gateway.session("d1")
    assert gateway.upgrade(cookie=cookie).status == 101
    before = len(gateway.desktops.requests)
    assert gateway.upgrade(cookie=signed(gateway)).status == 503
    assert len(gateway.desktops.requests) == before


@pytest.mark.parametrize("name", ["none", "None", "NONE", "HS256", "RS256", "ES384", ""])
@pytest.mark.parametrize("signature", ["empty", "zero", "hmac"])
def test_token_of_another_algorithm_is_refused(gateway: Gateway, name: str, signature: str) -> None:
    public = (gateway.layout.signing_keys / "k1.pub").read_bytes()
    signatures = {"empty": b"", "zero": b"\0" * 64, "hmac": hmac.new(public, b"x", hashlib.sha256).digest()}
    header = {"alg": name, "typ": "JWT", "kid": "k1"}
    assert gateway.upgrade(cookie=assembled(header, claims(gateway), signatures[signature])).status == 401


def test_token_keyed_with_the_public_key_is_refused(gateway: Gateway) -> None:
    path = gateway.layout.signing_keys / "k1.pub"
    for secret in (path.read_bytes(), str(path).encode()):
        header = {"alg": "HS256", "typ": "JWT", "kid": "k1"}
        unsigned = assembled(header, claims(gateway), b"").removeprefix("__Host-deskyard-d1=").rstrip(".")
        signature = hmac.new(secret, unsigned.encode(), hashlib.sha256).digest()
        assert gateway.upgrade(cookie=assembled(header, claims(gateway), signature)).status == 401


def test_token_of_another_key_is_refused(gateway: Gateway) -> None:
    other = ec.generate_private_key(ec.SECP256R1())
    for kid in ("k1", "k2", ""):
        token = jwt.encode(claims(gateway), other, algorithm="ES256", headers={"kid": kid})
        assert gateway.upgrade(cookie=f"__Host-deskyard-d1={token}").status == 401


def test_two_cookies_of_one_name_are_refused(gateway: Gateway) -> None:
    _, cookie = gateway.session("d1")
    assert gateway.upgrade(cookie=f"{cookie}; {cookie}").status == 401


def test_session_of_one_desktop_does_not_open_another(gateway: Gateway) -> None:
    _, cookie = gateway.session("d1")
    assert gateway.upgrade("/d/d2/vnc", cookie).status == 401
    renamed = cookie.replace("__Host-deskyard-d1=", "__Host-deskyard-d2=")
    assert gateway.upgrade("/d/d2/vnc", renamed).status == 403


def test_session_for_one_route_does_not_open_another(gateway: Gateway) -> None:
    _, cookie = gateway.session("d1", routes=["desktop"])
    assert gateway.upgrade("/d/d1/vnc", cookie).status == 101
    assert gateway.upgrade("/d/d1/terminal", cookie).status == 403


def test_view_session_has_no_terminal_even_if_its_token_says_so(gateway: Gateway) -> None:
    _, cookie = gateway.session("d1", mode="view")
    assert gateway.upgrade("/d/d1/vnc", cookie).status == 101
    assert gateway.upgrade("/d/d1/terminal", cookie).status == 403
    assert gateway.upgrade("/d/d1/terminal", signed(gateway, mode="view")).status == 403


@pytest.mark.parametrize(
    "origin",
    [
        None,
        "null",
        "https://evil.test",
        "http://{authority}",
        "https://demo.desk.test",
        "https://{authority}.evil.test",
        "https://x.{authority}",
    ],
)
def test_foreign_page_is_refused_with_403(gateway: Gateway, origin: str | None) -> None:
    _, cookie = gateway.session("d1")
    given = origin.format(authority=gateway.authority) if origin else None
    assert gateway.upgrade(cookie=cookie, Origin=given).status == 403


def test_two_origins_are_refused(gateway: Gateway) -> None:
    _, cookie = gateway.session("d1")
    assert gateway.upgrade(cookie=cookie, Origin=f"{gateway.origin}, https://evil.test").status == 400


@pytest.mark.parametrize("host", ["demo.desk.test", "evil.test", "127.0.0.1", "demo.desk.test:1"])
def test_other_host_is_refused_with_421(gateway: Gateway, host: str) -> None:
    _, cookie = gateway.session("d1")
    assert gateway.upgrade(cookie=cookie, Host=host).status == 421


def test_missing_or_second_host_is_refused(gateway: Gateway) -> None:
    assert gateway.raw("GET / HTTP/1.1\r\n\r\n").status == 400
    second = f"GET / HTTP/1.1\r\nHost: {gateway.authority}\r\nHost: evil.test\r\n\r\n"
    assert gateway.raw(second).status == 400


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/d/d1/vnc/", 404),
        ("/d/d1/VNC", 404),
        ("//d/d1/vnc", 404),
        ("/d/d1/../d2/vnc", 404),
        ("/d/d1%2f..%2fd2/vnc", 404),
        ("/d/d1/%76nc", 404),
        ("/d/d1/token", 404),
        ("/d/d1/vnc;x", 404),
        ("/d/d1/vnc/abcDEF012_-", 404),
        ("/d/d1/vnc/abcDEF012_-9x", 404),
        ("/d/d1/vnc/abcDEF012_-9/x", 404),
        ("/d/d1/vnc/abcDEF012.-9", 404),
        ("/d/d1/terminal/abcDEF012_-9", 404),
        ("/d/d1/vnc/abcDEF012_-9?x=1", 400),
        ("/metrics", 404),
        ("/assets/../settings.json", 404),
        ("/assets/.hidden", 404),
        ("/d/d1/vnc?x=1", 400),
        ("/?ticket=abc", 400),
    ],
)
def test_paths_outside_the_list_are_refused(gateway: Gateway, path: str, status: int) -> None:
    _, cookie = gateway.session("d1")
    assert gateway.upgrade(path, cookie).status == status


def test_socket_path_without_upgrade_answers_426(gateway: Gateway) -> None:
    _, cookie = gateway.session("d1")
    assert gateway.upgrade(cookie=cookie, Upgrade=None, Connection=None).status == 426
    assert gateway.upgrade(cookie=cookie, Upgrade="h2c").status == 426


def test_page_with_an_upgrade_is_refused(gateway: Gateway) -> None:
    assert gateway.upgrade("/healthz").status == 400


@pytest.mark.parametrize(("method", "path"), [("POST", "/"), ("GET", "/redeem"), ("DELETE", "/d/d1/"), ("TRACE", "/")])
def test_other_methods_are_refused(gateway: Gateway, method: str, path: str) -> None:
    answer, _ = gateway.request(method, path, headers={"Origin": gateway.origin})
    assert answer.status == 405


def test_pages_carry_a_strict_policy(gateway: Gateway) -> None:
    for path in ("/", "/d/d1/", "/assets/viewer.js", "/d/d1/vnc"):
        answer, _ = gateway.request("GET", path)
        policy = answer.getheader("Content-Security-Policy") or ""
        assert "default-src 'none'; script-src 'self';" in policy
        assert "frame-ancestors 'none'" in policy
        assert answer.getheader("Referrer-Policy") == "no-referrer"
        assert answer.getheader("X-Content-Type-Options") == "nosniff"


def test_log_holds_no_ticket_cookie_or_query(gateway: Gateway) -> None:
    granted = gateway.grant("d1")
    _, _, cookie = gateway.redeem(granted["ticket"])
    gateway.upgrade(cookie=cookie)
    gateway.upgrade(f"/d/d1/vnc?secret={granted['ticket']}", cookie)
    gateway.request("GET", f"/{granted['ticket']}")
    log = (gateway.root / "haproxy.log").read_text()
    assert "path=/d/d1/vnc" in log
    assert "eyJ" not in log
    assert "secret=" not in log
    assert granted["ticket"] not in (gateway.root / "service.log").read_text()
    assert granted["ticket"] not in gateway.layout.audit_file.read_text()
    assert granted["ticket"].encode() not in gateway.layout.database.read_bytes()
