"""For what a site has no room now waits in the queue, says why, and goes on as soon as something else stops."""

from collections.abc import Iterator

import httpx
import pytest

from deskyard.control.queue.claim import MOST_ATTEMPTS, MOST_ROOM_SECONDS
from tests.control.lab import Lab

WHY = "waits for room: 100 MiB are free"


@pytest.fixture
def site(mission: Lab) -> Iterator[Lab]:
    """Mission Control with a desktop that is too large, and a smaller one beside it."""
    mission.declare("lab", "large", "small", "room")
    mission.declare("other", "room")
    try:
        yield mission
    finally:
        (mission.path / "room").unlink(missing_ok=True)


def asked(owner: httpx.Client, path: str) -> str:
    """An operation on a desktop that was asked for."""
    return str(owner.post(f"/api/desktops/{path}", json={}).raise_for_status().json()["id"])


def waiting(site: Lab, owner: httpx.Client) -> str:
    """A start that has found no room."""
    start = asked(owner, "lab.large/start")
    site.until("select * from operation where id = %s and state = 'queued' and refusals = 1", [start])
    return start


def test_it_goes_on_once_a_desktop_of_another_workspace_stopped(site: Lab, owner: httpx.Client) -> None:
    start = waiting(site, owner)
    shown = owner.get(f"/api/operations/{start}").json()
    assert (shown["state"], shown["why"], shown["problem"]) == ("queued", WHY, None)
    site.state(asked(owner, "other.room/stop"), "done")
    site.state(start, "done")
    assert owner.get(f"/api/operations/{start}").json()["why"] is None


def test_others_of_its_workspace_do_not_wait_for_it(site: Lab, owner: httpx.Client) -> None:
    start = waiting(site, owner)
    site.state(asked(owner, "lab.small/start"), "done")
    # Each that moved a machine lets it try once more.
    site.until("select * from operation where id = %s and state = 'queued' and refusals = 2", [start])


def test_it_is_tried_again_by_the_clock(site: Lab, owner: httpx.Client) -> None:
    start = waiting(site, owner)
    (site.path / "room").touch()
    site.link.execute("update operation set not_before = now() where id = %s", [start])
    site.state(start, "done")


def test_it_can_be_cancelled_while_it_waits(site: Lab, owner: httpx.Client) -> None:
    start = waiting(site, owner)
    owner.post(f"/api/operations/{start}/cancel").raise_for_status()
    site.state(start, "cancelled")


def test_after_an_hour_it_fails_with_what_lacks(site: Lab, owner: httpx.Client) -> None:
    start = waiting(site, owner)
    query = """update operation set not_before = now(), created_at = now() - make_interval(secs => %s) where id = %s"""
    site.link.execute(query, [MOST_ROOM_SECONDS + 1, start])
    assert site.state(start, "failed")["problem"]["reason"] == "100 MiB are free"


def test_a_link_that_a_person_waits_for_is_refused_at_once(site: Lab, owner: httpx.Client) -> None:
    answer = owner.post("/api/desktops/lab.large/session", json={}).raise_for_status().json()
    assert site.state(answer["id"], "failed")["problem"]["field"] == "memory"


def test_a_worker_that_ended_is_not_counted_among_those_refused(site: Lab, owner: httpx.Client) -> None:
    site.gate("blocks")
    site.declare("lab", "blocks")
    start = asked(owner, "lab.blocks/start")
    site.state(start, "running")
    # As if it had found no room many times before.
    query = (
        "update operation set attempt = attempt + 50, refusals = 50, lease_until = now() - interval '1 s' where id = %s"
    )
    site.link.execute(query, [start])
    again = site.until("select * from operation where id = %s and attempt = 52", [start])
    assert again["state"] == "running" and again["attempt"] - again["refusals"] <= MOST_ATTEMPTS
    owner.post(f"/api/operations/{start}/cancel").raise_for_status()
    site.state(start, "cancelled")
