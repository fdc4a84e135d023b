"""The tests of the door see a weaker door: each guard taken away lets something in that must stay out."""

from collections.abc import Callable

import pytest

from tests.gateway.conftest import run_gateway
from tests.gateway.support import Gateway
from tests.gateway.test_door import assembled, claims, signed


def without(*words: str) -> Callable[[str], str]:
    """Take the rules that hold one of these words out of HAProxy's configuration."""

    def weaken(text: str) -> str:
        kept = [line for line in text.splitlines() if not any(word in line for word in words)]
        assert len(kept) < len(text.splitlines()), f"no rule holds {words}"
        return "\n".join(kept) + "\n"

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
    id = next(one["id"] for one in gateway.listing() if one["state"] == "active")
    assert gateway.upgrade("/d/d1/terminal", signed(gateway)).status == 503
    worker = gateway.workers()[-1]
    gateway.ask_master(f"@!{worker} set weight be_d1_terminal/{id} 1")
    try:
        assert gateway.upgrade("/d/d1/terminal", signed(gateway)).status == 101
    finally:
        gateway.ask_master(f"@!{worker} set weight be_d1_terminal/{id} 0")
