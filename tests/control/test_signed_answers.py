"""Answers of people are handed to gateways as they signed them, once, and again to one whose list is of before."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from psycopg.types.json import Jsonb

from deskyard.access.gateway_program import TooOld
from deskyard.control.approvals import follow
from deskyard.control.approvals.deciders import Bringer
from deskyard.control.approvals.target import KIND
from deskyard.control.jobs import deciding
from deskyard.control.jobs.child import JOBS
from deskyard.control.queue.claim import Claim
from deskyard.control.store.cluster import WORKER
from deskyard.control.store.connection import connect
from deskyard.errors import ConfigError
from deskyard.gateway.egress.ask.proof import MOST_PROOFS
from tests.control.lab import LEASE_SECONDS, Lab
from tests.control.people import Person
from tests.control.slotted import slotted
from tests.control.test_approvals import ID, TICKET, aim
from tests.control.test_deciders import Gateways, people

__all__ = ["people"]


def handed(
    answer: str,
    signatures: list[Any],
    monkeypatch: pytest.MonkeyPatch,
    signed: Any = None,
    ticket: Mapping[str, Any] = TICKET,
    state: str = "allowed",
) -> list[Any]:
    """How the worker's child hands an answer to a gateway: the calls, of both ways."""
    calls: list[Any] = []
    monkeypatch.setattr("deskyard.access.egress.waiting", lambda name: [ticket])

    def decide(*words: Any) -> dict[str, Any]:
        calls.append(words)
        return {"state": "allowed"}

    def decide_signed(*words: Any) -> dict[str, Any]:
        calls.append(words)
        if isinstance(signed, Exception):
            raise signed
        return {"state": "allowed"}

    monkeypatch.setattr("deskyard.access.egress.decide", decide)
    monkeypatch.setattr("deskyard.access.egress.decide_signed", decide_signed)
    given = {"approval": ID, "answer": answer, "reason": "why"}
    wanted = {"workspace": "lab", "desktop": "lab.first", "input": given, "actor": "person:ada", "target": aim(answer)}
    done = JOBS[KIND]({**wanted, "proof": "0" * 64, "signatures": signatures})
    assert done == {"result": {"approval": ID, "state": state}}
    return calls


def test_childs_answer_of_a_person_is_what_they_signed(monkeypatch: pytest.MonkeyPatch) -> None:
    signed: list[Any] = [{"intent": {}, "credential": {}}]
    assert handed("15m", signed, monkeypatch, None) == [("lab", "0a1b2c", "15m", signed, "why")]
    by_word = ("for", 900, "why", f"person:ada proof:{'0' * 64}")
    # A gateway of before verifies nothing, and a key signs nothing that it could.
    old = TooOld("gateway", "lab", "is from before gateways verified answers", "up")
    assert handed("15m", signed, monkeypatch, old)[1:] == [("lab", "0a1b2c", *by_word)]
    assert handed("15m", [], monkeypatch, None) == [("lab", "0a1b2c", *by_word)]
    ((_, _, verdict, *_),) = handed("refuse", signed, monkeypatch, None)
    assert verdict == "refuse"
    with pytest.raises(ConfigError, match="is not by this passkey"):
        handed("15m", signed, monkeypatch, ConfigError("signature", None, "is not by this passkey", "sign"))


@pytest.mark.parametrize(("answer", "state"), [("once", "allowed"), ("once", "used"), ("15m", "allowed")])
def test_answer_that_is_in_force_is_not_given_again(monkeypatch: pytest.MonkeyPatch, answer: str, state: str) -> None:
    signed: list[Any] = [{"intent": {}, "credential": {}}]
    actor = f"person:ada proof:{'0' * 64}"
    given = {**TICKET, "state": state, "answer": {"actor": actor, "verdict": "once"}}
    # Its worker was killed after the gateway had opened: there the same signature was used before.
    assert handed(answer, signed, monkeypatch, None, given, state) == []
    # Another answer of the same person, an answer that was taken back, and that of a key, are.
    others = [
        {**given, "answer": {"actor": f"person:ada proof:{'1' * 64}"}},
        {**given, "state": "refused"},
        {**given, "state": "waiting", "answer": None},
    ]
    for other in others:
        assert handed(answer, signed, monkeypatch, None, other) == [("lab", "0a1b2c", answer, signed, "why")]
    assert len(handed(answer, [], monkeypatch, None, given)) == 1


def test_worker_hands_on_what_a_person_signed_and_of_two_what_both_did(mission: Lab, people: dict[str, Person]) -> None:
    follow.write(mission.link, "lab", TICKET)
    mission.link.execute(
        "insert into approval_rule (workspace_id, persons, roles, people, keys, actor)"
        " values ('lab', 2, '{}', '{}', '{}', 'x')"
    )
    signed = {name: people[name].signed(KIND, aim("once")) for name in ("ada", "eve")}
    for name, given in signed.items():
        body = {"answer": "once", **given}
        done = people[name].call("POST", f"/api/approvals/{ID}/decide", body, Prefer="wait=30").json()
        assert done["state"] == "done", done
    (line,) = [line for line in mission.all_effects() if line["event"] == "proof"]
    assert line["signatures"] == [given["intent"] for given in signed.values()]


def test_signatures_of_others_are_handed_on_only_where_the_rule_asks_for_them(
    mission: Lab, people: dict[str, Person]
) -> None:
    follow.write(mission.link, "lab", TICKET)
    mission.link.execute(
        "insert into approval_rule (workspace_id, persons, roles, people, keys, actor)"
        " values ('lab', 2, '{}', '{}', '{}', 'x')"
    )

    def answer(client: Any, **more: Any) -> None:
        done = client("POST", f"/api/approvals/{ID}/decide", {"answer": "once", **more}, Prefer="wait=30").json()
        assert done["state"] == "done", done

    answer(people["ada"].call, **people["ada"].signed(KIND, aim("once")))
    mission.link.execute("update approval_rule set persons = 1")
    with mission.client(mission.key("approvals:decide")) as key:
        answer(lambda method, path, body, **head: key.request(method, path, json=body, headers=head))
    # Ada's answer is there no more: a key's would be hers at the gateway.
    (line,) = [line for line in mission.all_effects() if line["event"] == "proof"]
    assert line["signatures"] == []


def test_of_many_who_signed_as_many_are_handed_on_as_a_gateway_looks_at(mission: Lab) -> None:
    mission.declare("lab", "first")
    follow.write(mission.link, "lab", TICKET)
    mission.link.execute(
        "insert into approval_rule (workspace_id, persons, roles, people, keys, actor)"
        " values ('lab', 2, '{}', '{}', '{}', 'x')"
    )
    for number in range(MOST_PROOFS + 2):
        proof = {"credential": {"id": number}} if number else {"key": "ak_1", "credential": {}}
        mission.link.execute(
            "insert into operation (id, kind, workspace_id, input, actor, state, proof, ended_at)"
            " values (%s, %s, 'lab', '{}', %s, 'done', %s, now())",
            [f"op_{number}", KIND, f"person:p{number}", Jsonb(proof)],
        )
        mission.link.execute(
            "insert into approval_decision (approval_id, actor, answer, operation_id, at)"
            " values (%s, %s, 'once', %s, now() - make_interval(secs => %s))",
            [ID, f"person:p{number}", f"op_{number}", number + 1],
        )
    own = {"credential": {"id": "own"}}
    with connect(mission.url_as(WORKER)) as link:
        found = deciding.signatures(link, claim(own))
        assert deciding.signatures(link, claim({"key": "ak_1", "credential": {}})) == []
    assert [proof["credential"]["id"] for proof in found] == [*range(MOST_PROOFS - 1, 0, -1), "own"]
    assert len(found) == MOST_PROOFS


def claim(proof: Mapping[str, Any]) -> Claim:
    """An answer's operation that a worker holds."""
    given = {"approval": ID, "answer": "once"}
    return Claim("op_own", 1, KIND, "lab", "lab.first", given, proof, "person:ada", "changes", datetime.now(UTC))


@contextmanager
def working(mission: Lab, gateways: Gateways, **parts: Any) -> Iterator[None]:
    """A worker of the test's own process, whose gateways are those."""
    try:
        with slotted(mission, deciders=Bringer(gateways.tell, lambda name: True), **parts):
            yield
    finally:
        mission.worker()


class Made(Gateways):
    """One whose list is of before, and that answers as it should once it is told."""

    def __init__(self, path: Path, field: str) -> None:
        super().__init__()
        self._unknown = path / "unknown"
        self._unknown.write_text(field)

    def tell(self, name: str, document: Mapping[str, Any]) -> Mapping[str, Any]:
        answer = super().tell(name, document)
        self._unknown.unlink(missing_ok=True)
        return answer


def answered(person: Person, answer: str) -> dict[str, Any]:
    body = {"answer": answer, **person.signed(KIND, aim(answer))}
    done: dict[str, Any] = person.call("POST", f"/api/approvals/{ID}/decide", body, Prefer="wait=30").json()
    return done


@pytest.fixture
def asked(mission: Lab, people: dict[str, Person]) -> dict[str, Person]:
    """Those people, and a ticket of a gateway that is told nothing by itself."""
    follow.write(mission.link, "lab", TICKET)
    mission.link.execute("update workspace set egress = 'none' where id = 'lab'")
    return people


@pytest.mark.parametrize("field", ["deciders", "signature"])
def test_gateway_whose_list_is_of_before_is_told_and_the_answer_given_again(
    mission: Lab, asked: dict[str, Person], field: str
) -> None:
    gateways = Made(mission.path, field)
    with working(mission, gateways):
        done = answered(asked["ada"], "once")
        assert done["state"] == "done", done
        assert gateways.heard == [("lab", ["ada", "eve", "root"])]
        gateways.away.add("lab")
        (mission.path / "unknown").touch()
        refused = answered(asked["ada"], "always")
        assert (refused["state"], refused["problem"]["reason"]) == ("failed", "is away")


def test_answer_is_given_once_where_the_gateway_had_the_list(mission: Lab, asked: dict[str, Person]) -> None:
    gateways = Gateways()
    (mission.path / "unknown").write_text("signature")
    with working(mission, gateways):
        # The first is of a gateway that had none.
        answered(asked["ada"], "once")
        begun = mission.effects("lab.first").count("begin")
        refused = answered(asked["ada"], "once")
    assert (refused["state"], refused["problem"]["field"]) == ("failed", "signature")
    assert (begun, mission.effects("lab.first").count("begin"), len(gateways.heard)) == (2, 3, 2)


def test_answer_that_is_another_workers_by_then_is_not_given_again(mission: Lab, asked: dict[str, Person]) -> None:
    class Slow(Made):
        """One that is told for so long that another worker begins the answer anew."""

        def tell(self, name: str, document: Mapping[str, Any]) -> Mapping[str, Any]:
            query = "update operation set attempt = attempt + 1 where kind = %s and state = 'running'"
            mission.link.execute(query, [KIND])
            return super().tell(name, document)

    gateways = Slow(mission.path, "deciders")
    with working(mission, gateways):
        body = {"answer": "once", **asked["ada"].signed(KIND, aim("once"))}
        asked["ada"].call("POST", f"/api/approvals/{ID}/decide", body)
        mission.until("select 1 from operation where kind = %s and attempt = 2", [KIND])
    assert mission.effects("lab.first") == ["begin"]


def test_answer_is_held_for_as_long_as_its_gateway_is_told(mission: Lab, asked: dict[str, Person]) -> None:
    class Slow(Made):
        """One whose program takes longer than a lease lasts that nobody renews."""

        def tell(self, name: str, document: Mapping[str, Any]) -> Mapping[str, Any]:
            of = "from operation where kind = %s and state = 'running'"
            begun = mission.until(f"select lease_until {of}", [KIND])["lease_until"]
            mission.until(f"select 1 {of} and lease_until > %s", [KIND, begun + timedelta(seconds=LEASE_SECONDS)])
            return super().tell(name, document)

    gateways = Slow(mission.path, "deciders")
    with working(mission, gateways, lease=LEASE_SECONDS):
        done = answered(asked["ada"], "once")
    assert done["state"] == "done", done
    assert (len(gateways.heard), mission.effects("lab.first")) == (1, ["begin", "begin", "end"])
