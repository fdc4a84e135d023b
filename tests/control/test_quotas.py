"""How much a workspace, a person or a key may have: counted as a desktop is admitted, before anything is touched."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
from psycopg.types.json import Jsonb

from tests.control.lab import Lab

TIERS = [
    {"name": "free", "vcpus": 2, "memory_gib": 4, "disk_gib": 20, "home_gib": 10},
    {"name": "max", "vcpus": 4, "memory_gib": 16, "disk_gib": 80, "home_gib": 40},
]
# What the tier max is at another site.
BIG = {"vcpus": 16}
FREE_A_DAY = 24 * 250_000


@pytest.fixture
def lab(mission: Lab, owner: httpx.Client) -> Iterator[Lab]:
    """A workspace with two desktops of the tier free, which has a price; nothing is done with what is admitted."""
    mission.end("worker")
    mission.declare("lab", "d1", "d2")
    mission.declare("other", "d1")
    mission.link.execute("update workspace set tiers = %s", [Jsonb(TIERS)])
    owner.put("/api/prices", json={"prices": [{"tier": "free", "microsPerHour": 250_000}]})
    yield mission


def create(
    client: httpx.Client, name: str, workspace: str = "lab", tier: str = "free", **headers: str
) -> httpx.Response:
    return client.post("/api/desktops", json={"name": name, "workspaceId": workspace, "tier": tier}, headers=headers)


def bound(owner: httpx.Client, subject: str, **values: Any) -> dict[str, Any]:
    found = owner.put(f"/api/quotas/{subject}", json=values).json()["items"]
    return dict({quota["subject"]: quota for quota in found}.get(subject, {}))


def made(mission: Lab) -> list[str]:
    found = mission.link.execute("select desktop_id from operation order by created_at").fetchall()
    return [row["desktop_id"] for row in found]


@pytest.mark.parametrize(
    ("limit", "tier", "field", "value"),
    [
        ({"desktops": 2}, "free", "desktops", "3"),
        ({"vcpus": 5}, "free", "vcpus", "6"),
        ({"vcpus": 7}, "max", "vcpus", "8"),
        ({"diskGib": 3 * 30 - 1}, "free", "diskGib", str(3 * 30)),
        ({"diskGib": 3 * 30}, "max", "diskGib", str(2 * 30 + 120)),
        ({"memoryMib": 3 * 4096 - 1}, "free", "memoryMib", str(3 * 4096)),
        ({"memoryMib": 3 * 4096}, "max", "memoryMib", str(6 * 4096)),
        ({"microsPerDay": 3 * FREE_A_DAY - 1}, "free", "microsPerDay", str(3 * FREE_A_DAY)),
    ],
)
def test_one_more_than_a_quota_is_refused_with_what_to_do(
    lab: Lab, owner: httpx.Client, limit: dict[str, int], tier: str, field: str, value: str
) -> None:
    bound(owner, "workspace:lab", **limit)
    refused = create(owner, "d3", tier=tier)
    problem = refused.json()
    assert (refused.status_code, problem["field"], problem["value"]) == (409, field, value)
    assert "workspace:lab may have" in problem["reason"] and "an admin" in problem["remedy"]
    assert made(lab) == []
    assert create(owner, "d3", "other", tier).status_code == 202


@pytest.mark.parametrize(
    "limit",
    [{"desktops": 3}, {"vcpus": 6}, {"memoryMib": 3 * 4096}, {"diskGib": 3 * 30}, {"microsPerDay": 3 * FREE_A_DAY}],
)
def test_what_a_quota_leaves_is_admitted_and_no_more(lab: Lab, owner: httpx.Client, limit: dict[str, int]) -> None:
    assert bound(owner, "workspace:lab", **limit)["used"] == {
        "desktops": 2,
        "vcpus": 4,
        "memoryMib": 2 * 4096,
        "diskGib": 2 * 30,
        "microsPerDay": 2 * FREE_A_DAY,
    }
    key = {"Idempotency-Key": "one"}
    assert create(owner, "d3", **key).status_code == 202
    # The same request again is that one, not another.
    assert create(owner, "d3", **key).status_code == 202
    assert create(owner, "d4").status_code == 409
    lab.link.execute("update desktop set gone_at = now() where id = 'lab.d1'")
    assert create(owner, "d4").status_code == 202
    lab.link.execute("update operation set state = 'cancelled' where desktop_id = 'lab.d4'")
    assert create(owner, "d5").status_code == 202


def test_what_failed_is_counted_when_it_is_tried_again(lab: Lab, owner: httpx.Client) -> None:
    bound(owner, "workspace:lab", desktops=3)
    first = create(owner, "d3").json()["id"]
    lab.link.execute("update operation set state = 'failed', ended_at = now() where id = %s", [first])
    assert create(owner, "d4").status_code == 202
    assert owner.post(f"/api/operations/{first}/retry").json()["field"] == "desktops"
    # Its failed try declared it: it is one of the three already.
    lab.link.execute("update operation set state = 'cancelled' where desktop_id = 'lab.d4'")
    lab.declare("lab", "d3")
    assert owner.post(f"/api/operations/{first}/retry").status_code == 202


def test_requests_at_the_same_time_take_no_more_than_is_left(lab: Lab, owner: httpx.Client) -> None:
    bound(owner, "workspace:lab", desktops=5)
    with ThreadPoolExecutor(8) as pool:
        states = sorted(pool.map(lambda number: create(owner, f"n{number}").status_code, range(8)))
    assert states == [202] * 3 + [409] * 5
    assert len(made(lab)) == 3


@pytest.mark.parametrize(("bound_by", "left"), [({"vcpus": 9}, 2), ({"diskGib": 3 * 30}, 1)])
def test_requests_at_the_same_time_take_no_more_processors_or_disks_than_are_left(
    lab: Lab, owner: httpx.Client, bound_by: dict[str, int], left: int
) -> None:
    bound(owner, "workspace:lab", **bound_by)
    with ThreadPoolExecutor(8) as pool:
        states = sorted(pool.map(lambda number: create(owner, f"n{number}").status_code, range(8)))
    assert states == [202] * left + [409] * (8 - left)


def test_a_tier_of_which_less_was_written_down_has_none_of_the_rest(lab: Lab, owner: httpx.Client) -> None:
    lab.link.execute("update workspace set tiers = %s", [Jsonb([{"name": "free", "memory_gib": 4}])])
    used = bound(owner, "workspace:lab", vcpus=0, diskGib=0)["used"]
    assert (used["vcpus"], used["memoryMib"], used["diskGib"]) == (0, 2 * 4096, 0)
    assert create(owner, "d3").status_code == 202
    assert create(owner, "d4", tier="unknown").status_code == 202


def test_a_new_workspace_counts_by_the_tiers_of_its_site(lab: Lab) -> None:
    lab.link.execute("update workspace set site = 'far', tiers = %s where id = 'other'", [Jsonb([TIERS[1] | BIG])])
    key = lab.key("read", "admin")
    with lab.client(key) as program:
        subject = f"key:{key.split('_')[1]}"
        assert program.put(f"/api/quotas/{subject}", json={"vcpus": 15}).status_code == 200

        def found(name: str, site: str, tier: str = "max") -> httpx.Response:
            new = {"name": name, "site": site, "desktops": [{"name": "d1", "tier": tier}]}
            return program.post("/api/workspaces", json=new)

        refused = found("second", "far")
        assert (refused.status_code, refused.json()["field"], refused.json()["value"]) == (409, "vcpus", "16")
        assert found("second", "local").status_code == 202
        # What is about to be made counts as its own site has it, too.
        assert program.put(f"/api/quotas/{subject}", json={"vcpus": 25}).status_code == 200
        assert found("third", "far").status_code == 202
        (mine,) = [each for each in program.get("/api/quotas").json()["items"] if each["subject"] == subject]
        assert mine["used"]["vcpus"] == 4 + 16


def test_a_new_workspace_of_a_tier_whose_size_nobody_knows_is_refused_where_sizes_are_bounded(lab: Lab) -> None:
    key, new = lab.key("admin"), {"name": "new", "desktops": [{"name": "d1", "tier": "unknown"}]}
    with lab.client(key) as program:
        path = f"/api/quotas/key:{key.split('_')[1]}"
        program.put(path, json={"desktops": 9, "diskGib": 9000})
        refused = program.post("/api/workspaces", json=new)
        assert (refused.status_code, refused.json()["field"], refused.json()["value"]) == (409, "tier", "unknown")
        program.put(path, json={"desktops": 9})
        assert program.post("/api/workspaces", json=new).status_code == 202


def test_a_key_has_what_it_made_itself_in_every_workspace(lab: Lab, owner: httpx.Client) -> None:
    key = lab.key("read", "desktops:write")
    id = key.split("_")[1]
    bound(owner, f"key:{id}", desktops=2)
    with lab.client(key) as program:
        assert [create(program, name, where).status_code for name, where in (("a", "lab"), ("b", "other"))] == [202] * 2
        assert create(program, "c").json()["reason"].startswith(f"is more than key:{id} may have: 2 desktops")
        (mine,) = program.get("/api/quotas").json()["items"]
        assert (mine["subject"], mine["used"]["desktops"]) == (f"key:{id}", 2)
    assert create(owner, "c").status_code == 202


def test_quotas_are_an_admins_to_set_and_for_each_to_see_its_own(lab: Lab, owner: httpx.Client) -> None:
    bound(owner, "workspace:lab", desktops=5)
    bound(owner, "workspace:other", desktops=5)
    with lab.client(lab.key("read", "desktops:write", workspaces=["lab"])) as program:
        assert [quota["subject"] for quota in program.get("/api/quotas").json()["items"]] == ["workspace:lab"]
        assert program.put("/api/quotas/workspace:lab", json={"desktops": 99}).status_code == 403
    assert bound(owner, "workspace:lab") == {}
    assert owner.put("/api/quotas/workspace:nothing", json={"desktops": 1}).status_code == 404
    assert owner.put("/api/quotas/everybody", json={"desktops": 1}).status_code == 422


def test_quota_that_somebody_changed_meanwhile_stays_as_they_made_it(lab: Lab, owner: httpx.Client) -> None:
    path, first, second = "/api/quotas/workspace:lab", {"desktops": 1}, {"desktops": 2}
    assert owner.put(path, json=first, headers={"If-Match": "*"}).status_code == 412, "there is none yet"
    assert owner.put(path, json=first, headers={"If-None-Match": "*"}).status_code == 200
    (read,) = owner.get("/api/quotas").json()["items"]
    refused = owner.put(path, json=second, headers={"If-None-Match": "*"})
    assert (refused.status_code, refused.json()["field"]) == (412, "If-None-Match")
    match = {"If-Match": f'"{read["changedAt"]}"'}
    assert owner.put(path, json=second, headers=match).status_code == 200
    refused = owner.put(path, json={"desktops": 9}, headers=match)
    assert (refused.status_code, refused.json()["field"]) == (412, "If-Match")
    assert "it was changed at" in refused.json()["reason"] and "read it again" in refused.json()["remedy"]
    for rubbish in ("yesterday", 'W/"1"', '"2026-01-01T00:00:00"', ""):
        assert owner.put(path, json=first, headers={"If-Match": rubbish}).status_code == 412
    (now,) = owner.get("/api/quotas").json()["items"]
    assert now["desktops"] == 2
    assert owner.put(path, json=first, headers={"If-Match": "*"}).status_code == 200


def test_of_two_who_change_what_both_have_read_only_the_first_does(lab: Lab, owner: httpx.Client) -> None:
    bound(owner, "workspace:lab", desktops=1)
    (read,) = owner.get("/api/quotas").json()["items"]
    headers = {"If-Match": f'"{read["changedAt"]}"'}

    def change(most: int) -> int:
        return owner.put("/api/quotas/workspace:lab", json={"desktops": most}, headers=headers).status_code

    with ThreadPoolExecutor(8) as pool:
        answers = sorted(pool.map(change, range(2, 10)))
    assert answers == [200] + [412] * 7
