"""Who may answer is brought to gateways: by role, workspace and rule, as it changes, and by the worker alone."""

import os
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import pytest
from cryptography.hazmat.primitives.serialization import load_pem_public_key
from webauthn.helpers import base64url_to_bytes

from deskyard.access.gateway_program import TooOld
from deskyard.control.approvals import follow
from deskyard.control.approvals.deciders import Bringer, documents
from deskyard.control.approvals.target import KIND
from deskyard.control.jobs.child import JOBS
from deskyard.control.jobs.running import Runner
from deskyard.control.jobs.standby import Standby
from deskyard.control.jobs.worker import Worker
from deskyard.control.people import records
from deskyard.control.people.passkeys import Passkeys
from deskyard.control.store.cluster import WORKER
from deskyard.control.store.connection import connect
from deskyard.errors import ConfigError, SiteError
from deskyard.host.deadline import Deadline
from tests.control.lab import ORIGIN, WAIT_SECONDS, Lab
from tests.control.people import Person, enrolled
from tests.control.test_approvals import ID, TICKET, aim


class Gateways:
    """Gateways that note what they are told; each of `away` is silent."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, list[str]]] = []
        self.away: set[str] = set()

    def tell(self, name: str, document: Mapping[str, Any]) -> None:
        if name in self.away:
            raise SiteError("gateway", name, "is away", "wait")
        self.heard.append((name, [row["person"] for row in document["passkeys"]]))


@pytest.fixture
def people(mission: Lab) -> Iterator[dict[str, Person]]:
    """An admin, two operators and a viewer, and a workspace that asks."""
    mission.declare("lab", "first")
    mission.link.execute("update workspace set egress = 'locked', state = 'ready' where id = 'lab'")
    roles = {"root": "admin", "ada": "operator", "eve": "operator", "vic": "viewer"}
    clients = [mission.client() for _ in roles]
    yield {
        name: enrolled(mission, client, name, role) for client, (name, role) in zip(clients, roles.items(), strict=True)
    }
    for client in clients:
        client.close()


def listed(mission: Lab, workspace: str = "lab") -> list[str]:
    with connect(mission.url_as(WORKER)) as link:
        document = documents(link, [workspace], ORIGIN)[workspace]
    return [row["person"] for row in document["passkeys"]]


def looked(mission: Lab, bringer: Bringer) -> None:
    """Have it look, and wait for what it began."""
    bringer._next = Deadline(0)
    with connect(mission.url_as(WORKER)) as link:
        bringer.look(link, lambda: connect(mission.url_as(WORKER)), ORIGIN)
    for thread in bringer._threads._threads.values():
        thread.join(60)
        assert not thread.is_alive()


def test_list_has_whose_passkey_may_answer_there(mission: Lab, people: dict[str, Person]) -> None:
    assert listed(mission) == ["ada", "eve", "root"]
    mission.link.execute("update person set workspaces = '{other}' where name = 'ada'")
    assert (listed(mission), listed(mission, "other")) == (["eve", "root"], ["ada", "eve", "root"])
    mission.link.execute("update person set disabled_at = now() where name = 'eve'")
    assert listed(mission) == ["root"]


def test_list_follows_the_rule_of_its_workspace(mission: Lab, people: dict[str, Person]) -> None:
    mission.declare("other", "first")
    mission.link.execute(
        "insert into approval_rule (workspace_id, persons, roles, people, keys, actor)"
        " values ('lab', 2, '{operator}', '{root}', '{}', 'person:root'),"
        " ('other', 1, '{}', '{eve}', '{}', 'person:root')"
    )
    with connect(mission.url_as(WORKER)) as link:
        found = documents(link, ["lab", "other"], ORIGIN)
    assert [(found[name]["persons"], [row["person"] for row in found[name]["passkeys"]]) for name in found] == [
        (2, ["ada", "eve", "root"]),
        (1, ["eve"]),
    ]


def test_key_of_a_list_is_the_one_that_was_enrolled(mission: Lab, people: dict[str, Person]) -> None:
    with connect(mission.url_as(WORKER)) as link:
        document = documents(link, ["lab"], ORIGIN)["lab"]
    row = next(row for row in document["passkeys"] if row["person"] == "ada")
    passkey = people["ada"].passkey
    assert base64url_to_bytes(row["id"]) == passkey.id
    assert (document["origin"], row["algorithm"]) == (ORIGIN, -7)
    assert load_pem_public_key(row["key"].encode()) == passkey.key.public_key()


def test_gateways_are_told_once_and_again_when_somebody_is_removed(mission: Lab, people: dict[str, Person]) -> None:
    gateways = Gateways()
    bringer = Bringer(gateways.tell)
    looked(mission, bringer)
    looked(mission, bringer)
    assert gateways.heard == [("lab", ["ada", "eve", "root"])]
    with connect(mission.url_as(WORKER)) as link, link.transaction():
        records.remove(link, "host:root", "ada")
    looked(mission, bringer)
    assert gateways.heard[1:] == [("lab", ["eve", "root"])]
    # One that went away may be another when it is back.
    for state in ("stopped", "ready"):
        mission.link.execute("update workspace set state = %s where id = 'lab'", [state])
        looked(mission, bringer)
    assert gateways.heard[2:] == [("lab", ["eve", "root"])]


def test_gateway_that_does_not_answer_is_told_later_and_holds_up_no_other(
    mission: Lab, people: dict[str, Person], monkeypatch: pytest.MonkeyPatch
) -> None:
    mission.declare("other", "first")
    mission.link.execute("update workspace set egress = 'locked', state = 'ready'")
    gateways = Gateways()
    gateways.away.add("lab")
    bringer = Bringer(gateways.tell)
    looked(mission, bringer)
    assert [name for name, _ in gateways.heard] == ["other"]
    gateways.away.clear()
    looked(mission, bringer)
    assert len(gateways.heard) == 1  # it is left alone for a while
    bringer._pauses.clear()
    looked(mission, bringer)
    assert [name for name, _ in gateways.heard] == ["other", "lab"]


def handed(answer: str, signatures: list[Any], monkeypatch: pytest.MonkeyPatch, signed: Any) -> list[Any]:
    """How the worker's child hands an answer to a gateway: the calls, of both ways."""
    calls: list[Any] = []
    monkeypatch.setattr("deskyard.access.egress.waiting", lambda name: [TICKET])

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
    assert done == {"result": {"approval": ID, "state": "allowed"}}
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


@contextmanager
def working(mission: Lab, gateways: Gateways) -> Iterator[None]:
    """A worker of the test's own process, whose gateways are those."""
    mission.end("worker")
    with patch.dict(os.environ, {"LAB": str(mission.path)}):
        standby = Standby([sys.executable, "-m", "tests.control.child"])
        worker = Worker(mission.url(WORKER), Runner(Passkeys(ORIGIN), standby, deciders=Bringer(gateways.tell)))
        thread = threading.Thread(target=worker.run)
        thread.start()
        try:
            yield
        finally:
            worker.stop()
            thread.join(WAIT_SECONDS)
            mission.worker()


def test_gateway_that_knows_nobody_is_told_and_the_answer_given_again(mission: Lab, people: dict[str, Person]) -> None:
    follow.write(mission.link, "lab", TICKET)

    class Made(Gateways):
        """One that was made anew, and knows who answers once it is told."""

        def tell(self, name: str, document: Mapping[str, Any]) -> None:
            super().tell(name, document)
            (mission.path / "unknown").unlink(missing_ok=True)

    gateways = Made()
    # It asks nobody to be told by itself.
    mission.link.execute("update workspace set egress = 'none' where id = 'lab'")
    (mission.path / "unknown").touch()
    with working(mission, gateways):
        signed = people["ada"].signed(KIND, aim("once"))
        body = {"answer": "once", **signed}
        done = people["ada"].call("POST", f"/api/approvals/{ID}/decide", body, Prefer="wait=30").json()
        assert done["state"] == "done", done
        assert gateways.heard == [("lab", ["ada", "eve", "root"])]
        gateways.away.add("lab")
        (mission.path / "unknown").touch()
        signed = people["ada"].signed(KIND, aim("always"))
        body = {"answer": "always", **signed}
        refused = people["ada"].call("POST", f"/api/approvals/{ID}/decide", body, Prefer="wait=30").json()
        assert (refused["state"], refused["problem"]["reason"]) == ("failed", "is away")
