"""A desktop's system disk is exchanged whole or not at all, whatever happens on the way."""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from deskyard.declaration import declaration
from deskyard.desktop import customise_delivery, key_delivery, process_cap, program
from deskyard.errors import ConfigError, HostError, SiteError
from deskyard.host import deadline
from deskyard.image.store import store
from deskyard.life import exchange, health, power, system
from deskyard.life.backup import final
from deskyard.life.journal import Entry, Journal
from deskyard.plan.image.source import ImageSource
from deskyard.plan.power import Power
from deskyard.plan.snapshot import Snapshot
from deskyard.workspace import readiness
from tests.unit.life.machines import DEV1, PLAN, Machines

TARGET = "lab/dev1"


class Killed(BaseException):
    """The task is gone in this moment."""


class Guest:
    """What the desktop says of itself, and what it was asked."""

    def __init__(self) -> None:
        self.home, self.failing, self.added = True, list[str](), ["htop"]
        self.kept, self.too_large, self.lost = list[str](), list[str](), set[str]()
        self.asked: list[dict[str, Any]] = []
        self.holds = {"bytes": 9 << 30, "files": 600_000}

    def ask(self, _plan: Any, _name: str, _program: Any, request: dict[str, Any], **_: Any) -> dict[str, Any]:
        self.asked.append(request)
        answers: dict[str, dict[str, Any]] = {
            "look": {"home": self.home, "machine_id": "1"},
            "note": {"packages": self.added, "files": [], "kept": self.kept, "too_large": self.too_large},
            "bring": {"files": [path for path in self.kept if path not in self.lost]},
            "install": {"failed": []},
            "move_home": {"installed": 3},
            "measure_home": self.holds,
        }
        return answers[request["do"]]

    def look(self, _name: str, desktop: str) -> dict[str, Any]:
        rows = [{"check": check, "state": "failed", "detail": f"{check} are bad"} for check in self.failing]
        return {"machines": {desktop: [*rows, {"check": "disk", "state": "ok"}]}}


@pytest.fixture
def guest(monkeypatch: pytest.MonkeyPatch, machines: Machines, waits: list[Sequence[str] | None]) -> Guest:
    """A desktop whose image was built anew: `desktop-new`."""
    guest = Guest()
    sources = {"desktop": ImageSource("desktop", "new", "/images/new")}
    declared = SimpleNamespace(plan=PLAN, image_sources=lambda: sources)
    monkeypatch.setattr(declaration, "read", lambda _: declared)
    monkeypatch.setattr(exchange, "WorkspaceStack", lambda _: None)
    monkeypatch.setattr(key_delivery, "wanted", lambda *_: None)
    monkeypatch.setattr(customise_delivery, "wanted", lambda _: {})
    monkeypatch.setattr(store, "require", lambda _: SimpleNamespace(manifest={"packages": {"bash": "5"}}))
    monkeypatch.setattr(program, "ask", guest.ask)
    monkeypatch.setattr(health, "look", guest.look)
    monkeypatch.setattr(exchange, "WATCH_SECONDS", 0.0)
    return guest


def journal(machines: Machines) -> Journal:
    return Journal(power.Machine(PLAN, "dev1", machines))  # type: ignore[arg-type]


def whole(machines: Machines) -> None:
    """It runs, wanted so, and nothing is under way."""
    assert machines.now[DEV1] == "running"
    assert machines.wanted[DEV1] is Power.RUNNING
    assert machines.disk.staged == ""
    assert journal(machines).read() is None


def test_desktop_gets_the_new_image_and_keeps_the_system_of_before(machines: Machines, guest: Guest) -> None:
    done = system.upgrade(TARGET)
    assert (done["before"], done["after"]) == ("desktop-old", "desktop-new")
    assert (machines.disk.now, machines.disk.before) == ("desktop-new", "desktop-old")
    assert [state for _, state, _ in machines.moves] == ["stopped", "running"]
    assert guest.asked[-1] == {"do": "note", "packages": ["bash"], "keep": ()}
    whole(machines)


@pytest.mark.parametrize("cap", [300, None])
def test_new_system_is_capped_as_its_tier_says_before_it_is_judged(
    machines: Machines, guest: Guest, monkeypatch: pytest.MonkeyPatch, cap: int | None
) -> None:
    brought: list[tuple[dict[str, int], str]] = []
    desktops = [replace(desktop, caps=desktop.caps.model_copy(update={"processes": cap})) for desktop in PLAN.desktops]
    declaration.read("lab").__dict__["plan"] = replace(PLAN, desktops=tuple(desktops))
    monkeypatch.setattr(process_cap, "deliver", lambda _, caps: brought.append((caps, machines.disk.now)))
    system.upgrade(TARGET)
    assert brought == ([] if cap is None else [({"dev1": cap}, "desktop-new")])


def test_image_of_another_name_is_taken_if_it_is_declared_whatever_it_lacks(machines: Machines, guest: Guest) -> None:
    machines.disk.now = "agent-old"
    done = system.upgrade(TARGET)
    assert (done["before"], done["after"]) == ("agent-old", "desktop-new")
    assert system.roll_back(TARGET)["after"] == "agent-old"
    whole(machines)


def test_desktop_on_the_image_already_is_left_alone_unless_it_is_wanted_again(machines: Machines, guest: Guest) -> None:
    machines.disk.now = "desktop-new"
    assert "down_seconds" not in system.upgrade(TARGET)
    assert machines.moves == []
    done = system.upgrade(TARGET, again=True)
    # The swap is a part of the time in which its routes do not answer.
    assert 0 <= done["swap_seconds"] <= done["down_seconds"] + 0.001
    assert (machines.disk.now, machines.disk.before) == ("desktop-new", "desktop-new")


def test_another_image_than_the_one_that_is_wanted_is_refused_before_anything_is_touched(
    machines: Machines, guest: Guest, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ConfigError, match="is not what is built now: desktop-new"):
        system.upgrade(TARGET, only="desktop-newer")
    assert (machines.moves, guest.asked, machines.disk.now) == ([], [], "desktop-old")
    assert system.upgrade(TARGET, only="desktop-new")["after"] == "desktop-new"
    steps = ("is made beside the one of desktop-old", "shuts down", "starts with desktop-new", "is compared with")
    said = capsys.readouterr().err
    assert [step in said for step in steps] == [True] * 4, said


def test_dry_run_says_what_would_be_and_touches_nothing(machines: Machines, guest: Guest) -> None:
    done = system.upgrade(TARGET, dry_run=True)
    assert (done["before"], done["after"], done["packages"]) == ("desktop-old", "desktop-new", ["htop"])
    assert (machines.moves, machines.disk.now) == ([], "desktop-old")


def test_packages_of_the_owner_are_named_and_installed_if_wanted(machines: Machines, guest: Guest) -> None:
    guest.added = ["htop", "$(reboot)"]
    assert system.upgrade(TARGET, packages=True)["packages"] == ["htop"]
    assert guest.asked[-1] == {"do": "install", "packages": ["htop"]}


KEPT = ["/etc/app/main.conf", "/etc/cron.d/report"]


def test_files_that_it_keeps_are_brought_and_it_is_judged_after_another_start(machines: Machines, guest: Guest) -> None:
    guest.kept = KEPT
    done = system.upgrade(TARGET)
    assert (done["after"], done["kept"]) == ("desktop-new", KEPT)
    assert guest.asked[-1] == {"do": "bring", "keep": tuple(KEPT)}
    assert [state for _, state, _ in machines.moves] == ["stopped", "running", "stopped", "running"]
    whole(machines)


def test_desktop_that_is_worse_with_what_it_keeps_gets_its_system_back(machines: Machines, guest: Guest) -> None:
    guest.kept = KEPT

    def spoil(what: str) -> None:
        if what == "running" and guest.asked[-1]["do"] == "bring":
            guest.failing = ["units"] if machines.disk.now == "desktop-new" else []

    machines.act = spoil
    with pytest.raises(SiteError, match="is not well: units: units are bad"):
        system.upgrade(TARGET)
    assert (machines.disk.now, machines.disk.before) == ("desktop-old", "")
    whole(machines)


def test_desktop_that_lost_what_it_keeps_gets_its_system_back(machines: Machines, guest: Guest) -> None:
    guest.kept, guest.lost = KEPT, {KEPT[1]}
    with pytest.raises(SiteError, match=f"lost what it keeps: {KEPT[1]}"):
        system.upgrade(TARGET)
    assert machines.disk.now == "desktop-old"
    whole(machines)


def test_what_is_kept_but_does_not_fit_is_named_before_anything_is_touched(machines: Machines, guest: Guest) -> None:
    guest.too_large = ["/etc/app/large"]
    with pytest.raises(SiteError, match="more than 16 MiB in all: /etc/app/large"):
        system.upgrade(TARGET)
    assert (machines.moves, machines.disk.now) == ([], "desktop-old")


def test_dry_run_names_what_is_kept(machines: Machines, guest: Guest) -> None:
    guest.kept = KEPT
    assert (system.upgrade(TARGET, dry_run=True)["kept"], machines.moves) == (KEPT, [])


def no_answer(*_: Any, **__: Any) -> None:
    raise SiteError("workspace", "lab", "not ready in time", "see the console")


@pytest.mark.parametrize("fault", ["no route", "worse", "another key", "no start"])
def test_desktop_that_is_not_as_well_gets_its_system_back(
    machines: Machines, guest: Guest, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    def spoil(what: str) -> None:
        if what == "swap" and fault == "no route":
            monkeypatch.setattr(readiness, "wait", no_answer)
        elif what == "swap" and fault == "worse":
            guest.failing = ["units"]
        elif what == "swap" and fault == "another key":
            machines.keys[DEV1] = "another"
        elif what == "running" and fault == "no start" and machines.disk.now == "desktop-new":
            no_answer()
        elif what == "swap back":
            monkeypatch.setattr(readiness, "wait", lambda *_, **__: None)

    machines.act = spoil
    with pytest.raises(SiteError, match="has its system of before again"):
        system.upgrade(TARGET)
    assert (machines.disk.now, machines.disk.before) == ("desktop-old", "")
    whole(machines)


class Looks:
    """A desktop on which other checks fail at each look after its exchange; the last ones stay, and no time passes."""

    def __init__(
        self, guest: Guest, machines: Machines, monkeypatch: pytest.MonkeyPatch, *looks: Sequence[str]
    ) -> None:
        self.left, self.count = list(looks), 0
        self.clock = 0.0

        def look(name: str, desktop: str) -> dict[str, Any]:
            if machines.disk.now == "desktop-new":
                self.count += 1
                guest.failing = list(self.left.pop(0) if len(self.left) > 1 else self.left[0])
            return guest.look(name, desktop)

        def sleep(seconds: float) -> None:
            self.clock += seconds

        monkeypatch.setattr(health, "look", look)
        monkeypatch.setattr(time, "monotonic", lambda: self.clock)
        monkeypatch.setattr(exchange, "Deadline", lambda seconds: Paced(seconds, sleep))


class Paced(deadline.Deadline):
    """A deadline whose pauses are counted, and not waited for."""

    def __init__(self, seconds: float, sleep: Callable[[float], None]) -> None:
        super().__init__(seconds)
        self._sleep = sleep

    def wait_for(self, holds: Callable[[], bool], pause: float, sleep: Any = None) -> bool:
        return super().wait_for(holds, pause, self._sleep)


def test_desktop_is_looked_at_until_its_time_is_over(
    machines: Machines, guest: Guest, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    looks = Looks(guest, machines, monkeypatch, [])
    monkeypatch.setattr(exchange, "WATCH_SECONDS", 60.0)
    assert system.upgrade(TARGET)["after"] == "desktop-new"
    assert (looks.count, looks.clock) == (8, 70.0)
    assert "it is watched for 60 s" in capsys.readouterr().err


@pytest.mark.parametrize("watch", [0, 600])
def test_number_of_looks_follows_the_time_that_is_wanted(
    machines: Machines, guest: Guest, monkeypatch: pytest.MonkeyPatch, watch: int
) -> None:
    looks = Looks(guest, machines, monkeypatch, [])
    system.upgrade(TARGET, watch=watch)
    # One more where the clock stands still at the very end.
    assert looks.count == watch // 10 + 2


@pytest.mark.parametrize(
    ("looks", "seen"),
    [
        ([["units"]], 1),
        ([["memory"]], 1),
        ([["services"]], 2),
        ([["gateway"], ["units"]], 2),
        ([[], ["units"], ["gateway"], ["units"]], 4),
        ([[], [], ["services"], ["services"]], 4),
        ([[], [], ["services", "browser"], ["browser"]], 4),
        ([*[[]] * 7, ["inside"]], 9),
    ],
    ids=[
        "at once",
        "full at once",
        "services in two looks",
        "at the first look that sees it",
        "around one that sees nothing",
        "later",
        "one of two",
        "at the very end",
    ],
)
def test_desktop_that_is_not_well_while_it_is_watched_gets_its_system_back_at_once(
    machines: Machines, guest: Guest, monkeypatch: pytest.MonkeyPatch, looks: list[list[str]], seen: int
) -> None:
    found = Looks(guest, machines, monkeypatch, *looks)
    last = looks[-1][0]
    with pytest.raises(SiteError, match=f"has its system of before again: is not well: {last}: {last} are bad"):
        system.upgrade(TARGET, watch=60)
    assert (found.count, machines.disk.now) == (seen, "desktop-old")
    whole(machines)


@pytest.mark.parametrize(
    "looks",
    [
        [[], ["browser"], []],
        [[], ["browser"], ["inside"], []],
        [["backup", "clock"]],
        [["gateway"], [], ["gateway"]],
        [["gateway"]],
        [[], ["disk", "files", "home", "memory"]],
        [["services"], []],
    ],
    ids=["late once", "two late once", "elsewhere", "gateway restarts", "gateway is gone", "filled", "settles"],
)
def test_what_is_late_once_and_what_is_of_no_system_is_no_reason_to_go_back(
    machines: Machines, guest: Guest, monkeypatch: pytest.MonkeyPatch, looks: list[list[str]]
) -> None:
    Looks(guest, machines, monkeypatch, *looks)
    system.upgrade(TARGET, watch=60)
    assert machines.disk.now == "desktop-new"


def test_services_in_trouble_at_a_single_look_are_looked_at_again(
    machines: Machines, guest: Guest, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = Looks(guest, machines, monkeypatch, ["services"], [])
    assert system.upgrade(TARGET, watch=0)["after"] == "desktop-new"
    assert looks.count >= 2


def test_gateway_that_lets_nobody_see_the_desktop_is_said(
    machines: Machines, guest: Guest, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Looks(guest, machines, monkeypatch, ["gateway"])
    system.upgrade(TARGET, watch=60)
    assert "its gateway let nobody see how it is" in capsys.readouterr().err
    whole(machines)


def killed_in_its_watch(
    machines: Machines, guest: Guest, monkeypatch: pytest.MonkeyPatch, *looks: Sequence[str]
) -> Journal:
    """An upgrade to `desktop-new` that is killed at the look behind these; what failed before it is `units`."""
    guest.failing = ["units"]
    with monkeypatch.context() as patch:
        found = Looks(guest, machines, patch, *looks, [])
        look = health.look

        def kill(name: str, desktop: str | None = None) -> dict[str, Any]:
            if found.count == len(looks):
                raise Killed
            return look(name, desktop)

        patch.setattr(health, "look", kill)
        with pytest.raises(Killed):
            system.upgrade(TARGET, watch=60)
    machines.moves.clear()
    guest.failing = []
    return journal(machines)


def test_desktop_that_was_well_keeps_its_system_though_its_watch_was_killed(
    machines: Machines, guest: Guest, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    left = killed_in_its_watch(machines, guest, monkeypatch, ["units"])
    assert left.read() == Entry("desktop-old", "desktop-new", "watching", ["units"])
    assert system.kept(TARGET)["broken_off"]
    # What failed before is no reason now, nor is what somebody has filled in the weeks since.
    guest.failing = ["units", "disk", "memory"]
    done = system.upgrade(TARGET)
    assert (done["before"], done["after"], machines.moves) == ("desktop-new", "desktop-new", [])
    assert (machines.disk.now, machines.disk.before) == ("desktop-new", "desktop-old")
    assert "the desktop is well and keeps it" in capsys.readouterr().err
    whole(machines)


def test_desktop_that_is_not_well_behind_a_watch_that_was_killed_goes_back(
    machines: Machines, guest: Guest, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    killed_in_its_watch(machines, guest, monkeypatch, ["units"])
    guest.failing = ["browser"]
    assert system.upgrade(TARGET)["before"] == "desktop-old"
    assert "is not well: browser: browser are bad" in capsys.readouterr().err
    whole(machines)


@pytest.mark.parametrize("step", ["stopped", "swap back", "running", "forget"])
def test_way_back_out_of_a_watch_that_is_killed_is_gone_again_and_not_judged(
    machines: Machines, guest: Guest, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    killed_in_its_watch(machines, guest, monkeypatch, ["units"])
    guest.failing = ["browser"]

    def kill(what: str) -> None:
        if what == step:
            raise Killed

    machines.act = kill
    with pytest.raises(Killed):
        system.upgrade(TARGET)
    machines.act, guest.failing = lambda _: None, []
    assert system.upgrade(TARGET)["before"] == "desktop-old"
    whole(machines)


def test_task_that_is_killed_before_a_look_found_the_desktop_well_is_taken_back(
    machines: Machines, guest: Guest, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = killed_in_its_watch(machines, guest, monkeypatch, ["services"]).read()
    assert entry is not None
    assert entry.step == "swapped"
    assert system.upgrade(TARGET)["before"] == "desktop-old"


def test_desktop_that_nobody_can_judge_stays_as_it_is_behind_a_watch_that_was_killed(
    machines: Machines, guest: Guest, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = killed_in_its_watch(machines, guest, monkeypatch, ["units"])
    guest.failing = ["gateway"]
    with pytest.raises(SiteError, match="whose watch broke off, and nobody can see how it is: gateway are"):
        system.upgrade(TARGET)
    machines.now[DEV1] = "stopped"
    with pytest.raises(SiteError, match="is stopped"):
        system.upgrade(TARGET)
    assert (machines.moves, machines.disk.now, left.read() is None) == ([], "desktop-new", False)
    # Its owner may want the one of before all the same.
    system.roll_back(TARGET)
    assert (machines.disk.now, left.read()) == ("desktop-old", None)


@pytest.mark.parametrize("watch", [-1, 3601])
def test_watch_without_end_is_refused_before_anything_is_touched(machines: Machines, guest: Guest, watch: int) -> None:
    with pytest.raises(ConfigError, match="is not between 0 and 3600 seconds"):
        system.upgrade(TARGET, watch=watch)
    assert (machines.moves, guest.asked) == ([], [])


def test_what_failed_before_is_no_reason_to_go_back(machines: Machines, guest: Guest) -> None:
    guest.failing = ["units"]
    system.upgrade(TARGET)
    assert machines.disk.now == "desktop-new"


def test_desktop_that_does_not_shut_down_stays_as_it_is(machines: Machines, guest: Guest) -> None:
    machines.deaf.add(DEV1)
    with pytest.raises(SiteError, match="did not shut down"):
        system.upgrade(TARGET)
    assert machines.disk.now == "desktop-old"
    whole(machines)


def _with_snapshot(machines: Machines, _: Guest) -> None:
    machines.kept.append(Snapshot("before"))


def _off(machines: Machines, _: Guest) -> None:
    machines.now[DEV1], machines.wanted[DEV1] = "stopped", Power.OFF


def _paused(machines: Machines, _: Guest) -> None:
    machines.now[DEV1], machines.wanted[DEV1] = "paused", Power.PAUSED


def _saved(machines: Machines, _: Guest) -> None:
    machines.now[DEV1], machines.wanted[DEV1] = "saved", Power.PAUSED


def _of_root(machines: Machines, _: Guest) -> None:
    def refuse(what: str) -> None:
        if what == "may exchange":
            raise SiteError("disk", "/pool/dev1.qcow2", "its folder belongs to root", "run it again as root")

    machines.act = refuse


def _old(_: Machines, guest: Guest) -> None:
    guest.home = False


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (_with_snapshot, "has snapshots"),
        (_off, "is stopped"),
        (_paused, "is paused"),
        (_saved, "is saved"),
        (_old, "its /home is on the system disk"),
        (_of_root, "its folder belongs to root"),
    ],
)
def test_what_would_lose_something_is_refused_before_anything_is_touched(
    machines: Machines, guest: Guest, spoil: Callable[[Machines, Guest], None], reason: str
) -> None:
    spoil(machines, guest)
    with pytest.raises(SiteError, match=reason):
        system.upgrade(TARGET)
    assert machines.moves == []
    assert machines.disk.now == "desktop-old"
    assert journal(machines).read() is None


@pytest.mark.parametrize("step", ["forget", "stage", "stopped", "swap", "running", "after"])
def test_task_that_was_killed_is_ended_by_the_next_one(
    machines: Machines, guest: Guest, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    def kill(what: str) -> None:
        if what == step:
            raise Killed

    machines.act = kill
    if step == "after":
        monkeypatch.setattr(readiness, "wait", lambda *_, **__: kill("after"))
    with pytest.raises(Killed):
        system.upgrade(TARGET)
    assert machines.disk.now in ("desktop-old", "desktop-new")
    machines.act = lambda _: None
    monkeypatch.setattr(readiness, "wait", lambda *_, **__: None)
    assert system.upgrade(TARGET)["after"] == "desktop-new"
    assert (machines.disk.now, machines.disk.before) == ("desktop-new", "desktop-old")
    whole(machines)


@pytest.mark.parametrize("step", ["stopped", "swap back", "forget", "running"])
def test_way_back_that_was_killed_is_gone_again(machines: Machines, guest: Guest, step: str) -> None:
    seen = []

    def kill(what: str) -> None:
        seen.append(what)
        if machines.disk.now == "desktop-new" and what == "running":
            no_answer()
        if "swap" in seen and what == step and seen.count(step) > 1 - (step in ("swap back",)):
            raise Killed

    machines.act = kill
    with pytest.raises(Killed):
        system.upgrade(TARGET)
    machines.act = lambda _: None
    assert system.upgrade(TARGET)["before"] == "desktop-old"
    assert machines.disk.now == "desktop-new"
    whole(machines)


def test_gateway_is_told_that_a_desktop_is_off_which_starts_with_no_system(
    machines: Machines, guest: Guest, heard: list[tuple[str, str]]
) -> None:
    def act(what: str) -> None:
        if what == "running":
            raise SiteError("machine", DEV1, "start failed", "see its log")

    machines.act = act
    with pytest.raises(SiteError, match="start failed"):
        system.upgrade(TARGET)
    assert (machines.now[DEV1], heard) == ("stopped", [("dev1", "stopped")])
    heard.clear()
    machines.act = lambda _: None
    system.upgrade(TARGET)
    assert (machines.now[DEV1], heard) == ("running", [])


def test_system_of_before_comes_back_when_its_owner_wants_it(machines: Machines, guest: Guest) -> None:
    system.upgrade(TARGET)
    assert system.kept(TARGET) == {"desktop": TARGET, "image": "desktop-new", "kept": True, "broken_off": False}
    done = system.roll_back(TARGET)
    assert (done["before"], done["after"]) == ("desktop-new", "desktop-old")
    whole(machines)
    with pytest.raises(SiteError, match="no system disk of before is kept"):
        system.roll_back(TARGET)


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (_with_snapshot, "has snapshots"),
        (_paused, "is paused: its memory belongs to the disks that it has now"),
        (_saved, "is saved: its memory belongs to the disks that it has now"),
        (_of_root, "its folder belongs to root"),
    ],
)
def test_way_back_that_would_lose_something_is_refused_before_anything_is_touched(
    machines: Machines, guest: Guest, spoil: Callable[[Machines, Guest], None], reason: str
) -> None:
    system.upgrade(TARGET)
    machines.moves.clear()
    spoil(machines, guest)
    state = machines.now[DEV1]
    with pytest.raises(SiteError, match=reason) as error:
        system.roll_back(TARGET)
    assert error.value.remedy
    assert (machines.moves, machines.now[DEV1]) == ([], state)
    assert (machines.disk.now, machines.disk.before) == ("desktop-new", "desktop-old")


@pytest.mark.parametrize("spoil", [_paused, _saved])
def test_exchange_that_broke_off_is_not_ended_below_memory_that_is_kept(
    machines: Machines, guest: Guest, spoil: Callable[[Machines, Guest], None]
) -> None:
    system.upgrade(TARGET)
    journal(machines).write(Entry("desktop-old", "desktop-new", "swapped"))
    machines.moves.clear()
    spoil(machines, guest)
    with pytest.raises(SiteError, match=f"its memory belongs .*\n.*desktop.resume {TARGET}, or desktop.stop --force"):
        system.upgrade(TARGET, again=True)
    assert (machines.moves, machines.disk.now, journal(machines).read() is None) == ([], "desktop-new", False)
    # As the remedy says.
    power.stop(TARGET, force=True)
    system.roll_back(TARGET)
    assert (machines.disk.now, machines.now[DEV1], machines.wanted[DEV1]) == ("desktop-old", "stopped", Power.OFF)


def test_desktop_that_is_wanted_off_goes_back_and_stays_off(
    machines: Machines, guest: Guest, waits: list[Sequence[str] | None]
) -> None:
    system.upgrade(TARGET)
    power.stop(TARGET)
    machines.moves.clear()
    waits.clear()
    assert system.roll_back(TARGET)["after"] == "desktop-old"
    assert {state for _, state, _ in machines.moves} == {"stopped"}
    assert (machines.now[DEV1], machines.wanted[DEV1], waits) == ("stopped", Power.OFF, [])
    assert (machines.disk.before, journal(machines).read()) == ("", None)


@pytest.mark.parametrize("step", ["staged", "swapped"])
def test_end_of_an_exchange_that_broke_off_leaves_a_desktop_off_that_is_wanted_off(
    machines: Machines, guest: Guest, step: str
) -> None:
    if step == "swapped":
        system.upgrade(TARGET)
    else:
        machines.disk.staged = "desktop-new"
    journal(machines).write(Entry("desktop-old", "desktop-new", step))
    power.stop(TARGET)
    with pytest.raises(SiteError, match="is stopped"):
        system.upgrade(TARGET, again=True)
    assert (machines.now[DEV1], machines.wanted[DEV1]) == ("stopped", Power.OFF)
    assert (machines.disk.now, machines.disk.before, machines.disk.staged) == ("desktop-old", "", "")
    assert journal(machines).read() is None


ANYTHING = [
    SiteError("disk", "dev1", "the cluster has no quorum", "wait"),
    ConfigError("keys", "a", "no passphrase is given", "give it"),
    HostError("memory", "1", "lacks", "free some"),
    PermissionError(13, "no way in"),
    RuntimeError("the hypervisor went away"),
]


@pytest.mark.parametrize("fault", ANYTHING, ids=lambda fault: type(fault).__name__)
@pytest.mark.parametrize("step", ["swap", "swapped", "started", "compared"])
def test_whatever_fails_once_it_is_off_it_runs_again_with_its_system_of_before(
    machines: Machines, guest: Guest, monkeypatch: pytest.MonkeyPatch, fault: Exception, step: str
) -> None:
    left = [fault]

    def fail(*_: Any, **__: Any) -> None:
        if left:
            raise left.pop()

    def act(what: str) -> None:
        if what == "swap" and step == "swap":
            fail()
        elif what == "swap" and step == "started":
            monkeypatch.setattr(readiness, "wait", fail)

    machines.act = act
    if step == "swapped":
        write = Journal.write
        monkeypatch.setattr(Journal, "write", lambda self, entry: fail() if entry.step == step else write(self, entry))
    elif step == "compared":
        monkeypatch.setattr(process_cap, "equip", fail)
    begun = "did not get" if step == "swap" else "was not well with"
    with pytest.raises(SiteError, match=f"{begun} desktop-new, and has its system of before again: .+"):
        system.upgrade(TARGET)
    assert (machines.disk.now, machines.disk.before) == ("desktop-old", "")
    whole(machines)


def test_way_back_that_breaks_off_is_told_with_what_it_was_for_and_ended_by_the_next_one(
    machines: Machines, guest: Guest
) -> None:
    def act(what: str) -> None:
        if what == "swap":
            guest.failing = ["units"]
        elif what == "swap back":
            raise SiteError("disk", "dev1", "the cluster has no quorum", "wait")

    machines.act = act
    with pytest.raises(SiteError, match=r"is not well: units.*the way back .* broke off: the cluster has no quorum"):
        system.upgrade(TARGET)
    # It does not stay off, and what is under way is known.
    assert (machines.now[DEV1], machines.disk.now) == ("running", "desktop-new")
    assert system.kept(TARGET)["broken_off"]
    machines.act, guest.failing = lambda _: None, []
    assert system.upgrade(TARGET)["before"] == "desktop-old"
    whole(machines)


def test_route_that_is_dead_before_and_after_keeps_no_exchange_open(
    machines: Machines, guest: Guest, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(readiness, "wait", no_answer)
    for _ in range(2):
        with pytest.raises(SiteError, match=r"has its system of before again: .+; its routes do not all answer: not"):
            system.upgrade(TARGET)
        assert (machines.disk.now, machines.disk.before) == ("desktop-old", "")
        whole(machines)
    # So is the end of one that broke off, and the way back that somebody wants.
    journal(machines).write(Entry("desktop-old", "desktop-new", "swapped"))
    with pytest.raises(SiteError, match="has its system of before again"):
        system.upgrade(TARGET)
    assert "dev1: its routes do not all answer: not ready in time" in capsys.readouterr().err
    whole(machines)
    monkeypatch.setattr(readiness, "wait", lambda *_, **__: None)
    system.upgrade(TARGET)
    monkeypatch.setattr(readiness, "wait", no_answer)
    with pytest.raises(SiteError, match="has its system of before, and its routes do not all answer: not ready"):
        system.roll_back(TARGET)
    assert (machines.disk.now, machines.disk.before) == ("desktop-old", "")
    whole(machines)


def test_rest_of_a_way_back_that_cannot_be_deleted_keeps_no_desktop_off(machines: Machines, guest: Guest) -> None:
    system.upgrade(TARGET)

    def act(what: str) -> None:
        if what == "forget":
            raise SiteError("disk", "dev1", "the cluster has no quorum", "wait")

    machines.act = act
    with pytest.raises(SiteError, match="no quorum"):
        system.roll_back(TARGET)
    assert (machines.now[DEV1], machines.disk.now) == ("running", "desktop-old")


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch, machines: Machines) -> list[Any]:
    """What was backed up and proved, and what had moved by then."""
    kept: list[Any] = []
    monkeypatch.setattr(final, "keep", lambda *given: kept.append((*given, len(machines.moves))))
    return kept


def test_home_of_an_older_desktop_is_backed_up_and_taken_to_its_volume_by_a_restart(
    machines: Machines, guest: Guest, kept: list[Any]
) -> None:
    guest.home = False

    def restarted(what: str) -> None:
        guest.home = what == "running"

    machines.act = restarted
    assert "on its volume" in system.migrate_home(TARGET)["home"]
    (sent,) = [request for request in guest.asked if request["do"] == "move_home"]
    assert [file["path"] for file in sent["files"]] == [path for path, _ in system.HOME_FILES.values()]
    assert kept == [("lab", ["dev1"], "./inv desktop.migrate-home lab/dev1 --no-backup", 0)]
    system.migrate_home(TARGET)
    assert [state for _, state, _ in machines.moves] == ["stopped", "running"]
    assert len(kept) == 1


def test_home_stays_where_it_is_without_a_backup_unless_none_is_wanted(
    machines: Machines, guest: Guest, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise SiteError("last backup", TARGET, "did not boot", "look at it")

    guest.home = False
    monkeypatch.setattr(final, "keep", fail)
    with pytest.raises(SiteError, match="did not boot"):
        system.migrate_home(TARGET)
    assert (machines.moves, [request["do"] for request in guest.asked]) == ([], ["look", "measure_home"])
    machines.act = lambda what: setattr(guest, "home", what == "running")
    assert "on its volume" in system.migrate_home(TARGET, backup=False)["home"]


@pytest.mark.parametrize("backup", [True, False])
def test_dry_run_of_the_move_of_home_says_what_would_be_and_touches_nothing(
    machines: Machines, guest: Guest, kept: list[Any], monkeypatch: pytest.MonkeyPatch, backup: bool
) -> None:
    def notice(name: str, desktops: Sequence[str], without: str, *, backup: bool) -> list[str]:
        return [f"{name} {' '.join(desktops)} {backup} {without}"]

    monkeypatch.setattr(final, "notice", notice)
    assert system.migrate_home(TARGET, dry_run=True)["home"] == "on its volume already"
    guest.home = False
    done = system.migrate_home(TARGET, backup=backup, dry_run=True)
    assert "a restart would move it" in done["home"]
    assert done["notice"] == [f"lab dev1 {backup} ./inv desktop.migrate-home lab/dev1 --no-backup"]
    machines.sizes = {"/": 20}
    assert "workspace.up lab would make its volume of 10 GiB, then" in system.migrate_home(TARGET, dry_run=True)["home"]
    assert (machines.moves, kept, machines.promised) == ([], [], [])
    assert {request["do"] for request in guest.asked} == {"look", "measure_home"}


def test_volume_that_is_not_there_is_made_by_the_next_up_before_anything_moves(
    machines: Machines, guest: Guest, kept: list[Any]
) -> None:
    guest.home, machines.sizes = False, {"/": 20}
    assert "./inv workspace.up lab makes its volume now" in system.migrate_home(TARGET)["home"]
    assert (machines.promised, machines.moves, kept) == ([(DEV1, 10)], [], [])
    assert "move_home" not in {request["do"] for request in guest.asked}


def test_home_stays_where_it_is_where_no_volume_can_be_had(machines: Machines, guest: Guest, kept: list[Any]) -> None:
    def refuse(what: str) -> None:
        if what == "promise":
            raise SiteError("machine", "dev1", "has snapshots", "delete them")

    guest.home, machines.sizes, machines.act = False, {"/": 20}, refuse
    with pytest.raises(SiteError, match="has snapshots"):
        system.migrate_home(TARGET)
    assert (machines.moves, kept) == ([], [])


def test_home_that_did_not_find_its_volume_is_said_to(machines: Machines, guest: Guest, kept: list[Any]) -> None:
    guest.home = False
    with pytest.raises(SiteError, match="did not find its volume for /home"):
        system.migrate_home(TARGET)


@pytest.mark.parametrize("volume", [True, False], ids=["with its volume", "before it is made"])
@pytest.mark.parametrize("holds", [{"bytes": 10 << 30, "files": 10}, {"bytes": 1 << 30, "files": 700_000}])
def test_home_that_its_volume_would_not_take_stays_and_nothing_is_touched(
    machines: Machines, guest: Guest, kept: list[Any], holds: dict[str, int], volume: bool
) -> None:
    guest.home, guest.holds = False, holds
    machines.sizes = {"/": 20, **({"/home": 10} if volume else {})}
    for dry_run in (True, False):
        with pytest.raises(SiteError, match=r"a volume of 10 GiB takes 9523 MiB in 655360") as caught:
            system.migrate_home(TARGET, dry_run=dry_run)
    assert "home_gib" in caught.value.remedy
    assert (machines.moves, machines.promised, kept) == ([], [], [])


def test_snapshots_that_lie_in_the_system_that_would_go_keep_it(machines: Machines, guest: Guest) -> None:
    system.upgrade(TARGET)
    _with_snapshot(machines, guest)
    with pytest.raises(SiteError, match="has snapshots, which lie in the disk that would go"):
        system.roll_back(TARGET)
    # Taken behind a task that was killed, too: nothing is shut down for it.
    journal(machines).write(Entry("desktop-old", "desktop-new", "swapped"))
    machines.moves.clear()
    with pytest.raises(SiteError, match="has snapshots, which lie in the disk that would go"):
        system.upgrade(TARGET)
    assert (machines.disk.now, machines.now[DEV1], machines.moves) == ("desktop-new", "running", [])
