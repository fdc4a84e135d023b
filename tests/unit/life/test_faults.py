"""A task of a desktop's life is killed at any of its steps: nothing is lost or half, and the next run ends it.

`./inv check.deep` kills each task at each of its steps; here a sample of them is drawn.
"""

import os
import random
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from deskyard.access import access
from deskyard.declaration import declaration
from deskyard.desktop import customise_delivery, key_delivery, program
from deskyard.errors import SiteError
from deskyard.image.store import store
from deskyard.life import exchange, health, journal, power, snapshot, system
from deskyard.life.backup import backup, restoration, vault
from deskyard.life.pool import filling, making, pool, run
from deskyard.plan import backup as backup_plan
from deskyard.plan.image.source import ImageSource
from deskyard.plan.pool.seat import State
from deskyard.plan.power import Power
from deskyard.plan.snapshot import Snapshot
from deskyard.site.libvirt import power as libvirt_power
from deskyard.site.libvirt import storage
from deskyard.site.libvirt.backup import swap
from deskyard.site.libvirt.backup.content import Disk
from deskyard.workspace import readiness, seating
from deskyard.workspace.seats import Seats
from tests.support.claimers import fork
from tests.unit.life.machines import DEV1, DEV2, GATEWAY, PLAN
from tests.unit.life.surviving import Machines, Repository, World, manifests
from tests.unit.workspace import disposables as paper

TARGET, SAMPLE = "lab/dev1", 5
KEPT = ["/etc/kept"]
SEATS = paper.declared(2, 2)


class Life:
    """Workspace `lab`: its desktop dev1 with one backup, and two seats."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("DESKYARD_HOME", str(folder))
        self.folder, self.world = folder, World(folder)
        self.machines, self.repository = Machines(self.world, folder), Repository(self.world, folder)
        self.disposables = paper.Disposables(folder / "machines")
        self.seats = Seats("local", "lab", self.disposables)
        self._stand_ins(monkeypatch)
        self._steps(monkeypatch)

    def _stand_ins(self, monkeypatch: pytest.MonkeyPatch) -> None:
        sources = {"desktop": ImageSource("desktop", "new", "/images/new")}
        # The desktop's own Plan is that of the other tests of its life; the seats have one of their own.
        kept: Any = replace(SEATS, plan=PLAN, images=sources)
        self.declared: Any = kept
        backend = SimpleNamespace(
            answers=lambda: True,
            open_way=lambda _: None,
            disposables=lambda _: self.disposables,
            prepare_starts=lambda *_, **__: None,
        )
        monkeypatch.setattr(declaration, "read", lambda _: self.declared)
        for module in (power, making, pool, seating):
            monkeypatch.setattr(module, "backend_of", lambda _: backend)
        for module in (power, filling):
            monkeypatch.setattr(module, "machines_of", lambda _: self.machines)
        monkeypatch.setattr(vault, "repository_of", lambda *_: self.repository)
        monkeypatch.setattr(access, "revoke", lambda *_, **__: None)
        monkeypatch.setattr(making, "_let_in", lambda *_: None)
        monkeypatch.setattr(readiness, "wait", lambda *_, **__: {})
        monkeypatch.setattr(exchange, "WorkspaceStack", lambda _: None)
        monkeypatch.setattr(exchange, "WATCH_SECONDS", 0.0)
        monkeypatch.setattr(key_delivery, "wanted", lambda *_: None)
        monkeypatch.setattr(customise_delivery, "wanted", lambda *_: {})
        monkeypatch.setattr(making, "_equip", lambda *_: None)
        monkeypatch.setattr(store, "require", lambda _: SimpleNamespace(manifest={"packages": {}}))
        answers = {"look": {"home": True}, "note": {"packages": [], "files": KEPT, "kept": KEPT, "too_large": []}}
        answers["bring"] = {"files": KEPT}
        monkeypatch.setattr(program, "ask", lambda _plan, _name, _program, request, **_: answers[request["do"]])
        monkeypatch.setattr(health, "look", lambda _, desktop: {"machines": {desktop: []}})

    def _steps(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """What is written besides what the paper does."""
        around = self.world.around
        for name in ("write", "close"):
            monkeypatch.setattr(journal.Journal, name, around(f"journal {name}", getattr(journal.Journal, name)))
        for name in ("make", "remove", "mark"):
            monkeypatch.setattr(self.disposables, name, around(f"seat {name}", getattr(self.disposables, name)))
        monkeypatch.setattr(self.seats.ledger.__class__, "note", around("ledger", type(self.seats.ledger).note))

    def killed(self, task: Callable[["Life"], Any], fatal: int) -> bool:
        """Run a task in a process of its own which dies at that step; whether it came so far."""

        def work() -> None:
            self.world.count, self.world.fatal = 0, fatal
            task(self)

        _, status = os.waitpid(fork(work), 0)
        return os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL

    def steps(self, task: Callable[["Life"], Any]) -> list[str]:
        """The steps of a task that is left alone."""
        self.world.count, self.world.fatal, self.world.names = 0, 0, []
        task(self)
        return self.world.names

    def whole(self) -> None:
        """Nothing is lost or half, whatever was killed: content, system, backups, claims."""
        found = self.world.get()
        contents = {found["home"].split()[1], (found["kept_home"] or found["home"]).split()[1]}
        assert "work" in contents, found
        assert found["disk"]["now"] in ("desktop-old", "desktop-new")
        listed = backup_plan.backups(found["rows"], "dev1")
        assert len(listed) == manifests(self.world)
        assert all(row.disks for row in listed)
        numbers = [seated.number for seated in self.seats.ledger.machines().values()]
        assert len(numbers) == len(set(numbers))

    def settled(self) -> None:
        """Whole, running as wanted, and nothing is under way or nobody's."""
        self.whole()
        found = self.world.get()
        assert found["now"] == dict.fromkeys((GATEWAY, DEV1, DEV2), "running")
        assert set(found["wanted"].values()) == {str(Power.RUNNING)}
        assert found["disk"]["staged"] == "" and found["kept_home"] == ""
        assert journal.Journal(power.Machine(PLAN, "dev1", self.machines)).read() is None  # type: ignore[arg-type]
        there = self.seats.ledger.machines()
        assert self.disposables.there() == set(there)
        assert all(seated.state is not State.MAKING for seated in there.values())


@pytest.fixture
def life(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Life:
    found = Life(tmp_path, monkeypatch)
    backup.run(TARGET)
    return found


def _restart(life: Life) -> None:
    power.stop(TARGET)
    power.start(TARGET)


def _pause(life: Life) -> None:
    power.pause(TARGET, to_disk=True)
    power.start(TARGET)


def _snapshot(life: Life) -> None:
    name = f"s{len(life.machines.snapshots(DEV1))}"
    snapshot.create(TARGET, Snapshot(name))
    snapshot.restore(TARGET, name)
    snapshot.delete(TARGET, name)


def _upgrade(life: Life) -> None:
    system.upgrade(TARGET, again=True)


def _roll_back(life: Life) -> None:
    system.upgrade(TARGET, again=True)
    system.roll_back(TARGET)


def _backup(life: Life) -> None:
    backup.run(TARGET)
    restoration.verify(TARGET)


def _restore(life: Life) -> None:
    found = life.world.get()
    if found["kept_home"]:
        # What its remedy says: the content of before comes back.
        with pytest.raises(SiteError, match="a restore was interrupted"):
            restoration.restore(TARGET, "latest")
        life.world.step("by hand", lambda values: values.update(home=values["kept_home"], kept_home=""))
    restoration.restore(TARGET, "latest")


def _pool(life: Life) -> None:
    life.declared = SEATS
    filling.fill("lab")
    claimed = pool.claim("lab", None, None, 600)
    pool.release(claimed["target"])
    with run.desktop(run.Wanted("lab", None, None, 600, True, True)):
        pass
    pool.drain("lab")


TASKS = {task.__name__.strip("_"): task for task in (_restart, _pause, _snapshot, _upgrade, _roll_back, _backup)}
TASKS |= {"restore": _restore, "pool": _pool}


@pytest.mark.parametrize("name", TASKS)
def test_task_that_is_left_alone_leaves_nothing_behind(life: Life, name: str) -> None:
    assert life.steps(TASKS[name])
    life.settled()


@pytest.mark.parametrize("sample", [SAMPLE, pytest.param(None, marks=pytest.mark.deep)])
@pytest.mark.parametrize("name", TASKS)
def test_task_that_is_killed_at_a_step_loses_nothing_and_the_next_one_ends_it(
    life: Life, name: str, sample: int | None, random_seed: int
) -> None:
    start = life.world.get()
    steps = life.steps(TASKS[name])
    fatal = random.Random(f"{random_seed} {name}").sample(range(1, len(steps) + 1), min(sample or 999, len(steps)))
    for step in fatal:
        life.world.put(start)
        assert life.killed(TASKS[name], step), (name, step, steps[step - 1])
        life.whole()
        life.world.count, life.world.fatal = 0, 0
        try:
            _ended(life, name)
            life.settled()
        except AssertionError as error:
            raise AssertionError(f"{name}, killed {steps[step - 1]} (step {step})") from error


def _ended(life: Life, name: str) -> None:
    """The next run, as somebody would start it; a desktop that was on its way off or back is started."""
    if name == "pool":
        release_claimed(life)
    elif journal.Journal(power.Machine(PLAN, "dev1", life.machines)).read() is None:  # type: ignore[arg-type]
        # One that was on its way off or back; an exchange that broke off is ended by the next one itself.
        power.start(TARGET)
    if name == "snapshot":
        for left in life.machines.snapshots(DEV1):
            snapshot.delete(TARGET, left.name)
    TASKS[name](life)


def release_claimed(life: Life) -> None:
    """A claim outlives its claimer: it is somebody's until it is released."""
    claims = [seated for seated in life.seats.ledger.machines().values() if seated.state is State.CLAIMED]
    life.declared = SEATS
    for seated in claims:
        if seated.claim is not None and not seated.claim.run:
            pool.release(f"lab/{seated.seat}")


class Files:
    """Two disks of a domain that is off, as files: `old` in each."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.disks = [Disk(name, folder / f"{name}.qcow2") for name in ("vda", "vdc")]
        for disk in self.disks:
            disk.path.write_text("old")
        self.machine = SimpleNamespace(
            isActive=lambda: 0,
            name=lambda: "lab",
            blockInfo=lambda _: [1],
            listAllSnapshots=list,
            connect=lambda: None,
        )
        monkeypatch.setenv("DESKYARD_HOME", str(folder))
        monkeypatch.setattr(swap, "disks", lambda _: self.disks)
        monkeypatch.setattr(swap, "_make", lambda disk, raw, _: swap._fresh(disk).write_text(raw.read_text()))
        monkeypatch.setattr(libvirt_power, "shut_down", lambda *_, **__: None)
        monkeypatch.setattr(storage, "pool", lambda _: None)
        monkeypatch.setattr(storage, "refresh", lambda _: None)

    def contents(self) -> list[str]:
        return [disk.path.read_text() for disk in self.disks]

    def restore(self) -> None:
        raw = self.folder / "raw"
        raw.write_text("new")
        with swap.swapped(self.machine, {disk.target: raw for disk in self.disks}):
            pass


def test_restore_that_is_killed_at_any_step_leaves_no_disks_of_two_moments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends = set()
    for fatal in range(1, 40):
        folder = tmp_path / str(fatal)
        folder.mkdir()
        files = Files(folder, monkeypatch)
        if not _killed_between_files(files, fatal):
            break
        swap.mend(files.machine)
        ends.add(tuple(files.contents()))
        # What was there before is whole: in its place, or beside it under its name.
        kept = [swap._kept(disk) for disk in files.disks]
        assert files.contents() == ["old"] * 2 or [path.read_text() for path in kept if path.exists()]
    assert ends == {("old", "old"), ("new", "new")}
    assert fatal > 5


def _killed_between_files(files: Files, fatal: int) -> bool:
    count = 0

    def counted(work: Callable[..., Any]) -> Callable[..., Any]:
        def done(*given: Any, **named: Any) -> Any:
            nonlocal count
            count += 1
            if count == fatal:
                os.kill(os.getpid(), signal.SIGKILL)
            return work(*given, **named)

        return done

    def work() -> None:
        for name in ("hardlink_to", "replace", "unlink"):
            setattr(Path, name, counted(getattr(Path, name)))
        files.restore()

    _, status = os.waitpid(fork(work), 0)
    return os.WIFSIGNALED(status)
