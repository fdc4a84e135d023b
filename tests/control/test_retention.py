"""How long conversations are kept: as an admin signed, and no turn, claim or reader is lost with what is old."""

import contextlib
import json
import secrets
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import psycopg
import pytest
from psycopg.types.json import Jsonb

from deskyard.control.retention.forget import forget
from deskyard.control.retention.policy import REMOVE, SET, Policy
from deskyard.control.store.cluster import WEB, WORKER
from deskyard.control.store.connection import Link, connect
from deskyard.host.deadline import Deadline
from tests.control.lab import WAIT_SECONDS, Lab
from tests.control.people import Person, enrolled
from tests.control.stream import watching

PATH = "/api/retention"
DAY = "2026-01-31"


@pytest.fixture
def keeper(mission: Lab) -> Iterator[Link]:
    """A connection as what watches has it, which deletes what is over."""
    mission.declare("lab", "first")
    mission.declare("other", "first")
    with connect(mission.url(WORKER)) as link:
        yield link


def said(mission: Lab, id: str, days: float, desktop: str = "lab.first", *claimed: int) -> None:
    """A conversation with a question and an answer, in which nothing was said for so many days."""
    mission.link.execute("insert into conversation (id, desktop_id, title) values (%s, %s, %s)", [id, desktop, id])
    query = """insert into message (id, conversation_id, role, author, text, state, at, claimed_input, claimed_output,
        claimed_cached) values (%s, %s, %s, 'x', %s, 'done', %s, %s, %s, %s)"""
    for role in ("person", "agent"):
        tokens = claimed if role == "agent" and claimed else (None, None, None)
        mission.link.execute(query, [f"ms_{id}_{role}", id, role, f"words of {id}", DAY, *tokens])
    silent(mission, id, days)


def silent(mission: Lab, id: str, days: float) -> None:
    """Nothing was said in a conversation for so many days."""
    query = "update conversation set last_at = now() - make_interval(secs => %s) where id = %s"
    mission.link.execute(query, [days * 86_400, id])


def keep(owner: httpx.Client, days: int | None, workspace: str | None = None) -> dict[str, Any]:
    wanted = {"workspaceId": workspace, "days": days}
    done: dict[str, Any] = owner.post(PATH, json=wanted, headers={"Prefer": "wait=30"}).json()
    assert done["state"] == "done", done
    return done


def left(mission: Lab) -> list[str]:
    return [row["id"] for row in mission.link.execute("select id from conversation order by id").fetchall()]


def test_what_is_older_than_its_workspace_or_else_the_site_says_is_deleted_and_nothing_else(
    mission: Lab, owner: httpx.Client, keeper: Link
) -> None:
    ages = {"a_old": ("lab.first", 31), "b_new": ("lab.first", 29), "c_old": ("other.first", 8)}
    # Of a desktop and a workspace of which nothing else is left.
    ages |= {"d_new": ("other.first", 6), "e_gone": ("past.first", 8)}
    for id, (desktop, days) in ages.items():
        said(mission, id, days, desktop)
    assert forget(keeper) == 0
    keep(owner, 30, "lab")
    assert owner.get(f"{PATH}/preview?days=7").json()["conversations"] == 2
    assert (forget(keeper), left(mission)) == (1, ["b_new", "c_old", "d_new", "e_gone"])
    keep(owner, 7)
    keep(owner, None, "other")
    assert (forget(keeper), left(mission)) == (1, ["b_new", "c_old", "d_new"])
    done = owner.delete(f"{PATH}/other", headers={"Prefer": "wait=30"}).json()
    assert (done["state"], forget(keeper), left(mission)) == ("done", 1, ["b_new", "d_new"])
    shown = [(kept["workspaceId"], kept["days"]) for kept in owner.get(PATH).json()["items"]]
    assert shown == [(None, 7), ("lab", 30)]


def test_what_is_deleted_was_counted_before_and_is_told_to_readers_search_and_audit_without_a_word_of_it(
    mission: Lab, owner: httpx.Client, keeper: Link
) -> None:
    mission.declare("told")
    said(mission, "cv_a", 9, "told.first")
    expected = {"conversations": 1, "messages": 2}
    counted = owner.get(f"{PATH}/preview", params={"days": 8, "workspace": "told"}).json()
    assert {name: counted[name] for name in expected} == expected
    assert owner.get(f"{PATH}/preview", params={"days": 10, "workspace": "told"}).json()["conversations"] == 0
    assert len(owner.get("/api/conversations?q=words").json()["items"]) == 1
    keep(owner, 8, "told")
    with watching(mission, mission.key("read")) as events:
        assert forget(keeper) == 1
        assert next(news for _, kind, news in events if kind == "conversation") == {"id": "cv_a", "gone": True}
    assert owner.get("/api/conversations?q=words").json()["items"] == []
    for path in ("messages", "export"):
        gone = owner.get(f"/api/conversations/cv_a/{path}")
        assert (gone.status_code, "/api/retention" in gone.json()["remedy"]) == (404, True)
    line = mission.until("select * from audit_entry where action = 'conversation.forget' and target = 'told'", [])
    assert line["actor"] == "retention"
    assert {name: line["detail"][name] for name in expected} == expected
    assert line["detail"]["oldest"] == line["detail"]["newest"] == counted["oldestAt"].replace("Z", "+00:00")
    assert "words" not in json.dumps(line["detail"])


def test_the_process_that_watches_deletes_by_itself_what_is_over(
    mission: Lab, owner: httpx.Client, keeper: Link
) -> None:
    said(mission, "cv_a", 9)
    said(mission, "cv_b", 7)
    keep(owner, 8)
    options = ["--database", mission.url(WORKER), "--link", str(mission.folder.link_socket), "--pace", "0.1"]
    mission.start("watch", "deskyard.control.watch", *options)
    try:
        mission.until("select 1 from event where kind = 'conversation' and subject = 'cv_a'", [])
    finally:
        mission.end("watch")
    assert left(mission) == ["cv_b"]


def test_what_agents_claimed_is_counted_to_the_token_also_when_it_is_gone(
    mission: Lab, owner: httpx.Client, keeper: Link
) -> None:
    for number, days in enumerate((9, 9, 0)):
        said(mission, f"cv_{number}", days, "lab.first", 10**9, 10 + number, number)
    said(mission, "cv_3", 9, "other.first", 5, 5, 5)
    window = {"since": DAY, "until": DAY}
    asked = [window, *({**window, "by": by} for by in ("desktop", "workspace", "day"))]
    asked += [{**window, "desktop": "lab.first"}, {"since": "2026-02-01", "until": "2026-02-01"}]
    before = [owner.get("/api/usage", params=each).json()["claimed"] for each in asked]
    assert [sum(claim["output"] for claim in found) for found in before] == [38, 38, 38, 38, 33, 0]
    keep(owner, 8)
    # Each by itself, so that what is kept is added to.
    assert [forget(keeper, 1) for _ in range(4)] == [1, 1, 1, 0]
    assert left(mission) == ["cv_2"]
    assert [owner.get("/api/usage", params=each).json()["claimed"] for each in asked] == before
    with mission.client(mission.key("read", workspaces=["other"])) as stranger:
        found = stranger.get("/api/usage", params={"since": DAY, "until": DAY}).json()["claimed"]
        assert [claim["desktopId"] for claim in found] == ["other.first"]


def test_a_conversation_in_which_a_turn_waits_or_runs_is_kept_until_it_is_over(
    mission: Lab, owner: httpx.Client, keeper: Link
) -> None:
    keep(owner, 1)
    sent = owner.post("/api/desktops/lab.first/chat", json={"message": "this never ends"}).json()
    id = sent["conversationId"]
    mission.until("select 1 from message where role = 'agent' and operation_id = %s", [sent["operationId"]])
    next_one = owner.post("/api/desktops/lab.first/chat", json={"message": "wait", "conversationId": id}).json()
    silent(mission, id, 9)
    assert (owner.get(f"{PATH}/preview?days=1").json()["conversations"], forget(keeper)) == (0, 0)
    owner.post(f"/api/conversations/{id}/interrupt")
    mission.state(sent["operationId"], "cancelled")
    mission.state(next_one["operationId"], "done")
    # Its end is news of it: it is kept for as long again.
    assert forget(keeper) == 0
    silent(mission, id, 9)
    assert (forget(keeper), left(mission)) == (1, [])


def test_a_turn_of_a_conversation_that_went_says_so_and_one_that_begins_keeps_it(
    mission: Lab, owner: httpx.Client, keeper: Link
) -> None:
    keep(owner, 1)
    sent = owner.post("/api/desktops/lab.first/chat", json={"message": "this never ends"}).json()
    mission.until("select 1 from message where role = 'agent' and operation_id = %s", [sent["operationId"]])
    owner.post(f"/api/conversations/{sent['conversationId']}/interrupt")
    mission.state(sent["operationId"], "cancelled")
    silent(mission, sent["conversationId"], 9)
    assert forget(keeper) == 1
    again = owner.post(f"/api/operations/{sent['operationId']}/retry").json()["id"]
    problem = mission.state(again, "failed", "done")["problem"]
    assert (problem["field"], problem["value"]) == ("conversation", sent["conversationId"])
    body = {"message": "go on", "conversationId": sent["conversationId"]}
    assert owner.post("/api/desktops/lab.first/chat", json=body).status_code == 404


def test_what_is_said_in_the_moment_of_the_deletion_is_either_kept_or_refused(
    mission: Lab, owner: httpx.Client, keeper: Link
) -> None:
    keep(owner, 1)
    said(mission, "cv_a", 9)
    with psycopg.connect(mission.url(WORKER)) as writer:
        # A turn began, and its transaction is open yet: who deletes waits for nobody.
        writer.execute("update conversation set last_at = now() where id = 'cv_a'")
        assert forget(keeper) == 0
        writer.rollback()
    with psycopg.connect(mission.url(WORKER)) as other:
        other.execute("select 1 from conversation where id = 'cv_a' for update")
        other.execute("delete from message where conversation_id = 'cv_a'")
        other.execute("delete from conversation where id = 'cv_a'")
        body = {"message": "go on", "conversationId": "cv_a"}
        with ThreadPoolExecutor(1) as pool:
            answer = pool.submit(owner.post, "/api/desktops/lab.first/chat", json=body)
            waits = "select 1 from pg_stat_activity where usename = %s and wait_event_type = 'Lock'"
            assert Deadline(WAIT_SECONDS).wait_for(
                lambda: mission.link.execute(waits, [WEB]).fetchone() is not None, 0.05
            )
            other.commit()
            assert answer.result().status_code == 404
    assert mission.link.execute("select 1 from operation where kind = 'desktop.chat'").fetchall() == []


def test_a_policy_is_in_force_by_an_admins_signature_over_all_of_it_alone(mission: Lab, keeper: Link) -> None:
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(mission.client()) for _ in range(2)]
        admin, ada = (
            enrolled(mission, client, name, role)
            for client, (name, role) in zip(clients, (("root", "admin"), ("ada", "operator")), strict=True)
        )
        wanted = {"workspaceId": "lab", "days": 30}
        assert ada.call("POST", PATH, wanted).status_code == 403
        assert admin.call("POST", PATH, wanted).json()["field"] == "intent"
        signed = admin.signed(SET, Policy("lab", 30).target)
        assert admin.call("POST", PATH, {**wanted, "days": 1, **signed}).status_code == 422
        assert admin.call("POST", PATH, {**wanted, **signed}, Prefer="wait=30").json()["state"] == "done"
        _forge(mission, admin, ada)
        assert [(kept["days"], kept["actor"]) for kept in ada.call("GET", PATH).json()["items"]] == [
            (30, "person:root")
        ]
        line = "select 1 from audit_entry where action = 'retention.want' and target = %s"
        mission.until(line, [Policy("lab", 30).target])
        gone = admin.call("DELETE", f"{PATH}/lab", admin.signed(REMOVE, "lab"), Prefer="wait=30").json()
        assert (gone["state"], ada.call("GET", PATH).json()["items"]) == ("done", [])
        assert admin.call("DELETE", f"{PATH}/lab", admin.signed(REMOVE, "lab")).status_code == 404


def _forge(mission: Lab, admin: Person, ada: Person) -> None:
    """What a taken web process writes down: the worker does none of it."""
    of_longer = admin.signed(SET, Policy("lab", 90).target)["intent"]
    of_site = admin.signed(SET, Policy(None, 1).target)["intent"]
    mine = ada.signed(SET, Policy("lab", 1).target)["intent"]
    removal = ada.signed(REMOVE, "lab")["intent"]
    for kind, proof in ((SET, None), (SET, of_longer), (SET, of_site), (SET, mine), (REMOVE, None), (REMOVE, removal)):
        id = f"op_{secrets.token_hex(8)}"
        query = """insert into operation (id, kind, workspace_id, lane, input, proof, actor)
            values (%s, %s, 'lab', 'x', '{"days": 1}', %s, 'person:root')"""
        mission.link.execute(query, [id, kind, proof and Jsonb(proof)])
        assert mission.state(id, "done", "failed")["state"] == "failed"


def test_what_is_no_policy_is_refused_and_others_are_not_shown(mission: Lab, owner: httpx.Client, keeper: Link) -> None:
    for wanted in ({"days": 0}, {"days": 36_501}, {"days": "7"}, {}, {"days": 7, "workspaceId": "nothing"}):
        assert owner.post(PATH, json=wanted).status_code in (404, 422), wanted
    keep(owner, 7)
    keep(owner, 8, "other")
    said(mission, "cv_a", 9, "other.first")
    with mission.client(mission.key("read", "admin", workspaces=["lab"])) as stranger:
        assert [kept["workspaceId"] for kept in stranger.get(PATH).json()["items"]] == [None]
        assert stranger.get(f"{PATH}/preview?days=7").json()["conversations"] == 0
        assert stranger.get(f"{PATH}/preview?days=7&workspace=other").status_code == 404
        assert stranger.post(PATH, json={"days": 1}).status_code == 403
        assert stranger.delete(f"{PATH}/other").status_code == 403
