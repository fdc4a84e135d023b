"""Who answers for a workspace: by a rule that an admin signed, which the worker holds whatever the web process says."""

import contextlib
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from psycopg.types.json import Jsonb

from deskyard.control.approvals import follow
from deskyard.control.approvals.rules import REMOVE, SET, Rule
from deskyard.control.approvals.target import KIND
from deskyard.control.opening.target import SESSION
from deskyard.control.people import records
from tests.control.lab import HOST, Lab
from tests.control.people import Person, enrolled
from tests.control.tab import Tab
from tests.control.test_approvals import ID, TICKET, aim, forged

PATH = f"/api/approvals/{ID}/decide"
TWO = {"workspaceId": "lab", "persons": 2}


@dataclass
class Team:
    """An admin and two operators of a workspace that has a ticket."""

    mission: Lab
    admin: Person
    ada: Person
    eve: Person

    def rule(self, by: Person | None = None, **values: Any) -> httpx.Response:
        """Set a rule, signed by an admin."""
        wanted = {"workspaceId": "lab", "persons": 1, "roles": [], "people": [], "keys": []} | values
        admin = by or self.admin
        signed = admin.signed(SET, Rule.of("lab", wanted).target)
        return admin.call("POST", "/api/approval-rules", {**wanted, **signed}, Prefer="wait=30")

    def remove(self, by: Person) -> httpx.Response:
        """Take the rule out of force, signed by an admin."""
        return by.call("DELETE", "/api/approval-rules/lab", by.signed(REMOVE, "lab"), Prefer="wait=30")

    def rules(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.ada.call("GET", "/api/approval-rules").json()["items"]
        return found

    def answer(self, person: Person, answer: str = "once") -> httpx.Response:
        body = {"answer": answer, "reason": "because", **person.signed(KIND, aim(answer))}
        return person.call("POST", PATH, body, Prefer="wait=30")

    def shown(self) -> dict[str, Any]:
        found: dict[str, Any] = self.ada.call("GET", f"/api/approvals/{ID}").json()
        return found


@pytest.fixture
def team(mission: Lab) -> Iterator[Team]:
    mission.declare("lab", "first", "second")
    follow.write(mission.link, "lab", TICKET)
    with contextlib.ExitStack() as stack:
        people = [
            enrolled(mission, stack.enter_context(mission.client()), name, role)
            for name, role in (("root", "admin"), ("ada", "operator"), ("eve", "operator"))
        ]
        yield Team(mission, *people)


@pytest.fixture
def amy(team: Team) -> Iterator[Person]:
    """Another admin."""
    with team.mission.client() as client:
        yield enrolled(team.mission, client, "amy", "admin")


def asked(mission: Lab, actor: str, kind: str, **values: str) -> None:
    """Somebody who gave the desktop's agent something to do, or has a link to use it."""
    mission.link.execute(
        "insert into operation (id, kind, workspace_id, desktop_id, input, actor, state, created_at, started_at,"
        " ended_at) values (%s, %s, 'lab', 'lab.first', %s, %s, 'done', %s, %s, %s)",
        [f"op_{secrets.token_hex(8)}", kind, Jsonb(values), actor, *["2026-01-01T00:00:00Z"] * 3],
    )


def test_two_persons_have_to_say_the_same(team: Team) -> None:
    assert team.rule(persons=2).json()["state"] == "done"
    first = team.answer(team.ada).json()
    assert (first["state"], first["result"]) == ("done", {"approval": ID, "answers": 1, "needed": 2})
    shown = team.shown()
    assert (shown["needed"], [given["actor"] for given in shown["answers"]]) == (2, ["person:ada"])
    assert team.answer(team.ada).json()["result"]["answers"] == 1
    assert team.answer(team.eve, "always").json()["result"]["answers"] == 1
    assert team.mission.effects("lab.first") == []
    assert team.answer(team.eve).json()["result"]["actor"] == "person:eve"
    assert team.mission.effects("lab.first") == ["begin", "end"]
    assert team.shown()["answers"] == []
    events = team.mission.link.execute("select 1 from event where kind = 'approval'").fetchall()
    assert len(events) >= 3


def test_one_is_enough_to_refuse_whoever_it_is(team: Team) -> None:
    team.rule(persons=2)
    asked(team.mission, "person:ada", "desktop.chat")
    assert team.answer(team.ada, "refuse").json()["state"] == "done"
    assert team.mission.effects("lab.first") == ["begin", "end"]


@pytest.mark.parametrize("change", ["role = 'viewer'", "disabled_at = now()", "workspaces = '{elsewhere}'"])
def test_an_answer_of_somebody_who_may_not_any_more_does_not_count(team: Team, change: str) -> None:
    team.rule(persons=2, people=["ada", "eve"])
    team.answer(team.ada)
    team.mission.link.execute(f"update person set {change} where name = 'ada'".encode())
    assert team.answer(team.eve).json()["result"] == {"approval": ID, "answers": 1, "needed": 2}
    assert team.mission.effects("lab.first") == []


def without(mission: Lab, passkey: bytes) -> None:
    """End a passkey, as the host does."""
    with mission.link.transaction():
        records.remove_passkey(mission.link, HOST, passkey)


def test_an_answer_counts_no_more_once_the_passkey_that_signed_it_is_removed(team: Team) -> None:
    team.rule(persons=2)
    team.answer(team.ada)
    with team.mission.client() as client:
        other = enrolled(team.mission, client, "ada", "operator")
    without(team.mission, other.passkey.id)
    assert [given["actor"] for given in team.shown()["answers"]] == ["person:ada"]
    without(team.mission, team.ada.passkey.id)
    assert team.answer(team.eve).json()["result"] == {"approval": ID, "answers": 1, "needed": 2}
    assert team.mission.effects("lab.first") == []


def test_whoever_asked_does_not_answer(team: Team) -> None:
    team.rule()
    for kind, mode in (("desktop.chat", ""), ("desktop.session", "drive"), ("desktop.session", "agent")):
        team.mission.link.execute("delete from operation where kind in ('desktop.chat', 'desktop.session')")
        asked(team.mission, "person:ada", kind, mode=mode)
        signed = team.ada.signed(KIND, aim("once"))["intent"]
        refused = team.answer(team.ada)
        assert (refused.status_code, refused.json()["field"]) == (403, "decider"), kind
        # The worker holds it against a web process that does not.
        done = forged(team.mission, signed, "once", actor="person:eve")
        assert (done["state"], done["problem"]["value"]) == ("failed", "person:ada"), kind
    assert team.mission.effects("lab.first") == []
    assert team.answer(team.eve).json()["state"] == "done"


def test_whoever_signed_for_a_link_does_not_answer_whoever_the_request_names(team: Team) -> None:
    team.rule()
    tab = Tab()
    values = {"mode": "drive", "scopes": None, "seal_to": tab.key}
    signed = team.ada.signed(SESSION, tab.target())["intent"]
    # By a taken web process, which has a link made in the name of somebody else.
    query = """insert into operation (id, kind, workspace_id, desktop_id, input, proof, actor, created_at)
        values ('op_link', %s, 'lab', 'lab.first', %s, %s, 'person:eve', now())"""
    team.mission.link.execute(query, [SESSION, Jsonb(values), Jsonb(signed)])
    assert team.mission.state("op_link", "done", "failed")["state"] == "done"
    # The desktop tries again.
    team.mission.link.execute("update approval set last_at = now()")
    assert team.answer(team.ada).status_code == 403
    assert team.answer(team.eve).json()["state"] == "done"


def test_whoever_looked_on_or_moved_the_machine_did_not_ask(team: Team) -> None:
    team.rule()
    asked(team.mission, "person:ada", "desktop.session", mode="view")
    asked(team.mission, "person:ada", "desktop.restart")
    assert team.answer(team.ada).json()["state"] == "done"


def test_without_a_rule_everybody_answers_alone(team: Team) -> None:
    asked(team.mission, "person:ada", "desktop.chat")
    assert team.answer(team.ada).json()["state"] == "done"
    assert team.shown()["needed"] == 1


def test_a_rule_names_roles_persons_and_keys(team: Team) -> None:
    key = team.mission.key("approvals:decide", "approvals:read")
    with team.mission.client(key) as program:
        body = {"answer": "once"}
        assert team.rule(people=["eve"]).json()["state"] == "done"
        assert (team.answer(team.ada).status_code, program.post(PATH, json=body).status_code) == (403, 403)
        assert team.answer(team.eve).json()["state"] == "done"
        assert team.rule(roles=["admin"], keys=[key.split("_")[1]]).json()["state"] == "done"
        assert team.answer(team.eve).json()["reason"] == "is not among those who answer for lab"
        assert program.post(PATH, json=body).status_code == 202
        assert team.answer(team.admin).json()["state"] == "done"
        team.rule(persons=2)
        assert program.post(PATH, json=body).json()["reason"] == "is a key, and 2 persons have to answer"


def test_a_rule_is_in_force_by_an_admins_signature_over_all_of_it_alone(team: Team) -> None:
    mission, path = team.mission, "/api/approval-rules"
    assert team.ada.call("POST", path, TWO).status_code == 403
    assert team.admin.call("POST", path, TWO).json()["field"] == "intent"
    signed = team.admin.signed(SET, Rule("lab", 2).target)
    assert team.admin.call("POST", path, {**TWO, "persons": 1, **signed}).status_code == 422
    assert team.admin.call("POST", path, {**TWO, **signed}, Prefer="wait=30").json()["state"] == "done"
    mine = team.ada.signed(SET, Rule("lab", 1, people=("ada",)).target)["intent"]
    for kind, proof in ((SET, mine), (SET, None), (REMOVE, team.ada.signed(REMOVE, "lab")["intent"]), (REMOVE, None)):
        id = f"op_{secrets.token_hex(8)}"
        given = {"persons": 1, "roles": [], "people": ["ada"], "keys": []}
        mission.link.execute(
            "insert into operation (id, kind, workspace_id, lane, input, proof, actor)"
            " values (%s, %s, 'lab', 'x', %s, %s, 'person:root')",
            [id, kind, Jsonb(given), proof and Jsonb(proof)],
        )
        assert mission.state(id, "done", "failed")["state"] == "failed"
    line = "select 1 from audit_entry where action = 'approval-rule.want' and actor = 'person:root' and target = %s"
    mission.until(line, [Rule("lab", 2).target])
    (rule,) = team.rules()
    assert (rule["persons"], rule["people"], rule["actor"]) == (2, [], "person:root")


def test_a_rule_of_one_person_is_removed_by_one_admin(team: Team) -> None:
    assert team.rule(people=["ada"]).json()["state"] == "done"
    assert team.remove(team.admin).json()["result"] == {"removed": "lab"}
    assert team.rules() == []
    assert team.remove(team.admin).status_code == 404


def test_a_rule_of_two_persons_is_changed_by_two_admins_who_sign_the_same(team: Team, amy: Person) -> None:
    team.rule(persons=2)
    waits = {"signatures": 1, "needed": 2}
    assert team.rule(people=["ada"]).json()["result"] == {"rule": Rule("lab", 1, people=("ada",)).target, **waits}
    assert team.rule(people=["ada"]).json()["result"]["signatures"] == 1  # the same admin is one
    assert team.rule(amy, people=["eve"]).json()["result"]["signatures"] == 1  # not the same
    assert team.remove(amy).json()["result"] == {"remove": "lab", **waits}
    (rule,) = team.rules()
    assert (rule["persons"], rule["people"]) == (2, [])
    assert [(each["actor"], each["remove"], each["people"]) for each in rule["changes"]] == [
        ("person:root", False, ["ada"]),
        ("person:amy", True, []),
    ]
    assert team.rule(amy, people=["ada"]).json()["result"] == {"rule": Rule("lab", 1, people=("ada",)).target}
    (rule,) = team.rules()
    assert (rule["persons"], rule["people"], rule["actor"], rule["changes"]) == (1, ["ada"], "person:amy", [])


def test_a_rule_of_two_persons_is_removed_by_two_admins(team: Team, amy: Person) -> None:
    team.rule(persons=2)
    assert team.remove(team.admin).json()["result"]["signatures"] == 1
    assert team.remove(amy).json()["result"] == {"removed": "lab"}
    assert team.rules() == []


def test_a_signature_under_a_change_that_is_old_or_of_no_admin_any_more_does_not_count(team: Team, amy: Person) -> None:
    team.rule(persons=2)
    team.remove(team.admin)
    for spoil, mend in (
        (
            "update approval_rule_change set at = now() - interval '25 hours' where actor = 'person:root'",
            "update approval_rule_change set at = now() where actor = 'person:root'",
        ),
        (
            "update person set role = 'operator' where name = 'root'",
            "update person set role = 'admin' where name = 'root'",
        ),
    ):
        team.mission.link.execute(spoil.encode())
        team.remove(amy)  # with too few admins it is refused at once
        assert [rule["persons"] for rule in team.rules()] == [2]
        team.mission.link.execute(mend.encode())
    assert team.remove(amy).json()["result"] == {"removed": "lab"}


def test_a_signature_under_a_change_counts_no_more_once_its_passkey_is_removed(team: Team, amy: Person) -> None:
    team.rule(persons=2)
    team.remove(team.admin)
    with team.mission.client() as client:
        enrolled(team.mission, client, "root", "admin")
    without(team.mission, team.admin.passkey.id)
    assert team.remove(amy).json()["result"] == {"remove": "lab", "signatures": 1, "needed": 2}
    assert [each["actor"] for rule in team.rules() for each in rule["changes"]] == ["person:amy"]


def test_no_key_and_no_admin_alone_changes_a_rule_of_two_persons(team: Team) -> None:
    path = "/api/approval-rules"
    team.rule(persons=2)
    alone = team.rule(people=["ada"])
    assert (alone.status_code, alone.json()["field"]) == (422, "admins")
    assert team.remove(team.admin).status_code == 422
    with team.mission.client(team.mission.key("admin")) as program:
        for answer in (program.post(path, json={**TWO, "persons": 1}), program.delete(f"{path}/lab")):
            assert (answer.status_code, answer.json()["field"]) == (403, "caller")
    # The worker holds it against a web process that does not.
    for kind, given in ((SET, {"persons": 1, "roles": [], "people": [], "keys": []}), (REMOVE, {})):
        target = Rule.of("lab", given).target if given else "lab"
        signed = team.admin.signed(kind, target)["intent"]
        id = f"op_{secrets.token_hex(8)}"
        team.mission.link.execute(
            "insert into operation (id, kind, workspace_id, lane, input, proof, actor)"
            " values (%s, %s, 'lab', 'x', %s, %s, 'person:amy')",
            [id, kind, Jsonb(given), Jsonb(signed)],
        )
        assert team.mission.state(id, "done", "failed")["result"]["signatures"] == 1
    assert [rule["persons"] for rule in team.rules()] == [2]


def test_a_rule_that_nobody_could_satisfy_is_refused(team: Team) -> None:
    for values, field in (
        ({"people": ["nobody"]}, "people"),
        ({"keys": ["000000000000"]}, "keys"),
        ({"persons": 2, "people": ["ada"]}, "persons"),
        ({"persons": 3}, "persons"),
        ({"roles": ["viewer"]}, "roles.0"),
        ({"workspaceId": "other"}, "workspaceId"),
    ):
        answer = team.rule(**values)
        assert (answer.status_code in (404, 422), answer.json()["field"]) == (True, field)
    assert team.mission.link.execute("select 1 from approval_rule").fetchall() == []
