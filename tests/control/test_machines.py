"""Desktops are paused and go on, one or many; whoever speaks to a paused one is told what to do."""

from typing import Any

import httpx
import pytest

from tests.control.lab import Lab

WAIT = {"Prefer": "wait=30"}
PATH = "/api/desktops/lab.first"


def done(owner: httpx.Client, path: str, **body: object) -> dict[str, Any]:
    found: dict[str, Any] = owner.post(path, json=body, headers=WAIT).json()
    assert found["state"] == "done", found
    return found


def test_a_desktop_is_paused_as_wanted_and_goes_on(mission: Lab, owner: httpx.Client) -> None:
    mission.declare("lab", "first")
    assert done(owner, f"{PATH}/pause")["result"]["seen"] == {"to_disk": False}
    assert done(owner, f"{PATH}/pause", toDisk=True)["result"]["seen"] == {"to_disk": True}
    assert done(owner, f"{PATH}/resume")["kind"] == "desktop.resume"
    assert [line["kind"] for line in mission.all_effects()] == [
        *["desktop.pause"] * 4,
        *["desktop.resume"] * 2,
    ]
    for action in ("desktop.pause", "desktop.resume"):
        query = "select * from audit_entry where action = %s and target = 'lab.first'"  # of this test alone
        assert mission.until(query, [action])["actor"].startswith("key:")


def test_a_machine_that_cannot_be_paused_says_why(mission: Lab, owner: httpx.Client) -> None:
    mission.declare("lab", "fails")
    answer = owner.post("/api/desktops/lab.fails/pause", headers=WAIT).json()
    assert (answer["state"], answer["problem"]["reason"]) == ("failed", "did not start")


def test_nobody_pauses_without_the_scope(mission: Lab) -> None:
    mission.declare("lab", "first")
    with mission.client(mission.key("read", "agents:chat")) as client:
        assert {client.post(f"{PATH}/{verb}").status_code for verb in ("pause", "resume")} == {403}
    assert mission.all_effects() == []


def test_many_are_paused_by_their_state_and_go_on(mission: Lab, owner: httpx.Client) -> None:
    mission.declare("lab", "first", "second")
    mission.declare("other", "third")
    for action, state, after in (("pause", "ready", "paused"), ("resume", "paused", "ready")):
        wanted = {"action": action, "selector": {"state": state}, "expectedCount": 3}
        tried = owner.post("/api/fleet/actions", json={**wanted, "dryRun": True})
        assert (tried.status_code, tried.json()["count"], tried.json()["operations"]) == (200, 3, [])
        answer = owner.post("/api/fleet/actions", json=wanted).json()
        kinds = {mission.state(id, "done")["kind"] for id in answer["operations"]}
        assert (len(answer["operations"]), kinds) == (3, {f"desktop.{action}"})
        mission.link.execute("update desktop set state = %s", [after])
    assert owner.get("/api/desktops?state=paused").json()["total"] == 0


@pytest.mark.parametrize(("call", "body"), [("chat", {"message": "hello"}), ("session", {})])
def test_whoever_speaks_to_a_paused_desktop_is_told_what_to_do(
    mission: Lab, owner: httpx.Client, call: str, body: dict[str, Any]
) -> None:
    mission.declare("lab", "first", state="paused")
    refused = owner.post(f"{PATH}/{call}", json=body)
    assert (refused.status_code, refused.json()["reason"]) == (409, "is paused")
    assert "POST /api/desktops/lab.first/resume" in refused.json()["remedy"]
    assert mission.link.execute("select 1 from operation").fetchone() is None
    # It is known to go on from the end of that, before it is seen to.
    done(owner, f"{PATH}/resume")
    assert owner.post(f"{PATH}/{call}", json=body).status_code == 202


def test_a_message_from_before_the_pause_is_answered_as_it_was(mission: Lab, owner: httpx.Client) -> None:
    mission.declare("lab", "first")
    said, named = {"message": "hello"}, {"Idempotency-Key": "one"}
    first = owner.post(f"{PATH}/chat", json=said, headers=named)
    mission.link.execute("update desktop set state = 'paused', state_at = now()")
    assert owner.post(f"{PATH}/chat", json=said, headers=named).json() == first.json()
    assert owner.post(f"{PATH}/chat", json=said, headers={"Idempotency-Key": "two"}).status_code == 409
