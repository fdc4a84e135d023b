"""Requests that make no operation are done once, however often they are sent, and answered as they were."""

import base64
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from deskyard.control.answers import kept
from deskyard.control.queue import claim
from deskyard.control.store.cluster import WEB
from deskyard.control.store.connection import Link
from deskyard.control.web.application import create
from deskyard.control.web.pages import Pages
from tests.control.lab import EVERYTHING, ORIGIN, WAIT_SECONDS, Lab
from tests.control.people import Person, enrolled
from tests.control.test_every_call import served

HOOK = {"url": "https://hooks.example.org/here"}
AGAIN = {"Idempotency-Key": "a-name"}
# What they answer counts once by itself, or ends what the next request would need.
NO_KEY = {
    *("POST /api/enrol/options", "POST /api/sign-in/options", "POST /api/sign-in", "POST /api/sign-out"),
    *("POST /api/sign-in/provider", "POST /api/sign-in/provider/answer"),
}


@pytest.fixture
def other(mission: Lab) -> Iterator[httpx.Client]:
    """Another key with the same rights."""
    with mission.client(mission.key(*EVERYTHING)) as client:
        yield client


@pytest.fixture
def ada(mission: Lab) -> Iterator[Person]:
    with mission.client() as client:
        yield enrolled(mission, client, "ada", "admin")


def count(mission: Lab, table: str) -> int:
    row = mission.link.execute(f"select count(*) as count from {table}".encode()).fetchone()
    assert row is not None
    return int(row["count"])


def alert(mission: Lab) -> None:
    query = "insert into alert (id, rule, object, text, number) values ('al_1', 'desktop.broken', 'lab.first', 'x', 1)"
    mission.link.execute(query)


def test_a_webhook_whose_answer_was_lost_is_made_once_and_shows_its_secret_again(
    mission: Lab, owner: httpx.Client
) -> None:
    first, again = (owner.post("/api/webhooks", json=HOOK, headers=AGAIN) for _ in range(2))
    assert (first.status_code, again.status_code) == (201, 201)
    assert first.json() == again.json() and first.json()["secret"].startswith("whsec_")
    assert count(mission, "webhook") == 1
    owner.post("/api/webhooks", json=HOOK)
    assert count(mission, "webhook") == 2, "without a key each is another"


def test_what_is_kept_of_an_answer_holds_its_secret_for_nobody_who_reads_the_database(
    mission: Lab, owner: httpx.Client
) -> None:
    secret = owner.post("/api/webhooks", json=HOOK, headers=AGAIN).json()["secret"]
    (row,) = mission.link.execute("select * from idempotency where answer is not null").fetchall()
    text, answer = secret.removeprefix("whsec_"), bytes(row["answer"])
    assert text.encode() not in answer and base64.b64decode(text) not in answer and b"whsec" not in answer
    # The same answer under another name is other bytes.
    owner.post("/api/webhooks", json=HOOK, headers={"Idempotency-Key": "another"})
    assert len({bytes(each["answer"]) for each in mission.link.execute("select answer from idempotency")}) == 2


def test_the_same_key_with_another_body_or_call_is_refused_and_does_nothing(mission: Lab, owner: httpx.Client) -> None:
    mission.declare("lab", "first")
    owner.post("/api/webhooks", json=HOOK, headers=AGAIN)
    for path, body in (
        ("/api/webhooks", {"url": "https://hooks.example.org/elsewhere"}),
        ("/api/desktops/lab.first/stop", None),
        ("/api/intents", {"kind": "desktop.destroy", "target": "lab.first"}),
    ):
        answer = owner.post(path, json=body, headers=AGAIN)
        said = answer.json()
        assert (answer.status_code, said["field"]) == (422, "Idempotency-Key")
        assert said["reason"] == "was used for another request"
    assert (count(mission, "webhook"), count(mission, "operation")) == (1, 0)
    # And the other way round.
    assert owner.post("/api/desktops/lab.first/stop", headers={"Idempotency-Key": "op"}).status_code == 202
    assert owner.post("/api/webhooks", json=HOOK, headers={"Idempotency-Key": "op"}).status_code == 422


def test_a_key_is_its_callers_alone(mission: Lab, owner: httpx.Client, other: httpx.Client) -> None:
    mine = owner.post("/api/webhooks", json=HOOK, headers=AGAIN).json()
    theirs = other.post("/api/webhooks", json=HOOK, headers=AGAIN).json()
    assert mine["id"] != theirs["id"] and mine["secret"] != theirs["secret"]


def test_an_answer_is_given_to_the_session_that_asked_and_to_no_later_one(mission: Lab, ada: Person) -> None:
    first, again = (ada.call("POST", "/api/webhooks", HOOK, **AGAIN) for _ in range(2))
    assert first.json() == again.json() and first.status_code == 201
    options = ada.call("POST", "/api/sign-in/options").json()["publicKey"]
    assert ada.call("POST", "/api/sign-in", {"credential": ada.passkey.get(options)}).status_code == 200
    later = ada.call("POST", "/api/webhooks", HOOK, **AGAIN)
    assert (later.status_code, later.json()["field"]) == (409, "Idempotency-Key")
    assert "in another session" in later.json()["reason"]
    assert count(mission, "webhook") == 1


def test_two_of_the_same_at_the_same_time_are_done_once(mission: Lab, owner: httpx.Client) -> None:
    answers: list[Any] = []

    def ask() -> None:
        with mission.client() as client:
            client.headers["Authorization"] = owner.headers["Authorization"]
            answers.append(client.post("/api/webhooks", json=HOOK, headers=AGAIN).json())

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT_SECONDS)
    assert len(answers) == 8 and all(answer == answers[0] for answer in answers)
    assert count(mission, "webhook") == 1


def test_a_test_of_a_webhook_is_sent_once(mission: Lab, owner: httpx.Client) -> None:
    hook = owner.post("/api/webhooks", json=HOOK).json()["id"]
    first, again = (owner.post(f"/api/webhooks/{hook}/test", headers=AGAIN) for _ in range(2))
    assert (first.status_code, again.json()) == (202, first.json())
    assert count(mission, "delivery") == 1


def test_what_is_said_of_an_alert_is_written_down_once(mission: Lab, owner: httpx.Client) -> None:
    alert(mission)
    until = (datetime.now(UTC) + timedelta(hours=8)).isoformat()
    for verb, body in (("acknowledge", None), ("silence", {"until": until})):
        path, headers = f"/api/alerts/al_1/{verb}", {"Idempotency-Key": verb}
        first, again = (owner.post(path, json=body, headers=headers) for _ in range(2))
        assert (first.status_code, again.json()) == (200, first.json()), first.text
        query = "select count(*) as lines from audit_entry where action = %s having count(*) > 0"
        assert mission.until(query, [f"alert.{verb}"]) == {"lines": 1}


def test_what_was_refused_is_done_when_it_is_sent_again(mission: Lab, owner: httpx.Client) -> None:
    assert owner.post("/api/alerts/al_1/acknowledge", headers=AGAIN).status_code == 404
    alert(mission)
    assert owner.post("/api/alerts/al_1/acknowledge", headers=AGAIN).status_code == 200


def test_an_end_that_is_asked_for_twice_is_asked_for_once(mission: Lab, owner: httpx.Client) -> None:
    mission.declare("lab", "blocks")
    mission.gate("blocks")
    running = owner.post("/api/desktops/lab.blocks/stop").json()["id"]
    mission.state(running, "running")
    sent = owner.post("/api/desktops/lab.blocks/chat", json={"message": "hello"}).json()
    mission.until("select 1 from message where role = 'agent' or state <> 'queued'", [])
    mission.end("worker")
    query = """insert into operation (id, kind, workspace_id, lane, actor, state)
        values ('op_turn', 'desktop.chat', 'lab', 'conversation:' || %s, 'x', 'queued')"""
    mission.link.execute(query, [sent["conversationId"]])
    for path, id in (
        (f"/api/operations/{running}/cancel", running),
        (f"/api/conversations/{sent['conversationId']}/interrupt", None),
    ):
        first, again = (owner.post(path, headers={"Idempotency-Key": path[:40]}) for _ in range(2))
        assert (first.status_code, again.status_code) == (202, 202), first.text
        assert again.json()["id"] == first.json()["id"] and id in (None, first.json()["id"])
    assert owner.post(f"/api/operations/{running}/cancel", headers={"Idempotency-Key": "b"}).status_code == 202
    # The audit keeps the lines of tests before.
    about = [[running, sent["conversationId"]]]
    query = """select action, count(*) as lines from audit_entry where action in ('operation.cancel',
        'conversation.interrupt') and target = any(%s) group by action order by 1"""
    mission.until("select 1 from audit_entry where action = 'conversation.interrupt' and target = any(%s)", about)
    assert [row["lines"] for row in mission.link.execute(query, about).fetchall()] == [1, 1]


def test_answers_are_forgotten_after_a_day_and_operations_are_not(
    mission: Lab, owner: httpx.Client, worker: Link
) -> None:
    mission.declare("lab", "first")
    owner.post("/api/webhooks", json=HOOK, headers=AGAIN)
    owner.post("/api/desktops/lab.first/stop", headers={"Idempotency-Key": "op"})
    mission.link.execute("update idempotency set created_at = now() - interval '23 hours'")
    claim.sweep(worker)
    assert count(mission, "idempotency") == 2
    mission.link.execute("update idempotency set created_at = now() - interval '25 hours'")
    claim.sweep(worker)
    (row,) = mission.link.execute("select key from idempotency").fetchall()
    assert row == {"key": "op"}


def test_so_many_answers_of_a_caller_are_kept_and_no_more(
    mission: Lab, owner: httpx.Client, other: httpx.Client
) -> None:
    owner.post("/api/webhooks", json=HOOK, headers=AGAIN)
    query = """insert into idempotency (actor, key, request_hash, answer)
        select actor, 'n' || n, request_hash, answer from idempotency, generate_series(2, %s) as n"""
    mission.link.execute(query, [kept.MOST])
    refused = owner.post("/api/webhooks", json=HOOK, headers={"Idempotency-Key": "one-more"})
    assert (refused.status_code, refused.json()["field"]) == (429, "Idempotency-Key")
    assert count(mission, "webhook") == 1
    assert owner.post("/api/webhooks", json=HOOK, headers=AGAIN).status_code == 201, "what is kept is given again"
    assert owner.post("/api/webhooks", json=HOOK).status_code == 201, "without a key nothing is kept"
    assert other.post("/api/webhooks", json=HOOK, headers=AGAIN).status_code == 201


def test_what_cannot_be_kept_is_not_done(
    mission: Lab, owner: httpx.Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept, "MOST_BYTES", 10)
    app = create(mission.url_as(WEB), ORIGIN, Pages())
    with served(app, tmp_path / "socket") as path, mission.client(path=path) as client:
        client.headers["Authorization"] = owner.headers["Authorization"]
        refused = client.post("/api/webhooks", json=HOOK, headers=AGAIN)
    assert (refused.status_code, refused.json()["field"]) == (422, "Idempotency-Key")
    assert (count(mission, "webhook"), count(mission, "idempotency")) == (0, 0)


def test_each_post_of_the_document_takes_a_key(owner: httpx.Client) -> None:
    paths = owner.get("/api/openapi.json").json()["paths"]
    without = {
        f"POST {path}"
        for path, calls in paths.items()
        if "post" in calls and "Idempotency-Key" not in {each["name"] for each in calls["post"].get("parameters", [])}
    }
    assert without == NO_KEY
