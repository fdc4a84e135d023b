"""A desktop's agent is stopped where it stands, before all other work, and goes on when somebody lets it."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from deskyard.control.halting import stops
from deskyard.control.jobs.slots import SHARES
from deskyard.control.store.cluster import WORKER
from deskyard.control.store.connection import connect
from tests.control.lab import Lab
from tests.control.slotted import slotted

PATH = "/api/desktops/lab.first"
WAIT = {"Prefer": "wait=30"}


def done(owner: httpx.Client, verb: str, path: str = PATH) -> dict[str, Any]:
    found: dict[str, Any] = owner.post(f"{path}/{verb}", headers=WAIT).json()
    assert found["state"] == "done", found
    return found


def frozen_at(owner: httpx.Client, path: str = PATH) -> str | None:
    found: str | None = owner.get(path).json()["frozenAt"]
    return found


def test_agent_is_stopped_and_let_go_on_and_all_can_see_it(mission: Lab, owner: httpx.Client) -> None:
    mission.declare("lab", "first", "second")
    assert frozen_at(owner) is None
    stopped = done(owner, "freeze")
    assert (stopped["kind"], stopped["desktopId"]) == ("desktop.freeze", "lab.first")
    since = frozen_at(owner)
    assert since is not None and frozen_at(owner, "/api/desktops/lab.second") is None
    done(owner, "freeze")
    assert frozen_at(owner) == since
    listed = {each["id"]: each["frozenAt"] for each in owner.get("/api/desktops").json()["items"]}
    assert listed == {"lab.first": since, "lab.second": None}
    done(owner, "thaw")
    assert frozen_at(owner) is None
    for action in ("desktop.freeze", "desktop.thaw"):
        line = mission.until("select * from audit_entry where action = %s order by number desc limit 1", [action])
        assert line["target"] == "lab.first" and line["actor"].startswith("key:")


def test_agent_that_could_not_be_stopped_is_not_said_to_be(mission: Lab, owner: httpx.Client) -> None:
    mission.declare("lab", "fails")
    answer = owner.post("/api/desktops/lab.fails/freeze", headers=WAIT).json()
    assert answer["state"] == "failed"
    assert frozen_at(owner, "/api/desktops/lab.fails") is None


@pytest.mark.parametrize(
    ("change", "stays"),
    [
        ("state = 'paused'", True),
        ("state = 'unknown'", True),
        ("state = 'ready', detail = 'x'", True),
        ("state = 'booting'", False),
        ("state = 'stopped'", False),
        ("state = 'error'", False),
        ("gone_at = now()", False),
    ],
)
def test_machine_that_boots_lets_its_agent_go_on(mission: Lab, owner: httpx.Client, change: str, stays: bool) -> None:
    mission.declare("lab", "first")
    done(owner, "freeze")
    mission.link.execute(f"update desktop set {change}".encode())
    mission.declare("lab", "first")
    assert (frozen_at(owner) is not None) == stays


def test_agent_that_its_gateway_holds_stands_still_over_a_boot_and_no_longer_than_its_desktop(
    mission: Lab, owner: httpx.Client
) -> None:
    path = "/api/desktops/lab.held"
    mission.declare("lab", "held")
    done(owner, "freeze", path)
    since = frozen_at(owner, path)
    for state in ("booting", "stopped", "ready"):
        mission.link.execute("update desktop set state = %s where id = 'lab.held'", [state])
        assert frozen_at(owner, path) == since
    done(owner, "thaw", path)
    assert frozen_at(owner, path) is None
    done(owner, "freeze", path)
    mission.link.execute("update desktop set gone_at = now() where id = 'lab.held'")
    mission.declare("lab", "held")
    assert frozen_at(owner, path) is None


def test_agent_of_a_desktop_that_is_not_seen_to_be_ready_is_stopped_too(mission: Lab, owner: httpx.Client) -> None:
    mission.declare("lab", "first", state="booting")
    done(owner, "freeze")
    mission.link.execute("update desktop set state = 'ready'")
    assert frozen_at(owner) is not None


@pytest.fixture
def place(mission: Lab) -> Iterator[None]:
    """A worker with a single slot of each share, and two for who stops agents."""
    with slotted(mission, dict.fromkeys(SHARES, 1) | {"stops": 2}):
        yield


def begun(mission: Lab, owner: httpx.Client, desktop: str, verb: str) -> str:
    """An operation that goes on until its gate is opened."""
    mission.gate(desktop.partition(".")[2])
    return str(owner.post(f"/api/desktops/{desktop}/{verb}").json()["id"])


def go_on(mission: Lab, id: str, name: str) -> None:
    """Open the gate of an operation, and wait for its end."""
    mission.state(id, "running")
    mission.open(name)
    mission.state(id, "done")


def test_agent_is_stopped_while_its_workspace_is_moved_and_no_place_is_left(
    mission: Lab, owner: httpx.Client, place: None
) -> None:
    mission.declare("lab", "first", "blocks-a")
    mission.declare("other", "blocks-b")
    moves = begun(mission, owner, "lab.blocks-a", "restart")
    mission.state(moves, "running")
    waits = begun(mission, owner, "other.blocks-b", "restart")
    done(owner, "freeze")
    states = [owner.get(f"/api/operations/{id}").json()["state"] for id in (moves, waits)]
    assert states == ["running", "queued"], "other work waits for its place"
    go_on(mission, moves, "blocks-a")
    go_on(mission, waits, "blocks-b")


def test_so_many_agents_are_stopped_at_once_and_the_next_in_its_turn(
    mission: Lab, owner: httpx.Client, place: None
) -> None:
    names = ["blocks-a", "blocks-b", "blocks-c"]
    mission.declare("lab", *names)
    for name in names:
        mission.gate(name)
    body = {"action": "freeze", "selector": {"workspace": "lab"}, "expectedCount": 3}
    # Wanted in one moment, they come in the order of their ids.
    wanted = sorted(zip(owner.post("/api/fleet/actions", json=body).json()["operations"], names, strict=True))
    for id, _ in wanted[:2]:
        mission.state(id, "running")
    assert owner.get(f"/api/operations/{wanted[2][0]}").json()["state"] == "queued"
    for id, name in wanted:
        go_on(mission, id, name)
    assert all(each["frozenAt"] for each in owner.get("/api/desktops").json()["items"])


def test_of_one_desktop_the_last_word_counts(mission: Lab, owner: httpx.Client) -> None:
    mission.declare("lab", "blocks")
    first, second = (begun(mission, owner, "lab.blocks", verb) for verb in ("freeze", "thaw"))
    mission.state(first, "running")
    assert owner.get(f"/api/operations/{second}").json()["state"] == "queued"
    for id in (first, second):
        go_on(mission, id, "blocks")
    assert frozen_at(owner, "/api/desktops/lab.blocks") is None


def test_who_may_only_look_or_is_of_another_workspace_stops_no_agent(mission: Lab) -> None:
    mission.declare("lab", "first")
    for verb in ("freeze", "thaw"):
        with mission.client(mission.key("read", "chat", "desktops:destroy")) as client:
            answer = client.post(f"{PATH}/{verb}")
            assert (answer.status_code, answer.json()["value"]) == (403, "desktops:write")
        with mission.client(mission.key("read", "desktops:write", workspaces=["other"])) as client:
            assert client.post(f"{PATH}/{verb}").status_code == 404
    assert mission.all_effects() == []


@pytest.fixture
def hears(mission: Lab) -> Iterator[Callable[..., str | None]]:
    """Has the gateway of `lab` say whose agents are stopped, and since when; since when `first` stands still then."""
    mission.declare("lab", "first", "second")
    plan: Any = SimpleNamespace(name="lab")
    first: Any = SimpleNamespace(name="first")
    with connect(mission.url(WORKER)) as link:

        def hear(status: dict[str, Any], meanwhile: Callable[[], object] = lambda: None) -> str | None:
            def ask(_: object, desktops: Sequence[Any]) -> dict[str, Any]:
                assert list(desktops) == [first]
                meanwhile()
                return status

            assert stops.hearing_stops(lambda: nullcontext(link), ask)(plan, [first]) == status
            row = link.execute("select frozen_at from desktop where id = 'lab.first'").fetchone()
            return row["frozen_at"].isoformat() if row and row["frozen_at"] else None

        yield hear


FIRST = {"stopped": {"first": {"since": 1_700_000_000}, "stranger": {"since": 5}}}
SINCE = "2023-11-14T22:13:20+00:00"


def test_what_a_page_or_the_host_has_stopped_is_known_and_so_is_its_end(
    owner: httpx.Client, hears: Callable[..., str | None]
) -> None:
    assert hears(FIRST) == SINCE
    assert frozen_at(owner) and frozen_at(owner, "/api/desktops/lab.second") is None
    assert hears({"stopped": {"first": {"since": 1_800_000_000}}}) == SINCE, "it stands still since then"
    for silent in ({}, {"error": "does not answer", "stopped": {}}, {"stopped": None}):
        assert hears(silent) == SINCE, silent
    assert hears({"stopped": {}}) is None
    assert frozen_at(owner) is None


def test_stop_that_no_gateway_holds_is_not_ended_by_one_that_names_it_not(
    owner: httpx.Client, hears: Callable[..., str | None]
) -> None:
    done(owner, "freeze")
    before = hears({"stopped": {}})
    assert before is not None
    assert hears(FIRST) == SINCE, "now its gateway holds it"


def test_answer_that_is_older_than_what_was_done_meanwhile_changes_nothing(
    owner: httpx.Client, hears: Callable[..., str | None]
) -> None:
    assert hears(FIRST) == SINCE
    assert hears(FIRST, lambda: done(owner, "thaw")) is None
    assert hears({"stopped": {}}, lambda: done(owner, "freeze")) is not None
    assert hears(FIRST) == SINCE
