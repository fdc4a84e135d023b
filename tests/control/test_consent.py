"""Operations that wait for another person by the rule of their workspace: the worker alone lets them go on."""

import contextlib
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import psycopg
import pytest
from psycopg.types.json import Jsonb

from deskyard.control.approvals.rules import REMOVE, SET, Rule
from deskyard.control.consent.target import KIND
from deskyard.control.credentials.target import PASSKEY
from deskyard.control.people.passkeys import written
from deskyard.control.store.cluster import WEB
from tests.control.lab import Lab
from tests.control.people import Person, enrolled

DESTROY = "desktop.destroy"
RULE: dict[str, Any] = {"workspaceId": "lab", "persons": 1, "roles": [], "people": [], "keys": []}


@dataclass
class Team:
    """An admin, who has a rule put in force, and three operators."""

    mission: Lab
    admin: Person
    ada: Person
    eve: Person
    bob: Person

    def rule(self, *operations: str, **values: Any) -> None:
        wanted = RULE | {"operations": list(operations or [DESTROY])} | values
        signed = self.admin.signed(SET, Rule.of("lab", wanted).target)
        done = self.admin.call("POST", "/api/approval-rules", {**wanted, **signed}, Prefer="wait=30")
        assert done.json().get("state") == "done", done.text

    def destroy(self, by: Person | None = None) -> str:
        """The id of an operation that somebody wants, as soon as the worker looked at it."""
        who = by or self.ada
        id: str = who.call("DELETE", "/api/desktops/lab.first", who.signed(DESTROY, "lab.first")).json()["id"]
        self.mission.state(id, "waiting", "done", "failed")
        return id

    def shown(self, id: str) -> dict[str, Any]:
        found: dict[str, Any] = self.ada.call("GET", f"/api/operations/{id}").json()
        return found

    def answer(self, id: str, by: Person, answer: str = "allow", reason: str = "because") -> httpx.Response:
        signed = by.signed(KIND, self.line(id, answer))
        body = {"answer": answer, "reason": reason, **signed}
        return by.call("POST", f"/api/operations/{id}/decide", body, Prefer="wait=30")

    def line(self, id: str, answer: str = "allow") -> str:
        shown = self.shown(id)
        return f"{answer} {id} {shown['kind']} {shown['consent']['asked']} by {shown['consent']['asker']}"

    def forged(self, id: str, proof: Any, **values: Any) -> dict[str, Any]:
        """The end of an answer that a taken web process writes down."""
        own = f"op_{secrets.token_hex(8)}"
        with self.mission.link.transaction():
            self.mission.link.execute(f"set local role {WEB}".encode())
            self.mission.link.execute(
                "insert into operation (id, kind, workspace_id, desktop_id, lane, input, proof, actor)"
                " values (%s, %s, 'lab', 'lab.first', 'taken', %s, %s, 'person:eve')",
                [own, KIND, Jsonb({"operation": id, "answer": "allow"} | values), Jsonb(proof)],
            )
        return self.mission.state(own, "done", "failed")


@pytest.fixture
def team(mission: Lab) -> Iterator[Team]:
    mission.declare("lab", "first", "second")
    with contextlib.ExitStack() as stack:
        people = [
            enrolled(mission, stack.enter_context(mission.client()), name, role)
            for name, role in (("root", "admin"), ("ada", "operator"), ("eve", "operator"), ("bob", "operator"))
        ]
        yield Team(mission, *people)


def test_an_operation_waits_for_another_person_and_says_for_whom(team: Team) -> None:
    team.rule()
    id = team.destroy()
    shown = team.shown(id)
    assert (shown["state"], shown["endedAt"], shown["attempt"]) == ("waiting", None, 0)
    assert shown["why"] == "another has to allow it beside person:ada"
    consent = shown["consent"]
    assert (consent["strength"], consent["asker"], consent["asked"]) == ("worker", "person:ada", "lab.first")
    assert (consent["needed"], consent["answers"]) == (1, [])
    assert team.ada.call("GET", "/api/desktops/lab.first").json()["operation"]["state"] == "waiting"
    assert team.mission.effects("lab.first") == []
    assert team.answer(id, team.eve).json()["state"] == "done"
    assert team.mission.state(id, "done")["actor"] == "person:ada"
    assert team.mission.effects("lab.first") == ["begin", "end"]
    query = "select 1 from audit_entry where actor = %s and action = %s and target = 'lab.first'"
    for actor, action in (("person:ada", "operation.wait"), ("person:eve", "operation.answer")):
        team.mission.until(query, [actor, action])


def test_the_others_of_its_workspace_need_not_wait_for_it(team: Team) -> None:
    team.rule()
    team.destroy()
    done = team.ada.call("POST", "/api/desktops/lab.second/restart", Prefer="wait=30").json()
    assert done["state"] == "done"


def test_what_a_passkey_allowed_counts_no_more_once_its_person_removed_that(team: Team) -> None:
    team.rule(persons=2)
    id, lost = team.destroy(), written(team.eve.passkey.id)
    assert team.answer(id, team.eve).json()["result"]["answers"] == 1
    with team.mission.client() as client:
        eve = enrolled(team.mission, client, "eve", "operator")
        leave = eve.signed(PASSKEY, f'"passkey" {lost}')
        removed = eve.call("DELETE", f"/api/me/passkeys/{lost}", leave, Prefer="wait=30").json()
        assert removed["state"] == "done", removed["problem"]
    assert team.answer(id, team.bob).json()["result"]["answers"] == 1
    assert [each["actor"] for each in team.shown(id)["consent"]["answers"]] == ["person:bob"]


def test_who_asked_allows_nothing(team: Team) -> None:
    team.rule()
    id = team.destroy()
    signed = team.ada.signed(KIND, team.line(id))["intent"]
    refused = team.answer(id, team.ada)
    assert (refused.status_code, refused.json()["field"]) == (403, "decider")
    end = team.forged(id, signed)
    assert (end["state"], end["problem"]["value"]) == ("failed", "person:ada")
    assert (team.shown(id)["state"], team.mission.effects("lab.first")) == ("waiting", [])


def test_a_taken_web_process_lets_nothing_go_on(team: Team) -> None:
    team.rule()
    id, other = team.destroy(), team.destroy(team.bob)
    signed = team.eve.signed(KIND, team.line(other))["intent"]
    refusal = team.eve.signed(KIND, team.line(id, "refuse"))["intent"]
    asked = team.mission.link.execute("select proof from operation where id = %s", [id]).fetchone()
    assert asked is not None
    for proof in (None, signed, refusal, asked["proof"]):
        assert team.forged(id, proof)["state"] == "failed", proof
    with psycopg.connect(team.mission.url_as(WEB)) as link, pytest.raises(psycopg.errors.InsufficientPrivilege):
        link.execute("update operation set state = 'queued'")
    assert (team.shown(id)["state"], team.mission.effects("lab.first")) == ("waiting", [])
    assert team.forged(other, signed)["state"] == "done", "what was signed is done"
    assert team.mission.state(other, "done")


def test_somebody_whom_the_rule_leaves_out_allows_nothing(team: Team) -> None:
    team.rule(people=["eve"])
    id = team.destroy()
    signed = team.bob.signed(KIND, team.line(id))["intent"]
    assert team.answer(id, team.bob).status_code == 403
    assert team.forged(id, signed)["problem"]["value"] == "person:bob"
    assert team.shown(id)["state"] == "waiting"
    assert team.answer(id, team.eve).json()["state"] == "done"
    assert team.mission.state(id, "done")


def test_two_others_have_to_allow_it_where_the_rule_says_two(team: Team) -> None:
    team.rule(persons=2)
    id = team.destroy()
    for _ in range(2):
        assert team.answer(id, team.eve).json()["result"]["answers"] == 1, "one counts once"
    assert team.shown(id)["why"] == "2 others have to allow it beside person:ada: 1 did"
    assert [given["actor"] for given in team.shown(id)["consent"]["answers"]] == ["person:eve"]
    team.answer(id, team.bob)
    assert team.mission.state(id, "done")


@pytest.mark.parametrize("change", ["role = 'viewer'", "disabled_at = now()", "workspaces = '{elsewhere}'"])
def test_who_allowed_it_and_may_not_any_more_does_not_count(team: Team, change: str) -> None:
    team.rule(persons=2)
    id = team.destroy()
    team.answer(id, team.eve)
    team.mission.link.execute(f"update person set {change} where name = 'eve'".encode())
    assert team.answer(id, team.bob).json()["result"]["answers"] == 1
    assert (team.shown(id)["state"], team.mission.effects("lab.first")) == ("waiting", [])


def test_one_is_enough_to_refuse_and_says_why(team: Team) -> None:
    team.rule(persons=2)
    id = team.destroy()
    body = {"answer": "refuse", **team.eve.signed(KIND, team.line(id, "refuse"))}
    assert team.eve.call("POST", f"/api/operations/{id}/decide", body).json()["field"] == "reason"
    assert team.answer(id, team.eve, "refuse", "it is still used").json()["state"] == "done"
    shown = team.shown(id)
    assert (shown["state"], shown["consent"]) == ("cancelled", None)
    assert shown["problem"]["reason"] == "was refused by person:eve: it is still used"
    late = team.eve.call("POST", f"/api/operations/{id}/decide", {"answer": "allow"})
    assert (late.status_code, late.json()["field"]) == (409, "operation")
    assert team.mission.effects("lab.first") == []


def test_what_nobody_allows_in_time_fails_and_is_allowed_by_nobody_then(team: Team) -> None:
    team.rule()
    id = team.destroy()
    signed = team.eve.signed(KIND, team.line(id))["intent"]
    team.mission.link.execute("update operation set waits_until = now() where id = %s", [id])
    end = team.mission.state(id, "failed")
    assert end["problem"]["reason"] == "nobody allowed it within 24 hours"
    assert team.forged(id, signed)["problem"]["reason"] == "does not wait for anybody"
    assert team.mission.effects("lab.first") == []


def test_who_asked_may_take_it_back(team: Team) -> None:
    team.rule()
    id = team.destroy()
    team.ada.call("POST", f"/api/operations/{id}/cancel")
    assert team.mission.state(id, "cancelled")
    assert team.mission.effects("lab.first") == []


def test_it_waits_over_the_end_of_its_worker_and_an_answer_counts_once(team: Team) -> None:
    team.rule()
    id = team.destroy()
    team.mission.end("worker")
    body = {"answer": "allow", **team.eve.signed(KIND, team.line(id))}
    decision = team.eve.call("POST", f"/api/operations/{id}/decide", body).json()["id"]
    # As if it had been counted by a worker that was gone before it said so.
    query = "insert into operation_decision (operation_id, actor, answer, decision_id) values (%s, %s, 'allow', %s)"
    team.mission.link.execute(query, [id, "person:eve", decision])
    team.mission.link.execute("update operation set state = 'queued' where id = %s", [id])
    team.mission.worker()
    assert team.mission.state(id, "done", "failed")["state"] == "done"
    assert team.mission.state(decision, "done", "failed")["state"] == "done"
    assert team.mission.effects("lab.first") == ["begin", "end"]


def test_a_changed_rule_is_asked_anew(team: Team) -> None:
    team.rule()
    id = team.destroy()
    team.rule(people=["eve"])
    team.mission.state(id, "waiting")
    done = team.admin.call("DELETE", "/api/approval-rules/lab", team.admin.signed(REMOVE, "lab"), Prefer="wait=30")
    assert done.json()["state"] == "done"
    assert team.mission.state(id, "done", "failed")["state"] == "done"


def test_where_nobody_could_allow_it_that_is_said_at_once(team: Team) -> None:
    team.rule(people=["ada"])
    id = team.destroy()
    assert team.mission.state(id, "failed")["problem"]["reason"].startswith("needs 1 beside person:ada who allow it")
    assert team.mission.effects("lab.first") == []


def test_what_the_rule_does_not_name_waits_for_nobody(team: Team) -> None:
    team.rule("snapshot.restore")
    id = team.destroy()
    assert team.mission.state(id, "done")
    signed = team.ada.signed("snapshot.restore", "lab.second before")
    path = "/api/desktops/lab.second/snapshots/before/restore"
    restore = team.ada.call("POST", path, signed).json()["id"]
    assert team.mission.state(restore, "waiting", "done", "failed")["state"] == "waiting"


def test_an_upgrade_of_many_waits_for_each_by_itself_and_names_no_other(team: Team) -> None:
    team.rule("desktop.upgrade")
    team.mission.images("lab.first", "lab.second")
    signed = team.ada.signed("desktop.upgrade", "lab.first lab.second to desktop-new")
    wanted = {"action": "upgrade", "selector": {"workspace": "lab"}, "expectedCount": 2, **signed}
    ids = team.ada.call("POST", "/api/fleet/actions", wanted).json()["operations"]
    for id in ids:
        assert team.mission.state(id, "waiting", "done", "failed")["state"] == "waiting"
    asked = [team.shown(id)["consent"]["asked"] for id in ids]
    assert asked == ["lab.first to desktop-new", "lab.second to desktop-new"]
    assert team.answer(ids[1], team.eve).json()["state"] == "done"
    assert team.mission.state(ids[1], "done")["result"]["after"] == "desktop-new"
    assert team.answer(ids[0], team.eve, "refuse").json()["state"] == "done"
    assert team.mission.state(ids[0], "cancelled")
    assert team.mission.effects("lab.first") == []


def test_keys_and_names_wait_as_well(team: Team) -> None:
    team.rule("desktop.create", "egress.allow")
    team.mission.link.execute("update workspace set egress = 'locked'")
    wanted = {"name": "fresh", "workspaceId": "lab", "keys": ["openai"]}
    signed = team.ada.signed("desktop.create", "lab.fresh openai")
    create = team.ada.call("POST", "/api/desktops", wanted | signed).json()["id"]
    name = {"name": "pypi.org", "howLong": "15m"} | team.ada.signed("egress.allow", "lab pypi.org 15m")
    allow = team.ada.call("POST", "/api/workspaces/lab/allowed", name).json()["id"]
    for id in (create, allow):
        assert team.mission.state(id, "waiting", "done", "failed")["state"] == "waiting"
    assert team.mission.all_effects() == []
    for id in (create, allow):
        team.answer(id, team.eve)
        assert team.mission.state(id, "done")
    plain = team.ada.call("POST", "/api/desktops", {"name": "plain", "workspaceId": "lab"}, Prefer="wait=30")
    assert plain.json()["state"] == "done", "without keys it needs no signature, and waits for nobody"


def test_a_key_asks_and_another_answers_where_the_rule_lets_keys(team: Team) -> None:
    team.rule()
    asks, answers = (team.mission.key("read", scope) for scope in ("desktops:destroy", "approvals:decide"))
    with team.mission.client(asks) as client:
        id = client.delete("/api/desktops/lab.first").json()["id"]
        team.mission.state(id, "waiting")
        assert client.post(f"/api/operations/{id}/decide", json={"answer": "allow"}).status_code == 403
    with team.mission.client(answers) as client:
        client.post(f"/api/operations/{id}/decide", json={"answer": "allow"}).raise_for_status()
    assert team.mission.state(id, "done")
