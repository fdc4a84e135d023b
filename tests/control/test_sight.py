"""A hypervisor that is gone: nothing is said of its machines any more, until it answers again."""

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from deskyard.control.jobs import observer as observer_module
from deskyard.control.jobs.observer import Observer, go_on, write_event
from deskyard.control.store.cluster import WORKER
from deskyard.control.store.connection import Link
from deskyard.control.usage import sight
from deskyard.control.usage.sight import Sight
from deskyard.errors import SiteError
from deskyard.host.deadline import Deadline
from deskyard.life.events import Ask, End, Event
from deskyard.wire.stages import Stage
from tests.control.lab import WAIT_SECONDS, Lab
from tests.control.watching import look, opened

DECLARATION = """config:
  deskyard:network: 10.80.1.0/24
  deskyard:desktops:
  - name: first
  - name: second
"""
GONE = SiteError("hypervisor", "qemu:///system", "does not answer", "start it")
LONG_AGO = "update workspace set followed_at = now() - interval '10 minutes'"


class Hypervisor:
    """Machines of which `first` runs; who follows them hears nothing more from the moment it is gone."""

    def __init__(self) -> None:
        self.is_gone = False
        self._ends: list[threading.Event] = []

    def follow(
        self, name: str, end: End, _checked: Callable[[str], None], _ask: Ask, watched: Callable[[], None]
    ) -> Iterator[Event]:
        """What the observer hears."""
        ended = threading.Event()
        end.wakes(ended.set)
        self._ends.append(ended)
        if self.is_gone:
            raise GONE
        yield Event(name, "second", Stage.STOPPED, 1.0)
        watched()
        yield Event(name, "first", Stage.READY, 1.0, "desktop")
        ended.wait(WAIT_SECONDS)
        if self.is_gone:
            raise GONE

    def go(self) -> None:
        """Answer nobody any more, and end who listens."""
        self.is_gone = True
        for each in self._ends:
            each.set()


@pytest.fixture
def hypervisor(mission: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hypervisor]:
    """A real observer of a declared workspace, on a hypervisor that can go."""
    monkeypatch.setenv("DESKYARD_STACKS", str(tmp_path))
    monkeypatch.setenv("DESKYARD_HOME", str(tmp_path / "home"))
    (tmp_path / "Pulumi.lab.yaml").write_text(DECLARATION)
    found = Hypervisor()
    monkeypatch.setattr("deskyard.life.events.follow", found.follow)
    monkeypatch.setattr(observer_module, "machines_of", lambda _: SimpleNamespace(desired=dict, images=dict))
    monkeypatch.setattr(observer_module, "LOOK_SECONDS", 0.05)
    observer = Observer(mission.url(WORKER))
    thread = threading.Thread(target=observer.run)
    thread.start()
    yield found
    observer.stop()
    for _, end in observer._followers.values():
        end.call()
    thread.join(WAIT_SECONDS)
    assert not thread.is_alive()


def states(owner: httpx.Client) -> dict[str, str]:
    return {item["name"]: item["state"] for item in owner.get("/api/desktops").json()["items"]}


def give_up(mission: Lab, watcher: Sight, worker: Link) -> None:
    """Look as if a while had passed; the observer may have written down in this moment that it followed."""
    mission.until("select 1 from workspace where unseen_why <> ''", [])

    def is_given_up() -> bool:
        mission.link.execute(LONG_AGO)
        watcher.look(worker)
        return mission.link.execute("select 1 from workspace where unseen_since is not null").fetchone() is not None

    assert Deadline(WAIT_SECONDS).wait_for(is_given_up, 0.05)


def seen(mission: Lab) -> None:
    """Wait until all is seen as it is."""
    query = """select 1 from workspace where id = 'lab' and recent(followed_at, '30 seconds') and unseen_since is null
        and (select count(*) from desktop where state in ('ready', 'stopped') and gone_at is null) = 2"""
    mission.until(query, [])


def test_a_hypervisor_that_is_gone_is_said_and_what_it_had_is_not_known_until_it_answers(
    mission: Lab, owner: httpx.Client, worker: Link, hypervisor: Hypervisor
) -> None:
    seen(mission)
    watcher = Sight(patience=0)
    watcher.look(worker)
    look(worker)
    assert states(owner) == {"first": "ready", "second": "stopped"} and opened(owner) == {}

    hypervisor.go()
    mission.until("select 1 from workspace where unseen_why <> ''", [])
    # It is not given up at once: a hypervisor may be restarted.
    watcher.look(worker)
    assert states(owner)["first"] == "ready"
    give_up(mission, watcher, worker)
    look(worker)
    assert states(owner) == {"first": "unknown", "second": "unknown"}
    assert [item["id"] for item in owner.get("/api/desktops?state=unknown").json()["items"]] == [
        "lab.first",
        "lab.second",
    ]
    workspace = owner.get("/api/workspaces/lab").json()
    assert workspace["state"] == "unknown" and workspace["unseenSince"]
    assert "qemu:///system" in workspace["unseenWhy"]
    (alert,) = opened(owner).values()
    assert (alert["rule"], alert["object"], alert["number"]) == ("site.unseen", "local", 10)
    assert "the machines of lab are is not known since" in alert["text"] and "does not answer" in alert["text"]
    assert "./inv site.check" in alert["nextStep"]

    hypervisor.is_gone = False
    seen(mission)
    watcher.look(worker)
    look(worker)
    assert states(owner) == {"first": "ready", "second": "stopped"} and opened(owner) == {}
    workspace = owner.get("/api/workspaces/lab").json()
    assert (workspace["unseenSince"], workspace["unseenWhy"]) == (None, "")


def test_machine_time_ends_where_somebody_looked_last_and_goes_on_with_the_hypervisor(
    mission: Lab, worker: Link
) -> None:
    mission.declare("lab", "first")
    mission.link.execute("update usage_interval set began_at = now() - interval '1 hour'")
    mission.link.execute(LONG_AGO)
    Sight(patience=0).look(worker)
    query = "select extract(epoch from now() - ended_at) / 60 as minutes, unwatched from usage_interval"
    (row,) = mission.link.execute(query).fetchall()
    assert 9.5 < row["minutes"] < 11 and row["unwatched"]
    write_event(worker, Event("lab", "first", Stage.READY, time.time()))
    sight.regain(worker, "lab")
    query = """select count(*) as all, count(*) filter (where ended_at is null and recent(began_at, '1 minute')) as open
        from usage_interval"""
    assert mission.link.execute(query).fetchone() == {"all": 2, "open": 1}


def test_what_was_given_up_while_it_was_followed_is_told_anew(
    mission: Lab, worker: Link, hypervisor: Hypervisor
) -> None:
    seen(mission)
    # As after a jump of the clock, which nobody who follows notices.
    mission.link.execute("update workspace set unseen_since = now()")
    mission.link.execute("update desktop set state = 'unknown'")
    seen(mission)


def test_who_watches_waits_until_whoever_follows_had_time_to_come_back(mission: Lab, worker: Link) -> None:
    mission.declare("lab", "first")
    mission.link.execute(LONG_AGO)
    watcher = Sight(patience=WAIT_SECONDS)
    for _ in range(3):
        watcher.look(worker)
    query = "select unseen_since from workspace"
    assert mission.link.execute(query).fetchone() == {"unseen_since": None}
    go_on(worker, ["lab"])
    watcher.look(worker)
    # Its time begins anew with the next absence.
    mission.link.execute(LONG_AGO)
    watcher.look(worker)
    assert mission.link.execute(query).fetchone() == {"unseen_since": None}


def test_a_workspace_that_is_seen_again_in_the_same_moment_is_not_given_up(mission: Lab, worker: Link) -> None:
    mission.declare("lab", "first")
    mission.link.execute(LONG_AGO)
    with mission.link.transaction():
        sight.hold(mission.link, "lab")
        giving_up = threading.Thread(target=Sight(patience=0).look, args=(worker,))
        giving_up.start()
        query = """select 1 from pg_stat_activity
            where wait_event_type = 'Lock' and starts_with(query, 'select 1 from desktop')"""
        mission.until(query, [])
        write_event(mission.link, Event("lab", "first", Stage.READY, 1.0))
        sight.regain(mission.link, "lab")
    giving_up.join(WAIT_SECONDS)
    found = mission.link.execute("select desktop.state, unseen_since from desktop, workspace").fetchall()
    assert found == [{"state": "ready", "unseen_since": None}]


def test_what_was_never_followed_is_given_up_once_it_was_refused(
    mission: Lab, worker: Link, owner: httpx.Client
) -> None:
    mission.declare("lab", "first")

    def unseen() -> Any:
        Sight(patience=0).look(worker)
        return owner.get("/api/workspaces/lab").json()["unseenSince"]

    assert unseen() is None, "its first look is under way"
    sight.note_why(worker, "lab", "does not answer")
    assert unseen() is not None


def test_a_declaration_that_cannot_be_read_is_no_fault_of_its_hypervisor(
    mission: Lab, worker: Link, owner: httpx.Client
) -> None:
    mission.declare("lab", "first")
    mission.link.execute('update workspace set problem = \'{"field": "x", "reason": "is wrong"}\'')
    mission.link.execute(LONG_AGO)
    Sight(patience=0).look(worker)
    look(worker)
    assert set(opened(owner)) == {"workspace.broken lab"}
    assert states(owner) == {"first": "unknown"}


def test_a_silent_gateway_is_said_of_its_workspace_at_once(mission: Lab, worker: Link, owner: httpx.Client) -> None:
    mission.declare("lab", "first")
    before = owner.get("/api/workspaces").json()["items"][0]
    assert (before["silence"], before["silentSince"]) == ("", None)
    events = "select count(*) as count from event where kind = 'workspace'"
    first = mission.link.execute(events).fetchone()
    observer_module.write_silence(worker, "lab", "no route to 10.0.0.1")
    (silent,) = owner.get("/api/workspaces").json()["items"]
    assert silent["silence"] == "no route to 10.0.0.1" and silent["silentSince"]
    assert silent["state"] == before["state"]
    second = mission.link.execute(events).fetchone()
    assert first and second and second["count"] == first["count"] + 1
    observer_module.write_silence(worker, "lab", "")
    (again,) = owner.get("/api/workspaces").json()["items"]
    assert (again["silence"], again["silentSince"]) == ("", None)
