"""A workspace is made and destroyed by the API: signed by an admin, checked by the worker, and once for all kills."""

import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from deskyard_sdk import DesktopError
from deskyard_sdk.mission import MissionControl
from deskyard_sdk.sync import Loop
from psycopg.types.json import Jsonb

from deskyard.control.founding.target import FOUND, end_target, found_target
from deskyard.control.jobs.observer import Observer
from deskyard.control.people.intent import END
from deskyard.control.store.cluster import WORKER
from deskyard.control.store.connection import connect
from deskyard.declaration import stack_file
from deskyard.errors import ConfigError
from tests.control.founded import Machines, environment
from tests.control.lab import Lab
from tests.control.people import Person, enrolled
from tests.control.test_programs import twin

CHILD = "tests.control.founded"
WAIT = {"Prefer": "wait=30"}
DESKTOPS = [{"name": "dev1"}, {"name": "dev2", "tier": "pro", "image": "agent"}]
LINE = "open: dev1 (free, desktop), dev2 (pro, agent)"
SIGNED = f"research on site local, network chosen by the host, egress {LINE}"
NEW = {"name": "research", "desktops": DESKTOPS}
PATH = "/api/workspaces/research"
BOTH = {"desktops": ["dev1", "dev2"]}
END_LINE = "research with dev1 dev2"


@pytest.fixture
def child() -> str:
    return CHILD


@pytest.fixture(autouse=True)
def _folder(mission: Lab) -> None:
    # The program that waits for what is wanted next may have begun before the last test's folder went.
    stacks(mission).mkdir(exist_ok=True)


@pytest.fixture
def admin(mission: Lab) -> Iterator[Person]:
    with mission.client() as client:
        yield enrolled(mission, client, "root", "admin")


@pytest.fixture
def observer(mission: Lab, monkeypatch: pytest.MonkeyPatch) -> Observer:
    """Who observes declarations; machines are not followed."""
    for name, value in environment(mission.path).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(Observer, "_follow", lambda *_: None)
    return Observer(mission.url(WORKER))


def stacks(mission: Lab) -> Path:
    return mission.path / "stacks"


def declared(mission: Lab) -> list[str]:
    return sorted(path.name for path in stacks(mission).glob("Pulumi.*"))


def see(mission: Lab, observer: Observer) -> None:
    with connect(mission.url(WORKER)) as link:
        observer.look(link)


def steps(mission: Lab) -> list[str]:
    """The steps of the double, in order."""
    return [f"{line['event']} {line['desktop']}" for line in mission.all_effects()]


def forged(mission: Lab, kind: str, values: Any, proof: Any, workspace: str = "research") -> dict[str, Any]:
    """The end of what a taken web process could write down by itself."""
    id = f"op_{secrets.token_hex(8)}"
    mission.link.execute(
        "insert into operation (id, kind, workspace_id, lane, input, proof, actor)"
        " values (%s, %s, %s, 'workspace:research', %s, %s, 'person:root')",
        [id, kind, workspace, Jsonb(values), Jsonb(proof) if proof is not None else None],
    )
    return mission.state(id, "done", "failed")


def founded(mission: Lab, owner: httpx.Client, observer: Observer, **more: Any) -> None:
    """The workspace, made by a key and seen."""
    done = owner.post("/api/workspaces", json={**NEW, **more}, headers=WAIT).json()
    assert done["state"] == "done", done
    see(mission, observer)


def test_a_workspace_that_an_admin_signed_is_declared_and_brought_up(
    mission: Lab, admin: Person, observer: Observer
) -> None:
    asked = admin.call("POST", "/api/intents", {"kind": FOUND, "target": SIGNED}).json()
    assert asked["text"] == f"Make a workspace with a gateway and desktops: {SIGNED}"
    done = admin.call("POST", "/api/workspaces", {**NEW, **admin.signed(FOUND, SIGNED)}, **WAIT).json()
    assert (done["state"], done["workspaceId"]) == ("done", "research"), done
    assert done["result"] == {"workspace": "research", "ready": True, "url": "https://research.localhost:8443"}
    assert steps(mission) == ["up research", "is up research"]
    text = (stacks(mission) / "Pulumi.research.yaml").read_text()
    assert "# Made in Mission Control by person:root.\n" in text
    see(mission, observer)
    found = admin.client.get(PATH).json()
    assert (found["site"], found["egress"], found["desktops"]) == ("local", "open", 2)
    names = [each["id"] for each in admin.client.get("/api/desktops").json()["items"]]
    assert names == ["research.dev1", "research.dev2"]
    again = admin.call("POST", "/api/workspaces", {**NEW, **admin.signed(FOUND, SIGNED)})
    assert (again.status_code, again.json()["reason"]) == (409, "is the name of a workspace")


def test_without_a_signature_no_workspace_is_made(mission: Lab, admin: Person) -> None:
    answer = admin.call("POST", "/api/workspaces", NEW)
    assert (answer.status_code, answer.json()["field"]) == (403, "intent")
    values = {**NEW, "site": "local", "network": None, "egress": "open"}
    assert forged(mission, FOUND, values, None)["state"] == "failed"
    assert steps(mission) == declared(mission) == []


def test_a_signature_is_for_all_of_a_workspace_and_counts_once(mission: Lab, admin: Person) -> None:
    desktops = [{"image": None, "tier": "free", **each} for each in DESKTOPS]
    values = {"name": "research", "site": "local", "network": None, "egress": "open", "desktops": desktops}
    proof = admin.signed(FOUND, SIGNED)["intent"]
    for changed in (
        {"egress": "none"},
        {"site": "mars"},
        {"network": "10.80.7.0/24"},
        {"desktops": desktops[:1]},
        {"desktops": [desktops[0], {**desktops[1], "tier": "max"}]},
        {"desktops": [{**desktops[0], "image": "agent"}, desktops[1]]},
        {"desktops": "dev1"},
        {"desktops": None},
        {"egress": "open: dev1 (free, desktop), dev2 (pro, agent)", "desktops": []},
    ):
        assert forged(mission, FOUND, {**values, **changed}, proof)["state"] == "failed", changed
    assert forged(mission, FOUND, values, proof, "other")["state"] == "failed"
    assert admin.call("POST", "/api/workspaces", {**NEW, "egress": "none", "intent": proof}).status_code == 422
    assert steps(mission) == declared(mission) == []
    more = [desktops[0], {**desktops[1], "backup": "never", "keys": ["anthropic"], "lifetime": "task"}]
    assert forged(mission, FOUND, {**values, "desktops": more, "peers": "open"}, proof)["state"] == "done"
    text = (stacks(mission) / "Pulumi.research.yaml").read_text()
    assert not [word for word in ("never", "anthropic", "task", "peers") if word in text]
    assert forged(mission, FOUND, values, proof)["problem"]["reason"] == "was used before"


@pytest.mark.parametrize("role", ["viewer", "operator"])
def test_who_is_no_admin_makes_and_destroys_none(
    mission: Lab, owner: httpx.Client, observer: Observer, role: str
) -> None:
    founded(mission, owner, observer)
    before = steps(mission)
    with mission.client() as client:
        person = enrolled(mission, client, "ada", role)
        other = SIGNED.replace("research", "other")
        wanted = {**NEW, "name": "other", **person.signed(FOUND, other)}
        assert person.call("POST", "/api/workspaces", wanted).status_code == 403
        leave = person.signed(END, END_LINE)
        assert person.call("DELETE", PATH, {**BOTH, **leave}).status_code == 403
        assert person.call("POST", f"{PATH}/destroy/preview").status_code == 403
        end = forged(mission, END, BOTH, leave["intent"])
    assert (end["state"], end["problem"]["reason"]) == ("failed", f"is of a {role}, who may not do this")
    with mission.client(mission.key("read", "desktops:write", "desktops:destroy")) as client:
        assert client.post("/api/workspaces", json={**NEW, "name": "other"}).status_code == 403
        assert client.request("DELETE", PATH, json=BOTH).status_code == 403
    assert (steps(mission), declared(mission)) == (before, ["Pulumi.research.yaml"])


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"network": "8.8.8.0/24"}, "request: network"),
        ({"network": "10.80.0.0/16"}, "request: network"),
        ({"desktops": [{"name": "dev1"}, {"name": "dev1"}]}, "request: declaration"),
        ({"desktops": [{"name": "gateway"}]}, "request: declaration"),
        ({"desktops": []}, "desktops"),
        ({"name": "No Name"}, "name"),
        ({"egress": "some"}, "egress"),
    ],
)
def test_what_no_workspace_can_be_is_refused_at_once(
    mission: Lab, owner: httpx.Client, change: dict[str, Any], field: str
) -> None:
    answer = owner.post("/api/workspaces", json={**NEW, **change})
    assert (answer.status_code, answer.json()["field"]) == (422, field)
    assert mission.link.execute("select 1 from operation").fetchone() is None


def test_a_network_or_name_that_is_taken_at_the_host_is_refused_before_anything_is_written(
    mission: Lab, owner: httpx.Client, observer: Observer
) -> None:
    founded(mission, owner, observer, network="10.80.4.0/24")
    before = steps(mission)
    wanted = {**NEW, "name": "other", "network": "10.80.4.0/24"}
    end = owner.post("/api/workspaces", json=wanted, headers=WAIT).json()
    assert (end["state"], end["problem"]["reason"]) == ("failed", "overlaps workspace 'research' (10.80.4.0/24)")
    (stacks(mission) / "Pulumi.unseen.yaml").write_text("config: {}\n")
    end = owner.post("/api/workspaces", json={**NEW, "name": "unseen"}, headers=WAIT).json()
    assert end["state"] == "failed" and "is declared already" in end["problem"]["reason"]
    assert (steps(mission), declared(mission)) == (before, ["Pulumi.research.yaml", "Pulumi.unseen.yaml"])
    assert (stacks(mission) / "Pulumi.unseen.yaml").read_text() == "config: {}\n"


def test_one_that_does_not_come_up_stays_declared_and_says_what_to_do(
    mission: Lab, owner: httpx.Client, observer: Observer
) -> None:
    new = {"name": "half-fails", "desktops": DESKTOPS}
    end = owner.post("/api/workspaces", json=new, headers=WAIT).json()
    assert (end["state"], end["problem"]["reason"]) == ("failed", "did not start")
    stays = "half-fails stays declared: then POST /api/workspaces/half-fails/up, or remove it at its host: "
    assert f"{stays}./inv workspace.destroy half-fails --no-backup" in end["problem"]["remedy"]
    see(mission, observer)
    assert owner.get("/api/workspaces/half-fails").json()["desktops"] == 2
    assert owner.post(f"/api/operations/{end['id']}/retry").status_code == 409
    (mission.path / "mended").touch()
    assert owner.post("/api/workspaces/half-fails/up", headers=WAIT).json()["state"] == "done"


def test_one_without_room_waits_and_comes_up_as_it_was_declared(mission: Lab, owner: httpx.Client) -> None:
    asked = owner.post("/api/workspaces", json={"name": "of-room", "desktops": DESKTOPS}).json()["id"]
    mission.until("select 1 from operation where id = %s and waits is not null", [asked])
    text = (stacks(mission) / "Pulumi.of-room.yaml").read_text()
    (mission.path / "room").touch()
    mission.link.execute("update operation set not_before = null where id = %s", [asked])
    mission.link.execute("notify work")
    mission.state(asked, "done")
    assert (stacks(mission) / "Pulumi.of-room.yaml").read_text() == text
    assert steps(mission) == ["up of-room", "up of-room", "is up of-room"]


def test_one_that_waits_for_room_goes_once_it_is_cancelled_and_does_not_come_back(
    mission: Lab, owner: httpx.Client, observer: Observer
) -> None:
    path, body = "/api/workspaces/of-room", {"desktops": ["dev1", "dev2"]}
    asked = owner.post("/api/workspaces", json={"name": "of-room", "desktops": DESKTOPS}).json()["id"]
    mission.until("select 1 from operation where id = %s and waits is not null", [asked])
    see(mission, observer)
    refused = owner.request("DELETE", path, json=body)
    assert (refused.status_code, refused.json()["reason"]) == (409, f"is still being made, by operation {asked}")
    assert f"POST /api/operations/{asked}/cancel" in refused.json()["remedy"]
    assert owner.post(f"/api/operations/{asked}/cancel").is_success
    done = owner.request("DELETE", path, json=body, headers=WAIT).json()
    assert done["state"] == "done", done
    (mission.path / "room").touch()
    mission.link.execute("notify work")
    assert mission.state(asked, "cancelled", "done")["state"] == "cancelled"
    assert (declared(mission), steps(mission)) == ([], ["up of-room"])


def test_one_that_is_being_made_is_not_destroyed_meanwhile(
    mission: Lab, owner: httpx.Client, observer: Observer
) -> None:
    mission.gate("up-research")
    asked = owner.post("/api/workspaces", json=NEW).json()["id"]
    mission.until("select 1 from operation_log where operation_id = %s and line = 'up research'", [asked])
    see(mission, observer)
    assert owner.request("DELETE", PATH, json=BOTH).status_code == 409
    mission.open("up-research")
    mission.state(asked, "done")
    assert owner.request("DELETE", PATH, json=BOTH, headers=WAIT).json()["state"] == "done"


@pytest.mark.parametrize("gate", ["up-research", "is up-research"])
def test_a_killed_worker_s_workspace_is_declared_once_and_brought_up(
    mission: Lab, owner: httpx.Client, gate: str
) -> None:
    mission.gate(gate)
    asked = owner.post("/api/workspaces", json=NEW).json()["id"]
    mission.until("select 1 from operation_log where operation_id = %s and line = %s", [asked, gate.replace("-", " ")])
    text = (stacks(mission) / "Pulumi.research.yaml").read_text()
    mission.end("worker")
    (mission.path / "gates" / gate).unlink()
    mission.work_by(CHILD)
    assert mission.state(asked, "done", "failed")["state"] == "done"
    assert (stacks(mission) / "Pulumi.research.yaml").read_text() == text
    assert declared(mission) == ["Pulumi.research.yaml"]


def test_a_workspace_goes_with_the_desktops_that_were_seen_each_backed_up_first(
    mission: Lab, owner: httpx.Client, admin: Person, observer: Observer
) -> None:
    founded(mission, owner, observer)
    before = len(steps(mission))
    looked = admin.call("POST", f"{PATH}/destroy/preview", **WAIT).json()
    assert (looked["kind"], looked["state"], looked["result"]["desktops"]) == (
        "destroy.preview",
        "done",
        ["dev1", "dev2"],
    )
    assert len(steps(mission)) == before
    asked = admin.call("POST", "/api/intents", {"kind": END, "target": END_LINE}).json()
    assert asked["text"].endswith(f"with no way back but a backup: {END_LINE}")
    done = admin.call("DELETE", PATH, {**BOTH, **admin.signed(END, END_LINE)}, **WAIT).json()
    assert done["state"] == "done", done
    backed_up, destroyed = (
        [f"{what} research.{name}" for name in BOTH["desktops"]] for what in ("backed up", "destroyed")
    )
    assert steps(mission)[before:] == [*backed_up, *destroyed]
    assert done["result"]["last_backups"] == {"dev1": "dev1-0001", "dev2": "dev2-0001"}
    assert declared(mission) == []
    assert (stacks(mission) / done["result"]["declaration"]).is_file()
    see(mission, observer)
    assert admin.client.get(PATH).status_code == 404
    assert admin.client.get("/api/desktops").json()["total"] == 0
    # Its name is free again.
    founded(mission, owner, observer)


def test_without_a_signature_no_workspace_goes(
    mission: Lab, owner: httpx.Client, admin: Person, observer: Observer
) -> None:
    founded(mission, owner, observer)
    before = steps(mission)
    answer = admin.call("DELETE", PATH, BOTH)
    assert (answer.status_code, answer.json()["field"]) == (403, "intent")
    assert admin.call("DELETE", PATH, {**BOTH, **admin.signed(END, "research with dev1")}).status_code == 422
    proof = admin.signed(END, "research with dev1")["intent"]
    for values, leave in ((BOTH, None), (BOTH, proof), ({}, proof), ({"desktops": "dev1"}, proof)):
        assert forged(mission, END, values, leave)["state"] == "failed", values
    # What was signed is not all that there is.
    end = forged(mission, END, {"desktops": ["dev1"]}, proof)
    assert (end["state"], end["problem"]["reason"]) == ("failed", "are there too, and were not named: dev2")
    assert (steps(mission), declared(mission)) == (before, ["Pulumi.research.yaml"])


def test_a_desktop_that_was_added_meanwhile_is_not_destroyed(
    mission: Lab, owner: httpx.Client, admin: Person, observer: Observer
) -> None:
    founded(mission, owner, observer)
    before = steps(mission)
    signed = admin.signed(END, END_LINE)
    mission.declare("research", "dev3")
    answer = admin.call("DELETE", PATH, {**BOTH, **signed})
    assert (answer.status_code, answer.json()["reason"]) == (409, "are not all that it has: dev3")
    mission.link.execute("delete from desktop where name = 'dev3'")
    # Nobody has observed it yet.
    Machines(mission.path).make("research", ["dev4"])
    end = admin.call("DELETE", PATH, {**BOTH, **signed}, **WAIT).json()
    assert (end["state"], end["problem"]["reason"]) == ("failed", "are there too, and were not named: dev4")
    assert (steps(mission), declared(mission)) == (before, ["Pulumi.research.yaml"])


def test_a_removal_that_fails_leaves_the_workspace_in_sight_and_can_be_asked_again(
    mission: Lab, owner: httpx.Client, admin: Person, observer: Observer
) -> None:
    founded(mission, owner, observer, desktops=[{"name": "dev1"}, {"name": "stuck"}])
    line, body = "research with dev1 stuck", {"desktops": ["dev1", "stuck"]}
    end = admin.call("DELETE", PATH, {**body, **admin.signed(END, line)}, **WAIT).json()
    assert (end["state"], end["problem"]["reason"]) == ("failed", "is held by a program")
    see(mission, observer)
    assert admin.client.get(PATH).json()["desktops"] == 2
    (mission.path / "mended").touch()
    assert admin.call("DELETE", PATH, {**body, **admin.signed(END, line)}, **WAIT).json()["state"] == "done"
    assert declared(mission) == []


@pytest.mark.parametrize("gate", ["backed up-research.dev2", "destroyed-research.dev2"])
def test_a_killed_worker_s_removal_goes_on_and_backs_nothing_up_twice(
    mission: Lab, owner: httpx.Client, observer: Observer, gate: str
) -> None:
    founded(mission, owner, observer)
    mission.gate(gate)
    asked = owner.request("DELETE", PATH, json=BOTH).json()["id"]
    mission.until("select 1 from operation_log where operation_id = %s and line = %s", [asked, gate.replace("-", " ")])
    mission.end("worker")
    (mission.path / "gates" / gate).unlink()
    mission.work_by(CHILD)
    assert mission.state(asked, "done", "failed")["state"] == "done"
    assert declared(mission) == []
    # The one that was being made is made anew.
    made = [step for step in steps(mission) if step.startswith("backed up")]
    assert made == ["backed up research.dev1", "backed up research.dev2", *(made[2:] if gate.startswith("b") else [])]
    assert made[2:] == (["backed up research.dev2"] if gate.startswith("b") else [])


def test_what_was_put_away_before_its_worker_was_killed_is_done(
    mission: Lab, owner: httpx.Client, observer: Observer
) -> None:
    founded(mission, owner, observer)
    mission.end("worker")
    asked = owner.request("DELETE", PATH, json=BOTH).json()["id"]
    stack_file.put_away(stacks(mission) / "Pulumi.research.yaml")
    mission.link.execute("update operation set attempt = 1 where id = %s", [asked])
    mission.work_by(CHILD)
    assert mission.state(asked, "done", "failed")["result"] == {"workspace": "research"}


def test_of_a_workspace_one_is_done_after_the_other(mission: Lab, owner: httpx.Client, observer: Observer) -> None:
    founded(mission, owner, observer)
    mission.gate("up-research")
    first = owner.post(f"{PATH}/up").json()["id"]
    mission.until("select 1 from operation_log where operation_id = %s", [first])
    second = owner.request("DELETE", PATH, json=BOTH).json()
    assert (second["state"], second["why"]) == ("queued", f"operation {first} moves research now")
    mission.open("up-research")
    assert mission.state(second["id"], "done", "failed")["state"] == "done"


def test_the_end_of_all_desktops_waits_where_the_end_of_one_does(
    mission: Lab, owner: httpx.Client, admin: Person, observer: Observer
) -> None:
    founded(mission, owner, observer)
    mission.link.execute(
        "insert into approval_rule (workspace_id, persons, roles, people, keys, operations, actor)"
        " values ('research', 1, '{}', '{}', '{}', '{desktop.destroy}', 'host:root')"
    )
    asked = admin.call("DELETE", PATH, {**BOTH, **admin.signed(END, END_LINE)}).json()["id"]
    end = mission.state(asked, "waiting", "done", "failed")
    assert (end["state"], end["asked"]) == ("waiting", END_LINE)
    assert declared(mission) == ["Pulumi.research.yaml"]
    line = f"allow {asked} {END} {END_LINE} by person:root"
    own = admin.call(
        "POST", f"/api/operations/{asked}/decide", {"answer": "allow", **admin.signed("operation.decide", line)}
    )
    assert own.status_code == 403
    answer = owner.post(f"/api/operations/{asked}/decide", json={"answer": "allow"}, headers=WAIT).json()
    assert answer["state"] == "done", answer
    assert mission.state(asked, "done", "failed")["state"] == "done"
    assert declared(mission) == []


def test_a_new_workspace_is_within_the_quota_of_who_makes_it(
    mission: Lab, admin: Person, owner: httpx.Client, observer: Observer
) -> None:
    assert owner.put("/api/quotas/person:root", json={"desktops": 3}).status_code == 200
    admin.call("POST", "/api/workspaces", {**NEW, **admin.signed(FOUND, SIGNED)}, **WAIT)
    see(mission, observer)
    used = {quota["subject"]: quota["used"] for quota in owner.get("/api/quotas").json()["items"]}
    assert (used["person:root"]["desktops"], used["person:root"]["vcpus"]) == (2, 6)
    more = {"name": "other", "desktops": DESKTOPS, **admin.signed(FOUND, SIGNED.replace("research", "other"))}
    refused = admin.call("POST", "/api/workspaces", more)
    assert (refused.status_code, refused.json()["field"], refused.json()["value"]) == (409, "desktops", "4")
    # The tier of one that is not there yet is as others have it.
    assert owner.put("/api/quotas/person:root", json={"vcpus": 9}).status_code == 200
    refused = admin.call("POST", "/api/workspaces", more)
    assert (refused.status_code, refused.json()["field"], refused.json()["value"]) == (409, "vcpus", "12")
    assert declared(mission) == ["Pulumi.research.yaml"]


def test_a_program_makes_looks_at_and_destroys_a_workspace(mission: Lab, observer: Observer) -> None:
    program = MissionControl(Loop(), twin(mission))
    try:
        made = program.wait(program.create_workspace("research", DESKTOPS, network="10.80.9.0/24", egress="none"))
        assert (made["kind"], made["workspaceId"]) == (FOUND, "research")
        see(mission, observer)
        assert program.workspace("research")["egress"] == "none"
        looked = program.wait(program.preview_destroy_workspace("research"))["result"] or {}
        with pytest.raises(DesktopError, match="are not all that it has: dev2"):
            program.destroy_workspace("research", ["dev1"])
        gone = program.wait(program.destroy_workspace("research", looked["desktops"]))["result"] or {}
        assert gone["last_backups"] == {"dev1": "dev1-0001", "dev2": "dev2-0001"}
    finally:
        program.close()
    assert declared(mission) == []


def test_no_two_workspaces_and_no_two_ends_have_the_same_line() -> None:
    values = {"site": "local", "network": None, "egress": "open", "desktops": [{"name": "a", "tier": "free"}]}
    assert found_target("lab", values) == found_target(
        "lab", {**values, "desktops": [{"name": "a", "tier": "free", "image": "desktop"}]}
    )
    for name, given in (
        ("lab, x", values),
        ("lab", {**values, "egress": "open: a (free, desktop), b"}),
        (None, values),
    ):
        with pytest.raises(ConfigError, match="no name that can be signed"):
            found_target(name, given)
    assert end_target("lab", ["b", "a", "a"]) == "lab with a b"
    assert end_target("lab", []) == "lab with no desktop"
    with pytest.raises(ConfigError):
        end_target("lab", ["no desktop"])
