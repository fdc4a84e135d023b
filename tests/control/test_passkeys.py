"""A passkey ends by the signature of its person: with its sessions, for good, and never as their last way in."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest

from deskyard.control.credentials.target import PASSKEY
from deskyard.control.people import records
from deskyard.control.people.passkeys import written
from deskyard.control.store.cluster import WORKER
from tests.control.lab import HOST, Lab
from tests.control.people import Person, enrolled
from tests.control.test_credentials import forged

WAIT = {"Prefer": "wait=30"}


@pytest.fixture
def ada(mission: Lab) -> Iterator[Person]:
    """An admin at a laptop, signed in with its passkey."""
    mission.declare("lab", "first", "second")
    with mission.client() as client:
        yield enrolled(mission, client, "ada", "admin")


@pytest.fixture
def phone(mission: Lab, ada: Person) -> Iterator[Person]:
    """The same admin at a phone, which has another passkey."""
    with mission.client() as client:
        yield enrolled(mission, client, "ada", "admin")


def removed(person: Person, passkey: bytes, name: str = "passkey") -> dict[str, Any]:
    """The answer to somebody who removes a passkey, and signed that."""
    leave = person.signed(PASSKEY, f'"{name}" {written(passkey)}')
    found: dict[str, Any] = person.call("DELETE", f"/api/me/passkeys/{written(passkey)}", leave, **WAIT).json()
    return found


def test_a_passkey_that_its_person_removes_lets_nobody_in_and_signs_nothing_more(
    mission: Lab, ada: Person, phone: Person
) -> None:
    before = phone.signed("desktop.destroy", "lab.first")
    done = removed(ada, phone.passkey.id)
    assert done["state"] == "done", done["problem"]
    assert phone.call("GET", "/api/me").status_code == 401, "its session is over"
    assert [each["id"] for each in ada.call("GET", "/api/me").json()["passkeys"]] == [written(ada.passkey.id)]
    options = phone.call("POST", "/api/sign-in/options").json()["publicKey"]
    refused = phone.call("POST", "/api/sign-in", {"credential": phone.passkey.get(options)})
    assert (refused.status_code, refused.json()["field"]) == (401, "passkey")
    # What it signed while it counted, sent by whoever kept it.
    late = ada.call("DELETE", "/api/desktops/lab.first", before, **WAIT).json()
    assert (late["state"], late["problem"]["reason"]) == ("failed", "is of nobody here")
    query = "select detail from audit_entry where action = 'passkey.remove' and actor = 'person:ada' and target = 'ada'"
    assert mission.until(query, [])["detail"] == {"passkey": written(phone.passkey.id), "name": "passkey"}


def test_the_last_passkey_stays_unless_an_account_of_a_provider_lets_its_person_in(mission: Lab) -> None:
    with mission.client() as client:
        eve = enrolled(mission, client, "eve", "viewer")
        mission.link.execute("update person set workspaces = '{lab}' where name = 'eve'")
        refused = removed(eve, eve.passkey.id)
        assert (refused["status"], refused["reason"]) == (409, "is the last one, and nothing else lets you in")
        values = {"id": written(eve.passkey.id), "name": "passkey"}
        proof = eve.signed(PASSKEY, f'"passkey" {values["id"]}')["intent"]
        assert forged(mission, PASSKEY, values, proof, "eve")["problem"]["reason"] == refused["reason"]
        mission.link.execute("insert into identity (issuer, subject, person_id) values ('x', 'x', 'pe_eve')")
        assert removed(eve, eve.passkey.id)["state"] == "done"


def test_nobody_removes_the_passkey_of_somebody_else_or_without_signing_that(
    mission: Lab, ada: Person, phone: Person
) -> None:
    path = f"/api/me/passkeys/{written(phone.passkey.id)}"
    assert ada.call("DELETE", path).status_code == 403
    with mission.client(mission.key("admin")) as program:
        assert program.delete(path).json()["reason"] == "is a key, and has no passkeys"
    with mission.client() as client:
        eve = enrolled(mission, client, "eve", "operator")
        assert eve.call("DELETE", path).status_code == 404
        values = {"id": written(phone.passkey.id), "name": "passkey"}
        # Who took the web process says what it likes of who asks: the worker goes by who signed.
        proof = eve.signed(PASSKEY, f'"passkey" {values["id"]}')["intent"]
        assert forged(mission, PASSKEY, values, proof)["problem"]["reason"] == "is no passkey of yours"
        other = ada.signed(PASSKEY, f'"passkey" {written(ada.passkey.id)}')["intent"]
        assert forged(mission, PASSKEY, values, other)["problem"]["field"] == "intent"


def test_the_worker_ends_no_admin_by_their_last_passkey(mission: Lab, ada: Person, phone: Person) -> None:
    delete = "delete from passkey where person_id = 'pe_ada'"
    with psycopg.connect(mission.url_as(WORKER)) as link, pytest.raises(psycopg.errors.InsufficientPrivilege):
        link.execute(delete)
    assert len(records.passkeys_of(mission.link, "ada")) == 2


def test_of_an_admins_two_passkeys_one_stays_also_where_both_end_at_once(
    mission: Lab, ada: Person, phone: Person
) -> None:
    delete = "delete from passkey where id = %s"
    with (
        psycopg.connect(mission.url_as(WORKER)) as first,
        psycopg.connect(mission.url_as(WORKER)) as second,
        ThreadPoolExecutor(1) as pool,
    ):
        first.execute(delete, [ada.passkey.id])
        late = pool.submit(second.execute, delete, [phone.passkey.id])
        waits = "select 1 from pg_stat_activity where pid = %s and wait_event_type = 'Lock'"
        mission.until(waits, [second.info.backend_pid])
        first.commit()
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            late.result()
    assert [each["id"] for each in records.passkeys_of(mission.link, "ada")] == [written(phone.passkey.id)]


def test_an_admin_keeps_the_last_passkey_also_with_an_account_of_a_provider(mission: Lab, ada: Person) -> None:
    mission.link.execute("insert into identity (issuer, subject, person_id) values ('x', 'x', 'pe_ada')")
    refused = removed(ada, ada.passkey.id)
    assert (refused["status"], refused["reason"]) == (409, "is the last one of an admin, which ends at the host alone")


def test_a_session_that_a_passkey_began_counts_no_longer_than_that(mission: Lab, ada: Person, phone: Person) -> None:
    # A sign-in that was under way: its session is written down last.
    with mission.link.transaction():
        records.remove_passkey(mission.link, HOST, phone.passkey.id)
    mission.link.execute("update session set ended_at = null where passkey_id = %s", [phone.passkey.id])
    assert phone.call("GET", "/api/me").status_code == 401
    assert len(ada.call("GET", "/api/sessions").json()["items"]) == 1


def test_the_host_says_which_passkeys_a_person_has_and_ends_one(mission: Lab, ada: Person, phone: Person) -> None:
    found = records.passkeys_of(mission.link, "ada")
    assert [each["id"] for each in found] == [written(ada.passkey.id), written(phone.passkey.id)]
    with mission.link.transaction():
        assert records.remove_passkey(mission.link, HOST, ada.passkey.id) == "ada"
    assert ada.call("GET", "/api/me").status_code == 401
    assert phone.call("GET", "/api/me").status_code == 200
