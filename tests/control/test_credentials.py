"""Keys and persons by the web: what an admin's passkey signed, sealed to their browser, and nothing else."""

import contextlib
import secrets
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import psycopg
import pytest
from cryptography.exceptions import InvalidTag
from psycopg.types.json import Jsonb

from deskyard.control.credentials import target
from deskyard.control.credentials.target import INVITE, KEY, REMOVE
from deskyard.control.jobs.running import CHILD, Runner
from deskyard.control.jobs.standby import Standby
from deskyard.control.people import records
from deskyard.control.people.intent import Intent
from deskyard.control.people.keys import Key
from deskyard.control.people.passkeys import Passkeys
from deskyard.control.queue import claim as claims
from deskyard.control.store.cluster import WEB, WORKER
from deskyard.control.store.connection import connect
from deskyard.errors import ConfigError
from tests.control.authenticator import Authenticator
from tests.control.lab import HOST, ORIGIN, Lab
from tests.control.people import Person, enrolled
from tests.control.tab import Tab

Values = dict[str, Any]
WAIT = {"Prefer": "wait=30"}


@pytest.fixture
def ada(mission: Lab) -> Iterator[Person]:
    """An admin with a passkey, whom the host lets give operators and mightier keys."""
    mission.declare("lab", "first")
    mission.declare("other", "first")
    with mission.client() as client:
        person = enrolled(mission, client, "ada", "admin")
        mission.link.execute("update person set gives = 'operator' where name = 'ada'")
        yield person


@pytest.fixture
def mia(mission: Lab) -> Iterator[Person]:
    """An admin of whom the host said nothing more."""
    mission.declare("lab", "first")
    with mission.client() as client:
        yield enrolled(mission, client, "mia", "admin")


@pytest.fixture
def tab() -> Tab:
    return Tab()


def key_values(tab: Tab, **how: Any) -> Values:
    """What is asked for a key, as the worker gets it."""
    return {"name": "ci", "scopes": ["read"], "workspaces": ["lab"], "days": 30, "seal_to": tab.key} | how


def person_values(tab: Tab, **how: Any) -> Values:
    """What is asked for a person, as the worker gets it."""
    return {"name": "Bea Núñez", "role": "operator", "workspaces": ["lab"], "seal_to": tab.key} | how


def line(kind: str, values: Values) -> str:
    """The line that is signed."""
    return target.parsed(kind, values).target


def body(person: Person, kind: str, values: Values, signed: Values | None = None) -> Values:
    """The body of a request, with the signature of what it asks for, or of something else."""
    sent = {"sealTo" if name == "seal_to" else name: value for name, value in values.items()}
    return {**sent, **person.signed(kind, line(kind, signed or values))}


def asked(person: Person, path: str, kind: str, values: Values, method: str = "POST") -> dict[str, Any]:
    """The operation that a person signed for, with its result."""
    answer = person.call(method, path, body(person, kind, values), Prefer="wait=30")
    assert answer.status_code == 202, answer.text
    assert answer.headers["Location"] == f"/api/operations/{answer.json()['id']}"
    found: dict[str, Any] = person.call("GET", answer.headers["Location"]).json()
    return found


def forged(mission: Lab, kind: str, values: Values, proof: Any, name: str = "ada") -> dict[str, Any]:
    """What a taken web process writes down by its own role; the operation at its end."""
    id = f"op_{secrets.token_hex(8)}"
    with mission.link.transaction():
        mission.link.execute(f"set local role {WEB}".encode())
        mission.link.execute(
            "insert into operation (id, kind, lane, input, proof, actor) values (%s, %s, 'taken', %s, %s, %s)",
            [id, kind, Jsonb(values), Jsonb(proof) if proof is not None else None, f"person:{name}"],
        )
    return mission.state(id, "done", "failed")


def count(mission: Lab, table: str) -> int:
    row = mission.link.execute(f"select count(*) as count from {table}".encode()).fetchone()
    assert row is not None
    return int(row["count"])


def person_id(mission: Lab, name: str) -> str:
    row = mission.link.execute("select id from person where name = %s", [name]).fetchone()
    assert row is not None
    return str(row["id"])


def added(mission: Lab, name: str, role: str) -> str:
    """A person as the host makes one; the token of their link."""
    with mission.link.transaction():
        return records.add(mission.link, HOST, name, records.Given(role))[1]


def enrols(mission: Lab, client: httpx.Client, token: str) -> Person:
    """Whoever opens a link, with a passkey from then on."""
    person = Person(client, Authenticator(ORIGIN))
    options = person.call("POST", "/api/enrol/options", {"token": token}).json()["publicKey"]
    answer = person.call("POST", "/api/enrol", {"token": token, "credential": person.passkey.create(options)})
    assert answer.status_code == 200, answer.text
    return person


def test_a_key_that_an_admin_signed_reads_and_is_refused_beyond_its_scopes(mission: Lab, ada: Person, tab: Tab) -> None:
    found = asked(ada, "/api/keys", KEY, values := key_values(tab))
    assert (found["state"], set(found["result"])) == ("done", {"sealed"})
    text = tab.opens(found["result"]["sealed"], line(KEY, values))["key"]
    with mission.client(text) as program:
        assert [item["workspaceId"] for item in program.get("/api/desktops").json()["items"]] == ["lab"]
        assert program.post("/api/desktops/lab.first/stop").status_code == 403
        assert program.get("/api/keys").status_code == 403
    (key,) = ada.call("GET", "/api/keys").json()["items"]
    assert (key["name"], key["scopes"], key["workspaces"]) == ("ci", ["read"], ["lab"])
    row = mission.link.execute("select expires_at - created_at = interval '30 days' as ends from api_key").fetchone()
    assert row == {"ends": True}
    again = ada.call("GET", f"/api/operations/{found['id']}").json()
    assert again["result"] == {"shown": "once, to whoever asked", "id": key["id"]}


def test_an_invited_person_enrols_by_the_link_and_may_what_was_signed(mission: Lab, ada: Person, tab: Tab) -> None:
    found = asked(ada, "/api/people", INVITE, values := person_values(tab))
    given = tab.opens(found["result"]["sealed"], line(INVITE, values))
    origin, _, token = given["link"].partition("/enrol#")
    assert (origin, given["seconds"]) == (ORIGIN, records.LINK_SECONDS)
    with mission.client() as client:
        bea = enrols(mission, client, token)
        me = bea.call("GET", "/api/me").json()
        assert (me["person"]["name"], me["person"]["role"]) == ("Bea Núñez", "operator")
        assert [item["id"] for item in bea.call("GET", "/api/workspaces").json()["items"]] == ["lab"]
        (row,) = [item for item in ada.call("GET", "/api/people").json()["items"] if item["name"] == "Bea Núñez"]
        assert (row["giver"], row["workspaces"], row["passkeys"]) == ("person:ada", ["lab"], 1)


def test_another_link_lets_a_person_enrol_again_who_stays_who_they_are(mission: Lab, ada: Person, tab: Tab) -> None:
    added(mission, "bea", "viewer")
    values = {"name": "bea", "role": None, "workspaces": None, "seal_to": tab.key}
    wanted = {"sealTo": tab.key, **ada.signed(INVITE, line(INVITE, values))}
    path = f"/api/people/{person_id(mission, 'bea')}/link"
    id = ada.call("POST", path, wanted, **WAIT).raise_for_status().json()["id"]
    sealed = ada.call("GET", f"/api/operations/{id}").json()["result"]["sealed"]
    token = tab.opens(sealed, line(INVITE, values))["link"].partition("#")[2]
    with mission.client() as client:
        me = enrols(mission, client, token).call("GET", "/api/me").json()
        assert (me["person"]["name"], me["person"]["role"]) == ("bea", "viewer")


def test_who_is_removed_has_no_passkey_session_or_link_left_and_may_be_invited_again(
    mission: Lab, ada: Person, tab: Tab
) -> None:
    with mission.client() as client:
        bea = enrols(mission, client, added(mission, "bea", "operator"))
        left = added(mission, "bea", "operator")
        path = f"/api/people/{person_id(mission, 'bea')}"
        done = ada.call("DELETE", path, ada.signed(REMOVE, line(REMOVE, {"name": "bea"})), **WAIT).json()
        assert (done["state"], done["result"]) == ("done", {"removed": path.rpartition("/")[2]}), done["problem"]
        assert bea.call("GET", "/api/me").status_code == 401
        options = bea.call("POST", "/api/sign-in/options").json()["publicKey"]
        assert bea.call("POST", "/api/sign-in", {"credential": bea.passkey.get(options)}).status_code == 401
        assert bea.call("POST", "/api/enrol/options", {"token": left}).status_code == 401
        assert ada.call("DELETE", path, ada.signed(REMOVE, '"bea"')).status_code == 404
        found = asked(ada, "/api/people", INVITE, values := person_values(tab, name="bea", role="viewer"))
        token = tab.opens(found["result"]["sealed"], line(INVITE, values))["link"].partition("#")[2]
        assert enrols(mission, client, token).call("GET", "/api/me").json()["person"]["role"] == "viewer"


def test_who_is_removed_by_the_web_and_invited_again_has_no_account_of_the_provider(
    mission: Lab, ada: Person, tab: Tab
) -> None:
    added(mission, "bea", "viewer")
    path = f"/api/people/{person_id(mission, 'bea')}"
    query = "insert into identity (issuer, subject, person_id) values ('x', 'x', %s)"
    mission.link.execute(query, [person_id(mission, "bea")])

    def account() -> Any:
        people = {item["name"]: item for item in ada.call("GET", "/api/people").json()["items"]}
        return people["bea"]["account"]

    assert account() == "linked"
    done = ada.call("DELETE", path, ada.signed(REMOVE, '"bea"'), **WAIT).json()
    assert done["state"] == "done", done["problem"]
    asked(ada, "/api/people", INVITE, person_values(tab, name="bea", role="viewer"))
    assert account() is None
    assert mission.link.execute("select 1 from identity where ended_at is not null").fetchone(), "it is no one else's"


def test_what_is_given_is_a_line_of_the_audit_in_the_name_of_who_signed_without_the_secret(
    mission: Lab, ada: Person, tab: Tab
) -> None:
    key = asked(ada, "/api/keys", KEY, values := key_values(tab))
    text = tab.opens(key["result"]["sealed"], line(KEY, values))["key"]
    link = asked(ada, "/api/people", INVITE, values := person_values(tab))
    token = tab.opens(link["result"]["sealed"], line(INVITE, values))["link"].partition("#")[2]
    path = f"/api/people/{person_id(mission, 'Bea Núñez')}"
    ada.call("DELETE", path, ada.signed(REMOVE, line(REMOVE, {"name": "Bea Núñez"})), **WAIT)
    query = "select actor, target, detail from audit_entry where action = %s and actor = 'person:ada' and target = %s"
    made = mission.until(query, ["key.make", text[4:16]])
    assert made["detail"] == {"name": "ci", "scopes": ["read"], "workspaces": ["lab"]}
    invited = mission.until(query, ["person.link", "Bea Núñez"])
    assert (invited["detail"]["role"], invited["detail"]["workspaces"]) == ("operator", ["lab"])
    mission.until(query, ["person.remove", "Bea Núñez"])
    kept = mission.link.execute(
        """select string_agg(line, ' ') as all from (select audit_entry::text as line from audit_entry
            union all select operation::text from operation union all select operation_log::text from operation_log
            union all select operation_secret::text from operation_secret union all select api_key::text from api_key
            union all select enrolment::text from enrolment) as lines"""
    ).fetchone()
    logs = "".join(mission.log(name) for name in ("web", "worker", "recorder"))
    for secret in (text, text[17:-8], token):
        assert kept is not None and secret not in kept["all"] and secret not in logs


def test_the_same_request_makes_one_key(mission: Lab, ada: Person, tab: Tab) -> None:
    sent = body(ada, KEY, key_values(tab))
    twice = [ada.call("POST", "/api/keys", sent, **WAIT, **{"Idempotency-Key": "once"}).json() for _ in range(2)]
    assert twice[0]["id"] == twice[1]["id"] and count(mission, "api_key") == 1
    other = ada.call("POST", "/api/keys", {**sent, "days": 2}, **{"Idempotency-Key": "once"})
    assert (other.status_code, other.json()["field"]) == (422, "Idempotency-Key")


def test_who_reads_the_sealed_secret_cannot_open_it(mission: Lab, ada: Person, tab: Tab) -> None:
    sent = body(ada, KEY, values := key_values(tab))
    mission.state(ada.call("POST", "/api/keys", sent).json()["id"], "done")
    with psycopg.connect(mission.url_as(WEB)) as link:
        ((carried,),) = link.execute("select value from operation_secret").fetchall()
    for page, signed in ((Tab(), values), (tab, {**values, "days": 31})):
        with pytest.raises(InvalidTag):
            page.opens(carried["sealed"], line(KEY, signed))
    assert tab.opens(carried["sealed"], line(KEY, values))["key"].startswith("dyk_")


REFUSED: list[tuple[str, str, Values, int, str, str]] = [
    ("keys", KEY, {"scopes": ["read", "admin"]}, 422, "scopes", "./inv control.key ci --scopes admin"),
    ("keys", KEY, {"scopes": ["read", "everything"]}, 422, "scopes", "desktops:write"),
    ("keys", KEY, {"scopes": []}, 422, "scopes", ""),
    ("keys", KEY, {"days": 366}, 422, "days", ""),
    ("keys", KEY, {"days": 0}, 422, "days", ""),
    ("keys", KEY, {"workspaces": ["lab", "nowhere"]}, 422, "workspaces", "GET /api/workspaces"),
    ("keys", KEY, {"workspaces": []}, 422, "workspaces", ""),
    ("keys", KEY, {"name": "a:b"}, 422, "name", ""),
    ("keys", KEY, {"name": "old"}, 409, "name", "revoke that key"),
    (
        "people",
        INVITE,
        {"role": "admin", "workspaces": None},
        422,
        "role",
        "./inv control.person 'Bea Núñez' --role admin",
    ),
    ("people", INVITE, {"workspaces": ["nowhere"]}, 422, "workspaces", "GET /api/workspaces"),
    ("people", INVITE, {"name": " ada"}, 422, "name", ""),
    ("people", INVITE, {"name": "a\u202eb"}, 422, "name", ""),
    ("people", INVITE, {"name": "eve"}, 409, "name", "a new link"),
]


@pytest.mark.parametrize(("what", "kind", "change", "status", "field", "remedy"), REFUSED)
def test_what_is_not_given_by_the_web_is_refused_before_anything_is_queued_and_by_the_worker_too(
    mission: Lab, ada: Person, tab: Tab, what: str, kind: str, change: Values, status: int, field: str, remedy: str
) -> None:
    added(mission, "eve", "viewer")
    with mission.link.transaction():
        records.make_key(mission.link, HOST, "old", ["read"], None, 1)
    before = count(mission, "operation"), count(mission, "api_key"), count(mission, "enrolment")
    values = (key_values if kind == KEY else person_values)(tab, **change)
    sent = body(ada, kind, values)
    answer = ada.call("POST", f"/api/{what}", sent)
    problem = answer.json()
    assert (answer.status_code, problem["field"].split(".")[0].split("[")[0]) == (status, field), answer.text
    assert remedy in problem["remedy"] and problem["reason"]
    # Signed, and written down by a web process that lets it pass.
    end = forged(mission, kind, values, ada.signed(kind, line(kind, values))["intent"])
    assert (end["state"], end["problem"]["field"]) == ("failed", field), end
    after = count(mission, "operation") - 1, count(mission, "api_key"), count(mission, "enrolment")
    assert after == before


def test_admins_and_oneself_are_removed_and_get_links_at_the_host_alone(mission: Lab, ada: Person, tab: Tab) -> None:
    added(mission, "root", "admin")
    wanted = {"seal_to": tab.key, "role": None, "workspaces": None}
    for name, reason in (("ada", "is you"), ("root", "is an admin")):
        path, signed = f"/api/people/{person_id(mission, name)}", ada.signed(REMOVE, line(REMOVE, {"name": name}))
        answer = ada.call("DELETE", path, signed)
        assert answer.status_code == 409 and reason in answer.json()["reason"]
        end = forged(mission, REMOVE, {"name": name}, signed["intent"])
        assert end["state"] == "failed" and reason in end["problem"]["reason"]
        values = {**wanted, "name": name}
        signed = ada.signed(INVITE, line(INVITE, values))
        answer = ada.call("POST", f"{path}/link", {"sealTo": tab.key, **signed})
        assert answer.status_code == 409 and f"./inv control.person {name}" in answer.json()["remedy"]
        assert forged(mission, INVITE, values, signed["intent"])["state"] == "failed"
    assert mission.link.execute("select 1 from person where disabled_at is not null").fetchone() is None


def test_another_link_gives_nothing_that_its_line_does_not_name(mission: Lab, ada: Person, tab: Tab) -> None:
    mission.link.execute(
        "insert into person (id, name, role, workspaces, by_rule, rule)"
        " values ('pe_bea', 'bea', 'viewer', '{lab}', true, 'group:x=viewer@lab')"
    )
    query = "select role, workspaces, by_rule, rule, giver, granted_at, disabled_at from person where name = 'bea'"
    before = mission.link.execute(query).fetchone()
    plain: Values = {"name": "bea", "role": None, "workspaces": None, "seal_to": tab.key}
    for where in (["lab", "other"], ["other"], []):
        values = {**plain, "workspaces": where}
        assert line(INVITE, values) == line(INVITE, plain), "one signature is of both"
        end = forged(mission, INVITE, values, ada.signed(INVITE, line(INVITE, plain))["intent"])
        assert (end["state"], end["problem"]["field"]) == ("failed", "workspaces"), end
    assert count(mission, "enrolment") == 1, "that of ada alone"
    assert forged(mission, INVITE, plain, ada.signed(INVITE, line(INVITE, plain))["intent"])["state"] == "done"
    assert count(mission, "enrolment") == 2
    assert mission.link.execute(query).fetchone() == before, "the link is all"


def test_nobody_but_an_admin_who_is_there_makes_keys_or_persons(mission: Lab, ada: Person, tab: Tab) -> None:
    with mission.client() as client:
        eve = enrols(mission, client, added(mission, "eve", "operator"))
        for kind, path, values in (
            (KEY, "/api/keys", key_values(tab)),
            (INVITE, "/api/people", person_values(tab)),
            (REMOVE, f"/api/people/{person_id(mission, 'eve')}", {"name": "eve"}),
        ):
            signed = eve.signed(kind, line(kind, values))
            method = "DELETE" if kind == REMOVE else "POST"
            sent = signed if kind == REMOVE else body(eve, kind, values)
            assert eve.call(method, path, sent).status_code == 403
            end = forged(mission, kind, values, signed["intent"])
            assert "may not do this" in end["problem"]["reason"]
    assert (count(mission, "api_key"), count(mission, "passkey")) == (0, 2)


def test_no_writer_cancels_what_an_admin_signed_of_persons_and_keys(mission: Lab, ada: Person, tab: Tab) -> None:
    with mission.client() as client, mission.client(mission.key("read", "desktops:write", "chat")) as program:
        eve = enrols(mission, client, added(mission, "eve", "operator"))
        mission.end("worker")
        path = f"/api/people/{person_id(mission, 'eve')}"
        queued = [
            ada.call("DELETE", path, ada.signed(REMOVE, line(REMOVE, {"name": "eve"}))).json()["id"],
            ada.call("POST", "/api/people", body(ada, INVITE, person_values(tab))).json()["id"],
            ada.call("POST", "/api/keys", body(ada, KEY, key_values(tab))).json()["id"],
        ]
        for id in queued:
            for answer in (
                eve.call("POST", f"/api/operations/{id}/cancel"),
                program.post(f"/api/operations/{id}/cancel"),
            ):
                assert (answer.status_code, answer.json()["value"]) == (403, "admin")
        assert ada.call("POST", f"/api/operations/{queued[2]}/cancel").status_code == 202
        mission.worker()
        assert [mission.state(id, "done", "cancelled")["state"] for id in queued] == ["done", "done", "cancelled"]
        assert eve.call("GET", "/api/me").status_code == 401


@pytest.mark.parametrize("change", ["role = 'operator'", "disabled_at = now()"])
def test_what_was_signed_by_who_is_no_admin_any_more_is_refused(
    mission: Lab, ada: Person, tab: Tab, change: str
) -> None:
    values = key_values(tab)
    signed = ada.signed(KEY, line(KEY, values))["intent"]
    assert forged(mission, KEY, values, ada.signed(KEY, line(KEY, values))["intent"])["state"] == "done", "still one"
    mission.link.execute(f"update person set {change} where name = 'ada'".encode())
    mission.link.execute("insert into person (id, name, role) values ('pe_x', 'x', 'viewer')")
    id = f"op_{secrets.token_hex(8)}"
    query = "insert into operation (id, kind, input, proof, actor) values (%s, %s, %s, %s, 'person:ada')"
    mission.link.execute(query, [id, KEY, Jsonb({**values, "name": "late"}), Jsonb(signed)])
    assert mission.state(id, "done", "failed")["state"] == "failed"
    assert count(mission, "api_key") == 1


def test_a_key_makes_no_key_and_nobody(mission: Lab, ada: Person, owner: httpx.Client, tab: Tab) -> None:
    added(mission, "eve", "viewer")
    path = f"/api/people/{person_id(mission, 'eve')}"
    sent = {"sealTo": tab.key}
    for method, where, what in (
        ("POST", "/api/keys", {**sent, "name": "ci", "scopes": ["read"]}),
        ("POST", "/api/people", {**sent, "name": "bea"}),
        ("POST", f"{path}/link", sent),
        ("DELETE", path, None),
    ):
        answer = owner.request(method, where, json=what)
        assert (answer.status_code, answer.json()["field"]) == (403, "caller"), where
    operations = count(mission, "operation")
    key = Key.parsed(owner.headers["Authorization"].removeprefix("Bearer "))
    assert key is not None
    intent = ada.signed(KEY, line(KEY, values := key_values(tab)))["intent"]["intent"]
    proof = {"intent": intent, "key": key.id, "proof": key.proof(canonical(intent))}
    end = forged(mission, KEY, values, proof)
    assert "only a person makes keys and persons" in end["problem"]["reason"]
    assert count(mission, "operation") == operations + 1 and count(mission, "api_key") == 1


def canonical(intent: Values) -> bytes:
    """What a key proves of an intent."""
    return Intent.parsed(intent).canonical


def _another_browser(values: Values) -> Values:
    return {**values, "seal_to": Tab().key}


def _more(values: Values) -> Values:
    return {**values, "scopes": ["read", "desktops:destroy"]}


def _everywhere(values: Values) -> Values:
    return {**values, "workspaces": None}


def _longer(values: Values) -> Values:
    return {**values, "days": 365}


@pytest.mark.parametrize("change", [_another_browser, _more, _everywhere, _longer])
def test_a_signature_makes_just_this_key_for_just_that_browser_once(
    mission: Lab, ada: Person, tab: Tab, change: Callable[[Values], Values]
) -> None:
    values = key_values(tab)
    signed = ada.signed(KEY, line(KEY, values))["intent"]
    answer = ada.call("POST", "/api/keys", body(ada, KEY, change(values), signed=values))
    assert (answer.status_code, answer.json()["field"]) == (422, "intent")
    assert forged(mission, KEY, change(values), signed)["state"] == "failed"
    assert count(mission, "api_key") == 0
    assert forged(mission, KEY, values, signed)["state"] == "done", "what was signed is done"
    assert forged(mission, KEY, {**values, "name": "ci"}, signed)["problem"]["reason"] == "was used before"
    assert count(mission, "api_key") == 1


@pytest.mark.parametrize("kind", [KEY, INVITE, REMOVE])
@pytest.mark.parametrize(
    "proof", [None, {}, {"intent": {}, "credential": {}}, {"intent": {}, "key": "0", "proof": "0"}]
)
def test_the_word_of_the_web_process_alone_makes_nothing(
    mission: Lab, ada: Person, tab: Tab, kind: str, proof: Any
) -> None:
    added(mission, "eve", "viewer")
    for values in ({"name": "eve"}, {}, key_values(tab), person_values(tab), {**key_values(tab), "seal_to": "x"}):
        assert forged(mission, kind, values, proof)["state"] == "failed"
    assert (count(mission, "api_key"), count(mission, "person"), count(mission, "passkey")) == (0, 2, 1)


@pytest.mark.parametrize("lost", [True, False])
def test_a_worker_that_lost_an_operation_on_its_way_leaves_no_key_behind(
    mission: Lab, ada: Person, tab: Tab, lost: bool
) -> None:
    mission.end("worker")
    sent = body(ada, KEY, key_values(tab))
    id = ada.call("POST", "/api/keys", sent).json()["id"]
    runner = Runner(Passkeys(ORIGIN), Standby(CHILD))
    with connect(mission.url(WORKER)) as link:
        held = claims.claim(link, "slow")
        assert held is not None and held.id == id
        if lost:
            mission.link.execute("update operation set attempt = attempt + 1 where id = %s", [id])
        runner.run(lambda: contextlib.nullcontext(link), held)
    assert (count(mission, "api_key"), count(mission, "operation_secret")) == ((0, 0) if lost else (1, 1))
    assert mission.state(id, "running" if lost else "done")


MORE = "./inv control.person mia --role admin --gives operator"
BEYOND_MIA: list[tuple[str, str, Values, str]] = [
    ("keys", KEY, {"scopes": ["read", "desktops:destroy"]}, "scopes"),
    ("keys", KEY, {"scopes": ["approvals:decide"]}, "scopes"),
    ("keys", KEY, {"days": 31}, "days"),
    ("people", INVITE, {}, "role"),
    ("people", INVITE, {"workspaces": None}, "role"),
]


@pytest.mark.parametrize(("what", "kind", "change", "field"), BEYOND_MIA)
def test_an_admin_gives_viewers_and_small_keys_unless_the_host_lets_them_give_more(
    mission: Lab, mia: Person, tab: Tab, what: str, kind: str, change: Values, field: str
) -> None:
    values = (key_values if kind == KEY else person_values)(tab, **change)
    operations = count(mission, "operation")
    answer = mia.call("POST", f"/api/{what}", body(mia, kind, values))
    assert (answer.status_code, answer.json()["field"]) == (403, field), answer.text
    assert MORE in answer.json()["remedy"] and "is more than mia gives by the web" in answer.json()["reason"]
    end = forged(mission, kind, values, mia.signed(kind, line(kind, values))["intent"], "mia")
    assert (end["state"], end["problem"]["field"]) == ("failed", field) and MORE in end["problem"]["remedy"], end
    assert (count(mission, "operation"), count(mission, "api_key"), count(mission, "person")) == (operations + 1, 0, 1)
    with mission.link.transaction():
        records.add(mission.link, HOST, "mia", records.Given("admin", gives="operator"))
    assert asked(mia, f"/api/{what}", kind, values)["state"] == "done"


def test_an_admin_of_whom_the_host_said_nothing_gives_a_viewer_their_link_and_a_small_key(
    mission: Lab, mia: Person, tab: Tab
) -> None:
    small = key_values(tab, scopes=["read", "desktops:write", "chat", "approvals:read"], days=30)
    assert asked(mia, "/api/keys", KEY, small)["state"] == "done"
    assert asked(mia, "/api/people", INVITE, person_values(tab, name="bea", role="viewer"))["state"] == "done"
    again: Values = {"name": "bea", "role": None, "workspaces": None, "seal_to": tab.key}
    sent = {"sealTo": tab.key, **mia.signed(INVITE, line(INVITE, again))}
    answer = mia.call("POST", f"/api/people/{person_id(mission, 'bea')}/link", sent, **WAIT)
    assert (answer.status_code, answer.json()["state"]) == (202, "done")


def test_a_link_of_an_operator_is_made_at_the_host_unless_that_lets_an_admin_give_operators(
    mission: Lab, mia: Person, tab: Tab
) -> None:
    added(mission, "eve", "operator")
    values: Values = {"name": "eve", "role": None, "workspaces": None, "seal_to": tab.key}
    path = f"/api/people/{person_id(mission, 'eve')}/link"
    sent = {"sealTo": tab.key, **mia.signed(INVITE, line(INVITE, values))}
    answer = mia.call("POST", path, sent)
    assert (answer.status_code, answer.json()["field"]) == (403, "person")
    assert MORE in answer.json()["remedy"] and "at the host: ./inv control.person eve;" in answer.json()["remedy"]
    links = count(mission, "enrolment")
    assert forged(mission, INVITE, values, sent["intent"], "mia")["problem"]["field"] == "person"
    assert count(mission, "enrolment") == links
    with mission.link.transaction():
        records.add(mission.link, HOST, "mia", records.Given(gives="operator"))
    sent = {"sealTo": tab.key, **mia.signed(INVITE, line(INVITE, values))}
    assert mia.call("POST", path, sent, **WAIT).json()["state"] == "done"


def test_what_an_admin_gives_is_shown_and_ends_with_their_role(mission: Lab, mia: Person) -> None:
    def gives() -> tuple[str, list[str], int]:
        (row,) = mia.call("GET", "/api/people").json()["items"]
        given = mia.call("GET", "/api/me").json()["gives"]
        return row["gives"], given["roles"], given["days"]

    assert gives() == ("viewer", ["viewer"], 30)
    assert mia.call("GET", "/api/me").json()["gives"]["widening"] == MORE
    with mission.link.transaction():
        records.add(mission.link, HOST, "mia", records.Given(gives="operator"))
    assert gives() == ("operator", ["operator", "viewer"], 365)
    with mission.link.transaction():
        for change in (records.Given("operator"), records.Given("admin")):
            records.add(mission.link, HOST, "mia", change)
    assert gives() == ("viewer", ["viewer"], 30), "who is an admin anew was not marked anew"
    for role, asked_for in (("operator", "operator"), ("admin", "admin")):
        with pytest.raises(ConfigError) as refused, mission.link.transaction():
            records.add(mission.link, HOST, "mia", records.Given(role, gives=asked_for))
        assert refused.value.field == "--gives"


def test_who_answers_for_another_is_no_one_whom_that_other_just_made(mission: Lab, ada: Person, tab: Tab) -> None:
    added(mission, "eve", "operator")
    query = """insert into approval_rule (workspace_id, persons, roles, people, keys, operations, actor)
        values ('other', %s, '{}', '{}', '{}', %s, 'person:ada')"""
    again: Values = {"name": "eve", "role": None, "workspaces": None, "seal_to": tab.key}
    path = f"/api/people/{person_id(mission, 'eve')}/link"
    deciding = key_values(tab, scopes=["read", "approvals:decide"])
    for persons, operations in ((2, []), (1, ["desktop.destroy"]), (1, [])):
        mission.link.execute("delete from approval_rule")
        mission.link.execute(query, [persons, operations])
        sent = {"sealTo": tab.key, **ada.signed(INVITE, line(INVITE, again))}
        answers = [
            (ada.call("POST", "/api/people", body(ada, INVITE, person_values(tab))), "role"),
            (ada.call("POST", path, sent), "person"),
            (ada.call("POST", "/api/keys", body(ada, KEY, deciding)), "scopes"),
        ]
        for answer, field in answers:
            assert (answer.status_code, answer.json()["field"]) == (403, field), answer.text
            assert "the rule of approvals of other" in answer.json()["reason"]
            assert answer.json()["remedy"].count("./inv control.") == 1
    before = count(mission, "api_key"), count(mission, "person"), count(mission, "enrolment")
    for kind, values in ((INVITE, person_values(tab)), (INVITE, again), (KEY, deciding)):
        end = forged(mission, kind, values, ada.signed(kind, line(kind, values))["intent"])
        assert "the rule of approvals of other" in end["problem"]["reason"], end
    assert (count(mission, "api_key"), count(mission, "person"), count(mission, "enrolment")) == before
    assert ada.call("GET", "/api/me").json()["gives"]["roles"] == ["viewer"]
    viewer = person_values(tab, role="viewer")
    assert asked(ada, "/api/people", INVITE, viewer)["state"] == "done", "who answers nothing is no puppet"
    assert asked(ada, "/api/keys", KEY, key_values(tab, days=365))["state"] == "done"
    mission.link.execute("delete from approval_rule")
    assert asked(ada, "/api/keys", KEY, {**deciding, "name": "decides"})["state"] == "done"


WITHIN = (
    "insert into person (id, name, role, giver) values ('pe_w', 'w', 'viewer', 'person:ada')",
    "insert into person (id, name, role, giver) values ('pe_x', 'x', 'operator', 'person:ada')",
    "insert into enrolment (token_hash, person_id, expires_at, giver) values ('\\x02', 'pe_x', now(), 'person:ada')",
    "insert into api_key (id, name, auth_hash, scopes, expires_at, giver)"
    " values ('x', 'x', '\\x02', '{desktops:destroy,approvals:decide}', now() + interval '365 days', 'person:ada')",
    "insert into api_key (id, name, auth_hash, scopes, expires_at, giver)"
    " values ('y', 'y', '\\x03', '{read,chat}', now() + interval '30 days', 'person:mia')",
    "update person set role = 'operator', giver = 'person:ada', disabled_at = null where id = 'pe_gone'",
    "insert into enrolment (token_hash, person_id, expires_at) values ('\\x01', 'pe_eve', now())",
    "insert into api_key (id, name, auth_hash, scopes, expires_at) values ('w', 'w', '\\x01', '{read}', now())",
    "delete from passkey where person_id = 'pe_eve'",
    "update person set disabled_at = now() where id = 'pe_eve'",
)
BEYOND = (
    "insert into person (id, name, role) values ('pe_w', 'w', 'admin')",
    "insert into person (id, name, role, by_rule) values ('pe_w', 'w', 'viewer', true)",
    "insert into person (id, name, role) values ('pe_w', 'w', 'operator')",
    "insert into person (id, name, role, giver) values ('pe_w', 'w', 'operator', 'person:mia')",
    "insert into person (id, name, role, gives) values ('pe_w', 'w', 'viewer', 'operator')",
    "update person set role = 'operator', giver = 'person:mia', disabled_at = null where id = 'pe_gone'",
    "update person set gives = 'operator'",
    "insert into enrolment (token_hash, person_id, expires_at, giver) values ('\\x01', 'pe_op', now(), 'person:mia')",
    "insert into api_key (id, name, auth_hash, scopes, expires_at, giver)"
    " values ('w', 'w', '\\x01', '{desktops:destroy}', now(), 'person:mia')",
    "insert into api_key (id, name, auth_hash, scopes, expires_at)"
    " values ('w', 'w', '\\x01', '{approvals:decide}', now())",
    "insert into api_key (id, name, auth_hash, scopes, expires_at, giver)"
    " values ('w', 'w', '\\x01', '{read}', now() + interval '31 days', 'person:mia')",
    "update person set role = 'admin' where id = 'pe_eve'",
    "update person set name = 'ada' where id = 'pe_eve'",
    "update person set workspaces = '{}' where id = 'pe_eve'",
    "update person set role = 'operator' where id = 'pe_eve'",
    "insert into enrolment (token_hash, person_id, expires_at) values ('\\x01', 'pe_ada', now())",
    "delete from passkey where person_id = 'pe_ada'",
    "insert into api_key (id, name, auth_hash, scopes, expires_at) values ('w', 'w', '\\x01', '{read,admin}', now())",
    "insert into api_key (id, name, auth_hash, scopes, expires_at)"
    " values ('w', 'w', '\\x01', '{read}', now() + interval '366 days')",
    "update api_key set scopes = '{admin}'",
    "update session set expires_at = now() + interval '1 year'",
    "update identity set person_id = 'pe_eve'",
    "update identity set ended_at = now() where person_id = 'pe_ada'",
)
OTHERS = """insert into person (id, name, role, disabled_at) values ('pe_gone', 'gone', 'viewer', now()),
    ('pe_op', 'op', 'operator', null), ('pe_mia', 'mia', 'admin', null)"""
AGAIN = ("update session set ended_at = null", "update identity set ended_at = null")


def test_the_workers_account_makes_no_admin_whatever_was_signed(mission: Lab, ada: Person) -> None:
    mission.link.execute("insert into person (id, name, role) values ('pe_eve', 'eve', 'viewer')")
    query = "insert into passkey (id, person_id, name, public_key) values ('\\x02', 'pe_eve', 'x', '\\x02')"
    mission.link.execute(query.encode())
    mission.link.execute("insert into identity (issuer, subject, person_id) values ('x', 'x', 'pe_ada')")
    mission.link.execute(OTHERS.encode())
    with connect(mission.url(WORKER)) as link:
        for statement in (*BEYOND, *AGAIN):
            with pytest.raises(psycopg.errors.InsufficientPrivilege), link.transaction():
                link.execute(statement.encode())
        # An admin who is there is not seen by what changes persons.
        assert link.execute("update person set disabled_at = now() where name = 'ada'").rowcount == 0
        for statement in WITHIN:
            assert link.execute(statement.encode()).rowcount == 1, statement


def test_the_web_process_writes_no_key_person_or_link_by_its_own_role(mission: Lab, ada: Person) -> None:
    mission.link.execute("insert into person (id, name, role) values ('pe_eve', 'eve', 'viewer')")
    mission.link.execute(OTHERS.encode())
    with psycopg.connect(mission.url_as(WEB), autocommit=True) as link:
        for statement in (*WITHIN, *BEYOND, "insert into key_proof (key_id, secret) values ('w', '\\x01')"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                link.execute(statement.encode())
