"""Desktops for a task by the API: each operation gets a single desktop, whoever is killed."""

import os
import secrets
import signal
from typing import Any

import httpx
import pytest
from deskyard_sdk import DesktopError
from deskyard_sdk.mission import MissionControl
from deskyard_sdk.sync import Loop
from psycopg.types.json import Jsonb

from deskyard.control.jobs import observer
from deskyard.control.jobs.child import JOBS
from deskyard.control.store.cluster import WORKER
from deskyard.control.tasks import seen, tidying
from deskyard.control.tasks.target import MEANT, RELEASE
from deskyard.errors import ConfigError
from deskyard.life.pool import filling
from deskyard.plan.pool.seat import State
from tests.control import seated
from tests.control.lab import Lab
from tests.control.people import Person, enrolled
from tests.control.task_bench import SEATED, TASKS, Bench, begun
from tests.control.test_programs import twin


@pytest.fixture
def child() -> str:
    return SEATED


@pytest.fixture
def bench(mission: Lab, monkeypatch: pytest.MonkeyPatch) -> Bench:
    return begun(mission, monkeypatch)


def done(client: httpx.Client, method: str = "POST", path: str = TASKS, body: Any = None) -> dict[str, Any]:
    """The end of an operation that a key wanted."""
    answer = client.request(method, path, json=body, headers={"Prefer": "wait=30"})
    assert answer.status_code == 202, answer.text
    found: dict[str, Any] = answer.json()
    assert found["state"] == "done", found
    return found


def test_one_that_waits_is_given_at_once_and_is_a_desktop_until_it_is_released(
    bench: Bench, owner: httpx.Client
) -> None:
    filling.fill("lab")
    bench.see()
    assert bench.seats(owner) == {"s1": "waiting", "s2": "free", "s3": "free"}
    assert owner.get("/api/desktops/lab.s1").status_code == 404
    operation = done(owner, body={"for": "2h", "tier": "free"})
    result = operation["result"]
    assert (operation["kind"], operation["desktopId"], result["desktop"]) == ("task.begin", "lab.s1", "lab.s1")
    assert bench.claimers() == [f"{operation['actor']} {operation['id']}"]
    seat = owner.get(TASKS).json()["items"][0]
    assert (seat["state"], seat["claimedBy"], seat["operationId"]) == (
        "claimed",
        operation["actor"],
        operation["id"],
    )
    assert seat["until"] and seat["machine"] == result["machine"]
    desktop = owner.get("/api/desktops/lab.s1").json()
    assert (desktop["state"], desktop["lifetime"], desktop["until"]) == ("ready", "task", seat["until"])
    assert desktop["machine"] == seat["machine"]
    ended = done(owner, "DELETE", f"{TASKS}/s1")
    assert ended["result"] == {"released": "lab.s1"}
    assert bench.seats(owner)["s1"] == "free"
    assert bench.ledger.machines() == {}
    assert owner.get("/api/desktops/lab.s1").status_code == 404


def test_without_one_that_waits_each_operation_makes_its_own_and_the_last_is_refused(
    bench: Bench, owner: httpx.Client
) -> None:
    asked = [owner.post(TASKS).json()["id"] for _ in seated.SEATS]
    ends = [bench.mission.state(id, "done", "failed") for id in asked]
    assert sorted(end["desktop_id"] for end in ends) == ["lab.s1", "lab.s2", "lab.s3"]
    late = owner.post(TASKS, headers={"Prefer": "wait=30"}).json()
    assert (late["state"], late["problem"]["reason"]) == ("failed", "all 3 that fit are taken")
    assert len(bench.claimers()) == 3


def test_the_same_request_again_is_the_same_desktop(bench: Bench, owner: httpx.Client) -> None:
    headers = {"Idempotency-Key": "a", "Prefer": "wait=30"}
    first, again = (owner.post(TASKS, headers=headers).json() for _ in range(2))
    assert first["state"] == "done" and again["id"] == first["id"]
    assert len(bench.claimers()) == 1


@pytest.mark.parametrize("also_its_child", [False, True], ids=["worker", "worker and child"])
def test_a_worker_that_is_killed_while_a_desktop_is_made_leaves_one_claim(
    bench: Bench, owner: httpx.Client, also_its_child: bool
) -> None:
    for seat in seated.SEATS:
        bench.mission.gate(seat)
    operation = owner.post(TASKS).json()
    query = "select line from operation_log where operation_id = %s and attempt = %s and position('makes' in line) > 0"
    number = int(bench.mission.until(query, [operation["id"], 1])["line"].split()[0])
    if also_its_child:
        # It has no time to clear anything.
        os.kill(number, signal.SIGSTOP)
    bench.mission.end("worker")
    if also_its_child:
        os.kill(number, signal.SIGKILL)
    bench.mission.worker()
    last = bench.mission.until(query, [operation["id"], 2])["line"].split()[-1]
    bench.mission.open(last)
    end = bench.mission.state(operation["id"], "done", "failed")
    assert (end["state"], end["attempt"], end["result"]["desktop"]) == ("done", 2, f"lab.{last}")
    assert bench.claimers() == [f"{operation['actor']} {operation['id']}"]
    assert [state for state in bench.seats(owner).values() if state != "free"] == ["claimed"]


def test_a_worker_that_is_killed_behind_the_claim_gives_the_same_desktop(bench: Bench, owner: httpx.Client) -> None:
    filling.fill("lab")
    bench.see()
    # Whoever writes the end down waits: the claim is in the ledger, and nobody was told of it.
    with bench.mission.link.transaction():
        bench.mission.link.execute("select 1 from desktop where workspace_id = 'lab' for update")
        bench.mission.link.execute("lock table seat in exclusive mode")
        operation = owner.post(TASKS).json()
        query = "select 1 from operation_log where operation_id = %s and line = 's1 is claimed'"
        bench.mission.until(query, [operation["id"]])
        bench.mission.end("worker")
        assert bench.claimers() == [f"{operation['actor']} {operation['id']}"]
    bench.mission.worker()
    end = bench.mission.state(operation["id"], "done", "failed")
    assert (end["state"], end["attempt"], end["result"]["desktop"]) == ("done", 2, "lab.s1")
    assert bench.claimers() == [f"{operation['actor']} {operation['id']}"]


def test_what_is_kept_alone_is_refused_for_a_desktop_that_is_for_a_task(bench: Bench, owner: httpx.Client) -> None:
    done(owner)
    for method, path, body in (
        *(("POST", f"/api/desktops/lab.s1/{verb}", None) for verb in ("start", "stop", "restart", "pause", "resume")),
        *(("POST", f"/api/desktops/lab.s1/{verb}", None) for verb in ("freeze", "thaw", "upgrade")),
        ("POST", "/api/desktops/lab.s1/destroy", None),
        ("POST", "/api/desktops/lab.s1/snapshots", {"name": "before"}),
        ("POST", "/api/desktops/lab.s1/snapshots/before/restore", None),
        ("POST", "/api/desktops/lab.s1/backups", None),
        ("POST", "/api/fleet/actions", {"action": "stop", "selector": {"ids": ["lab.s1"]}, "expectedCount": 1}),
    ):
        answer = owner.request(method, path, json=body)
        assert (answer.status_code, answer.json()["reason"]) == (409, "is for a task: it is never kept or changed"), (
            path
        )
        assert answer.json()["remedy"] == "release it: DELETE /api/workspaces/lab/tasks/s1"
    named = owner.post("/api/desktops", json={"name": "s1", "workspaceId": "lab"})
    assert (named.status_code, named.json()["field"]) == (409, "name")


def test_who_has_it_opens_it_and_talks_to_its_agent_and_nobody_goes_on_with_what_another_said(
    bench: Bench, owner: httpx.Client
) -> None:
    done(owner)
    asked = owner.post("/api/desktops/lab.s1/session", json={"mode": "agent"})
    assert (asked.status_code, asked.json()["kind"]) == (202, "desktop.session")
    sent = owner.post("/api/desktops/lab.s1/chat", json={"message": "hello"})
    assert sent.status_code == 202, sent.text
    conversation = sent.json()["conversationId"]
    again = {"message": "more", "conversationId": conversation}
    assert owner.post("/api/desktops/lab.s1/chat", json=again).status_code == 202
    done(owner, "DELETE", f"{TASKS}/s1")
    assert owner.post("/api/desktops/lab.s1/session", json={"mode": "agent"}).status_code == 404
    done(owner)
    refused = owner.post("/api/desktops/lab.s1/chat", json=again)
    assert (refused.status_code, refused.json()["reason"]) == (409, "is of a desktop that is gone")


def test_whoever_has_it_ends_it_and_another_key_needs_the_scope_to_destroy(bench: Bench, owner: httpx.Client) -> None:
    mission = bench.mission
    with (
        mission.client(mission.key("read", "desktops:write")) as own,
        mission.client(mission.key("read", "desktops:write")) as other,
    ):
        done(own)
        refused = other.delete(f"{TASKS}/s1")
        assert (refused.status_code, refused.json()["field"]) == (403, "scope")
        done(own, "DELETE", f"{TASKS}/s1")
        done(own)
    assert done(owner, "DELETE", f"{TASKS}/s1")["state"] == "done"
    done(owner)
    other_machine = owner.delete(f"{TASKS}/s1", params={"machine": "0123456789abcdef"})
    assert (other_machine.status_code, other_machine.json()["field"]) == (409, "machine")
    machine = owner.get(TASKS).json()["items"][0]["machine"]
    done(owner, "DELETE", f"{TASKS}/s1?machine={machine}")
    free = owner.delete(f"{TASKS}/s1")
    assert (free.status_code, free.json()["reason"]) == (409, "is free: nobody has a desktop there")
    assert owner.delete(f"{TASKS}/s9").status_code == 404


def test_a_key_of_another_workspace_sees_and_gets_nothing(bench: Bench) -> None:
    mission = bench.mission
    mission.declare("elsewhere")
    everything = ("read", "desktops:write", "desktops:destroy")
    with mission.client(mission.key(*everything, workspaces=["elsewhere"])) as stranger:
        assert stranger.get(TASKS).status_code == 404
        assert stranger.post(TASKS).status_code == 404
        assert stranger.delete(f"{TASKS}/s1").status_code == 404
    with mission.client(mission.key("read")) as reader:
        assert reader.get(TASKS).status_code == 200
        assert reader.post(TASKS).status_code == 403
    assert bench.ledger.machines() == {}


def test_a_taken_web_process_ends_no_desktop_of_anybody(bench: Bench, owner: httpx.Client) -> None:
    machine = done(owner)["result"]["machine"]

    def forged(proof: Any, machine: str = machine) -> dict[str, Any]:
        id = f"op_{secrets.token_hex(8)}"
        bench.mission.link.execute(
            "insert into operation (id, kind, workspace_id, desktop_id, lane, input, proof, actor)"
            " values (%s, %s, 'lab', 'lab.s1', 'seat:lab.s1', %s, %s, 'person:ada')",
            [id, RELEASE, Jsonb({"machine": machine}), Jsonb(proof) if proof is not None else None],
        )
        return bench.mission.state(id, "done", "failed")

    with bench.mission.client() as client:
        ada: Person = enrolled(bench.mission, client, "ada", "operator")
        assert ada.call("DELETE", f"{TASKS}/s1", {}).status_code == 403
        other = ada.signed(RELEASE, "lab.s1 0123456789abcdef")["intent"]
        assert forged(None)["state"] == forged(other)["state"] == "failed"
        assert len(bench.claimers()) == 1
        signed = ada.signed(RELEASE, f"lab.s1 {machine}")
        assert ada.call("DELETE", f"{TASKS}/s1", signed, Prefer="wait=30").json()["state"] == "done"
    assert bench.claimers() == []


def test_a_signature_ends_the_machine_that_it_names_and_not_the_next_at_its_seat(
    bench: Bench, owner: httpx.Client
) -> None:
    machine = done(owner)["result"]["machine"]
    done(owner, "DELETE", f"{TASKS}/s1")
    done(owner)
    with bench.mission.client() as client:
        ada = enrolled(bench.mission, client, "ada", "operator")
        signed = ada.signed(RELEASE, f"lab.s1 {machine}")
        assert ada.call("DELETE", f"{TASKS}/s1", signed).status_code == 422
    assert len(bench.claimers()) == 1


def test_what_was_said_to_a_desktop_that_is_gone_is_not_delivered_to_the_next_at_its_seat(
    bench: Bench, owner: httpx.Client
) -> None:
    machine = done(owner)["result"]["machine"]
    sent = owner.post("/api/desktops/lab.s1/chat", json={"message": "the token is X"}).json()
    # To its own desktop it is delivered, where no agent is.
    first = bench.mission.state(sent["operationId"], "failed")
    assert "gone" not in first["problem"]["reason"] and "another task" not in first["problem"]["reason"]
    done(owner, "DELETE", f"{TASKS}/s1")
    again = f"/api/operations/{sent['operationId']}/retry"
    gone = bench.mission.state(owner.post(again).json()["id"], "failed")
    assert "is gone" in gone["problem"]["reason"]
    done(owner)
    other = bench.mission.state(owner.post(again).json()["id"], "failed")
    assert other["problem"]["reason"] == "is of another task by now"
    # It may be so before that is written down.
    for kind in MEANT:
        with pytest.raises(ConfigError, match="which is gone"):
            JOBS[kind]({"desktop": "lab.s1", "workspace": "lab", "machine": machine, "input": {}})


def test_a_program_begins_a_task_uses_its_desktop_and_releases_it(bench: Bench) -> None:
    program = MissionControl(Loop(), twin(bench.mission))
    try:
        begun = program.wait(program.begin_task("lab", for_="30m"))
        result = begun["result"] or {}
        id = result["desktop"]
        assert [seat["id"] for seat in program.tasks("lab") if seat["operationId"] == begun["id"]] == [id]
        assert program.desktop(id)["lifetime"] == "task"
        with pytest.raises(DesktopError, match="is for a task"):
            program.stop(id)
        assert (program.wait(program.release_task(id))["result"] or {}) == {"released": id}
        assert {seat["state"] for seat in program.tasks("lab")} == {"free"}
    finally:
        program.close()


def test_what_has_no_seat_that_fits_is_refused_before_anything_is_touched(bench: Bench, owner: httpx.Client) -> None:
    for body, words in (({"tier": "pro"}, "with tier pro"), ({"image": "e2b"}, "with image e2b")):
        answer = owner.post(TASKS, json=body)
        assert answer.status_code == 409 and words in answer.json()["reason"], answer.text
    assert owner.post(TASKS, json={"for": "soon"}).status_code == 422
    bench.mission.declare("bare")
    assert owner.post("/api/workspaces/bare/tasks").status_code == 409


def test_desktops_for_a_task_count_for_their_workspace_and_for_whoever_began_them(
    bench: Bench, owner: httpx.Client
) -> None:
    # Beside the desktop that is kept.
    assert owner.put("/api/quotas/workspace:lab", json={"desktops": 2}).status_code == 200
    actor = done(owner)["actor"]
    full = owner.post(TASKS)
    assert (full.status_code, full.json()["field"]) == (409, "desktops")
    done(owner, "DELETE", f"{TASKS}/s1")
    key = f"key:{actor.rpartition(':')[2]}"
    assert owner.put(f"/api/quotas/{key}", json={"desktops": 1}).status_code == 200
    done(owner)
    used = {row["subject"]: row["used"]["desktops"] for row in owner.get("/api/quotas").json()["items"]}
    assert (used["workspace:lab"], used[key]) == (2, 1)


def test_its_machine_time_counts_from_the_claim_to_the_end(bench: Bench, owner: httpx.Client) -> None:
    query = "select ended_at from usage_interval where desktop_id = 'lab.s1'"
    filling.fill("lab")
    bench.see()
    assert bench.mission.link.execute(query).fetchall() == []
    done(owner)
    assert [row["ended_at"] for row in bench.mission.link.execute(query).fetchall()] == [None]
    done(owner, "DELETE", f"{TASKS}/s1")
    assert all(row["ended_at"] for row in bench.mission.link.execute(query).fetchall())


def test_each_is_a_line_of_the_audit_and_an_event(bench: Bench, owner: httpx.Client) -> None:
    operation = done(owner)
    ended = done(owner, "DELETE", f"{TASKS}/s1")
    for action, target, of in (("task.begin", "lab", operation), ("task.release", "lab.s1", ended)):
        row = bench.mission.until(
            "select * from audit_entry where action = %s and detail ->> 'operation' = %s", [action, of["id"]]
        )
        assert (row["target"], row["actor"]) == (target, of["actor"])
    for kind, subject in (("desktop", "lab.s1"), ("workspace", "lab"), ("operation", operation["id"])):
        assert bench.mission.until("select 1 from event where kind = %s and subject = %s", [kind, subject])


def test_what_is_over_goes_and_the_pool_is_filled_after_it_gave_one(bench: Bench, owner: httpx.Client) -> None:
    link = bench.mission.link
    assert tidying.ask_for_due(link) == []
    done(owner, body={"for": "1s"})
    assert tidying.ask_for_due(link) == ["lab"]
    assert tidying.ask_for_due(link) == []
    end = bench.mission.until("select * from operation where kind = 'task.tidy' and state <> 'queued'", [])
    assert bench.mission.state(end["id"], "done", "failed")["state"] == "done"
    assert end["actor"] == "watch"
    assert State.WAITING in {seated.state for seated in bench.ledger.machines().values()}
    assert tidying.ask_for_due(link) == []
    # Of one whose time is over nobody tells.
    link.execute("delete from operation where kind = 'task.tidy'")
    link.execute("update operation set ended_at = now() - interval '1 hour' where kind = 'task.begin'")
    link.execute("update seat set state = 'claimed', until = now() - interval '1 second' where name = 's3'")
    assert tidying.ask_for_due(link) == ["lab"]


def test_an_older_word_of_the_seats_changes_nothing(bench: Bench, owner: httpx.Client) -> None:
    before = seen.read(bench.declared)
    done(owner)
    seen.write(bench.mission.link, "lab", before)
    assert bench.seats(owner)["s1"] == "claimed"
    assert owner.get("/api/desktops/lab.s1").status_code == 200


def test_who_observes_writes_down_what_is_claimed_at_the_host_and_whether_it_runs(
    bench: Bench, owner: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    from deskyard.life.pool import pool

    filling.fill("lab")
    pool.claim("lab", None, None, 600)
    watching = observer.Observer(bench.mission.url_as(WORKER))
    watching._read(bench.mission.link, "lab")
    watching._look_at_seats(bench.mission.link, "lab")
    seat = owner.get(TASKS).json()["items"][0]
    assert (seat["state"], seat["operationId"]) == ("claimed", None)
    assert owner.get("/api/desktops/lab.s1").json()["state"] == "ready"
    with watching._pool:
        (bench.mission.path / "machines" / "s1").unlink()
        watching._ask_for_seats(bench.declared)
    assert owner.get("/api/desktops/lab.s1").json()["state"] == "stopped"
    # What is declared is read again as often as it changes: nobody loses a desktop by that.
    observer.write_declared(bench.mission.link, bench.declared)
    assert owner.get("/api/desktops/lab.s1").status_code == 200
