"""Workspaces take turns for the slots of a share, in the order that people are shown; who waits for room keeps it."""

from collections.abc import Callable, Iterator
from itertools import count

import httpx
import pytest

from deskyard.control.queue import claim as claims
from deskyard.control.queue.claim import Claim
from tests.control.lab import Lab

Ask = Callable[..., str]


@pytest.fixture
def ask(mission: Lab) -> Iterator[Ask]:
    """Writes operations down as the API does, each later than the one before, while no worker claims any."""
    mission.end("worker")
    numbers = count()

    def asked(kind: str, workspace: str | None = None, *, actor: str = "person:x", shared: bool = True) -> str:
        number = next(numbers)
        id = f"op_{number:03}"
        where = f"workspace:{workspace}" if workspace and shared else None
        query = """insert into operation (id, kind, workspace_id, lane, input, actor, created_at)
            values (%s, %s, %s, %s, '{}', %s, now() - interval '10 minutes' + make_interval(secs => %s))"""
        mission.link.execute(query, [id, kind, workspace, where, actor, number])
        return id

    yield asked


def begun(mission: Lab, *full: str) -> Claim:
    """The next operation, which a worker begins."""
    held = claims.claim(mission.link, "w", full=full)
    assert held is not None
    return held


def done(mission: Lab, times: int) -> list[str]:
    """The next operations, each begun once the one before is done: a single slot."""
    ids = []
    for _ in range(times):
        held = begun(mission)
        ids.append(held.id)
        assert claims.finish(mission.link, held, "done")
    return ids


def places(owner: httpx.Client, *ids: str) -> list[str]:
    """Queued operations in the order of the places that they are shown."""
    found = {id: owner.get(f"/api/operations/{id}").json()["position"] for id in ids}
    assert sorted(found.values()) == list(range(1, len(ids) + 1))
    return sorted(ids, key=lambda id: int(found[id]))


def test_workspaces_of_one_lane_each_take_turns_for_the_only_slot(mission: Lab, owner: httpx.Client, ask: Ask) -> None:
    mission.declare("wa")
    mission.declare("wb")
    many = [ask("desktop.create", "wa") for _ in range(20)]
    few = [ask("desktop.create", "wb") for _ in range(3)]
    alternating = [many[0], few[0], many[1], few[1], many[2], few[2], *many[3:]]
    assert places(owner, *many, *few) == alternating
    assert done(mission, 23) == alternating


def test_a_turn_counts_from_the_last_attempt_and_in_its_share_alone(mission: Lab, ask: Ask) -> None:
    mission.declare("wa")
    mission.declare("wb")
    first = [ask("desktop.create", "wa"), ask("desktop.create", "wb")]
    assert done(mission, 2) == first
    # The same operation again, and another share of the other workspace.
    mission.link.execute("update operation set state = 'queued' where id = %s", [first[0]])
    assert done(mission, 1) == first[:1]
    other_share = ask("backup.run", "wb")
    assert done(mission, 1) == [other_share]
    next_of_a, next_of_b = ask("desktop.create", "wa"), ask("desktop.create", "wb")
    assert done(mission, 2) == [next_of_b, next_of_a]


def test_places_are_shown_in_the_order_in_which_operations_begin(mission: Lab, owner: httpx.Client, ask: Ask) -> None:
    for name in ("wa", "wb", "wc"):
        mission.declare(name)
    # One of these runs on, one began before.
    ran, runs = ask("task.begin", "wb", shared=False), ask("task.begin", "wa", shared=False)
    assert done(mission, 1) == [ran]
    assert begun(mission).id == runs
    asked = [ask("destroy.preview", "wc", actor="watch", shared=False)]
    asked += [ask("destroy.preview", workspace, shared=False) for workspace in ("wa", "wa", "wb", "wb", "wb", "wc")]
    # What is of no workspace takes turns, too, and comes before nobody by that.
    asked += [ask("destroy.preview", None) for _ in range(3)]
    shown = places(owner, *asked)
    assert shown == [begun(mission).id for _ in asked]
    assert shown[-1] == asked[0]
    assert [workspace_of(mission, id) for id in shown[:4]] == ["wc", "none", "wb", "wa"]


def workspace_of(mission: Lab, id: str) -> str:
    """The workspace of an operation."""
    row = mission.link.execute("select workspace_id from operation where id = %s", [id]).fetchone()
    assert row is not None
    return row["workspace_id"] or "none"


def refuse(mission: Lab, held: Claim) -> None:
    """Let what was begun wait for room, and be tried again at once."""
    assert claims.wait_for_room(mission.link, held, "100 MiB are free")
    mission.link.execute("update operation set not_before = now() where id = %s", [held.id])


def test_who_waits_for_room_is_tried_before_who_came_later_and_would_take_it(
    mission: Lab, owner: httpx.Client, ask: Ask
) -> None:
    for name in ("wa", "wb", "wc", "wd"):
        mission.declare(name)
    large = ask("desktop.create", "wa")
    refuse(mission, begun(mission))
    later, leaves_room = ask("desktop.create", "wb"), ask("desktop.destroy", "wc")
    before = ask("desktop.create", "wd")
    mission.link.execute("update operation set created_at = created_at - interval '1 hour' where id = %s", [before])
    expected = [before, leaves_room, large, later]
    assert places(owner, large, later, leaves_room, before) == expected
    assert done(mission, 4) == expected
