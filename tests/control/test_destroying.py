"""What takes data away needs a signature or a key's proof, which the worker checks: the web process's word is none."""

import json
import secrets
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import httpx
import pytest
from psycopg.types.json import Jsonb

from deskyard.control.jobs.running import Runner
from deskyard.control.jobs.slots import SHARES
from deskyard.control.jobs.standby import Standby
from deskyard.control.jobs.worker import Worker
from deskyard.control.people.intent import Intent
from deskyard.control.people.passkeys import Passkeys
from deskyard.control.store.cluster import OWNER, WORKER
from deskyard.control.store.connection import connect
from deskyard.control.web.application import create
from deskyard.control.web.pages import Pages
from deskyard.declaration.desktop_list import undeclare
from deskyard.engine.stack import WorkspaceStack
from deskyard.host.deadline import Deadline
from deskyard.host.secret_file import write_secret
from tests.control.lab import LEASE_SECONDS, ORIGIN, WAIT_SECONDS, Lab
from tests.control.people import Person, enrolled
from tests.control.test_every_call import served


@pytest.fixture
def person(mission: Lab) -> Iterator[Person]:
    mission.declare("lab", "first", "second")
    with mission.client() as client:
        yield enrolled(mission, client, "ada", "operator")


def forged(mission: Lab, proof: Any, desktop: str = "lab.first", workspace: str = "lab") -> dict[str, Any]:
    """What a taken web process could write down by itself; the operation at its end."""
    id = f"op_{secrets.token_hex(8)}"
    mission.link.execute(
        "insert into operation (id, kind, workspace_id, desktop_id, lane, proof, actor)"
        " values (%s, 'desktop.destroy', %s, %s, 'workspace:lab', %s, 'person:ada')",
        [id, workspace, desktop, Jsonb(proof) if proof is not None else None],
    )
    return mission.state(id, "done", "failed")


def test_a_person_destroys_what_the_passkey_signed(mission: Lab, person: Person) -> None:
    asked = person.call("POST", "/api/intents", {"kind": "desktop.destroy", "target": "lab.first"}).json()
    assert "lab.first" in asked["text"] and "all its data" in asked["text"]
    signed = person.signed("desktop.destroy", "lab.first")
    done = person.call("DELETE", "/api/desktops/lab.first", signed, Prefer="wait=30")
    assert done.json()["state"] == "done", done.text
    assert mission.effects("lab.first") == ["begin", "end"]


@pytest.mark.parametrize("ahead", [-400, 400])
def test_the_clock_of_the_web_process_may_differ_from_that_of_the_database(
    mission: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ahead: int
) -> None:
    mission.declare("lab", "first", "second", "third")
    clock = time.time
    monkeypatch.setattr(time, "time", lambda: clock() + ahead)
    app = create(mission.url(OWNER), ORIGIN, Pages())
    with served(app, tmp_path / "socket") as place, mission.client(path=place) as client:
        ada = enrolled(mission, client, "ada", "operator")
        signed = ada.signed("desktop.destroy", "lab.first")
        done = ada.call("DELETE", "/api/desktops/lab.first", signed, Prefer="wait=30")
        assert done.json()["state"] == "done", done.text
        client.headers = httpx.Headers({"Authorization": f"Bearer {mission.key('desktops:destroy', 'read')}"})
        done = client.delete("/api/desktops/lab.second", headers={"Prefer": "wait=30"})
        assert done.json()["state"] == "done", done.text


def test_without_a_signature_nothing_is_destroyed(mission: Lab, person: Person) -> None:
    answer = person.call("DELETE", "/api/desktops/lab.first", {})
    assert (answer.status_code, answer.json()["field"]) == (403, "intent")
    assert forged(mission, None)["state"] == "failed"
    assert mission.effects("lab.first") == []


def test_a_signature_is_for_one_desktop(mission: Lab, person: Person) -> None:
    signed = person.signed("desktop.destroy", "lab.second")
    assert person.call("DELETE", "/api/desktops/lab.first", signed).status_code == 422
    assert forged(mission, signed["intent"])["state"] == "failed"
    changed = {**signed["intent"], "intent": {**signed["intent"]["intent"], "target": "lab.first"}}
    assert forged(mission, changed)["state"] == "failed"
    assert mission.effects("lab.first") == []


def test_a_signature_is_for_the_workspace_of_its_desktop(mission: Lab, person: Person) -> None:
    mission.declare("other", "first")
    signed = person.signed("desktop.destroy", "lab.first")["intent"]
    end = forged(mission, signed, workspace="other")
    assert (end["state"], end["problem"]["reason"]) == ("failed", "is not that of lab.first")
    assert mission.effects("lab.first") == []


def test_a_signature_counts_once(mission: Lab, person: Person) -> None:
    signed = person.signed("desktop.destroy", "lab.first")["intent"]
    assert forged(mission, signed)["state"] == "done"
    again = forged(mission, signed)
    assert (again["state"], again["problem"]["reason"]) == ("failed", "was used before")


def test_a_signature_of_long_ago_or_for_ever_counts_nothing(mission: Lab, person: Person) -> None:
    for expires in (int(time.time()) - 1, int(time.time()) + 10_000):
        intent = Intent("desktop.destroy", "lab.first", secrets.token_hex(16), expires)
        options = {"challenge": _challenge(intent)}
        proof = {"intent": intent.as_dict(), "credential": person.passkey.get(options)}
        assert forged(mission, proof)["state"] == "failed"
    assert mission.effects("lab.first") == []


def test_a_signature_by_a_strangers_passkey_counts_nothing(mission: Lab, person: Person) -> None:
    person.passkey.id = secrets.token_bytes(16)
    assert forged(mission, person.signed("desktop.destroy", "lab.first")["intent"])["state"] == "failed"


def test_a_viewers_signature_counts_nothing(mission: Lab, person: Person) -> None:
    signed = person.signed("desktop.destroy", "lab.first")["intent"]
    mission.link.execute("update person set role = 'viewer'")
    assert forged(mission, signed)["state"] == "failed"


def test_a_key_with_its_scope_destroys_and_without_it_cannot(mission: Lab, person: Person) -> None:
    with mission.client(mission.key("read", "desktops:destroy")) as client:
        done = client.delete("/api/desktops/lab.first", headers={"Prefer": "wait=30"})
    assert done.json()["state"] == "done", done.text
    with mission.client(mission.key("read", "desktops:write")) as client:
        assert client.delete("/api/desktops/lab.second").status_code == 403
    assert mission.effects("lab.second") == []


def test_a_keys_proof_is_for_one_intent_of_that_key(mission: Lab, person: Person) -> None:
    with mission.client(mission.key("read", "desktops:destroy")) as client:
        operation = client.delete("/api/desktops/lab.first", headers={"Prefer": "wait=30"}).json()["id"]
    row = mission.link.execute("select proof from operation where id = %s", [operation]).fetchone()
    assert row is not None
    proof = row["proof"]
    moved = {**proof, "intent": {**proof["intent"], "target": "lab.second", "nonce": secrets.token_hex(16)}}
    assert forged(mission, moved, "lab.second")["state"] == "failed"
    assert forged(mission, proof)["problem"]["reason"] == "was used before"
    assert "proof" not in json.dumps(mission.link.execute("select * from audit_entry").fetchall(), default=str)


def test_the_only_desktop_of_a_workspace_is_refused_before_anybody_signs(mission: Lab, person: Person) -> None:
    mission.declare("alone", "first")
    asked = person.call("POST", "/api/intents", {"kind": "desktop.destroy", "target": "alone.first"})
    with mission.client(mission.key("read", "desktops:destroy")) as client:
        for refused in (asked, client.delete("/api/desktops/alone.first")):
            assert refused.status_code == 409, refused.text
            problem = refused.json()
            assert "only desktop of its workspace" in problem["reason"]
            assert "create another" in problem["remedy"] and "workspace.destroy alone" in problem["remedy"]
        # A seat is declared as well: with it the workspace has a desktop left to declare.
        mission.link.execute(
            "insert into seat (id, workspace_id, name, tier, image, address, state) values"
            " ('alone.s1', 'alone', 's1', 'free', 'desktop', '10.0.0.3', 'free')"
        )
        done = client.delete("/api/desktops/alone.first", headers={"Prefer": "wait=30"})
    assert done.json()["state"] == "done", done.text


def test_the_last_desktop_beside_those_that_are_being_destroyed_is_refused(mission: Lab) -> None:
    mission.declare("team", "blocks", "second", "third")
    mission.gate("blocks")
    with mission.client(mission.key("read", "desktops:destroy", "desktops:write")) as client:
        first = client.delete("/api/desktops/team.blocks").json()["id"]
        waiting = client.delete("/api/desktops/team.second").json()["id"]
        refused = client.delete("/api/desktops/team.third")
        assert refused.status_code == 409
        # It is not the only one yet, and nobody is to destroy the workspace for it.
        assert "beside team.second, which is to be destroyed (queued)" in refused.json()["reason"]
        assert f"wait for the end of {waiting}, or cancel it" in refused.json()["remedy"]
        assert "workspace.destroy" not in refused.text
        # One that was cancelled is a desktop that stays.
        assert client.post(f"/api/operations/{waiting}/cancel").status_code == 202
        mission.state(waiting, "cancelled")
        assert client.delete("/api/desktops/team.third").status_code == 202
    mission.open("blocks")
    mission.state(first, "done")


def test_the_last_desktop_beside_one_whose_destruction_waits_for_a_second_person_is_refused_with_that(
    mission: Lab, person: Person
) -> None:
    mission.link.execute(
        "insert into operation (id, kind, workspace_id, desktop_id, state, actor)"
        " values ('op_waits', 'desktop.destroy', 'lab', 'lab.first', 'waiting', 'person:bob')"
    )
    asked = person.call("POST", "/api/intents", {"kind": "desktop.destroy", "target": "lab.second"})
    with mission.client(mission.key("read", "desktops:destroy")) as client:
        for refused in (asked, client.delete("/api/desktops/lab.second")):
            assert refused.status_code == 409, refused.text
            assert "beside lab.first, which is to be destroyed (waiting)" in refused.json()["reason"]
            assert "wait for the end of op_waits, or cancel it" in refused.json()["remedy"]


def test_who_may_not_see_a_desktop_learns_nothing_of_others_by_an_intent(mission: Lab) -> None:
    mission.declare("lab", "first", "second")
    mission.declare("alone", "first")
    with mission.client() as client:
        eve = enrolled(mission, client, "eve", "operator")
        mission.link.execute("update person set workspaces = '{lab}' where name = 'eve'")
        for hidden in ("alone.first", "nowhere.first"):
            asked = eve.call("POST", "/api/intents", {"kind": "desktop.destroy", "target": hidden})
            assert asked.status_code == 200, asked.text


def test_a_worker_declares_again_what_a_killed_program_was_removing(
    mission: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DESKYARD_STACKS", str(tmp_path))
    monkeypatch.setenv("DESKYARD_HOME", str(tmp_path / "home"))
    path, kept = tmp_path / "Pulumi.lab.yaml", tmp_path / "home" / "state" / "removals" / "lab.first.json"
    text = "config:\n  deskyard:network: 10.80.1.0/24\n  deskyard:desktops: [{name: first}, {name: second}]\n"
    path.write_text(text)
    undeclare(path, "first", lambda found: write_secret(kept, json.dumps(asdict(found)).encode()))
    monkeypatch.setattr(WorkspaceStack, "exists", lambda _: True)
    monkeypatch.setattr(WorkspaceStack, "desktops_with_machines", lambda _: {"first", "second"})
    monkeypatch.setattr(WorkspaceStack, "desktops_with_disks", lambda _: {"first", "second"})
    runner = Runner(Passkeys(ORIGIN), Standby(["true"]), LEASE_SECONDS)
    worker = Worker(mission.url(WORKER), runner, dict.fromkeys(SHARES, 0))
    with connect(mission.url_as(WORKER)) as link:
        worker.look(link)
    assert Deadline(WAIT_SECONDS).wait_for(lambda: not kept.exists(), 0.02)
    assert path.read_text() == text


def _challenge(intent: Intent) -> str:
    from webauthn.helpers import bytes_to_base64url

    return bytes_to_base64url(intent.challenge)
