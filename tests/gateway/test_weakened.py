"""The tests of the door see a weaker door: each guard taken away lets something in that must stay out."""

import sqlite3
from collections.abc import Callable

import pytest

from deskyard.gateway.config import render
from tests.gateway import test_attacks, test_door
from tests.gateway.conftest import run_gateway
from tests.gateway.support import Gateway
from tests.gateway.test_door import assembled, claims, signed
from tests.gateway.test_errors import DODGES, redeem_from


def without(*words: str) -> Callable[[str], str]:
    """Take the rules that hold one of these words out of HAProxy's configuration."""

    def weaken(text: str) -> str:
        kept = [line for line in text.splitlines() if not any(word in line for word in words)]
        assert len(kept) < len(text.splitlines()), f"no rule holds {words}"
        return "\n".join(kept) + "\n"

    return weaken


def changed(*pairs: tuple[str, str]) -> Callable[[str], str]:
    """Put other words in place of some of a configuration."""

    def weaken(text: str) -> str:
        for good, weak in pairs:
            assert good in text, f"nothing says {good}"
            text = text.replace(good, weak)
        return text

    return weaken


def forged(gateway: Gateway) -> int:
    header = {"alg": "none", "typ": "JWT", "kid": "k1"}
    return gateway.upgrade(cookie=assembled(header, claims(gateway), b"")).status


def expired(gateway: Gateway) -> int:
    return gateway.upgrade(cookie=signed(gateway, exp=1)).status


def foreign_page(gateway: Gateway) -> int:
    _, cookie = gateway.session("d1")
    return gateway.upgrade(cookie=cookie, Origin="https://evil.test").status


def other_route(gateway: Gateway) -> int:
    _, cookie = gateway.session("d1", routes=["desktop"])
    return gateway.upgrade("/d/d1/terminal", cookie).status


def other_host(gateway: Gateway) -> int:
    _, cookie = gateway.session("d1")
    return gateway.upgrade(cookie=cookie, Host="evil.test").status


def foreign_renewal(gateway: Gateway) -> int:
    _, cookie = gateway.session("d1")
    return gateway.request("POST", "/d/d1/renew", "{}", {"Cookie": cookie})[0].status


def other_workspace(gateway: Gateway) -> int:
    return gateway.upgrade(cookie=signed(gateway, workspace="other")).status


@pytest.mark.parametrize(
    ("words", "attack", "refused"),
    [
        (("unless kid_", "-m str ES256"), forged, 401),
        (("var(txn.exp),sub",), expired, 401),
        (("!own_origin",), foreign_page, 403),
        (("!{ var(txn.routes)",), other_route, 403),
        (("jwt_payload_query('$.workspace')",), other_workspace, 403),
        (("status 421",), other_host, 421),
        (("is_change !own_origin",), foreign_renewal, 403),
    ],
    ids=["signature", "expiry", "origin", "route", "workspace", "host", "change"],
)
def test_guard_that_is_taken_away_is_missed(
    gateway: Gateway, words: tuple[str, ...], attack: Callable[[Gateway], int], refused: int
) -> None:
    assert attack(gateway) == refused
    with run_gateway(Gateway(weaken=without(*words))) as weak:
        assert attack(weak) != refused


def test_server_with_weight_would_let_a_stranger_in(gateway: Gateway) -> None:
    _, cookie = gateway.session("d1")
    assert gateway.upgrade("/d/d1/terminal", cookie).status == 101
    id = next(session["id"] for session in gateway.listing() if session["state"] == "active")
    assert gateway.upgrade("/d/d1/terminal", signed(gateway)).status == 503
    worker = gateway.workers()[-1]
    gateway.ask_master(f"@!{worker} set weight be_d1_terminal/{id} 1")
    try:
        assert gateway.upgrade("/d/d1/terminal", signed(gateway)).status == 101
    finally:
        gateway.ask_master(f"@!{worker} set weight be_d1_terminal/{id} 0")


def test_34_ticket_that_is_not_marked_as_used_opens_twice(own_gateway: Gateway) -> None:
    def second() -> int:
        ticket = own_gateway.grant("d1")["ticket"]
        assert own_gateway.redeem(ticket)[0] == 200
        return own_gateway.redeem(ticket)[0]

    assert second() == 410
    forget = "create trigger forget after update of redeemed on sessions begin update sessions set redeemed = null; end"
    with sqlite3.connect(own_gateway.layout.database) as database:
        database.execute(forget)
    assert second() == 200


def test_36_log_of_whole_requests_is_noticed() -> None:
    weaken = changed(("path=%[var(txn.logpath)]", "path=%HU"))
    with run_gateway(Gateway(weaken=weaken)) as weak, pytest.raises(AssertionError):
        test_door.test_log_holds_no_ticket_cookie_or_query(weak)


def test_36_page_that_tells_where_it_was_opened_is_noticed() -> None:
    with run_gateway(Gateway(weaken=without("Referrer-Policy"))) as weak, pytest.raises(AssertionError):
        test_door.test_pages_carry_a_strict_policy(weak)


def test_39_door_that_upgrades_to_anything_is_noticed() -> None:
    weaken = without("status 426", "sec-websocket-version", "req.hdr_cnt(upgrade) gt 0")
    with run_gateway(Gateway(weaken=weaken)) as weak, pytest.raises(AssertionError):
        test_attacks.test_other_protocols_are_not_upgraded_to(weak, "h2c")


def test_39_door_that_passes_on_what_desktops_answer_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    good = render.backends
    weaken = without("unless { status 101 }", "http-response del-header")
    monkeypatch.setattr(render, "backends", lambda *values: weaken(good(*values)))
    redirect = b"HTTP/1.1 302 Found\r\nLocation: https://evil.test/\r\nContent-Length: 0\r\n\r\n"
    with run_gateway(Gateway()) as weak, pytest.raises(AssertionError):
        test_attacks.test_hostile_desktop_says_nothing_to_the_browser(weak, "/d/d1/terminal", redirect)


def test_43_rate_that_believes_a_header_is_dodged() -> None:
    believe = changed(
        ("track-sc0 src table", "track-sc0 req.hdr(x-forwarded-for) table"),
        ("stick-table type ipv6", "stick-table type string len 40"),
        ("X-Deskyard-Address %[src]", "X-Deskyard-Address %[req.hdr(x-forwarded-for)]"),
        ("http-request del-header X-Forwarded -m beg", ""),
    )
    dodge = {name: value.format(n=1) for name, value in DODGES[0].items()}
    for weaken, answer in ((str, 429), (believe, 403)):
        with run_gateway(Gateway(false_tickets_per_minute=5, weaken=weaken)) as gateway:
            assert [redeem_from(gateway, {"X-Forwarded-For": "10.9.9.9"}) for _ in range(6)] == [403] * 5 + [429]
            assert redeem_from(gateway, dodge) == answer
