"""What rule mutation showed to be missing: guards of the door that no other test would have seen go."""

import pytest

from tests.gateway.support import Gateway
from tests.gateway.test_door import signed


@pytest.mark.parametrize("place", ["vnc", "terminal"])
@pytest.mark.parametrize("routes", ["{}s", "my{}", "x.{}", "{}\n", "my{}s other"])
def test_route_that_only_looks_like_the_one_asked_is_refused(gateway: Gateway, place: str, routes: str) -> None:
    route = {"vnc": "desktop", "terminal": "terminal"}[place]
    assert gateway.upgrade(f"/d/d1/{place}", signed(gateway, routes=routes.format(route))).status == 403


def test_desktop_sees_no_forwarding_headers_at_all(gateway: Gateway) -> None:
    _, cookie = gateway.session("d1")
    forged = {"Forwarded": "for=1.2.3.4", "X_Forwarded_Proto": "http", "X_Deskyard_Address": "1.2.3.4"}
    assert gateway.upgrade("/d/d1/vnc", cookie, **forged).status == 101
    seen = gateway.desktops.requests[-1].lower()
    assert "forwarded" not in seen
    assert "x-deskyard" not in seen


def test_only_small_bodies_are_redeemed(gateway: Gateway) -> None:
    given = {"Origin": gateway.origin, "Content-Type": "application/json"}
    answer, _ = gateway.request("POST", "/redeem", "x" * 8192, given)
    assert answer.status == 413
