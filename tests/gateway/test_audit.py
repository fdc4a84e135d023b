"""What the running gateway writes down, and what it keeps to itself."""

import json
from typing import Any

from deskyard.control.upkeep.moments import of_door
from deskyard.gateway.config import keys
from deskyard.gateway.session.audit import files
from deskyard.gateway.session.audit_check import verify
from tests.gateway.support import Gateway, wait_for
from tests.gateway.test_door import signed
from tests.gateway.test_privacy import Person


def refusals(gateway: Gateway, **facts: object) -> list[dict[str, object]]:
    found = [line for line in gateway.audit() if line["event"] == "refuse"]
    return [line for line in found if all(line.get(name) == value for name, value in facts.items())]


def test_what_haproxy_refuses_is_in_the_audit_with_its_reason(own_gateway: Gateway) -> None:
    gateway = own_gateway
    id, cookie = gateway.session("d1", routes=["desktop"])
    assert gateway.upgrade().status == 401
    assert gateway.upgrade(cookie=signed(gateway, exp=1)).status == 401
    assert gateway.upgrade(cookie=cookie, Origin="https://evil.test").status == 403
    assert gateway.upgrade("/d/d1/terminal", cookie).status == 403
    gateway.revoke(id)
    assert gateway.upgrade(cookie=cookie).status == 401
    expected = [
        {"reason": "cookie", "status": 401, "desktop": "d1", "route": "vnc", "address": "127.0.0.1"},
        {"reason": "claims", "status": 401},
        {"reason": "origin", "status": 403},
        {"reason": "scope", "status": 403, "route": "terminal", "session": id},
        {"reason": "revoked", "status": 401, "session": id},
    ]
    for facts in expected:
        wait_for(f"the refusal {facts}", lambda facts=facts: refusals(gateway, **facts))  # type: ignore[misc]


def test_one_who_knocks_often_is_counted_and_does_not_fill_the_audit(own_gateway: Gateway) -> None:
    gateway = own_gateway
    for _ in range(50):
        assert gateway.upgrade().status == 401
    wait_for("the first", lambda: refusals(gateway, reason="cookie"))
    # The end of the service closes the period.
    service = gateway.processes[0]
    service.terminate()
    service.wait(20)
    assert [line.get("again") for line in refusals(gateway, reason="cookie")] == [None, 49]


def test_program_anchors_a_line_of_another_chain_which_goes_forward_also_after_a_restart(own_gateway: Gateway) -> None:
    gateway = own_gateway

    def says(*words: str) -> Any:
        return json.loads(gateway.program_says(*words))

    def anchor(number: int, head: str) -> Any:
        words = ["--source", "mission.1", "--number", str(number), "--head", head, "--actor", "ann"]
        return says("anchor", *words)

    assert anchor(7, "1" * 64) == {"source": "mission.1", "number": 7, "head": "1" * 64, "written": True}
    service = gateway.processes[0]
    service.terminate()
    service.wait(20)
    gateway.start_service()
    assert anchor(7, "1" * 64)["written"] is False
    assert anchor(7, "2" * 64)["error"]["field"] == "head"
    assert anchor(6, "1" * 64)["error"]["field"] == "number"
    assert anchor(8, "2" * 63)["error"]["reason"] == "is no SHA-256"
    [held] = says("anchors", "--source", "mission.1", "--last", "5")
    assert (held["number"], held["head"], held["by"]) == (7, "1" * 64, "ann")
    assert says("anchors", "--source", "other") == []
    # One of the two: a source's refusals are a line in a while.
    assert [line["reason"] for line in refusals(gateway, route="anchor")] == ["head"]
    assert says("audit", "--verify")["ok"]


def test_chain_of_a_busy_gateway_is_good_and_holds_no_secret(own_gateway: Gateway) -> None:
    gateway = own_gateway
    granted = gateway.grant("d1", actor="alice")
    _, _, cookie = gateway.redeem(granted["ticket"])
    gateway.redeem(granted["ticket"])
    gateway.redeem("B" * 43)
    gateway.upgrade(cookie=cookie)
    gateway.upgrade(cookie=f"{cookie}x")
    gateway.upgrade("/d/d1/vnc?ticket=" + granted["ticket"], cookie)
    gateway.request("POST", "/d/d1/renew", "{}", {"Cookie": cookie, "Origin": gateway.origin})
    keys.rotate(gateway.layout, gateway.system(), at_once=False, actor="alice")
    gateway.revoke(granted["id"], actor="bob")
    service = gateway.processes[0]
    service.terminate()
    service.wait(20)
    gateway.start_service()
    gateway.grant("d2")
    assert verify(gateway.layout.audit_file)["ok"]
    kinds = [line["event"] for line in gateway.audit() if line.get("session") == granted["id"]]
    for kind in ("grant", "redeem", "refuse", "driver", "renew", "revoke"):
        assert kind in kinds
    private = (gateway.layout.signing_keys / "k2.key").read_text().splitlines()[1]
    canaries = [granted["ticket"], "B" * 43, cookie.partition("=")[2], "eyJ", private]
    for path in (*files(gateway.layout.audit_file), gateway.root / "service.log", gateway.root / "view.log"):
        assert not [canary for canary in canaries if canary in path.read_text()]
    assert all(json.dumps(line).count('"prev"') == 1 for line in gateway.audit())


def test_what_somebody_did_at_the_door_is_what_the_timeline_of_the_desktop_has(own_gateway: Gateway) -> None:
    gateway = own_gateway
    ada = Person(gateway, actor="person:Ada")
    ada.hides()
    ada.does("show")
    gateway.revoke(ada.id)
    gateway.upgrade(cookie=ada.cookie)
    expected = ["link made", "came in", "drives", "private", "seen again", "link revoked", "nobody drives"]

    def moments() -> list[dict[str, Any]]:
        return [row for row in of_door(gateway.audit()) if row["what"] != "refused"]

    wait_for("that nobody drives", lambda: "nobody drives" in [row["what"] for row in moments()])
    assert [row["what"] for row in moments()] == expected
    assert {(row["desktop"], row["actor"]) for row in moments()} == {("d1", "person:Ada")}
