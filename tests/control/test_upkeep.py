"""Snapshots, backups, looks, isolation and allowed names by the API: what is signed is checked by the worker."""

import secrets
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from psycopg.types.json import Jsonb

from deskyard.control.upkeep.signed import ALLOW, RESTORE
from tests.control.lab import Lab
from tests.control.people import Person, enrolled

SNAPSHOT, ALLOWED = "/api/desktops/lab.first/snapshots", "/api/workspaces/lab/allowed"
NAME = {"name": "pypi.org", "howLong": "15m"}


@pytest.fixture
def person(mission: Lab) -> Iterator[Person]:
    mission.declare("lab", "first", "second")
    mission.link.execute("update workspace set egress = 'locked' where id = 'lab'")
    with mission.client() as client:
        yield enrolled(mission, client, "ada", "operator")


def done(answer: httpx.Response) -> dict[str, Any]:
    assert answer.status_code == 202, answer.text
    found: dict[str, Any] = answer.json()
    assert found["state"] == "done", found
    return found


def forged(mission: Lab, kind: str, values: dict[str, str], proof: Any, desktop: str | None = None) -> dict[str, Any]:
    """What a taken web process could write down by itself; the operation at its end."""
    id = f"op_{secrets.token_hex(8)}"
    mission.link.execute(
        "insert into operation (id, kind, workspace_id, desktop_id, lane, input, proof, actor)"
        " values (%s, %s, 'lab', %s, 'workspace:lab', %s, %s, 'person:ada')",
        [id, kind, desktop, Jsonb(values), Jsonb(proof) if proof is not None else None],
    )
    return mission.state(id, "done", "failed")


@pytest.mark.parametrize(
    ("path", "wanted", "kind"),
    [
        (SNAPSHOT, {"name": "before-update", "text": "Tuesday", "expiresHours": 12}, "snapshot.create"),
        ("/api/desktops/lab.first/backups", None, "backup.run"),
        ("/api/workspaces/lab/look", None, "workspace.look"),
        ("/api/workspaces/lab/verify", None, "workspace.verify"),
    ],
)
def test_what_loses_and_opens_nothing_is_done_by_who_may_write_and_is_found_by_its_kind(
    mission: Lab, person: Person, path: str, wanted: Any, kind: str
) -> None:
    found = done(person.call("POST", path, wanted, Prefer="wait=30"))
    assert found["kind"] == kind
    assert found["result"]["actor"] == "person:ada"
    listed = person.call("GET", f"/api/operations?workspace=lab&kind={kind}&state=done&limit=1").json()["items"]
    assert [each["id"] for each in listed] == [found["id"]]
    assert person.call("GET", "/api/operations?kind=no-such-kind").json()["items"] == []
    with mission.client(mission.key("read")) as client:
        assert client.post(path, json=wanted).status_code == 403


def test_snapshot_is_given_to_the_task_as_it_was_asked_for(person: Person) -> None:
    found = done(person.call("POST", SNAPSHOT, {"name": "kept", "expiresHours": 3}, Prefer="wait=30"))
    assert found["result"]["seen"] == {"name": "kept", "text": "", "expires_hours": 3}
    for wrong in ({"name": "Not A Name"}, {"name": "x"}, {"name": "kept", "expiresHours": 0}, {}):
        assert person.call("POST", SNAPSHOT, wrong).status_code == 422


def test_look_waits_for_nothing_that_moves_the_workspace(mission: Lab, person: Person) -> None:
    mission.declare("lab", "first", "blocks-1")
    mission.gate("blocks-1")
    begun = person.call("POST", "/api/desktops/lab.blocks-1/start").json()
    mission.state(begun["id"], "running")
    done(person.call("POST", "/api/workspaces/lab/look", Prefer="wait=30"))
    assert person.call("POST", "/api/workspaces/lab/verify").json()["state"] == "queued"
    mission.open("blocks-1")
    mission.state(begun["id"], "done")


def test_desktop_goes_back_to_the_snapshot_that_the_passkey_signed_and_to_no_other(
    mission: Lab, person: Person
) -> None:
    path = f"{SNAPSHOT}/before/restore"
    asked = person.call("POST", "/api/intents", {"kind": RESTORE, "target": "lab.first before"}).json()
    assert "lose what changed" in asked["text"]
    assert person.call("POST", path, {}).status_code == 403
    other = person.signed(RESTORE, "lab.first another")
    assert person.call("POST", path, other).status_code == 422
    for proof in (None, other["intent"], person.signed("desktop.destroy", "lab.first")["intent"]):
        assert forged(mission, RESTORE, {"name": "before"}, proof, "lab.first")["state"] == "failed"
    assert mission.effects("lab.first") == []
    found = done(person.call("POST", path, person.signed(RESTORE, "lab.first before"), Prefer="wait=30"))
    assert found["result"]["seen"] == {"name": "before"}
    assert person.call("POST", f"{SNAPSHOT}/Not A Name/restore", {}).status_code == 422


def test_name_is_allowed_as_it_was_signed_and_no_other_and_no_longer(mission: Lab, person: Person) -> None:
    assert person.call("POST", ALLOWED, NAME).status_code == 403
    signed = person.signed(ALLOW, "lab pypi.org 15m")
    for wrong in ({**NAME, "name": "example.org"}, {**NAME, "howLong": "always"}):
        assert person.call("POST", ALLOWED, {**wrong, **signed}).status_code == 422
        values = {"name": wrong["name"], "how_long": wrong["howLong"]}
        assert forged(mission, ALLOW, values, signed["intent"])["state"] == "failed"
    found = done(person.call("POST", ALLOWED, {**NAME, **signed}, Prefer="wait=30"))
    assert found["result"] == {"seen": {"name": "pypi.org", "how_long": "15m"}, "actor": "person:ada"}
    kept = mission.until("select * from audit_entry where action = %s", [ALLOW])
    assert (kept["actor"], kept["target"]) == ("person:ada", "lab")


def test_name_is_in_its_one_form_before_it_is_signed(person: Person) -> None:
    signed = person.signed(ALLOW, "lab pypi.org 15m")
    done(person.call("POST", ALLOWED, {"name": " PyPI.org ", "howLong": "15m", **signed}, Prefer="wait=30"))
    refused = person.call("POST", ALLOWED, {"name": "10.0.0.1", "howLong": "15m"})
    assert (refused.status_code, refused.json()["field"]) == (422, "name")


def test_key_with_the_scope_allows_and_puts_back_and_without_it_cannot(mission: Lab, person: Person) -> None:
    with mission.client(mission.key("read", "approvals:decide", "desktops:destroy")) as client:
        done(client.post(ALLOWED, json=NAME, headers={"Prefer": "wait=30"}))
        done(client.post(f"{SNAPSHOT}/before/restore", headers={"Prefer": "wait=30"}))
    with mission.client(mission.key("read", "desktops:write")) as client:
        assert client.post(ALLOWED, json=NAME).status_code == 403
        assert client.post(f"{SNAPSHOT}/before/restore").status_code == 403


def test_no_name_is_allowed_past_a_rule_of_approvals_whatever_the_web_process_says(
    mission: Lab, person: Person
) -> None:
    signed = person.signed(ALLOW, "lab pypi.org 15m")
    mission.link.execute(
        "insert into approval_rule (workspace_id, persons, roles, people, keys, actor)"
        " values ('lab', 2, '{}', '{}', '{}', 'person:root')"
    )
    refused = person.call("POST", ALLOWED, {**NAME, **signed})
    assert (refused.status_code, "rule of approvals" in refused.json()["reason"]) == (409, True)
    failed = forged(mission, ALLOW, {"name": "pypi.org", "how_long": "15m"}, signed["intent"])
    assert (failed["state"], "rule of approvals" in failed["problem"]["reason"]) == ("failed", True)
    assert mission.all_effects() == []


def test_workspace_that_is_not_locked_has_no_list(mission: Lab, person: Person) -> None:
    mission.link.execute("update workspace set egress = 'open' where id = 'lab'")
    refused = person.call("POST", ALLOWED, {**NAME, **person.signed(ALLOW, "lab pypi.org 15m")})
    assert (refused.status_code, refused.json()["reason"]) == (409, "is open: it has no list")
