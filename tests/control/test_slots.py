"""Agents that work for hours, machines that move and what is looked at by the hour take no slot of a person."""

import httpx
import pytest

from deskyard.control.approvals import follow
from deskyard.control.jobs import child
from deskyard.control.jobs.slots import MOST, SHARES, full, slots
from deskyard.control.store.cluster import ROLE_CONNECTIONS
from tests.control.lab import Lab
from tests.control.slotted import slotted
from tests.control.test_approvals import ID, TICKET

pytestmark = pytest.mark.sampled

SINGLE = dict.fromkeys(SHARES, 1)
GIB = 1024
# More than a role of the database may have connections.
AGENTS = ROLE_CONNECTIONS + 10


def asked(owner: httpx.Client, path: str, **body: object) -> str:
    """An operation that was asked for."""
    found = owner.post(f"/api/{path}", json=body).raise_for_status().json()
    return str(found.get("operationId") or found["id"])


def test_every_kind_of_operation_is_of_a_share(mission: Lab) -> None:
    kinds = set(child.JOBS)
    query = "select share_of(kind) as share, array_agg(kind) as kinds from unnest(%s::text[]) kind group by 1"
    found = {row["share"]: set(row["kinds"]) for row in mission.link.execute(query, [sorted(kinds)]).fetchall()}
    assert set(found) == set(SHARES)
    assert found["agents"] == {"desktop.chat"}
    assert found["sessions"] == {"desktop.session"}
    assert found["looks"] == {"workspace.look"}
    assert found["stops"] == {"desktop.freeze", "desktop.thaw"}
    assert found["answers"] == {"approval.decide", "egress.allow", "egress.close"}
    assert found["engine"] == {f"{of}.{verb}" for of in ("desktop", "workspace") for verb in ("create", "destroy")} | {
        "workspace.up"
    }
    assert found["backups"] == {"backup.run", "workspace.verify"}
    assert found["machines"] == kinds.difference(*(of for share, of in found.items() if share != "machines"))


@pytest.mark.parametrize(
    ("memory", "agents", "engine"), [(GIB // 2, 6, 1), (4 * GIB, 29, 1), (16 * GIB, 117, 4), (512 * GIB, 200, 6)]
)
def test_what_needs_memory_has_slots_by_the_memory_of_the_host(memory: int, agents: int, engine: int) -> None:
    assert slots(memory) == MOST | {"agents": agents, "engine": engine}


def test_a_share_is_full_once_all_its_slots_are_taken() -> None:
    assert full(SINGLE | {"agents": 2}, ["agents", "looks"]) == ["looks"]
    assert full(SINGLE | {"agents": 2}, ["agents", "looks", "agents"]) == ["agents", "looks"]


def test_a_person_waits_for_no_agent_that_works_and_for_no_machine_that_moves(
    mission: Lab, owner: httpx.Client
) -> None:
    mission.declare("lab", "first", "blocks-a", "blocks-b")
    mission.declare("other", "second", "blocks-c")
    follow.write(mission.link, "lab", TICKET)
    for name in ("blocks-a", "blocks-b", "blocks-c"):
        mission.gate(name)
    with slotted(mission, SINGLE):
        works = asked(owner, "desktops/lab.blocks-a/chat", message="work")
        mission.state(works, "running")
        next_turn = asked(owner, "desktops/lab.blocks-b/chat", message="work")
        moves = asked(owner, "desktops/other.blocks-c/restart")
        mission.state(moves, "running")
        # Each would have waited for as long as agents work.
        for path, body in (
            (f"approvals/{ID}/decide", {"answer": "once"}),
            ("desktops/lab.first/session", {}),
            ("workspaces/lab/look", {}),
            ("desktops/lab.first/freeze", {}),
        ):
            mission.state(asked(owner, path, **body), "done")
        waits = owner.get(f"/api/operations/{next_turn}").json()
        assert (waits["state"], waits["position"], waits["why"]) == (
            *("queued", 1, "no slot for agents is free, of 1"),
        )
        moved = asked(owner, "desktops/lab.first/restart")
        waits = owner.get(f"/api/operations/{moved}").json()
        assert (waits["state"], waits["position"], waits["why"]) == (
            *("queued", 1, "no slot for machines is free, of 1"),
        )
        for id, name in ((works, "blocks-a"), (next_turn, "blocks-b"), (moves, "blocks-c")):
            mission.state(id, "running")
            mission.open(name)
            mission.state(id, "done")
        mission.state(moved, "done")


def test_what_a_person_asks_for_comes_before_what_is_asked_for_by_the_hour(mission: Lab, owner: httpx.Client) -> None:
    for name in ("blocks-a", "lab", "other"):
        mission.declare(name, "first")
    mission.gate("blocks-a")
    with slotted(mission, SINGLE):
        runs = asked(owner, "workspaces/blocks-a/look")
        mission.state(runs, "running")
        mission.link.execute("select ask_for_look('op_hourly', 'other')")
        own = asked(owner, "workspaces/lab/look")
        found = {id: owner.get(f"/api/operations/{id}").json()["position"] for id in (own, "op_hourly")}
        assert found == {own: 1, "op_hourly": 2}
        mission.open("blocks-a")
        mission.state("op_hourly", "done")
    assert [line["kind"] for line in mission.all_effects()] == ["workspace.look"] * 6
    query = "select id from operation order by started_at"
    assert [row["id"] for row in mission.link.execute(query).fetchall()] == [runs, own, "op_hourly"]


def test_more_agents_work_at_once_than_a_role_may_have_connections(mission: Lab, owner: httpx.Client) -> None:
    names = [f"d{number}" for number in range(AGENTS)]
    mission.declare("lab", *names)
    with slotted(mission, SINGLE | {"agents": AGENTS}):
        turns = [asked(owner, f"desktops/lab.{name}/chat", message="this never ends") for name in names]
        mission.until("select 1 from operation where state = 'running' having count(*) = %s", [AGENTS])
        mission.until("select 1 from message where role = 'agent' having count(*) = %s", [AGENTS])
        mission.state(asked(owner, "desktops/lab.d0/session"), "done")
        for id in turns:
            owner.post(f"/api/operations/{id}/cancel").raise_for_status()
        mission.until("select 1 from operation where state = 'cancelled' having count(*) = %s", [AGENTS])
