"""The API as programs call it."""

import base64
import contextlib

import httpx
import pytest

from tests.control.lab import Lab
from tests.control.people import link_token


def test_desktops_are_listed_part_by_part_whatever_comes_between(mission: Lab, owner: httpx.Client) -> None:
    mission.declare("lab", *(f"d{number}" for number in range(5)))
    first = owner.get("/api/desktops", params={"limit": 2}).json()
    mission.declare("lab", "d0a")
    second = owner.get("/api/desktops", params={"limit": 10, "after": first["nextCursor"]}).json()
    assert [desktop["id"] for desktop in first["items"]] == ["lab.d0", "lab.d1"]
    assert [desktop["id"] for desktop in second["items"]] == ["lab.d2", "lab.d3", "lab.d4"]
    assert (first["total"], second["nextCursor"]) == (5, None)


def test_desktops_are_filtered_by_workspace_state_and_name(mission: Lab, owner: httpx.Client) -> None:
    mission.declare("lab", "alpha", "beta")
    mission.declare("other", "alpha", state="stopped")
    found = {
        filter: [desktop["id"] for desktop in owner.get(f"/api/desktops?{filter}").json()["items"]]
        for filter in ("workspace=lab", "state=stopped", "q=ALPHA", "workspace=lab&q=bet", "tier=max")
    }
    assert found == {
        "workspace=lab": ["lab.alpha", "lab.beta"],
        "state=stopped": ["other.alpha"],
        "q=ALPHA": ["lab.alpha", "other.alpha"],
        "workspace=lab&q=bet": ["lab.beta"],
        "tier=max": [],
    }


def test_a_desktop_is_created_started_stopped_restarted_and_destroyed(mission: Lab, owner: httpx.Client) -> None:
    mission.declare("lab", "first", "other")
    wanted = {"name": "second", "workspaceId": "lab", "tier": "free", "image": "desktop", "keys": []}
    created = owner.post("/api/desktops", json=wanted, headers={"Prefer": "wait=30"})
    assert (created.status_code, created.json()["state"]) == (202, "done"), created.text
    assert created.headers["location"] == f"/api/operations/{created.json()['id']}"
    for verb in ("stop", "start", "restart", "destroy"):
        done = owner.post(f"/api/desktops/lab.first/{verb}", headers={"Prefer": "wait=30"})
        assert (done.status_code, done.json()["state"]) == (202, "done"), done.text
    assert mission.effects("lab.first") == ["begin", "end"] * 4


def test_nobody_is_answered_without_a_key(mission: Lab) -> None:
    with mission.client() as stranger:
        answers = {path: stranger.get(path).status_code for path in ("/api/desktops", "/api/me", "/api/events")}
        assert answers == dict.fromkeys(answers, 401)
        assert stranger.get("/api/desktops").headers["www-authenticate"] == "Bearer"


@pytest.mark.parametrize("change", ["shorter", "other", "revoked"])
def test_a_key_that_is_not_whole_opens_nothing(mission: Lab, change: str) -> None:
    key = mission.key("read")
    match change:
        case "shorter":
            key = key[:-1]
        case "other":
            key = key.replace(key[17:20], "AAA" if key[17:20] != "AAA" else "BBB")
        case "revoked":
            mission.link.execute("update api_key set revoked_at = now()")
    with mission.client(key) as client:
        assert client.get("/api/desktops").status_code == 401


@pytest.mark.parametrize(
    ("call", "scope"),
    [
        (("POST", "/api/desktops/lab.first/stop"), "desktops:write"),
        (("DELETE", "/api/desktops/lab.first"), "desktops:destroy"),
        (("POST", "/api/desktops/lab.first/chat"), "chat"),
        (("GET", "/api/audit"), "admin"),
        (("GET", "/api/keys"), "admin"),
    ],
)
def test_what_a_key_may_not_is_refused_and_does_nothing(mission: Lab, call: tuple[str, str], scope: str) -> None:
    mission.declare("lab", "first")
    others = {"read", "desktops:write", "desktops:destroy", "chat", "admin"} - {scope}
    with mission.client(mission.key(*others)) as client:
        answer = client.request(*call, json={"message": "hello"} if call[1].endswith("chat") else None)
    assert (answer.status_code, answer.json()["value"]) == (403, scope)
    assert mission.link.execute("select count(*) as count from operation").fetchone() == {"count": 0}


def test_a_key_that_is_bound_to_a_workspace_sees_no_other(mission: Lab) -> None:
    mission.declare("mine", "first")
    mission.declare("theirs", "first")
    with mission.client(mission.key("read", "desktops:write", workspaces=["mine"])) as client:
        assert [desktop["id"] for desktop in client.get("/api/desktops").json()["items"]] == ["mine.first"]
        assert [found["id"] for found in client.get("/api/workspaces").json()["items"]] == ["mine"]
        assert client.get("/api/desktops/theirs.first").status_code == 404
        assert client.post("/api/desktops/theirs.first/stop").status_code == 404
        selector = {"action": "stop", "selector": {}, "expectedCount": 1}
        assert client.post("/api/fleet/actions", json=selector).json()["desktops"] == ["mine.first"]


def test_a_key_that_is_bound_to_a_workspace_is_no_admin(mission: Lab) -> None:
    with mission.client(mission.key("read", "admin", workspaces=["mine"])) as client:
        for path in ("/api/audit", "/api/keys", "/api/metrics"):
            assert (client.get(path).status_code, client.get(path).json()["value"]) == (403, "admin")
        assert client.get("/api/people").json()["items"] == []
        assert client.get("/api/me").json()["scopes"] == ["read"]
    with mission.client(mission.key("read", "admin")) as client:
        assert client.get("/api/audit").status_code == 200


def test_a_method_that_a_call_has_not_is_refused_with_those_that_it_has(owner: httpx.Client) -> None:
    for method, path, allowed in (
        ("OPTIONS", "/api/desktops/lab.first", "DELETE, GET"),
        ("PATCH", "/api/prices", "GET, PUT"),
        ("PUT", "/api/sign-in", "GET, POST"),
        ("GET", "/api/sign-out", "POST"),
    ):
        answer = owner.request(method, path)
        assert (answer.status_code, answer.headers["allow"]) == (405, allowed), path
        assert answer.json()["reason"] == "Method Not Allowed"
    assert owner.get("/api/nothing").status_code == 404


def test_a_number_is_a_number_and_a_choice_is_yes_or_no(mission: Lab, owner: httpx.Client) -> None:
    mission.declare("lab", "first")
    for path, body in (
        ("/api/budgets/lab", {"microsPerMonth": True}),
        ("/api/prices", {"prices": [{"tier": "free", "microsPerHour": "5"}]}),
        ("/api/alert-rules", {"rules": [{"kind": "desktop.broken", "enabled": "yes", "number": 0}]}),
    ):
        assert owner.put(path, json=body).status_code == 422, path
    assert owner.post("/api/desktops/lab.first/stop", json={"force": 1}).status_code == 422


def test_the_same_request_sent_again_is_done_once(mission: Lab, owner: httpx.Client) -> None:
    mission.declare("lab", "first")
    headers = {"Idempotency-Key": "just-once", "Prefer": "wait=30"}
    first = owner.post("/api/desktops/lab.first/restart", headers=headers).json()
    again = owner.post("/api/desktops/lab.first/restart", headers=headers).json()
    other = owner.post("/api/desktops/lab.first/stop", headers=headers)
    assert (first["id"], first["state"]) == (again["id"], "done")
    assert (other.status_code, other.json()["field"]) == (422, "Idempotency-Key")
    assert mission.effects("lab.first") == ["begin", "end"]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"name": "Bad Name", "workspaceId": "lab"}, "name"),
        ({"name": "good", "workspaceId": "lab", "colour": "red"}, "colour"),
        ({"workspaceId": "lab"}, "name"),
        ({"name": "good", "workspaceId": "absent"}, "workspaceId"),
        ({"name": "first", "workspaceId": "lab"}, "name"),
        ({"name": "good", "workspaceId": "lab", "firstTask": ""}, "firstTask"),
    ],
)
def test_a_desktop_that_cannot_be_is_refused_by_its_field(
    mission: Lab, owner: httpx.Client, body: dict[str, str], field: str
) -> None:
    mission.declare("lab", "first")
    answer = owner.post("/api/desktops", json=body)
    assert answer.status_code in (404, 409, 422), answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["field"] == field and answer.json()["remedy"]


def test_a_state_that_is_none_is_refused_by_its_name(owner: httpx.Client) -> None:
    answer = owner.get("/api/desktops?state=")
    assert (answer.status_code, answer.json()["field"]) == (422, "state")


def test_what_no_text_can_hold_is_refused(mission: Lab, owner: httpx.Client) -> None:
    mission.declare("lab", "first")
    assert owner.get("/api/desktops", params={"q": "a\0b"}).status_code == 422
    assert owner.post("/api/desktops/lab.first/chat", json={"message": "a\0b"}).status_code == 422
    cursor = base64.urlsafe_b64encode(b'["yesterday-ish", "op_1"]').decode()
    assert owner.get("/api/operations", params={"after": cursor}).status_code == 422


def test_a_body_that_says_no_length_is_not_read_without_end(owner: httpx.Client) -> None:
    parts = (b"x" * 65536 for _ in range(40))
    # It may hang up before all is written.
    with contextlib.suppress(httpx.WriteError, httpx.ReadError):
        assert owner.post("/api/desktops", content=parts, timeout=20).status_code == 413
    assert owner.get("/healthz").status_code == 200


def test_many_are_moved_only_if_they_are_as_many_as_was_seen(mission: Lab, owner: httpx.Client) -> None:
    mission.declare("lab", "d1", "d2")
    mission.declare("other", "d1")
    wanted = {"action": "stop", "selector": {"workspace": "lab"}, "expectedCount": 3}
    assert owner.post("/api/fleet/actions", json={**wanted, "dryRun": True}).json() == {
        "count": 2,
        "desktops": ["lab.d1", "lab.d2"],
        "operations": [],
        **{"upgrades": [], "skipped": [], "toSign": None},
    }
    refused = owner.post("/api/fleet/actions", json=wanted)
    assert (refused.status_code, refused.json()["field"]) == (409, "expectedCount")
    headers = {"Idempotency-Key": "all-of-lab"}
    done = owner.post("/api/fleet/actions", json={**wanted, "expectedCount": 2}, headers=headers).json()
    again = owner.post("/api/fleet/actions", json={**wanted, "expectedCount": 2}, headers=headers).json()
    assert len(done["operations"]) == 2 and done == again
    for operation in done["operations"]:
        mission.state(operation, "done")
    assert mission.effects("other.d1") == []


def test_every_answer_keeps_browsers_from_what_they_need_not_do(owner: httpx.Client) -> None:
    for path in ("/fleet", "/api/desktops", "/nothing.js", "/healthz"):
        headers = owner.get(path).headers
        assert "script-src 'self'" in headers["content-security-policy"]
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
    assert owner.get("/api/desktops").headers["cache-control"] == "no-store"


def test_the_api_describes_itself_as_openapi_3_1(owner: httpx.Client) -> None:
    found = owner.get("/api/openapi.json").json()
    assert found["openapi"].startswith("3.1")
    refused = found["paths"]["/api/desktops"]["post"]["responses"]["4XX"]["content"]["application/problem+json"]
    assert refused["schema"] == {"$ref": "#/components/schemas/ProblemDetails"}
    problem = found["components"]["schemas"]["ProblemDetails"]
    assert set(problem["properties"]) >= {"field", "value", "reason", "remedy"}
    assert {"/api/desktops", "/api/desktops/{id}/chat", "/api/operations/{id}"} <= set(found["paths"])


def test_lists_go_on_where_they_were_cut(mission: Lab, owner: httpx.Client) -> None:
    for number in range(7):
        mission.declare(f"w{number}", "first")
        mission.key("read")
        link_token(mission, f"person-{number}", "viewer")
        mission.link.execute(
            "insert into session (id, token_hash, person_id, agent, expires_at)"
            " values (%s, %s, %s, '', now() + interval '1 hour')",
            [f"se_{number}", bytes([number]), f"pe_person-{number}"],
        )
        owner.post("/api/webhooks", json={"url": f"https://hooks.example.org/{number}"})
        owner.put(f"/api/quotas/workspace:w{number}", json={"desktops": number})
        mission.link.execute(
            "insert into approval_rule (workspace_id, persons, roles, people, keys, actor)"
            " values (%s, 1, '{}', '{}', '{}', 'x')",
            [f"w{number}"],
        )
    # Of the same moment, too.
    mission.link.execute("update session set created_at = now() where id < 'se_4'")
    named = {"quotas": "subject", "approval-rules": "workspaceId"}
    for path in ("workspaces", "keys", "people", "sessions", "webhooks", *named):
        id = named.get(path, "id")
        whole = owner.get(f"/api/{path}").json()
        ids = [item[id] for item in whole["items"]]
        assert whole["nextCursor"] is None and len(ids) == len(set(ids)) == whole["total"] >= 7
        parts, after = [], None
        while True:
            params = {"limit": 3, **({"after": after} if after else {})}
            part = owner.get(f"/api/{path}", params=params).json()
            assert part["total"] == len(ids) and len(part["items"]) <= 3
            parts += [item[id] for item in part["items"]]
            if (after := part["nextCursor"]) is None:
                break
            if len(parts) == 3 and path == "workspaces":
                # What comes and goes meanwhile doubles and skips nothing.
                mission.declare("a-new-one", "first")
                ids_now = {item["id"] for item in owner.get("/api/workspaces").json()["items"]}
                assert ids_now == {*ids, "a-new-one"}
                mission.link.execute("update workspace set gone_at = now() where id in ('a-new-one', 'w0')")
                ids.remove("w0")
                parts.remove("w0")
        assert parts == ids, path
        assert owner.get(f"/api/{path}?after=rubbish").status_code == 422
        assert owner.get(f"/api/{path}?limit=1001").status_code == 422


def test_a_program_of_before_gets_as_much_of_a_list_as_it_did(mission: Lab, owner: httpx.Client) -> None:
    query = (
        "insert into workspace (id, site) select 'w' || lpad(n::text, 5, '0'), 'local' from generate_series(1, %s) n"
    )
    mission.link.execute(query, [1003])
    first = owner.get("/api/workspaces").json()
    assert (len(first["items"]), first["total"]) == (1000, 1003)
    rest = owner.get("/api/workspaces", params={"after": first["nextCursor"]}).json()
    assert [item["id"] for item in rest["items"]] == ["w01001", "w01002", "w01003"]
