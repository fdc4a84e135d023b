"""What waits at gateways for a person: written down as they say it, answered by a signature alone."""

import re
import secrets
import threading
from collections.abc import Iterator, Mapping
from typing import Any

import httpx
import psycopg
import pytest
from psycopg.types.json import Jsonb

from deskyard.control.approvals import follow
from deskyard.control.approvals.target import KIND, answered_by, proof_hash, proved, target
from deskyard.control.jobs.child import JOBS
from deskyard.control.store.cluster import LINK, OWNER, ROLE_CONNECTIONS
from deskyard.control.store.connection import connect
from deskyard.errors import ConfigError
from tests.control.lab import WAIT_SECONDS, Lab
from tests.control.people import Person, enrolled

TICKET: dict[str, Any] = {
    **{"id": "0a1b2c", "desktop": "first", "address": "10.80.1.10", "name": "api.stripe.com", "port": 443, "tries": 1},
    **{"since": "2026-01-01T00:00:00Z", "until": "2099-01-02T00:00:00Z", "last": "2026-01-01T00:00:00Z"},
    **{"state": "waiting", "held": 1, "held_until": "2099-01-01T00:00:00Z", "answer": None},
}
ANSWER: dict[str, Any] = {
    **{"verdict": "once", "actor": "person:ada", "reason": ""},
    **{"time": "2026-01-01T00:01:00Z", "until": None},
}
ID = "lab.0a1b2c"


@pytest.fixture
def ticket(mission: Lab) -> Lab:
    """A workspace whose gateway has a ticket."""
    mission.declare("lab", "first", "second")
    follow.write(mission.link, "lab", TICKET)
    return mission


@pytest.fixture
def person(ticket: Lab) -> Iterator[Person]:
    with ticket.client() as client:
        yield enrolled(ticket, client, "ada", "operator")


def aim(answer: str, name: str = "api.stripe.com") -> str:
    return target({"id": ID, "desktop_id": "lab.first", "name": name, "port": 443}, answer)


def forged(
    mission: Lab, proof: Any, answer: str, desktop: str = "lab.first", actor: str = "person:ada"
) -> dict[str, Any]:
    """What a taken web process could write down by itself; the operation at its end."""
    id = f"op_{secrets.token_hex(8)}"
    mission.link.execute(
        "insert into operation (id, kind, workspace_id, desktop_id, lane, input, proof, actor)"
        " values (%s, %s, 'lab', %s, 'x', %s, %s, %s)",
        [id, KIND, desktop, Jsonb({"approval": ID, "answer": answer, "reason": "x"}), proof and Jsonb(proof), actor],
    )
    return mission.state(id, "done", "failed")


def test_a_ticket_is_shown_with_what_who_and_how_long(ticket: Lab, owner: httpx.Client) -> None:
    found = owner.get(f"/api/approvals/{ID}").json()
    assert (found["desktopId"], found["name"], found["port"], found["state"]) == (
        "lab.first",
        "api.stripe.com",
        443,
        "waiting",
    )
    assert (found["held"], found["heldUntil"], found["strength"]) == (1, "2099-01-01T00:00:00Z", "gateway")
    assert [row["id"] for row in owner.get("/api/approvals?state=waiting").json()["items"]] == [ID]
    assert owner.get("/api/approvals?state=refused").json()["items"] == []
    follow.write(ticket.link, "lab", {**TICKET, "until": "2026-01-02T00:00:00Z", "held_until": "2026-01-01T00:01:30Z"})
    over = owner.get(f"/api/approvals/{ID}").json()
    assert (over["state"], over["held"]) == ("lapsed", 0)
    assert owner.post(f"/api/approvals/{ID}/decide", json={"answer": "once"}).status_code == 409


def test_a_ticket_is_an_event_and_a_line_of_the_audit_once(ticket: Lab) -> None:
    follow.write(ticket.link, "lab", {**TICKET, "tries": 2})
    follow.write(ticket.link, "lab", {**TICKET, "tries": 2})
    events = ticket.link.execute("select subject from event where kind = 'approval'").fetchall()
    assert [row["subject"] for row in events] == [ID, ID]
    ticket.until("select 1 from audit_entry where action = 'approval.raised' and target = 'api.stripe.com:443'", [])
    rows = ticket.link.execute("select count(*) from audit_entry where action = 'approval.raised'").fetchone()
    assert rows is not None


def test_a_person_answers_with_a_passkey_and_the_worker_tells_the_gateway(ticket: Lab, person: Person) -> None:
    unsigned = person.call("POST", f"/api/approvals/{ID}/decide", {"answer": "once"})
    assert (unsigned.status_code, unsigned.json()["field"]) == (403, "intent")
    signed = person.signed(KIND, aim("once"))
    done = person.call("POST", f"/api/approvals/{ID}/decide", {"answer": "once", **signed}, Prefer="wait=30").json()
    assert (done["state"], done["actor"]) == ("done", "person:ada")
    assert ticket.effects("lab.first") == ["begin", "end"]
    ticket.until("select 1 from audit_entry where action = 'approval.answer' and target = %s", [aim("once")])


def test_a_signature_opens_what_it_names_and_nothing_else(ticket: Lab, person: Person) -> None:
    signed = person.signed(KIND, aim("once"))["intent"]
    assert person.call("POST", f"/api/approvals/{ID}/decide", {"answer": "always", "intent": signed}).status_code == 422
    assert forged(ticket, signed, "always")["state"] == "failed"
    assert forged(ticket, signed, "once", "lab.second")["state"] == "failed"
    assert forged(ticket, None, "refuse")["state"] == "failed"
    other = person.signed(KIND, aim("once", "evil.test"))["intent"]
    assert forged(ticket, other, "once")["state"] == "failed"
    assert ticket.effects("lab.first") == []
    done = forged(ticket, signed, "once", actor="person:eve")
    assert (done["state"], done["result"]["actor"]) == ("done", "person:ada")  # who signed, whatever the request says
    assert forged(ticket, signed, "once")["problem"]["reason"] == "was used before"


def test_only_who_may_decide_does_and_a_refusal_has_a_reason(ticket: Lab, owner: httpx.Client) -> None:
    with ticket.client(ticket.key("approvals:read", "desktops:destroy")) as reader:
        assert reader.get(f"/api/approvals/{ID}").status_code == 200
        assert reader.post(f"/api/approvals/{ID}/decide", json={"answer": "once"}).status_code == 403
    with ticket.client(ticket.key("approvals:read", "approvals:decide", workspaces=["other"])) as foreign:
        assert foreign.get(f"/api/approvals/{ID}").status_code == 404
        assert foreign.get("/api/approvals").json()["items"] == []
        assert foreign.post(f"/api/approvals/{ID}/decide", json={"answer": "once"}).status_code == 404
    assert owner.post(f"/api/approvals/{ID}/decide", json={"answer": "refuse"}).status_code == 422
    path, body = f"/api/approvals/{ID}/decide", {"answer": "refuse", "reason": "not this shop"}
    assert owner.post(path, json=body, headers={"Prefer": "wait=30"}).json()["state"] == "done"


def test_gateways_that_run_are_followed_as_they_speak(mission: Lab) -> None:
    mission.declare("lab", "first")
    mission.link.execute("update workspace set egress = 'locked', state = 'ready' where id = 'lab'")
    answered = threading.Event()

    def tickets(_: str) -> Iterator[Mapping[str, Any]]:
        yield TICKET
        answered.wait(60)
        answer = ANSWER | {"actor": proved(ANSWER["actor"], "0" * 64)}
        yield {**TICKET, "state": "used", "held": 0, "held_until": None, "answer": answer}

    follower = follow.Follower(mission.url_as(LINK), tickets, lambda name: name == "lab")
    thread = threading.Thread(target=follower.run, daemon=True)
    thread.start()
    mission.until("select 1 from approval where state = 'waiting'", [])
    answered.set()
    row = mission.until("select * from approval where state = 'used'", [])
    assert (row["decided_by"], row["verdict"]) == ("person:ada", "once")
    follower.stop()
    mission.link.execute("notify event")
    thread.join(60)
    assert not thread.is_alive()


def test_more_gateways_are_followed_than_a_role_may_have_connections(mission: Lab) -> None:
    names = [f"w{number}" for number in range(ROLE_CONNECTIONS + 10)]
    for name in names:
        mission.declare(name, "first")
    mission.link.execute("update workspace set egress = 'locked', state = 'ready'")
    ended = threading.Event()

    def tickets(_: str) -> Iterator[Mapping[str, Any]]:
        yield TICKET
        ended.wait(WAIT_SECONDS)

    follower = follow.Follower(mission.url_as(LINK), tickets, lambda _: True)
    thread = threading.Thread(target=follower.run)
    thread.start()
    try:
        query = "select count(*) from approval where state = 'waiting' having count(*) = %s"
        mission.until(query, [len(names)])
        # The test's is the owner's account, which has no such bound.
        row = mission.link.execute("select count(*) as n from pg_stat_activity where usename = %s", [OWNER]).fetchone()
        assert row is not None and row["n"] < ROLE_CONNECTIONS
    finally:
        ended.set()
        follower.stop()
        mission.link.execute("notify event")
        thread.join(WAIT_SECONDS)
    assert not thread.is_alive()


@pytest.mark.parametrize(
    ("answer", "handed"), [("15m", ("for", 900)), ("always", ("always", None)), ("refuse", ("refuse", None))]
)
def test_the_worker_hands_the_answer_to_the_gateway_with_the_person(
    monkeypatch: pytest.MonkeyPatch, answer: str, handed: tuple[str, int | None]
) -> None:
    calls: list[Any] = []

    def decide(*arguments: Any) -> dict[str, Any]:
        calls.append(arguments)
        return {"state": "allowed"}

    monkeypatch.setattr("deskyard.access.egress.decide", decide)
    monkeypatch.setattr("deskyard.access.egress.waiting", lambda name: [{**TICKET, "id": "0b"}, TICKET])
    given = {"approval": ID, "answer": answer, "reason": "why"}
    wanted = {"workspace": "lab", "desktop": "lab.first", "input": given, "actor": "person:ada", "target": aim(answer)}
    # As a key's answer is handed on, and one of a person that a gateway from before cannot verify.
    wanted |= {"proof": proof_hash({"intent": {"nonce": "x"}, "credential": {}}), "signatures": []}
    assert JOBS[KIND](wanted) == {"result": {"approval": ID, "state": "allowed"}}
    (call,) = calls
    assert call[:-1] == ("lab", "0a1b2c", *handed, "why")
    assert re.fullmatch("person:ada proof:[0-9a-f]{64}", call[-1]) and answered_by(call[-1]) == "person:ada"


def test_what_a_gateway_is_told_of_a_proof_is_the_hash_of_what_is_kept(ticket: Lab, person: Person) -> None:
    signed = person.signed(KIND, aim("once"))
    done = person.call("POST", f"/api/approvals/{ID}/decide", {"answer": "once", **signed}, Prefer="wait=30").json()
    row = ticket.link.execute("select proof from operation where id = %s", [done["id"]]).fetchone()
    assert row is not None
    (line,) = [line for line in ticket.all_effects() if line["event"] == "proof"]
    assert line["proof"] == proof_hash(row["proof"]) == proof_hash(signed["intent"])
    assert proof_hash({**row["proof"], "intent": {}}) != line["proof"]


@pytest.mark.parametrize("change", [{"name": "evil.test"}, {"port": 22}, {"desktop": "second"}, {"id": "0b"}])
def test_no_answer_to_one_ticket_opens_another_whatever_was_written_down(
    monkeypatch: pytest.MonkeyPatch, change: dict[str, Any]
) -> None:
    monkeypatch.setattr("deskyard.access.egress.decide", lambda *_: pytest.fail("the gateway is told"))
    monkeypatch.setattr("deskyard.access.egress.waiting", lambda name: [{**TICKET, **change}])
    given = {"approval": ID, "answer": "once"}
    wanted = {"workspace": "lab", "desktop": "lab.first", "input": given, "actor": "person:ada", "target": aim("once")}
    with pytest.raises(ConfigError, match="is not what was signed"):
        JOBS[KIND](wanted)


def test_what_a_ticket_is_for_stays_as_it_was_written_down_first(ticket: Lab) -> None:
    changed = {**TICKET, "name": "evil.test", "port": 22, "desktop": "second", "tries": 5}
    with connect(ticket.url_as(LINK)) as link:
        follow.write(link, "lab", changed)
        row = link.execute("select * from approval").fetchone()
        assert row is not None and (row["name"], row["port"], row["desktop_id"]) == ("api.stripe.com", 443, "lab.first")
        assert row["tries"] == 5
        for column in follow.LASTING:
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                link.execute(f"update approval set {column} = {column}".encode())
