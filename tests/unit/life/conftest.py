"""Workspace `lab` with machines that do at once what they are asked."""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from deskyard.access import access
from deskyard.declaration import declaration
from deskyard.life import power, waiting_pages
from deskyard.plan.power import Power
from deskyard.plan.workspace import DesktopPlan, WorkspacePlan
from deskyard.site.ssh_link import SshLink
from deskyard.wire.stages import Stage
from deskyard.workspace import readiness
from tests.unit.life.desk import Desk
from tests.unit.life.machines import PLAN, Machines
from tests.unit.life.restic import forget_new, use_restic


class AtOnce(Executor):
    """Does in the task what else is done beside it."""

    def submit(self, work: Any, /, *arguments: Any, **options: Any) -> "Future[Any]":
        done: Future[Any] = Future()
        done.set_result(work(*arguments, **options))
        return done


@pytest.fixture(scope="session", autouse=True)
def repository_of_all() -> Iterator[None]:
    """What the tests begin their repositories from is gone after them."""
    yield
    forget_new()


@pytest.fixture
def machines(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> Machines:
    """The machines of workspace `lab`, all running."""
    machines = Machines()
    backend = SimpleNamespace(
        answers=lambda: True, open_way=lambda _: machines.moves.append(("way", "open", Power.RUNNING))
    )
    monkeypatch.setenv("DESKYARD_HOME", str(tmp_path))
    monkeypatch.setattr(declaration, "read", lambda _: SimpleNamespace(plan=PLAN))
    monkeypatch.setattr(power, "backend_of", lambda _: backend)
    monkeypatch.setattr(power, "machines_of", lambda _: machines)
    return machines


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[Sequence[str] | None]:
    """Which desktops were waited for, each time."""
    waits: list[Sequence[str] | None] = []

    def wait(_: WorkspacePlan, desktops: Sequence[DesktopPlan] | None = None) -> None:
        waits.append(None if desktops is None else [desktop.name for desktop in desktops])

    monkeypatch.setattr(readiness, "wait", wait)
    return waits


@pytest.fixture
def heard(machines: Machines, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """Where the gateway of workspace `lab`, which is set up, was told that desktops are."""
    found: list[tuple[str, str]] = []

    def tell(name: str, stages: Mapping[str, tuple[Stage, float]]) -> None:
        assert name == "lab"
        found.extend((desktop, stage) for desktop, (stage, _) in stages.items())

    SshLink(PLAN.site, PLAN.name).pin("gateway", "ssh-ed25519 AAAA")
    monkeypatch.setattr(access, "tell_stages", tell)
    monkeypatch.setattr(waiting_pages, "TELLER", AtOnce())
    return found


@pytest.fixture
def desk(machines: Machines, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Desk:
    """Desktop dev1 of workspace lab, running."""
    desk = Desk(tmp_path, machines)
    desk.write("first", "none")
    monkeypatch.setenv("DESKYARD_STACKS", str(tmp_path))
    monkeypatch.setattr(machines, "backups", lambda _: desk, raising=False)
    monkeypatch.setattr(declaration, "read", lambda _: SimpleNamespace(plan=PLAN))
    use_restic(monkeypatch)
    return desk
