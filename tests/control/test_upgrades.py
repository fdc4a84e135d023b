"""A desktop gets another system of the image that its host has built, one or many: signed, and just that image."""

import secrets
from collections.abc import Iterator
from typing import Any

import httpx
import psycopg
import pytest
from psycopg.rows import dict_row
from psycopg.types.json import Jsonb

from deskyard.control.machines import seen
from deskyard.control.machines.target import signed_target, upgrade_target
from deskyard.control.store.cluster import WORKER
from deskyard.errors import ConfigError
from deskyard.image.store import store
from deskyard.plan.workspace import WorkspacePlan
from tests.control.lab import Lab
from tests.control.people import Person, enrolled
from tests.desktop.lab import planned

PATH = "/api/desktops/lab.first"
FLEET = "/api/fleet/actions"
WAIT = {"Prefer": "wait=30"}
UPGRADE = "desktop.upgrade"


@pytest.fixture
def person(mission: Lab) -> Iterator[Person]:
    mission.declare("lab", "first", "second")
    mission.images("lab.first", "lab.second")
    with mission.client() as client:
        yield enrolled(mission, client, "ada", "operator")


def forged(mission: Lab, proof: Any, desktop: str = "lab.first", **given: Any) -> dict[str, Any]:
    """What a taken web process could write down by itself; the operation at its end."""
    id = f"op_{secrets.token_hex(8)}"
    mission.link.execute(
        "insert into operation (id, kind, workspace_id, desktop_id, lane, input, proof, actor)"
        " values (%s, %s, 'lab', %s, 'workspace:lab', %s, %s, 'person:ada')",
        [id, UPGRADE, desktop, Jsonb({"image": "desktop-new", **given}), Jsonb(proof) if proof is not None else None],
    )
    return mission.state(id, "done", "failed")


def test_a_desktop_says_which_image_it_runs_and_which_there_is_for_it(mission: Lab, owner: httpx.Client) -> None:
    mission.declare("lab", "first", "same", "unbuilt", "untold", "unseen")
    mission.images("lab.first")
    mission.images("lab.same", now="desktop-new")
    mission.images("lab.unbuilt", newest=None)
    mission.images("lab.untold", now=None)
    found = {each["name"]: each for each in owner.get("/api/desktops").json()["items"]}
    assert {name: (each["imageNow"], each["upgradeTo"]) for name, each in found.items()} == {
        "first": ("desktop-old", "desktop-new"),
        "same": ("desktop-new", None),
        "unbuilt": ("desktop-old", None),
        "untold": (None, None),
        "unseen": (None, None),
    }
    assert owner.get(PATH).json()["upgradeTo"] == "desktop-new"
    for wanted, names in (("true", ["first"]), ("false", ["same", "unbuilt", "unseen", "untold"])):
        listed = owner.get("/api/desktops", params={"upgrade": wanted}).json()
        assert ([each["name"] for each in listed["items"]], listed["total"]) == (names, len(names))


def test_a_person_upgrades_to_the_image_that_the_passkey_signed(mission: Lab, person: Person) -> None:
    asked = person.call("POST", "/api/intents", {"kind": UPGRADE, "target": "lab.first to desktop-new"}).json()
    assert "lose what their disks hold outside of /home: lab.first to desktop-new" in asked["text"]
    signed = person.signed(UPGRADE, "lab.first to desktop-new")
    done = person.call("POST", f"{PATH}/upgrade", {**signed, "packages": True}, **WAIT).json()
    assert done["result"] == {
        "seen": {"image": "desktop-new", "packages": True},
        "before": "desktop-old",
        "after": "desktop-new",
    }
    found = person.client.get(PATH).json()
    assert (found["imageNow"], found["upgradeTo"]) == ("desktop-new", None)
    again = person.call("POST", f"{PATH}/upgrade", signed)
    assert (again.status_code, again.json()["reason"]) == (409, "runs desktop-new already")


def test_without_a_signature_nothing_is_upgraded(mission: Lab, person: Person) -> None:
    answer = person.call("POST", f"{PATH}/upgrade", {})
    assert (answer.status_code, answer.json()["field"]) == (403, "intent")
    assert forged(mission, None)["state"] == "failed"
    assert mission.all_effects() == []


def test_a_signature_is_for_one_desktop_and_one_image(mission: Lab, person: Person) -> None:
    proof = person.signed(UPGRADE, "lab.first to desktop-new")["intent"]
    for desktop, given in (
        ("lab.second", {}),
        ("lab.first", {"image": "desktop-newer"}),
        ("lab.first", {"together": {"lab.second": "desktop-new"}}),
        ("lab.second", {"together": {"lab.first": "desktop-new", "lab.second": "desktop-new"}}),
        ("lab.first", {"together": ["lab.first"]}),
    ):
        assert forged(mission, proof, desktop, **given)["state"] == "failed", given
    assert mission.all_effects() == []
    assert forged(mission, proof)["state"] == "done"
    assert forged(mission, proof)["problem"]["reason"] == "was used before"


def test_what_was_signed_is_refused_once_another_image_is_built(mission: Lab, person: Person) -> None:
    signed = person.signed(UPGRADE, "lab.first to desktop-new")
    mission.images("lab.first", newest="desktop-newer")
    assert person.call("POST", f"{PATH}/upgrade", signed).status_code == 422
    named = person.call("POST", f"{PATH}/upgrade", {**signed, "image": "desktop-new"})
    assert (named.status_code, named.json()["field"]) == (409, "image")
    assert mission.all_effects() == []


def test_a_key_needs_the_scope_to_destroy(mission: Lab, person: Person) -> None:
    with mission.client(mission.key("read", "desktops:write")) as client:
        many = {"action": "upgrade", "selector": {}, "expectedCount": 2, "dryRun": True}
        assert client.post(f"{PATH}/upgrade").status_code == client.post(FLEET, json=many).status_code == 403
    assert mission.all_effects() == []
    with mission.client(mission.key("read", "desktops:destroy")) as client:
        assert client.post(f"{PATH}/upgrade", headers=WAIT).json()["state"] == "done"


def test_an_upgrade_that_failed_says_why_and_the_desktop_is_as_before(mission: Lab, owner: httpx.Client) -> None:
    mission.declare("lab", "fails")
    mission.images("lab.fails")
    done = owner.post("/api/desktops/lab.fails/upgrade", headers=WAIT).json()
    assert (done["state"], done["problem"]["reason"]) == ("failed", "did not start")
    assert owner.get("/api/desktops/lab.fails").json()["upgradeTo"] == "desktop-new"
    again = owner.post(f"/api/operations/{done['id']}/retry")
    assert (again.status_code, again.json()["remedy"]) == (409, "ask for it anew: its signature counts once")


def test_a_preview_is_not_signed_and_waits_for_nobody(mission: Lab, owner: httpx.Client) -> None:
    mission.declare("lab", "first", "blocks")
    mission.gate("blocks")
    moves = owner.post("/api/desktops/lab.blocks/restart").json()["id"]
    mission.state(moves, "running")
    with mission.client(mission.key("read", "desktops:write")) as client:
        done = client.post(f"{PATH}/upgrade/preview", headers=WAIT).json()
    assert (done["kind"], done["state"]) == ("upgrade.preview", "done")
    mission.open("blocks")
    mission.state(moves, "done")


def test_many_are_upgraded_by_one_signature_and_the_others_named(mission: Lab, person: Person) -> None:
    mission.declare("lab", "same", "unbuilt", "off")
    mission.declare("other", "fails", "third")
    mission.images("lab.same", now="desktop-new")
    mission.images("lab.off", "other.fails", "other.third")
    mission.link.execute("update desktop set state = 'stopped' where id = 'lab.off'")
    wanted = {"action": "upgrade", "selector": {}, "expectedCount": 7}
    tried = person.call("POST", FLEET, {**wanted, "dryRun": True}).json()
    chosen = ["lab.first", "lab.second", "other.fails", "other.third"]
    assert (tried["count"], tried["desktops"], tried["operations"]) == (7, chosen, [])
    assert tried["upgrades"] == [{"id": id, "imageNow": "desktop-old", "upgradeTo": "desktop-new"} for id in chosen]
    assert {each["id"]: each["reason"] for each in tried["skipped"]} == {
        "lab.same": "runs desktop-new already",
        "lab.unbuilt": "its image is not built from the current sources of its host",
        "lab.off": "is stopped: it has to run",
    }
    assert tried["toSign"] == "lab.first lab.second other.fails other.third to desktop-new"
    assert person.call("POST", FLEET, wanted).status_code == 403
    signed = person.signed(UPGRADE, tried["toSign"])
    answer = person.call("POST", FLEET, {**wanted, **signed}, **{"Idempotency-Key": "many"}).json()
    found = [mission.state(id, "done", "failed") for id in answer["operations"]]
    ends = {end["desktop_id"]: end["state"] for end in found}
    # One that fails stops no other.
    assert ends == dict.fromkeys(chosen, "done") | {"other.fails": "failed"}
    again = person.call("POST", FLEET, {**wanted, **signed}, **{"Idempotency-Key": "many"}).json()
    assert again["operations"] == answer["operations"]
    # What was signed counts for each once, and for no other.
    for id in ("lab.first", "lab.same"):
        together = {each: "desktop-new" for each in chosen}
        assert forged(mission, signed["intent"], id, together=together)["state"] == "failed"


def test_a_key_upgrades_many_by_a_proof_for_each(mission: Lab, owner: httpx.Client, person: Person) -> None:
    wanted = {"action": "upgrade", "selector": {"upgrade": True}, "expectedCount": 2}
    assert owner.post(FLEET, json={**wanted, "dryRun": True}).json()["toSign"] is None
    answer = owner.post(FLEET, json=wanted).json()
    assert [mission.state(id, "done", "failed")["state"] for id in answer["operations"]] == ["done", "done"]
    assert owner.post(FLEET, json={**wanted, "expectedCount": 0}).json()["desktops"] == []


def test_more_than_a_signature_can_name_are_refused(mission: Lab, person: Person) -> None:
    names = [f"desktop-with-a-long-name-{number:03}" for number in range(200)]
    mission.declare("many", *names)
    mission.images(*(f"many.{name}" for name in names))
    wanted = {"action": "upgrade", "selector": {"workspace": "many"}, "expectedCount": 200, "dryRun": True}
    refused = person.call("POST", FLEET, wanted)
    assert (refused.status_code, refused.json()["field"]) == (422, "selector")
    assert "200 desktops" in refused.json()["reason"]
    with mission.client(mission.key("read", "desktops:write", "desktops:destroy")) as client:
        assert len(client.post(FLEET, json=wanted).json()["desktops"]) == 200


def test_two_wishes_never_have_the_same_line() -> None:
    assert upgrade_target({"lab.b": "x-1", "lab.a": "y-2", "lab.c": "x-1"}) == "lab.b lab.c to x-1; lab.a to y-2"
    with pytest.raises(ConfigError, match="no name of a desktop"):
        # As text this would be `lab.a to y-2; lab.b to x-1`.
        signed_target("lab.a", {"image": "x-1", "together": {"lab.a": "x-1", "to y-2; lab.b": "x-1"}})


@pytest.fixture
def plan(mission: Lab) -> WorkspacePlan:
    found = planned("dev1", "dev2")
    mission.declare(found.name, "dev1", "dev2")
    return found


def test_what_the_host_tells_is_written_down_once(
    mission: Lab, plan: WorkspacePlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(seen, "_newest", lambda name: f"{name}-new")
    images = {plan.desktops[0].machine.domain: "desktop-old"}
    query = "select name, image_now, image_newest from desktop order by name"
    with psycopg.connect(mission.url(WORKER), autocommit=True, row_factory=dict_row) as link:
        seen.write(link, plan, images, seen.Built())
        found = [tuple(row.values()) for row in link.execute(query).fetchall()]
        assert found == [("dev1", "desktop-old", "desktop-new"), ("dev2", None, "desktop-new")]
        before = link.execute("select max(id) as last from event").fetchone()
        seen.write(link, plan, images, seen.Built())
        assert link.execute("select max(id) as last from event").fetchone() == before


def test_what_is_built_is_looked_up_once_for_all_and_again_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def find(name: str) -> None:
        asked.append(name)
        raise ConfigError("image", name, "is wrong", "correct it")

    monkeypatch.setattr(store, "find", find)
    built = seen.Built()
    assert [built.newest(name) for name in ("desktop", "desktop", "e2b")] == [None] * 3
    assert asked == ["desktop", "e2b"]
    monkeypatch.setattr(seen, "BUILT_SECONDS", 0.0)
    impatient = seen.Built()
    assert [impatient.newest("desktop") for _ in range(2)] == [None] * 2 and len(asked) == 4
