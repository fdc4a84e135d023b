"""Who opens a desktop signs it, and gets a link that is of no use to who carries it; so with keys of new desktops."""

import secrets
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import psycopg
import pytest
from cryptography.exceptions import InvalidTag
from psycopg.types.json import Jsonb

from deskyard.control.opening.target import SESSION, create_target
from deskyard.control.people.intent import CREATE
from deskyard.control.store.cluster import WEB
from tests.control.lab import Lab
from tests.control.people import Person, enrolled
from tests.control.tab import Tab

PATH = "/api/desktops/lab.first/session"
LINK = {"link": "https://lab.localhost/#ticket", "expiresAt": 1}
OWN_PROOF: dict[str, Any] = {"intent": {}, "credential": {}}


@pytest.fixture
def person(mission: Lab) -> Iterator[Person]:
    mission.declare("lab", "first", "second")
    with mission.client() as client:
        yield enrolled(mission, client, "ada", "operator")


@pytest.fixture
def tab() -> Tab:
    return Tab()


def opened(person: Person, tab: Tab) -> dict[str, Any]:
    """The operation of a person who opens a desktop, with its result."""
    body = tab.wanted(**person.signed(SESSION, tab.target()))
    id = person.call("POST", PATH, body, Prefer="wait=30").raise_for_status().json()["id"]
    found: dict[str, Any] = person.call("GET", f"/api/operations/{id}").json()
    return found


def forged(mission: Lab, kind: str, values: dict[str, Any], proof: Any, desktop: str = "lab.first") -> dict[str, Any]:
    """What a taken web process writes down by its own role; the operation at its end."""
    id = f"op_{secrets.token_hex(8)}"
    with mission.link.transaction():
        mission.link.execute(f"set local role {WEB}".encode())
        mission.link.execute(
            "insert into operation (id, kind, workspace_id, desktop_id, lane, input, proof, actor)"
            " values (%s, %s, 'lab', %s, 'taken', %s, %s, 'person:ada')",
            [id, kind, desktop, Jsonb(values), Jsonb(proof) if proof is not None else None],
        )
    return mission.state(id, "done", "failed")


def links(mission: Lab) -> list[dict[str, Any]]:
    """What the web process's role reads of the links that are given out."""
    with psycopg.connect(mission.url_as(WEB)) as link:
        return [row[0] for row in link.execute("select value from operation_secret").fetchall()]


def test_a_person_opens_what_the_passkey_signed_and_reads_the_link_alone(
    mission: Lab, person: Person, tab: Tab
) -> None:
    asked = person.call("POST", "/api/intents", {"kind": SESSION, "target": tab.target()}).json()
    assert "Open a desktop" in asked["text"] and "lab.first drive for key" in asked["text"]
    found = opened(person, tab)
    assert (found["state"], set(found["result"])) == ("done", {"sealed"})
    assert tab.opens(found["result"]["sealed"], tab.target()) == LINK
    again = person.call("GET", f"/api/operations/{found['id']}").json()
    assert again["result"] == {"shown": "once, to whoever asked"}


def test_who_carries_a_link_to_a_person_cannot_use_it(mission: Lab, person: Person, tab: Tab) -> None:
    body = tab.wanted(**person.signed(SESSION, tab.target()))
    id = person.call("POST", PATH, body).json()["id"]
    mission.state(id, "done")
    (carried,) = links(mission)
    assert "ticket" not in str(carried)
    for page, target in ((Tab(), tab.target()), (tab, tab.target(desktop="lab.second"))):
        with pytest.raises(InvalidTag):
            page.opens(carried["sealed"], target)
    assert tab.opens(carried["sealed"], tab.target()) == LINK, "it is the link, for whoever has the key"


@pytest.mark.parametrize("proof", [None, {}, OWN_PROOF, {"key": "000000000000", "proof": "0" * 64, "intent": {}}])
def test_without_a_signature_nothing_is_opened(mission: Lab, person: Person, tab: Tab, proof: Any) -> None:
    for mode in ("drive", "view", "agent"):
        for seal_to in (tab.key, None):
            end = forged(mission, SESSION, {"mode": mode, "scopes": None, "seal_to": seal_to}, proof)
            assert end["state"] == "failed", (mode, seal_to)
    assert (links(mission), mission.effects("lab.first")) == ([], [])


def _another_key(values: dict[str, Any]) -> dict[str, Any]:
    return {**values, "seal_to": Tab().key}


def _no_key(values: dict[str, Any]) -> dict[str, Any]:
    return {**values, "seal_to": None}


def _more(values: dict[str, Any]) -> dict[str, Any]:
    return {**values, "mode": "agent", "scopes": ["shell"]}


@pytest.mark.parametrize("change", [_another_key, _no_key, _more])
def test_a_signature_opens_just_this_for_just_that_browser(
    mission: Lab, person: Person, tab: Tab, change: Callable[[dict[str, Any]], dict[str, Any]]
) -> None:
    signed = person.signed(SESSION, tab.target("view"))["intent"]
    values = {"mode": "view", "scopes": None, "seal_to": tab.key}
    assert forged(mission, SESSION, change(values), signed)["state"] == "failed"
    assert forged(mission, SESSION, values, signed, desktop="lab.second")["state"] == "failed"
    assert mission.effects("lab.first") == mission.effects("lab.second") == []
    assert forged(mission, SESSION, values, signed)["state"] == "done", "what was signed is done"
    assert forged(mission, SESSION, values, signed)["problem"]["reason"] == "was used before"


def test_a_person_signs_no_link_that_others_could_use(mission: Lab, person: Person) -> None:
    signed = person.signed(SESSION, "lab.first drive")
    answer = person.call("POST", PATH, {"mode": "drive", **signed})
    assert (answer.status_code, answer.json()["field"]) == (422, "sealTo")
    end = forged(mission, SESSION, {"mode": "drive", "scopes": None, "seal_to": None}, signed["intent"])
    assert (end["state"], end["problem"]["field"]) == ("failed", "sealTo")
    assert links(mission) == []


@pytest.mark.parametrize("key", ["A" * 87, "BA" + "_" * 85, "short"])
def test_a_key_that_nothing_can_be_sealed_to_is_refused_before_anything_is_touched(
    mission: Lab, person: Person, key: str
) -> None:
    answer = person.call("POST", PATH, {"mode": "drive", "sealTo": key, **person.signed(SESSION, "lab.first drive")})
    assert answer.status_code == 422, answer.text
    assert mission.effects("lab.first") == []


def test_a_viewer_opens_nothing_by_a_signature(mission: Lab, person: Person, tab: Tab) -> None:
    signed = person.signed(SESSION, tab.target())["intent"]
    mission.link.execute("update person set role = 'viewer'")
    values = {"mode": "drive", "scopes": None, "seal_to": tab.key}
    assert forged(mission, SESSION, values, signed)["problem"]["reason"] == "is of a viewer, who may not do this"


def _by_key(mission: Lab, client: httpx.Client, body: dict[str, Any]) -> Any:
    id = client.post(PATH, json=body, headers={"Prefer": "wait=30"}).raise_for_status().json()["id"]
    return client.get(f"/api/operations/{id}").json()["result"]


def test_a_key_opens_what_it_may_and_its_proof_opens_nothing_else(mission: Lab, person: Person, tab: Tab) -> None:
    with mission.client(mission.key("read", "desktops:write")) as client:
        assert _by_key(mission, client, {"mode": "agent"}) == LINK
        kept = _by_key(mission, client, tab.wanted(mode="agent"))
        assert tab.opens(kept["sealed"], tab.target("agent")) == LINK
    with mission.client(mission.key("read")) as client:
        assert client.post(PATH, json={}).status_code == 403
    row = mission.link.execute("select proof from operation where kind = %s limit 1", [SESSION]).fetchone()
    assert row is not None
    before = mission.effects("lab.first")
    for proof in (row["proof"], row["proof"] | {"intent": row["proof"]["intent"] | {"nonce": "another"}}):
        assert forged(mission, SESSION, {"mode": "agent", "scopes": None, "seal_to": None}, proof)["state"] == "failed"
    assert mission.effects("lab.first") == before


def test_a_new_desktop_gets_the_keys_that_were_signed_alone(mission: Lab, person: Person) -> None:
    wanted = {"name": "fresh", "workspaceId": "lab", "keys": ["openai", "anthropic"]}
    refused = person.call("POST", "/api/desktops", wanted)
    assert (refused.status_code, refused.json()["field"]) == (403, "intent")
    values = {"name": "fresh", "tier": "free", "image": None, "keys": ["openai", "anthropic"], "first_task": None}
    signed = person.signed(CREATE, create_target("lab.fresh", values))
    for keys, proof in ((["openai"], None), (["openai", "github"], signed["intent"])):
        assert forged(mission, CREATE, values | {"keys": keys}, proof, "lab.fresh")["state"] == "failed"
    assert forged(mission, CREATE, values | {"name": "other"}, signed["intent"], "lab.fresh")["state"] == "failed"
    assert mission.effects("lab.fresh") == []
    done = person.call("POST", "/api/desktops", wanted | signed, Prefer="wait=30").json()
    assert done["state"] == "done", done
    assert "intent" not in done["result"]["seen"] and done["result"]["seen"]["keys"] == ["openai", "anthropic"]
    plain = person.call("POST", "/api/desktops", {"name": "plain", "workspaceId": "lab"}, Prefer="wait=30")
    assert plain.json()["state"] == "done", "a desktop without keys needs no signature"


def test_what_was_signed_is_repeated_by_nobody(mission: Lab, person: Person, tab: Tab) -> None:
    mission.declare("lab", "fails")
    body = {"mode": "drive", "sealTo": tab.key, **person.signed(SESSION, tab.target(desktop="lab.fails"))}
    failed = person.call("POST", "/api/desktops/lab.fails/session", body, Prefer="wait=30").json()
    assert failed["state"] == "failed"
    answer = person.call("POST", f"/api/operations/{failed['id']}/retry")
    assert (answer.status_code, answer.json()["reason"]) == (409, "cannot be repeated by another")
