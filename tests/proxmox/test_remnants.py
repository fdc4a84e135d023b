"""A workspace that goes takes the copies along that killed restores and trials left beside its desktops.

In the engine's place stands what its provider asks of the cluster for the desktop; the rest is the product's own.
"""

import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from deskyard.engine.backend import backend_of
from deskyard.engine.leftovers import StateIds
from deskyard.errors import HostError, SiteError
from deskyard.life.backup import backup, restoration
from deskyard.plan.names import domain
from deskyard.plan.proxmox.view import pool_of
from deskyard.site.files import read_site
from deskyard.site.proxmox.life import copies
from deskyard.site.proxmox.life.copies import words_of, written
from deskyard.workspace import turn, workspace
from tests.proxmox.backed_up import NAME, RESTORE, TARGET, TRIAL, Desk, desk_with_trials
from tests.proxmox.rack import SITE
from tests.proxmox.test_restores import Kill, Killed, left_on
from tests.support.pve.memory import Memory

SAMPLE = 2


class Engine:
    """In the place of the stack: knows the desktop, and removes it."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    def __call__(self, _: str) -> "Engine":
        return self

    name = NAME

    def exists(self) -> bool:
        """Whether something was made."""
        return True

    def check_passphrase(self) -> None:
        """It is right."""

    def on_cluster(self) -> StateIds:
        """What it has made."""
        return StateIds([str(self._desk.vm.vmid)], [], [pool_of(SITE, NAME)])

    def destroy(self) -> None:
        """Stop and remove the desktop, as the provider does, and the workspace's pool."""
        root, path = self._desk.rack.root, self._desk.rack.node_path(NAME, "dev1")
        if self._desk.vm.status == "running":
            assert root.finish("POST", f"{path}/status/stop") == "OK"
        root.ask("PUT", f"{path}/config", protection=0)
        assert root.finish("DELETE", path, purge=1) == "OK"
        root.ask("DELETE", f"/pools/{pool_of(SITE, NAME)}")


class Place:
    """The desktop with one backup, again and again; `bare` is what is on the cluster once the workspace is gone."""

    def __init__(self, desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(workspace, "WorkspaceStack", Engine(desk))
        backup.run(TARGET)
        self.desk, self._held, self._memory = desk, desk.held, Memory(desk.rack.peer)
        workspace.destroy(NAME)
        self.bare = left_on(desk)
        self.begin()

    def begin(self) -> None:
        """Be there again."""
        self._memory.put_back()
        self.desk.held, self.desk.looks = self._held, "mount / ext4 rw\n"
        self.desk.fake.calls.clear()


@pytest.fixture(scope="module")
def kept_place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """One cluster for all."""
    with desk_with_trials(tmp_path_factory.mktemp("desk")) as (desk, monkeypatch):
        yield Place(desk, monkeypatch)


@pytest.fixture
def place(kept_place: Place) -> Place:
    """The desktop, running and well, with one backup."""
    kept_place.begin()
    return kept_place


def killed(work: Callable[[str], Any], kill: Kill, fatal: int, *, heard: bool) -> None:
    """Let a task be killed at one of its writing calls."""
    kill.at(fatal, heard=heard)
    with pytest.raises(Killed):
        work(TARGET)
    kill.at(0, heard=True)


def points(work: Callable[[str], Any], kill: Kill) -> list[tuple[int, bool]]:
    """The writing calls of a task, before each is made and before its answer is heard."""
    kill.at(0, heard=True)
    work(TARGET)
    return [(fatal, heard) for fatal in range(1, kill.writes + 1) for heard in (False, True)]


def leaves_nothing(place: Place, kill: Kill, work: Callable[[str], Any], sample: Callable[..., Any]) -> None:
    """Fail unless what is killed at calls that `sample` picks is all gone with its workspace."""
    found = points(work, kill)
    assert len(found) > 8
    for fatal, heard in sample(found):
        place.begin()
        killed(work, kill, fatal, heard=heard)
        workspace.destroy(NAME)
        assert left_on(place.desk) == place.bare, f"killed at writing call {fatal}, {'done' if heard else 'not done'}"


def restore(target: str) -> None:
    """Take the desktop back to its backup."""
    restoration.restore(target, "latest")


def verify(target: str) -> None:
    """Try its backup out."""
    restoration.verify(target, "latest")


TASKS = pytest.mark.parametrize(("work", "kind"), [(restore, RESTORE), (verify, TRIAL)], ids=["restore", "trial"])


def test_what_was_killed_at_a_call_of_chance_leaves_nothing_once_its_workspace_is_gone(
    place: Place, monkeypatch: pytest.MonkeyPatch, random_seed: int
) -> None:
    kill, dice = Kill(monkeypatch), random.Random(random_seed)
    for work in (restore, verify):
        place.begin()
        leaves_nothing(place, kill, work, lambda found: dice.sample(found, SAMPLE))


@pytest.mark.deep
@TASKS
def test_what_was_killed_at_any_call_leaves_nothing_once_its_workspace_is_gone(
    place: Place, monkeypatch: pytest.MonkeyPatch, work: Callable[[str], Any], kind: str
) -> None:
    leaves_nothing(place, Kill(monkeypatch), work, list)


@TASKS
def test_it_is_listed_before_anything_goes(
    place: Place, monkeypatch: pytest.MonkeyPatch, work: Callable[[str], Any], kind: str
) -> None:
    assert workspace.remnants(NAME) == []
    kill = Kill(monkeypatch)
    killed(work, kill, 2, heard=True)
    (copy,) = place.desk.copies(kind)
    place.desk.fake.calls.clear()
    (line,) = workspace.remnants(NAME)
    assert line.startswith(f"dev1: machine {copy.vmid} on {copy.node}")
    assert place.desk.fake.calls.writes() == []
    # One of a workspace whose name begins alike is another's.
    copy.config["tags"] = copy.config["tags"].replace(f".{NAME}.", f".{NAME}2.")
    assert workspace.remnants(NAME) == []
    workspace.destroy(NAME)
    assert place.desk.copies(kind) == [copy]


@TASKS
def test_one_at_which_another_is_at_work_keeps_the_workspace(
    place: Place, monkeypatch: pytest.MonkeyPatch, work: Callable[[str], Any], kind: str
) -> None:
    kill = Kill(monkeypatch)
    killed(work, kill, 2, heard=True)
    (copy,) = place.desk.copies(kind)
    place.desk.fake.calls.clear()
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr(copies, "this_host", lambda: "another")
        with pytest.raises(SiteError, match="another operator's machine is"):
            workspace.destroy(NAME)
    with turn.of_trial(domain(NAME, "dev1")), pytest.raises(HostError, match="another task holds it"):
        workspace.destroy(NAME)
    assert place.desk.fake.calls.writes() == []
    # Its time is over: whoever began it was killed.
    copy.config["description"] = written({**words_of(copy.config), "host": "another", "until": 5})
    workspace.destroy(NAME)
    assert left_on(place.desk) == place.bare


@pytest.mark.parametrize("fatal", [1, 2], ids=["empty", "restored"])
def test_a_desktop_that_goes_alone_takes_its_own_along(
    place: Place, monkeypatch: pytest.MonkeyPatch, fatal: int
) -> None:
    kill = Kill(monkeypatch)
    killed(restore, kill, fatal, heard=True)
    backend = backend_of(read_site(SITE))
    workspace._remove_remnants(backend, NAME, ["dev2"])
    assert len(place.desk.copies(RESTORE)) == 1
    workspace._remove_remnants(backend, NAME, ["dev1"])
    assert place.desk.copies(RESTORE) == []
    assert place.desk.vm.status == "running"
