"""Persons: links, passkeys, sessions, and what other pages cannot do in their name."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from deskyard.control.people import records
from tests.control.authenticator import Authenticator
from tests.control.lab import HOST, ORIGIN, Lab
from tests.control.people import COOKIE, PAGE, Person, enrolled, link_token


@pytest.fixture
def client(mission: Lab) -> Iterator[httpx.Client]:
    with mission.client() as found:
        yield found


def test_a_person_enrols_by_a_link_signs_out_and_in_again(mission: Lab, client: httpx.Client) -> None:
    person = enrolled(mission, client, "ada", "operator")
    me = person.call("GET", "/api/me").json()
    assert (me["person"]["name"], me["person"]["role"], len(me["passkeys"])) == ("ada", "operator", 1)
    assert person.call("POST", "/api/sign-out", {}).status_code == 204
    assert person.call("GET", "/api/me").status_code == 401
    options = person.call("POST", "/api/sign-in/options").json()["publicKey"]
    assert person.call("POST", "/api/sign-in", {"credential": person.passkey.get(options)}).status_code == 200
    assert person.call("GET", "/api/me").json()["person"]["name"] == "ada"


def test_an_enrolment_that_was_done_by_a_worker_that_ended_is_done(mission: Lab, client: httpx.Client) -> None:
    enrolled(mission, client, "ada", "operator")
    query = "update operation set state = 'queued', result = null where kind = 'person.enrol' returning id, attempt"
    before = mission.link.execute(query).fetchone()
    assert before is not None
    again = mission.state(before["id"], "done", "failed")
    assert (again["state"], again["attempt"], again["result"]) == ("done", before["attempt"] + 1, {"person": "pe_ada"})


def test_the_cookie_is_for_this_host_alone_and_no_script(mission: Lab, client: httpx.Client) -> None:
    enrolled(mission, client, "ada", "operator")
    options = client.post("/api/sign-in/options", headers=PAGE).json()["publicKey"]
    person = Person(client, Authenticator(ORIGIN))
    assert person.call("POST", "/api/sign-in", {"credential": person.passkey.get(options)}).status_code == 401
    token = link_token(mission, "ada", "operator")
    options = person.call("POST", "/api/enrol/options", {"token": token}).json()["publicKey"]
    answer = person.call("POST", "/api/enrol", {"token": token, "credential": person.passkey.create(options)})
    cookie = answer.headers["set-cookie"].lower()
    assert cookie.startswith(f"{COOKIE.lower()}=") and "path=/;" in cookie and "domain" not in cookie
    assert {"httponly", "secure", "samesite=strict"} <= {part.strip() for part in cookie.split(";")}


def test_a_link_works_once(mission: Lab, client: httpx.Client) -> None:
    token = link_token(mission, "ada", "viewer")
    person = Person(client, Authenticator(ORIGIN))
    options = person.call("POST", "/api/enrol/options", {"token": token}).json()["publicKey"]
    body = {"token": token, "credential": person.passkey.create(options)}
    assert person.call("POST", "/api/enrol", body).status_code == 200
    assert person.call("POST", "/api/enrol/options", {"token": token}).status_code == 401
    assert person.call("POST", "/api/enrol", body).status_code == 401


def test_a_passkey_that_did_not_verify_its_owner_is_refused(mission: Lab, client: httpx.Client) -> None:
    token = link_token(mission, "ada", "viewer")
    person = Person(client, Authenticator(ORIGIN, verifies=False))
    options = person.call("POST", "/api/enrol/options", {"token": token}).json()["publicKey"]
    answer = person.call("POST", "/api/enrol", {"token": token, "credential": person.passkey.create(options)})
    assert (answer.status_code, answer.json()["field"]) == (422, "passkey")
    assert mission.link.execute("select count(*) as count from passkey").fetchone() == {"count": 0}


def test_a_passkey_of_another_origin_is_refused(mission: Lab, client: httpx.Client) -> None:
    person = enrolled(mission, client, "ada", "viewer")
    person.passkey.origin = "https://mission.localhost:1"
    options = person.call("POST", "/api/sign-in/options").json()["publicKey"]
    assert person.call("POST", "/api/sign-in", {"credential": person.passkey.get(options)}).status_code == 422


def test_an_answer_to_a_question_counts_once(mission: Lab, client: httpx.Client) -> None:
    person = enrolled(mission, client, "ada", "viewer")
    options = person.call("POST", "/api/sign-in/options").json()["publicKey"]
    body = {"credential": person.passkey.get(options)}
    assert person.call("POST", "/api/sign-in", body).status_code == 200
    assert person.call("POST", "/api/sign-in", body).status_code == 401


@pytest.mark.parametrize("headers", [{}, {"Origin": ORIGIN}, {**PAGE, "Origin": "https://demo.localhost:8443"}])
def test_another_page_does_nothing_in_a_persons_name(
    mission: Lab, client: httpx.Client, headers: dict[str, str]
) -> None:
    mission.declare("lab", "first")
    enrolled(mission, client, "ada", "operator")
    assert client.post("/api/desktops/lab.first/stop", headers=headers).status_code == 403
    assert client.post("/api/desktops/lab.first/stop", headers=PAGE).status_code == 202


def test_a_session_that_was_ended_opens_nothing(mission: Lab, client: httpx.Client) -> None:
    person = enrolled(mission, client, "ada", "admin")
    session = person.call("GET", "/api/sessions").json()["items"][0]
    assert (session["person"], session["current"]) == ("ada", True)
    assert person.call("DELETE", f"/api/sessions/{session['id']}").status_code == 204
    assert person.call("GET", "/api/me").status_code == 401


def test_a_viewer_sees_and_moves_nothing(mission: Lab, client: httpx.Client) -> None:
    mission.declare("lab", "first")
    person = enrolled(mission, client, "eve", "viewer")
    assert person.call("GET", "/api/desktops").status_code == 200
    assert person.call("POST", "/api/desktops/lab.first/stop").status_code == 403
    assert person.call("GET", "/api/audit").status_code == 403


def test_an_admin_sees_what_everybody_may_and_others_see_their_own(mission: Lab, client: httpx.Client) -> None:
    with mission.link.transaction():
        records.add(mission.link, HOST, "cas", records.Given("viewer", ["lab"], "cas@example.org"))
    mission.link.execute(
        "insert into person (id, name, role, workspaces, by_rule, rule)"
        " values ('pe_bea', 'bea', 'viewer', '{lab}', true, 'domain:example.org=viewer@lab')"
    )
    mission.link.execute("insert into identity (issuer, subject, person_id) values ('x', 'x', 'pe_bea')")
    ada = enrolled(mission, client, "ada", "admin")
    people = {person["name"]: person for person in ada.call("GET", "/api/people").json()["items"]}
    shown = ("role", "workspaces", "byRule", "rule", "passkeys", "account")
    assert {name: tuple(person[key] for key in shown) for name, person in people.items()} == {
        "ada": ("admin", None, False, None, 1, None),
        "bea": ("viewer", ["lab"], True, "domain:example.org=viewer@lab", 0, "linked"),
        "cas": ("viewer", ["lab"], False, None, 0, "offered"),
    }
    assert people["cas"]["invitedUntil"] > people["cas"]["grantedAt"] and people["ada"]["invitedUntil"] is None
    for role in ("operator", "viewer"):
        with mission.client() as own:
            person = enrolled(mission, own, role, role)
            found = person.call("GET", "/api/people").json()
            assert ([item["name"] for item in found["items"]], found["total"]) == ([role], 1)
    for key in (mission.key("read"), mission.key("read", "admin", workspaces=["lab"])):
        with mission.client(key) as program:
            assert program.get("/api/people").json()["items"] == []
    assert mission.client().get("/api/people").status_code == 401


def test_what_the_host_gives_takes_the_place_of_a_rule(mission: Lab, client: httpx.Client) -> None:
    mission.link.execute(
        "insert into person (id, name, role, by_rule, rule, granted_at)"
        " values ('pe_bea', 'bea', 'viewer', true, 'group:x=viewer', now() - interval '1 day')"
    )
    ada = enrolled(mission, client, "ada", "admin")

    def bea() -> dict[str, Any]:
        return next(item for item in ada.call("GET", "/api/people").json()["items"] if item["name"] == "bea")

    before = bea()
    with mission.link.transaction():
        records.add(mission.link, HOST, "bea", records.Given("operator", ["lab"]))
    assert (bea()["role"], bea()["workspaces"], bea()["byRule"], bea()["rule"]) == ("operator", ["lab"], False, None)
    assert bea()["grantedAt"] > before["grantedAt"]
