"""Tickets, sessions and their end, through the real door."""

import ssl
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from deskyard.errors import GatewayError
from deskyard.gateway.machine import tls
from tests.gateway.conftest import run_gateway
from tests.gateway.support import HOSTNAME, Gateway, Opened, wait_for


def test_link_carries_the_ticket_in_its_fragment_only(gateway: Gateway) -> None:
    granted = gateway.grant("d1")
    assert granted["url"] == f"{gateway.origin}/#{granted['ticket']}"
    assert granted["session_expires"] - time.time() > 500


def test_redeeming_sets_a_cookie_that_scripts_and_other_sites_cannot_use(gateway: Gateway) -> None:
    granted = gateway.grant("d1")
    body = f'{{"ticket": "{granted["ticket"]}"}}'
    answer, _ = gateway.request("POST", "/redeem", body, {"Origin": gateway.origin})
    parts = (answer.getheader("Set-Cookie") or "").split("; ")
    assert parts[0].startswith("__Host-deskyard-d1=")
    assert {"HttpOnly", "Secure", "SameSite=strict", "Path=/"} <= set(parts)
    assert not any(part.lower().startswith("domain") for part in parts)


def test_session_tells_whether_its_desktop_is_recorded(gateway: Gateway) -> None:
    facts = {desktop: gateway.redeem(gateway.grant(desktop)["ticket"])[1] for desktop in ("d1", "d2")}
    assert {desktop: session["recorded"] for desktop, session in facts.items()} == {"d1": False, "d2": True}


def test_ticket_opens_once(gateway: Gateway) -> None:
    granted = gateway.grant("d1")
    assert gateway.redeem(granted["ticket"])[0] == 200
    status, facts, cookie = gateway.redeem(granted["ticket"])
    assert (status, facts["error"], cookie) == (410, "used", "")


def test_one_of_many_at_once_wins_a_ticket(gateway: Gateway) -> None:
    granted = gateway.grant("d1")
    with ThreadPoolExecutor(20) as pool:
        statuses = list(pool.map(lambda _: gateway.redeem(granted["ticket"])[0], range(20)))
    assert sorted(statuses) == [200] + [410] * 19


def test_unknown_and_malformed_tickets_are_refused(gateway: Gateway) -> None:
    assert gateway.redeem("A" * 43)[:2][0] == 403
    assert gateway.redeem("short")[0] == 400
    assert gateway.request("POST", "/redeem", "{}", {"Origin": gateway.origin})[0].status == 400
    assert gateway.request("POST", "/redeem", "x" * 5000, {"Origin": gateway.origin})[0].status == 413


def test_ticket_of_a_revoked_grant_is_refused(gateway: Gateway) -> None:
    granted = gateway.grant("d1")
    gateway.revoke(granted["id"])
    status, facts, _ = gateway.redeem(granted["ticket"])
    assert (status, facts["error"]) == (410, "revoked")


def test_expired_ticket_is_refused(gateway: Gateway) -> None:
    granted = gateway.grant("d1", ttl=1)
    wait_for("the end of the ticket", lambda: time.time() > granted["ticket_expires"] + 1)
    status, facts, _ = gateway.redeem(granted["ticket"])
    assert (status, facts["error"]) == (410, "expired")


def test_redemption_from_a_foreign_page_is_refused_and_spends_nothing(gateway: Gateway) -> None:
    granted = gateway.grant("d1")
    assert gateway.redeem(granted["ticket"], Origin="https://evil.test")[0] == 403
    assert gateway.redeem(granted["ticket"])[0] == 200


def test_many_attempts_from_one_address_are_refused_whatever_its_headers_say() -> None:
    with run_gateway(Gateway(false_tickets_per_minute=5)) as gateway:
        statuses = [gateway.redeem("A" * 43, X_Forwarded_For=f"10.0.0.{n}")[0] for n in range(8)]
        assert statuses == [403] * 5 + [429] * 3


def test_page_learns_what_its_session_may(gateway: Gateway) -> None:
    _, cookie = gateway.session("d1", mode="view")
    answer, data = gateway.request("GET", "/d/d1/session", headers={"Cookie": cookie})
    assert answer.status == 200
    assert b'"mode":"view"' in data
    assert b'"routes":["desktop"]' in data
    assert answer.getheader("Cache-Control") == "no-store"


def test_page_learns_why_there_is_no_session(gateway: Gateway) -> None:
    answer, data = gateway.request("GET", "/d/d1/session")
    assert (answer.status, b'"error":"none"' in data) == (401, True)
    id, cookie = gateway.session("d1")
    gateway.revoke(id)
    answer, data = gateway.request("GET", "/d/d1/session", headers={"Cookie": cookie})
    assert (answer.status, b'"error":"revoked"' in data) == (401, True)


def test_revoking_closes_the_live_socket_within_a_second_and_refuses_new_ones(gateway: Gateway) -> None:
    id, cookie = gateway.session("d1")
    _, other = gateway.session("d1")
    desktop, terminal = gateway.upgrade("/d/d1/vnc", cookie), gateway.upgrade("/d/d1/terminal", cookie)
    bystander = gateway.upgrade("/d/d1/vnc", other)
    for opened in (desktop, terminal, bystander):
        opened.read_until(b"|")
    started = time.monotonic()
    with ThreadPoolExecutor(1) as pool:
        revoking = pool.submit(gateway.revoke, id)
        assert desktop.closes()
        assert terminal.closes()
        took = time.monotonic() - started
        assert [session["state"] for session in revoking.result()] == ["revoked"]
    print(f"revoked and closed in {took * 1000:.0f} ms")
    assert gateway.upgrade("/d/d1/vnc", cookie).status == 401
    assert bystander.echo("still here") == "still here"
    assert took < 1.0


def test_revoking_a_desktop_leaves_the_others(gateway: Gateway) -> None:
    _, first = gateway.session("d1")
    _, second = gateway.session("d2")
    gateway.revoke(desktop="d1")
    assert gateway.upgrade("/d/d1/vnc", first).status == 401
    assert gateway.upgrade("/d/d2/vnc", second).status == 101


def test_session_ends_in_time_and_takes_its_socket_along(gateway: Gateway) -> None:
    granted = gateway.grant("d1", ttl=2)
    _, _, cookie = gateway.redeem(granted["ticket"])
    opened = gateway.upgrade(cookie=cookie)
    opened.read_until(b"|")
    assert opened.closes()
    assert time.time() >= granted["session_expires"]
    assert gateway.upgrade(cookie=cookie).status == 401
    states = {session["id"]: session["state"] for session in gateway.listing()}
    assert states[granted["id"]] == "expired"


@pytest.mark.parametrize("how", ["session", "desktop", "all"])
def test_sockets_outlive_a_reload_and_revoking_reaches_the_old_worker(own_gateway: Gateway, how: str) -> None:
    gateway = own_gateway
    id, cookie = gateway.session("d1")
    _, other = gateway.session("d2")
    paths = ("/d/d1/vnc", "/d/d1/terminal")
    old, bystander = [gateway.upgrade(path, cookie) for path in paths], gateway.upgrade("/d/d2/vnc", other)
    for opened in (*old, bystander):
        opened.read_until(b"|")
    gateway.reload()
    assert [opened.echo("after the reload") for opened in old] == ["after the reload"] * 2
    fresh = [gateway.upgrade(path, cookie) for path in paths]
    for opened in fresh:
        opened.read_until(b"|")
    chosen: dict[str, dict[str, Any]] = {"session": {"id": id}, "desktop": {"desktop": "d1"}, "all": {"all": True}}
    gateway.revoke(**chosen[how])
    assert [opened.closes() for opened in (*old, *fresh)] == [True] * 4
    if how == "all":
        assert bystander.closes()
    else:
        assert bystander.echo("still here") == "still here"
    gateway.reload()
    assert gateway.upgrade("/d/d1/vnc", cookie).status == 401
    assert gateway.upgrade("/d/d2/vnc", other).status == (401 if how == "all" else 101)


def test_certificate_is_replaced_without_a_dropped_socket(own_gateway: Gateway) -> None:
    gateway = own_gateway
    _, cookie = gateway.session("d1")
    sockets = [gateway.upgrade(path, cookie) for path in ("/d/d1/vnc", "/d/d1/terminal")]
    for opened in sockets:
        opened.read_until(b"|")
    before = gateway.connect().getpeercert()
    gateway.install_certificate(gateway.system())
    after = gateway.connect().getpeercert()
    assert before and after and before["serialNumber"] != after["serialNumber"]
    assert [opened.echo("still here") for opened in sockets] == ["still here"] * 2


def test_door_whose_certificate_is_over_is_well_again_with_the_next(own_gateway: Gateway) -> None:
    gateway = own_gateway
    _, cookie = gateway.session("d1")
    opened = gateway.upgrade("/d/d1/vnc", cookie)
    opened.read_until(b"|")
    # As time leaves it: the gateway itself takes none that is over.
    key = tls.ensure_key(gateway.layout.tls / "key.pem")
    gateway.layout.tls_bundle.write_text(gateway.issuer.sign(tls.request(key, HOSTNAME), days=-1) + key)
    gateway.ask_master("reload")
    assert "certificate has expired" in wait_for("a refusal by who verifies", lambda: _refusal(gateway))
    assert opened.echo("opened before") == "opened before"
    gateway.install_certificate(gateway.system())
    assert gateway.upgrade("/d/d1/vnc", cookie).status == 101
    assert opened.echo("all the time") == "all the time"


def _refusal(gateway: Gateway) -> str:
    try:
        gateway.connect().close()
    except ssl.SSLCertVerificationError as error:
        return str(error)
    except OSError:
        pass
    return ""


def test_terminals_are_counted_by_session_and_by_desktop() -> None:
    with run_gateway(Gateway(changes={"streams_per_session": 2, "streams_per_desktop": 3})) as gateway:
        cookies = [gateway.session("d1")[1] for _ in range(2)]
        opened = [gateway.upgrade("/d/d1/terminal", cookies[0]) for _ in range(2)]
        # The third of a session waits for its turn, in vain.
        assert gateway.upgrade("/d/d1/terminal", cookies[0]).status == 503

        def third() -> Opened | None:
            answer = gateway.upgrade("/d/d1/terminal", cookies[1])
            return None if answer.status == 429 else answer

        # The refused one counts for its desktop until HAProxy has closed it, a moment after its answer.
        opened.append(wait_for("room for the third terminal of a desktop", third))
        assert [answer.status for answer in opened] == [101] * 3
        assert gateway.upgrade("/d/d1/terminal", cookies[1]).status == 429


def test_list_says_who_does_what_since_when_from_where(gateway: Gateway) -> None:
    id, cookie = gateway.session("d2", actor="alice", mode="view")
    started = time.time()
    opened = gateway.upgrade("/d/d2/vnc", cookie)
    opened.read_until(b"|")
    mine = next(session for session in gateway.listing() if session["id"] == id)
    facts = {name: mine[name] for name in ("actor", "desktop", "mode", "state", "streams", "from", "does")}
    assert facts == {
        "actor": "alice",
        "desktop": "d2",
        "mode": "view",
        "state": "active",
        "streams": 1,
        "from": ["127.0.0.1"],
        "does": "watches",
    }
    assert mine["since"] >= int(started)
    assert mine["idle"] >= 0


def test_new_worker_learns_sessions_that_began_while_it_started(own_gateway: Gateway) -> None:
    gateway = own_gateway
    _, early = gateway.session("d1")
    _, late = gateway.session("d1")
    assert gateway.upgrade(cookie=late).status == 101
    # The file of backends is as old as the start: neither session is in it.
    gateway.ask_master("reload")
    wait_for("both sessions in the new worker", lambda: gateway.upgrade(cookie=late).status == 101)
    wait_for("the early one too", lambda: gateway.upgrade(cookie=early).status == 101)


def test_dead_session_service_opens_nothing_and_ends_nothing(own_gateway: Gateway) -> None:
    gateway = own_gateway
    granted = gateway.grant("d1")
    id, cookie = gateway.session("d1")
    opened = gateway.upgrade(cookie=cookie)
    opened.read_until(b"|")
    service = gateway.processes[0]
    service.kill()
    service.wait(10)
    assert opened.echo("still here") == "still here"
    assert gateway.redeem(granted["ticket"])[0] == 503
    answer, page = gateway.request("GET", "/d/d1/")
    assert (answer.status, b"Load this page again" in page) == (503, True)
    with pytest.raises(GatewayError, match="session service"):
        gateway.revoke(id)
    gateway.start_service()
    assert gateway.redeem(granted["ticket"])[0] == 200
    gateway.revoke(id)
    assert opened.closes()


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"desktop": "d9"}, "desktop"),
        ({"mode": "root"}, "mode"),
        ({"ttl": 0}, "ttl"),
        ({"ttl": 90000}, "ttl"),
        ({"routes": ["chat"]}, "routes"),
        ({"routes": []}, "routes"),
        ({"mode": "view", "routes": ["terminal"]}, "routes"),
    ],
    ids=lambda value: str(value),
)
def test_impossible_grant_is_refused_with_its_field(gateway: Gateway, options: dict[str, Any], field: str) -> None:
    with pytest.raises(GatewayError) as caught:
        gateway.grant(**options)
    assert caught.value.field == field
    assert caught.value.remedy


def test_every_decision_is_in_the_audit(gateway: Gateway) -> None:
    granted = gateway.grant("d1", actor="alice")
    gateway.redeem(granted["ticket"])
    gateway.redeem(granted["ticket"])
    gateway.revoke(granted["id"], actor="bob")
    lines = [line for line in gateway.audit() if line.get("session") == granted["id"]]
    assert [line["event"] for line in lines] == ["grant", "redeem", "refuse", "revoke"]
    assert lines[0]["actor"] == "alice"
    assert lines[1]["address"] == "127.0.0.1"
    assert lines[2]["reason"] == "used"
    assert lines[3]["by"] == "bob"


def test_revoking_all_ends_every_session_at_once(own_gateway: Gateway) -> None:
    gateway = own_gateway
    sockets: list[Opened] = []
    for n in range(20):
        _, cookie = gateway.session("d1" if n % 2 else "d2")
        opened = gateway.upgrade(f"/d/{'d1' if n % 2 else 'd2'}/vnc", cookie)
        opened.read_until(b"|")
        sockets.append(opened)
    ended = gateway.revoke(all=True)
    assert len(ended) == 20
    assert all(opened.closes() for opened in sockets)
    assert {session["state"] for session in gateway.listing()} == {"revoked"}
